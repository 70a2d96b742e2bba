"""Operations on a workspace's sweeps: list, rename, tag, add a note, delete."""

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
from sweeps.journal.sweep_table import Labels
from sweeps.launching.started_sweep import remove_kept, rename_kept
from sweeps.launching.sweep_commands import command_hints
from sweeps.metrics import METRICS
from sweeps.operations.notices import notify
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
"""Most characters of a note, and of all tags together: some MLflow servers store no longer tags."""


@dataclass(frozen=True, slots=True, kw_only=True)
class KeptSweep:
    """One sweep of the workspace."""

    name: str
    started: datetime
    """Time of the last start."""
    jobs: int
    """Number of jobs in the current plan."""
    measured: int
    failed: int
    tags: Mapping[str, str]
    note: str

    @property
    def document(self) -> dict[str, Any]:
        return asdict(self) | {"started": self.started.isoformat()}


@dataclass(frozen=True, slots=True, kw_only=True)
class InMlflow:
    """Runs that MLflow has under a sweep's name."""

    server: str
    """URL of the server, without secrets; empty if it is the workspace's own database."""
    runs: int
    """Number of runs that this workspace wrote."""
    others: int
    """Number of runs that other workspaces wrote, which stay."""

    @property
    def text(self) -> str:
        """The runs in words, for people."""
        where = f" at {self.server}" if self.server else ""
        stay = f" ({self.others} of others under this name stay)" if self.others else ""
        return f"{self.runs} runs of MLflow{where}{stay}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Deletion:
    """Data that a deletion removes."""

    sweep: str
    jobs: int
    builds: int
    """Number of builds that no other sweep has."""
    bytes: int
    mlflow: InMlflow
    left: tuple[str, ...] = ()
    """Files and folders that could not be removed."""

    @property
    def text(self) -> str:
        """The data in words, for people."""
        builds = f"{self.builds} builds ({METRICS['artifact_mb'].format(self.bytes / 1e6)})"
        return f"{self.jobs} jobs with their measurements, {builds}, {self.mlflow.text}"

    @property
    def document(self) -> dict[str, Any]:
        content = asdict(self)
        mlflow = content.pop("mlflow")
        return content | {"server": mlflow["server"], "runs": mlflow["runs"], "others": mlflow["others"]}


def kept_sweeps(workspace: Workspace) -> list[KeptSweep]:
    """Return the sweeps of the workspace's journal, the last run first."""
    if not workspace.journal.exists():
        return []
    with open_journal(workspace) as journal:
        return [_kept_sweep(journal, info.name, info.updated) for info in journal.sweeps.all()]


