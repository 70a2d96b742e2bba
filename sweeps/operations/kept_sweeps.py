"""Lists, renames, tags, notes and deletes the sweeps of a workspace."""

import json
import re
import shutil
import unicodedata
from collections.abc import Callable, Iterable, Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import asdict, dataclass, replace
from datetime import datetime
from pathlib import Path
from typing import Any

from pydantic import TypeAdapter, ValidationError

from sweeps.errors import EdgeSweepError, StoreError
from sweeps.journal.journal import Journal
from sweeps.journal.kept_sweeps import Labels
from sweeps.launching.here import here
from sweeps.launching.kept import remove_kept, rename_kept
from sweeps.metrics import METRICS
from sweeps.operations.telling import tell
from sweeps.operations.which_sweep import open_journal, sweep_name
from sweeps.spec.fields import Name
from sweeps.store.beside import write_labels
from sweeps.store.lag import Marks
from sweeps.store.outbox import Outbox
from sweeps.store.owner import is_own
from sweeps.store.removal import Published, check_free, former_runs, look_for, take_out
from sweeps.store.uri import redact
from sweeps.workspace import Workspace

_TAG = re.compile(r"[A-Za-z0-9_.-]{1,64}")
_LONGEST = 4_000
"""Characters of a note, and of all tags together: MLflow's tags have no more room on every server."""


@dataclass(frozen=True, slots=True, kw_only=True)
class KeptSweep:
    """One sweep of the workspace."""

    name: str
    started: datetime
    """The last time."""
    jobs: int
    """Of its present plan."""
    measured: int
    failed: int
    tags: Mapping[str, str]
    note: str

    @property
    def document(self) -> dict[str, Any]:
        return asdict(self) | {"started": self.started.isoformat()}


@dataclass(frozen=True, slots=True, kw_only=True)
class InMlflow:
    """What MLflow has under a sweep's name."""

    server: str
    """Its address, without secrets; empty if it is the workspace's own database."""
    runs: int
    """Of this workspace."""
    others: int
    """Those of others, which stay."""

    @property
    def text(self) -> str:
        """For people."""
        where = f" at {self.server}" if self.server else ""
        stay = f" ({self.others} of others under this name stay)" if self.others else ""
        return f"{self.runs} runs of MLflow{where}{stay}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Deletion:
    """What a deletion takes away."""

    sweep: str
    jobs: int
    builds: int
    """Those that no other sweep has."""
    bytes: int
    mlflow: InMlflow
    left: tuple[str, ...] = ()
    """Files and folders that could not be removed."""

    @property
    def text(self) -> str:
        """For people."""
        builds = f"{self.builds} builds ({METRICS['artifact_mb'].format(self.bytes / 1e6)})"
        return f"{self.jobs} jobs with their measurements, {builds}, {self.mlflow.text}"

    @property
    def document(self) -> dict[str, Any]:
        found = asdict(self)
        mlflow = found.pop("mlflow")
        return found | {"server": mlflow["server"], "runs": mlflow["runs"], "others": mlflow["others"]}


def kept_sweeps(workspace: Workspace) -> list[KeptSweep]:
    """Of the workspace's journal, the one that ran last first."""
    if not workspace.journal.exists():
        return []
    with open_journal(workspace) as journal:
        return [_kept(journal, info.name, info.updated) for info in journal.sweeps()]


def look_before_renaming(workspace: Workspace, sweep: str) -> InMlflow:
    """What MLflow has under the present name."""
    with open_journal(workspace) as journal:
        name = sweep_name(journal, sweep)
        return _in_mlflow(workspace, [look_for(workspace, name)])


def rename(
    workspace: Workspace,
    sweep: str,
    name: str,
    *,
    whole: Callable[[], AbstractContextManager[None]] = nullcontext,
    each: Callable[[int, int], object] = lambda *_: None,
) -> None:
    """In the journal; then MLflow gets its runs anew under the new name, and last loses those under the old one. The
    journal remembers the old name until then: what is cut off, the next publication does.

    `whole`: around what is not to be cut off. `each` is called with how many jobs are published, of how many. Raises
    `WorkspaceError` while a sweep runs, `StoreError` if the new name is taken here or in MLflow, or MLflow does not
    answer: then nothing has changed.
    """
    try:
        TypeAdapter(Name).validate_python(name)
    except ValidationError as error:
        raise EdgeSweepError(
            f"{name!r} cannot be the name of a sweep: {error.errors()[0]['msg']}", "use letters, digits, . _ and -"
        ) from error
    with open_journal(workspace) as journal:
        before = sweep_name(journal, sweep)
    with workspace.lock():
        with open_journal(workspace, read_only=False) as journal:
            journal.check_unused(name)
            check_free(workspace, journal, before, name)
            with whole():
                journal.rename_sweep(before, name)
                Marks.forget(workspace, before)
                try:
                    rename_kept(workspace, before, name)
                except OSError as error:
                    tell(f"its sweep file that was started from the browser keeps the old name: {error}")
        _publish(workspace, name, each)


def _publish(workspace: Workspace, name: str, each: Callable[[int, int], object]) -> None:
    later = here(workspace).typed("edgesweep journal publish, or its next run, sends what is missing")
    with open_journal(workspace, read_only=False) as journal:
        try:
            with Outbox.of(workspace, journal, name) as outbox:
                total, done = outbox.left(), 0

                def told(new: bool) -> None:
                    nonlocal done
                    done += new
                    each(done, max(done, total))

                outbox.publish(told)
        except StoreError as error:
            tell(f"It has its new name here, but not in MLflow: {error.one_line}. {later}")
        except KeyboardInterrupt:
            tell(f"It has its new name here, but not in MLflow: {later}")
            raise


