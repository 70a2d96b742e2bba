"""Lists, renames, tags, notes and deletes the sweeps of a workspace."""

import re
import shutil
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from datetime import datetime
from typing import Any

from pydantic import TypeAdapter, ValidationError

from sweeps.errors import EdgeSweepError, StoreError
from sweeps.journal.journal import Journal
from sweeps.journal.kept_sweeps import Labels
from sweeps.operations.telling import tell
from sweeps.operations.which_sweep import open_journal, sweep_name
from sweeps.spec.fields import Name
from sweeps.store.outbox import Outbox
from sweeps.store.removal import delete_experiment, write_labels
from sweeps.workspace import Workspace

_TAG = re.compile(r"[A-Za-z0-9_.-]{1,64}")
_LONGEST = 4_000


@dataclass(frozen=True, slots=True, kw_only=True)
class KeptSweep:
    """One sweep of the workspace."""

    name: str
    started: datetime
    """The last time."""
    jobs: int
    """Of its present plan, with those that are skipped."""
    measured: int
    failed: int
    tags: Mapping[str, str]
    note: str

    @property
    def document(self) -> dict[str, Any]:
        return asdict(self) | {"started": self.started.isoformat()}


@dataclass(frozen=True, slots=True, kw_only=True)
class Deletion:
    """What a deletion takes away. `runs`: of MLflow, known when it is done."""

    sweep: str
    jobs: int
    builds: int
    """Those that no other sweep has."""
    bytes: int
    runs: int = 0


def kept_sweeps(workspace: Workspace) -> list[KeptSweep]:
    """Of the workspace's journal, the one that ran last first."""
    if not workspace.journal.exists():
        return []
    with open_journal(workspace) as journal:
        return [_kept(journal, info.name, info.updated) for info in journal.sweeps()]


def rename(workspace: Workspace, sweep: str, name: str) -> None:
    """In the journal; MLflow gets its runs anew under the new name. Raises `WorkspaceError` while a sweep runs."""
    try:
        TypeAdapter(Name).validate_python(name)
    except ValidationError as error:
        raise EdgeSweepError(
            f"{name!r} cannot be the name of a sweep: {error.errors()[0]['msg']}", "use letters, digits, . _ and -"
        ) from error
    with workspace.lock(), open_journal(workspace, read_only=False) as journal:
        journal.rename_sweep(sweep_name(journal, sweep), name)
        _forget(workspace)
        try:
            delete_experiment(workspace, sweep)
            with Outbox.of(workspace, journal, name) as outbox:
                outbox.publish()
            _publish_labels(workspace, journal, name)
        except StoreError as error:
            tell(f"It has its new name here, but not in MLflow: {error.one_line}. The next run sends what is missing.")


def label(
    workspace: Workspace, sweep: str, *, add: Mapping[str, str], remove: tuple[str, ...], note: str | None
) -> Labels:
    """Add and remove tags; `note` replaces the former one unless it is `None`."""
    for key, value in add.items():
        if not _TAG.fullmatch(key) or len(value) > _LONGEST or not value.isprintable():
            raise EdgeSweepError(
                f"{key}={value[:60]} cannot be a tag", "write KEY=VALUE, KEY of letters, digits, . _ and -"
            )
    if note is not None and len(note) > _LONGEST:
        raise EdgeSweepError(f"the note has {len(note):,} characters", f"write at most {_LONGEST:,}")
    with open_journal(workspace, read_only=False) as journal:
        name = sweep_name(journal, sweep)
        before = journal.labels(name)
        if absent := [key for key in remove if key not in before.tags]:
            known = ", ".join(before.tags) or "none"
            raise EdgeSweepError(f"{name} has no tag {absent[0]!r}", f"it has: {known}")
        tags = {key: value for key, value in before.tags.items() if key not in remove} | dict(add)
        journal.label(name, Labels(tags, before.note if note is None else note))
        try:
            _publish_labels(workspace, journal, name)
        except StoreError as error:
            tell(f"It is kept here, but not in MLflow: {error.one_line}")
        return journal.labels(name)


def look_before_deletion(workspace: Workspace, sweep: str) -> Deletion:
    """What a deletion would take away."""
    with open_journal(workspace) as journal:
        name = sweep_name(journal, sweep)
        folders = [workspace.artifact(key) for key in journal.builds_of_it_alone(name)]
        there = [folder for folder in folders if folder.is_dir()]
        size = sum(file.stat().st_size for folder in there for file in folder.rglob("*") if file.is_file())
        return Deletion(sweep=name, jobs=len(journal.job_keys(name)), builds=len(there), bytes=size)


def delete(workspace: Workspace, sweep: str) -> Deletion:
    """Delete a sweep with its runs in MLflow, its builds, and what was measured for it alone.

    The journal's part is the last one, and one transaction: whatever ends this earlier, the sweep is still listed, and
    can be deleted again. Raises `WorkspaceError` while a sweep runs, `StoreError` if MLflow does not answer.
    """
    with workspace.lock():
        found = look_before_deletion(workspace, sweep)
        runs = delete_experiment(workspace, found.sweep)
        with open_journal(workspace, read_only=False) as journal:
            for key in journal.builds_of_it_alone(found.sweep):
                shutil.rmtree(workspace.artifact(key), ignore_errors=True)
            journal.delete_sweep(found.sweep)
        _forget(workspace)
    return Deletion(**{**asdict(found), "runs": runs})


def _publish_labels(workspace: Workspace, journal: Journal, name: str) -> None:
    labels = journal.labels(name)
    if labels.tags or labels.note:
        write_labels(workspace, name, labels.tags, labels.note)


def _forget(workspace: Workspace) -> None:
    """Files that are made again from the journal, by the names of sweeps."""
    for file in (workspace.published, workspace.verdicts):
        for suffix in ("", "-wal", "-shm", "-journal"):
            file.with_name(file.name + suffix).unlink(missing_ok=True)


def _kept(journal: Journal, name: str, started: datetime) -> KeptSweep:
    counts = journal.ended_counts(name).values()
    labels = journal.labels(name)
    jobs = [stale for _, stale in journal.jobs(name)]
    return KeptSweep(
        name=name,
        started=started,
        jobs=jobs.count(False),
        measured=sum(one.get("measured", 0) for one in counts),
        failed=sum(one.get("failed", 0) for one in counts),
        tags=labels.tags,
        note=labels.note,
    )