def look_before_renaming(workspace: Workspace, sweep: str) -> InMlflow:
    """Return the runs that MLflow has under the sweep's current name."""
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
    """Rename a sweep in the journal; then publish its runs to MLflow under the new name, and last delete the runs under
    the old name. The journal keeps the old name until then, so that the next publication completes an interrupted
    renaming.

    `whole`: a context manager around the part that must not be interrupted. `each(done, total)` is called with numbers
    of published jobs. Raises `WorkspaceError` while a sweep runs, `StoreError` if the new name is in use here or in
    MLflow, or if MLflow does not answer; after an error nothing has changed.
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
            journal.sweeps.check_unused(name)
            check_free(workspace, journal, before, name)
            with whole():
                journal.sweeps.rename(before, name)
                Marks.forget(workspace, before)
                try:
                    rename_kept(workspace, before, name)
                except OSError as error:
                    notify(f"its sweep file that was started from the browser keeps the old name: {error}")
        _publish(workspace, name, each)


def _publish(workspace: Workspace, name: str, each: Callable[[int, int], object]) -> None:
    later = command_hints(workspace).typed("edgesweep journal publish, or its next run, sends what is missing")
    with open_journal(workspace, read_only=False) as journal:
        try:
            with Outbox.of(workspace, journal, name) as outbox:
                total, done = outbox.left(), 0

                def add_published(new: bool) -> None:
                    nonlocal done
                    done += new
                    each(done, max(done, total))

                outbox.publish(add_published)
        except StoreError as error:
            notify(f"It has its new name here, but not in MLflow: {error.one_line}. {later}")
        except KeyboardInterrupt:
            notify(f"It has its new name here, but not in MLflow: {later}")
            raise


def label(
    workspace: Workspace, sweep: str, *, add: Mapping[str, str], remove: tuple[str, ...], note: str | None
) -> Labels:
    """Add and remove tags of a sweep; `note` replaces the former note unless it is `None`. Returns the new labels."""
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
        with journal.transaction():
            before = journal.sweeps.labels(name) or Labels({})
            if absent := [key for key in remove if key not in before.tags]:
                known = ", ".join(before.tags) or "none"
                raise EdgeSweepError(f"{name} has no tag {absent[0]!r}", f"it has: {known}")
            tags = {key: value for key, value in before.tags.items() if key not in remove} | dict(add)
            if add and len(json.dumps(tags, ensure_ascii=False)) > _LONGEST:
                raise EdgeSweepError(f"the tags have more than {_LONGEST:,} characters", "remove some with --remove")
            now = Labels(dict(sorted(tags.items())), before.note if note is None else note)
            journal.sweeps.label(name, now)
    try:
        write_labels(workspace, name, now)
    except StoreError as error:
        notify(f"It is kept here; the next publication sends it to MLflow: {error.one_line}")
    return now


def look_before_deletion(workspace: Workspace, sweep: str) -> Deletion:
    """Return the data that a deletion would remove. Raises `StoreError` if MLflow does not answer."""
    with open_journal(workspace) as journal:
        name = sweep_name(journal, sweep)
        folders = [folder for folder in _folders(workspace, journal, name) if folder.is_dir()]
        builds = sum(folder.parent == workspace.artifacts for folder in folders)
        published = [look_for(workspace, name)]
        published += [look_for(workspace, *former) for former in former_runs(journal, name) if former[0] != name]
        return Deletion(
            sweep=name,
            jobs=len(journal.jobs.keys(name)),
            builds=builds,
            bytes=sum(map(_size, folders)),
            mlflow=_in_mlflow(workspace, published),
        )


def delete(workspace: Workspace, sweep: str) -> Deletion:
    """Delete a sweep with its runs in MLflow, and with the builds and measurements that no other sweep uses.

    The journal's rows are deleted last, in one transaction: after an earlier interruption the sweep is still listed,
    and can be deleted again. Raises `WorkspaceError` while a sweep runs, `StoreError` if MLflow does not answer.
    """
    with open_journal(workspace) as journal:
        sweep_name(journal, sweep)  # the name is checked before the lock, which would create the folder
    with workspace.lock():
        deletion = look_before_deletion(workspace, sweep)
        with open_journal(workspace, read_only=False) as journal:
            for former in former_runs(journal, sweep):
                take_out(workspace, *former)
            take_out(workspace, sweep)
            folders = _folders(workspace, journal, sweep)
            for folder in folders:
                shutil.rmtree(folder, ignore_errors=True)
            left = [str(folder) for folder in folders if folder.exists()]
            freed = deletion.bytes - sum(map(_size, map(Path, left)))
            for key in journal.sweeps.builds_of_it_alone(sweep):
                left += _removed(workspace.failed_build_log(key))
            journal.sweeps.delete(sweep)
        try:
            remove_kept(workspace, sweep)
        except OSError as error:
            left.append(str(error.filename))
        Marks.forget(workspace, sweep)
    return replace(deletion, bytes=freed, left=tuple(left))


def _folders(workspace: Workspace, journal: Journal, sweep: str) -> list[Path]:
    """Return the folders of artifacts and profiles of builds that no other sweep has."""
    keys = sorted(journal.sweeps.builds_of_it_alone(sweep))
    return [workspace.artifact(key) for key in keys] + [workspace.profiles / key for key in keys]


def _size(folder: Path) -> int:
    return sum(file.stat().st_size for file in folder.rglob("*") if file.is_file())


def _removed(file: Path) -> list[str]:
    """Remove a file. Returns its path if it could not be removed."""
    try:
        file.unlink(missing_ok=True)
    except OSError:
        return [str(file)]
    return []


def _in_mlflow(workspace: Workspace, runs_by_name: Iterable[Published]) -> InMlflow:
    uri, published = workspace.tracking_uri, list(runs_by_name)
    return InMlflow(
        server="" if is_own(workspace) else redact(uri, uri),
        runs=sum(entry.own_runs for entry in published),
        others=sum(entry.other_runs for entry in published),
    )


def _kept_sweep(journal: Journal, name: str, started: datetime) -> KeptSweep:
    counts = journal.results.ended_counts(name).values()
    labels = journal.sweeps.labels(name) or Labels({})
    return KeptSweep(
        name=name,
        started=started,
        jobs=journal.jobs.count(name),
        measured=sum(by_outcome.get("measured", 0) for by_outcome in counts),
        failed=sum(by_outcome.get("failed", 0) for by_outcome in counts),
        tags=labels.tags,
        note=labels.note,
    )