def label(
    workspace: Workspace, sweep: str, *, add: Mapping[str, str], remove: tuple[str, ...], note: str | None
) -> Labels:
    """Add and remove tags; `note` replaces the former one unless it is `None`."""
    for key, value in add.items():
        if not _TAG.fullmatch(key) or len(value) > _LONGEST or not value.isprintable():
            raise EdgeSweepError(
                f"{key[:64]}={value[:60]} cannot be a tag", "write KEY=VALUE, KEY of letters, digits, . _ and -"
            )
    if note is not None and len(note) > _LONGEST:
        raise EdgeSweepError(f"the note has {len(note):,} characters", f"write at most {_LONGEST:,}")
    if note is not None and any(char != "\n" and unicodedata.category(char) in ("Cc", "Cs") for char in note):
        raise EdgeSweepError("the note has a control character, or is no UTF-8", "write text; lines may be several")
    with open_journal(workspace, read_only=False) as journal:
        name = sweep_name(journal, sweep)
        with journal.together():
            before = journal.labels(name) or Labels({})
            if absent := [key for key in remove if key not in before.tags]:
                known = ", ".join(before.tags) or "none"
                raise EdgeSweepError(f"{name} has no tag {absent[0]!r}", f"it has: {known}")
            tags = {key: value for key, value in before.tags.items() if key not in remove} | dict(add)
            if add and len(json.dumps(tags, ensure_ascii=False)) > _LONGEST:
                raise EdgeSweepError(f"the tags have more than {_LONGEST:,} characters", "remove some with --remove")
            now = Labels(dict(sorted(tags.items())), before.note if note is None else note)
            journal.label(name, now)
    try:
        write_labels(workspace, name, now)
    except StoreError as error:
        tell(f"It is kept here; the next publication sends it to MLflow: {error.one_line}")
    return now


def look_before_deletion(workspace: Workspace, sweep: str) -> Deletion:
    """What a deletion would take away. Raises `StoreError` if MLflow does not answer."""
    with open_journal(workspace) as journal:
        name = sweep_name(journal, sweep)
        there = [folder for folder in _folders(workspace, journal, name) if folder.is_dir()]
        builds = sum(folder.parent == workspace.artifacts for folder in there)
        found = [look_for(workspace, name)]
        found += [look_for(workspace, *former) for former in former_runs(journal, name) if former[0] != name]
        return Deletion(
            sweep=name,
            jobs=len(journal.job_keys(name)),
            builds=builds,
            bytes=sum(map(_size, there)),
            mlflow=_in_mlflow(workspace, found),
        )


def delete(workspace: Workspace, sweep: str) -> Deletion:
    """Delete a sweep with its runs in MLflow, its builds, and what was measured for it alone.

    The journal's part is the last one, and one transaction: whatever ends this earlier, the sweep is still listed, and
    can be deleted again. Raises `WorkspaceError` while a sweep runs, `StoreError` if MLflow does not answer.
    """
    with open_journal(workspace) as journal:
        sweep_name(journal, sweep)  # before the lock, which would make the folder
    with workspace.lock():
        found = look_before_deletion(workspace, sweep)
        with open_journal(workspace, read_only=False) as journal:
            for former in former_runs(journal, sweep):
                take_out(workspace, *former)
            take_out(workspace, sweep)
            folders = _folders(workspace, journal, sweep)
            for folder in folders:
                shutil.rmtree(folder, ignore_errors=True)
            left = [str(folder) for folder in folders if folder.exists()]
            freed = found.bytes - sum(map(_size, map(Path, left)))
            for key in journal.builds_of_it_alone(sweep):
                left += _removed(workspace.failed_build_log(key))
            journal.delete_sweep(sweep)
        try:
            remove_kept(workspace, sweep)
        except OSError as error:
            left.append(str(error.filename))
        Marks.forget(workspace, sweep)
    return replace(found, bytes=freed, left=tuple(left))


def _folders(workspace: Workspace, journal: Journal, sweep: str) -> list[Path]:
    """Of builds that no other sweep has: their files, and their profiles."""
    keys = sorted(journal.builds_of_it_alone(sweep))
    return [workspace.artifact(key) for key in keys] + [workspace.profiles / key for key in keys]


def _size(folder: Path) -> int:
    return sum(file.stat().st_size for file in folder.rglob("*") if file.is_file())


def _removed(file: Path) -> list[str]:
    """The file, if it could not be removed."""
    try:
        file.unlink(missing_ok=True)
    except OSError:
        return [str(file)]
    return []


def _in_mlflow(workspace: Workspace, found: Iterable[Published]) -> InMlflow:
    uri, published = workspace.tracking_uri, list(found)
    return InMlflow(
        server="" if is_own(workspace) else redact(uri, uri),
        runs=sum(one.mine for one in published),
        others=sum(one.others for one in published),
    )


def _kept(journal: Journal, name: str, started: datetime) -> KeptSweep:
    counts = journal.ended_counts(name).values()
    labels = journal.labels(name) or Labels({})
    return KeptSweep(
        name=name,
        started=started,
        jobs=journal.planned_count(name),
        measured=sum(one.get("measured", 0) for one in counts),
        failed=sum(one.get("failed", 0) for one in counts),
        tags=labels.tags,
        note=labels.note,
    )
