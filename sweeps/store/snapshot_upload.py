"""Writes the snapshot of a sweep to its parent run, for other computers.

Two file names take turns, and a tag says which one is whole: so a reader finds the one before until the next one is
there, and a publisher that is killed between both leaves the one before. An upload comes at most once a minute, and not
more often than so many bytes and so much of the time allow; the last one of a run comes at once.
"""

import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING

from sweeps.errors import StoreError
from sweeps.journal.journal import Journal
from sweeps.journal.results_table import DamagedResultsError
from sweeps.json_records import from_json, to_json
from sweeps.results import ResultRow
from sweeps.store.owner import is_own, read_owner, remember_snapshots
from sweeps.store.run_writer import stamp, upload
from sweeps.store.snapshot import FORMAT, SnapshotRecord, sha256_of, write_snapshot
from sweeps.store.sweep_tags import SNAPSHOT
from sweeps.store.written_runs import Written
from sweeps.temporary import temporary_folder
from sweeps.workspace import Workspace

if TYPE_CHECKING:
    from mlflow import MlflowClient

EVERY_S = 60.0
BYTES_PER_S = 50_000
"""The pace of all uploads but the last one: at most 3 MB a minute, whatever the size of the sweep."""
SHARE = 20
"""An upload comes no sooner than after this many times what the last one took."""
FOLDER = "snapshot"


class CopiedWorkspaceError(StoreError):
    """Another workspace of the same name has written to this one's parent run: one of them is a copy of the other."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SnapshotTag:
    """The tag says which snapshot a parent run has. The tag is written after the file, in one request."""

    sequence: int
    """The number grows by one with each snapshot of the run."""
    bytes: int
    sha256: str
    rows: int
    content: str
    """Equal for snapshots of the same results: where a publisher begins, it knows whether there is something new."""

    @property
    def file(self) -> str:
        return f"{FOLDER}/rows-{self.sequence % 2}.parquet"


def read_tag(text: str | None) -> SnapshotTag | None:
    """`None` if there is none, or it cannot be read."""
    with suppress(StoreError, RecursionError):
        return from_json(SnapshotTag, text or "")
    return None


def upload_snapshot(
    client: "MlflowClient",
    uri: str,
    journal: Journal,
    sweep: str,
    written: Written,
    *,
    last: bool,
    pause: Callable[[], object],
) -> bool:
    """Write the sweep's snapshot if there is something new and its time has come. Returns whether it did.

    `last`: its time has come. `pause` is called between two parts of the work, and may take its time. Raises
    `CopiedWorkspaceError`, before anything is written; `StoreError`.
    """
    try:
        content = _content(journal, sweep)
    except DamagedResultsError:
        return False  # a reader of the journal makes its table again
    began_s = time.monotonic()
    workspace = Workspace(journal.path.parent)
    known = read_tag(written.parent.tags.get(SNAPSHOT))
    _check_written_here(workspace, uri, written.parent.run_id, known)
    if (known is not None and known.content == content) or not (last or is_due(written)):
        return False
    before = _tag_now(client, written.parent.run_id)
    _check_written_here(workspace, uri, written.parent.run_id, before)
    with temporary_folder() as folder:
        path = folder / "rows.parquet"
        rows = write_snapshot(path, _record(journal, sweep), _rows(journal, sweep, pause))
        tag = SnapshotTag(
            sequence=0 if before is None else before.sequence + 1,
            bytes=path.stat().st_size,
            sha256=sha256_of(path),
            rows=rows,
            content=content,
        )
        if not is_own(workspace, uri):
            hashes = (*([] if before is None else [before.sha256]), tag.sha256)
            remember_snapshots(workspace, written.parent.run_id, hashes)
        upload(client, written.parent.artifact_uri, {tag.file: path})
    _set_tag(client, written, tag)
    took_s = time.monotonic() - began_s
    written.snapshot_due_s = time.monotonic() + max(EVERY_S, tag.bytes / BYTES_PER_S, SHARE * took_s)
    return True


def is_due(written: Written) -> bool:
    return time.monotonic() >= written.snapshot_due_s


def has_newer(journal: Journal, sweep: str, written: Written) -> bool:
    """Tell whether the journal has results that the snapshot of this process' parent run lacks."""
    with suppress(DamagedResultsError):
        known = read_tag(written.parent.tags.get(SNAPSHOT))
        return known is None or known.content != _content(journal, sweep)
    return False


def _content(journal: Journal, sweep: str) -> str:
    """Return a text that changes with each change of the sweep's results. Raises `DamagedResultsError`."""
    mark = journal.results.watermark()
    return f"{mark.epoch}.{mark.seq}.{journal.plans.current_id(sweep)}.{len(journal.imports.of_sweep(sweep))}"


def _tag_now(client: "MlflowClient", run_id: str) -> SnapshotTag | None:
    run = client.get_run(run_id)
    if run.info.lifecycle_stage != "active":
        raise StoreError("the sweep's run in MLflow was deleted meanwhile", "run the same command again")
    return read_tag(run.data.tags.get(SNAPSHOT))


def _check_written_here(workspace: Workspace, uri: str, run_id: str, tag: SnapshotTag | None) -> None:
    """Raises `CopiedWorkspaceError` if this workspace has not written the snapshot of its parent run."""
    if tag is None or is_own(workspace, uri) or tag.sha256 in read_owner(workspace).snapshots.get(run_id, ()):
        return
    raise CopiedWorkspaceError(
        "another workspace publishes under the name of this one: one is a copy of the other",
        "run the same command again: this workspace takes a name of its own",
    )


def _record(journal: Journal, sweep: str) -> SnapshotRecord:
    row = next(row for row in journal.sweeps.all() if row.name == sweep)
    return SnapshotRecord(
        format=FORMAT,
        sweep=sweep,
        created=row.created.isoformat(),
        updated=row.updated.isoformat(),
        spec=journal.plans.spec(sweep).kept_json(),
        imported=tuple(journal.imports.of_sweep(sweep)),
    )


def _rows(journal: Journal, sweep: str, pause: Callable[[], object]) -> Iterator[ResultRow]:
    for place in sorted(journal.results.places(sweep)):
        yield from journal.results.rows(sweep, place)
        pause()


def _set_tag(client: "MlflowClient", written: Written, tag: SnapshotTag) -> None:
    from mlflow.entities import RunTag

    text = to_json(tag)
    client.log_batch(written.parent.run_id, metrics=[stamp(written.next_stamp())], tags=[RunTag(SNAPSHOT, text)])
    written.parent.tags[SNAPSHOT] = text
