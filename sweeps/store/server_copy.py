"""The copy of a tracking server: the last good snapshot of each of its sweeps, on this computer's disk.

A look asks the server for the parent runs of all sweeps, and downloads the snapshots that are others than before. What
cannot be read is left out, and the snapshot before stays. All results are in one file (`sweeps.store.merged_results`),
which is made again from the snapshots where it is damaged, also while the server is away.
"""

import hashlib
import re
import shutil
import sqlite3
import time
from collections.abc import Callable, Mapping, Set
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field, replace
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from sweeps.errors import StoreError, in_one_line
from sweeps.journal import schema as journal_schema
from sweeps.json_records import from_json, to_json
from sweeps.quarantine import state_folder
from sweeps.store import merged_results
from sweeps.store.client import active_runs, connect, experiments, translated
from sweeps.store.snapshot import MOST_BYTES, Snapshot, SnapshotError
from sweeps.store.snapshot_download import ElsewhereError, download
from sweeps.store.snapshot_upload import SnapshotTag, read_tag
from sweeps.store.sweep_tags import IS_SWEEP, OWNER, SNAPSHOT
from sweeps.store.uri import dialect, redact, sqlite_path
from sweeps.whole_file import write_whole

if TYPE_CHECKING:
    from mlflow import MlflowClient

MOST_SNAPSHOTS, MOST_BYTES_IN_ALL = 10_000, 8 << 30
"""The limits of one server."""
_RETRY_S = 30.0
"""Until a snapshot that could not be had is asked for again."""
_UNUSED_S = 86400.0
"""A copy by another version that has not looked for so long is removed."""
_BAD_TAG = "the tag of a snapshot cannot be read, or there are more snapshots than are read"
_ONE_VERSION = "use one version of EdgeSweep on all computers, or delete that run in MLflow"
_REPORT = "delete that run in MLflow; if EdgeSweep has published it, this is a bug in EdgeSweep: please report it"
_RUN_ID = re.compile(r"[0-9a-f]{32}")
_SHA256 = re.compile(r"[0-9a-f]{64}")


@dataclass(frozen=True, slots=True, kw_only=True)
class KeptSnapshot:
    """One that is on the disk, or that was refused."""

    sweep: str
    sequence: int
    sha256: str
    owner: str = ""
    """The workspace that has published it."""
    retry_s: float = 0.0
    """The time when a refused one is asked for again (seconds since 1970); 0: not before it is another one."""
    is_elsewhere: bool = False
    """The file is on the disk of another computer, which writes to the database directly."""
    reason: str = ""
    """Why it was refused."""
    next_step: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class LeftOut:
    """A snapshot that cannot be read, or could not be had: why, and what to do."""

    sweep: str
    reason: str
    next_step: str


@dataclass(frozen=True, slots=True, kw_only=True)
class CopyState:
    """The state of the copy. Times are seconds since 1970."""

    asked_s: float = 0.0
    """When the last look began that came to its end."""
    took_s: float = 0.0
    tried_s: float = 0.0
    error: str = ""
    """The reason why the last look came to no end."""
    left_out: tuple[LeftOut, ...] = ()
    """In the last look that came to its end, without those on another computer's disk."""
    snapshots: Mapping[str, KeptSnapshot] = field(default_factory=dict)
    """By the id of the parent run."""
    refused: Mapping[str, KeptSnapshot] = field(default_factory=dict)
    reader: str = ""
    """The version of EdgeSweep that has refused them: another one may read them."""

    def sweeps_of_others(self, marks: frozenset[str]) -> frozenset[str]:
        """The sweeps that workspaces without these marks (`sweeps.store.owner`) have published."""
        return frozenset(snapshot.sweep for snapshot in self.snapshots.values() if snapshot.owner not in marks)

    def elsewhere_of_others(self, marks: frozenset[str]) -> frozenset[str]:
        """The sweeps of such workspaces with a snapshot on another computer's disk."""
        lacking = (snapshot for snapshot in self.refused.values() if snapshot.is_elsewhere)
        return frozenset(snapshot.sweep for snapshot in lacking if snapshot.owner not in marks)


@dataclass(frozen=True, slots=True)
class _Listed:
    """A parent run with a snapshot, as the server lists it."""

    run_id: str
    artifact_uri: str
    sweep: str
    owner: str
    tag: SnapshotTag


class ServerCopy:
    """One server's copy. One process writes at a time (`sweeps.store.result_files`); others read meanwhile."""

    def __init__(self, uri: str) -> None:
        self._uri = uri
        self.folder = copy_folder(uri)
        self.results = self.folder / "results.sqlite"
        self.verdicts = self.folder / "verdicts.sqlite"
        self._state_file = self.folder / "state.json"

    @property
    def is_complete(self) -> bool:
        """Tell whether the server was once read to its end; until then, results are missing."""
        return self.results.exists() and self.state().asked_s > 0.0

    def state(self) -> CopyState:
        """A state that cannot be read is none."""
        with suppress(OSError, UnicodeDecodeError, StoreError):
            return from_json(CopyState, self._state_file.read_text("utf-8"))
        return CopyState()

    def bring_up_to_date(self, each: Callable[[int], object]) -> None:
        """Ask the server. `each` is called with the number of results of each snapshot that was read, and with 0 first.

        Raises `StoreError` if the server cannot be read, or the copy not be written; the state has the error then.
        """
        began_s, state = time.time(), self.state()
        each(0)
        if state.reader != (reader := version("edgesweep")):
            state = replace(state, refused={}, reader=reader)
        try:
            self._make_whole(state)
            with translated(self._uri):
                client = connect(self._uri, make=False)
                listed, unreadable = _listed(client)
                present = {run.run_id: run.sweep for run in listed} | unreadable
                missing = state.snapshots.keys() - present.keys()
                self._check_beside(state, missing)
                for run in listed:
                    state = self._with_run(client, run, state, each)
                state = self._without_missing(state, missing, present)
        except StoreError as error:
            self._fail(began_s, error)
            raise
        except (sqlite3.Error, OSError) as error:
            failure = StoreError(
                f"the copy of MLflow's results cannot be written: {error}",
                f"free space at {self.folder}, or delete that folder: it is made again",
            )
            self._fail(began_s, failure)
            raise failure from error
        took_s = time.time() - began_s
        refused = (
            snapshot
            for run_id, snapshot in state.refused.items()
            if run_id not in unreadable and not snapshot.is_elsewhere
        )
        reasons = ((snapshot.sweep, snapshot.reason, snapshot.next_step) for snapshot in refused)
        left_out = (
            *(LeftOut(sweep=sweep, reason=_BAD_TAG, next_step=_ONE_VERSION) for sweep in unreadable.values()),
            *(LeftOut(sweep=sweep, reason=reason, next_step=step) for sweep, reason, step in reasons),
        )
        self._saved(replace(state, asked_s=began_s, took_s=took_s, tried_s=began_s, error="", left_out=left_out))

    def _fail(self, began_s: float, error: StoreError) -> None:
        text = redact(f"{error.message}: {error.next_step}", self._uri)
        with suppress(OSError):
            self._saved(replace(self.state(), tried_s=began_s, error=text))

    def _make_whole(self, state: CopyState) -> None:
        """Make the file of results from the snapshots that are here, beside the one that others read meanwhile."""
        if merged_results.is_whole(self.results):
            return
        _remove_unused(self.folder)
        new = self.folder / "new.sqlite"
        merged_results.make_file(new)
        for sweep in {snapshot.sweep for snapshot in state.snapshots.values()}:
            files = {run_id: path for run_id, path in self._files(state, sweep).items() if self._is_whole(path)}
            if files:
                self._merge(sweep, files, new)
        merged_results.put_in_place(new, self.results)

    def _with_run(
        self, client: "MlflowClient", run: _Listed, state: CopyState, each: Callable[[int], object]
    ) -> CopyState:
        """Return the state once the copy has this snapshot, or knows that it is refused."""
        now_s = time.time()
        snapshot = KeptSnapshot(
            sweep=run.sweep, sequence=run.tag.sequence, sha256=run.tag.sha256, owner=run.owner, retry_s=0.0
        )
        target = self._file(run.run_id)
        if state.snapshots.get(run.run_id) == snapshot and target.exists():
            return state
        before = state.refused.get(run.run_id)
        if before is not None and before.sha256 == snapshot.sha256 and not 0 < before.retry_s <= now_s:
            return state
        incoming = self.folder / "incoming.parquet"
        other_files = {run_id: path for run_id, path in self._files(state, run.sweep).items() if run_id != run.run_id}
        try:
            download(client, run.artifact_uri, run.tag.file, run.tag.bytes, run.tag.sha256, incoming)
            if other_files:
                _check(incoming)
                other_files = {run_id: path for run_id, path in other_files.items() if self._is_whole(path)}
            self._merge(run.sweep, {**other_files, run.run_id: incoming})
        except Exception as error:
            if _is_of_disk(error):
                raise
            failure = _failure(error)
            refused = replace(
                snapshot,
                retry_s=0.0 if isinstance(failure, SnapshotError) else now_s + _RETRY_S,
                is_elsewhere=isinstance(failure, ElsewhereError),
                reason=redact(failure.message, self._uri)[:300],
                next_step=failure.next_step,
            )
            return self._saved(replace(state, refused={**state.refused, run.run_id: refused}))
        incoming.replace(target)
        still_refused = {run_id: other for run_id, other in state.refused.items() if run_id != run.run_id}
        state = self._saved(replace(state, snapshots={**state.snapshots, run.run_id: snapshot}, refused=still_refused))
        each(run.tag.rows)
        return state

    def _check_beside(self, state: CopyState, missing: Set[str]) -> None:
        """Check the files that are merged anew without the missing runs, so that a damaged one is downloaded again."""
        for sweep in {state.snapshots[run_id].sweep for run_id in missing}:
            for run_id, path in self._files(state, sweep).items():
                if run_id not in missing:
                    self._is_whole(path)

    def _without_missing(self, state: CopyState, missing: Set[str], present: Mapping[str, str]) -> CopyState:
        """Return the state without the runs that the server has no longer; `present` has the sweeps of those that it
        has, by run id. Where no snapshot of a sweep could be had that is still there, the ones before stay."""
        if not missing and state.refused.keys() <= present.keys():
            return state
        sweeps = {state.snapshots[run_id].sweep for run_id in missing}
        files = {
            sweep: {run_id: path for run_id, path in self._files(state, sweep).items() if run_id not in missing}
            for sweep in sweeps
        }
        gone = {sweep for sweep in sweeps if files[sweep] or sweep not in present.values()}
        missing = {run_id for run_id in missing if state.snapshots[run_id].sweep in gone}
        for sweep in gone:
            if files[sweep]:
                self._merge(sweep, files[sweep])
            else:
                merged_results.drop_sweep(self.results, sweep)
        left = {run_id: snapshot for run_id, snapshot in state.snapshots.items() if run_id not in missing}
        refused = {run_id: snapshot for run_id, snapshot in state.refused.items() if run_id in present}
        state = self._saved(replace(state, snapshots=left, refused=refused))
        for run_id in missing:
            self._file(run_id).unlink(missing_ok=True)
        return state

    def _merge(self, sweep: str, files: Mapping[str, Path], results: Path | None = None) -> None:
        """Raises `SnapshotError` if one cannot be read; then nothing has changed."""
        with ExitStack() as stack:
            snapshots = [stack.enter_context(Snapshot(path)) for _, path in sorted(files.items())]
            if any(snapshot.record.sweep != sweep for snapshot in snapshots):
                raise SnapshotError("a snapshot is of another sweep than its run", "delete that run in MLflow")
            merged_results.put_sweep(results or self.results, snapshots)

    def _is_whole(self, path: Path) -> bool:
        """A file of another workspace's snapshot that a damaged disk has spoilt goes, and is downloaded again."""
        try:
            _check(path)
        except SnapshotError:
            path.unlink(missing_ok=True)
            return False
        return True

    def _files(self, state: CopyState, sweep: str) -> dict[str, Path]:
        files = {run_id: self._file(run_id) for run_id, snapshot in state.snapshots.items() if snapshot.sweep == sweep}
        return {run_id: path for run_id, path in files.items() if path.exists()}

    def _file(self, run_id: str) -> Path:
        return self.folder / f"{run_id}.parquet"

    def _saved(self, state: CopyState) -> CopyState:
        write_whole(self._state_file, to_json(state))
        return state


def _is_of_disk(error: Exception) -> bool:
    """Tell whether the copy cannot be written, whatever a snapshot has in it."""
    return isinstance(error, (OSError, sqlite3.OperationalError)) or type(error) is sqlite3.DatabaseError


def _failure(error: Exception) -> StoreError:
    """Return whatever a hostile file may cause as the error of its run."""
    if isinstance(error, StoreError):
        return error
    if isinstance(error, MemoryError):
        return StoreError("a snapshot needs more memory than there is now", "look again when other programs have ended")
    return SnapshotError(in_one_line(error), _REPORT)


def _check(path: Path) -> None:
    """Raises `SnapshotError` if it cannot be read to its end."""
    with Snapshot(path) as snapshot:
        for group in snapshot.groups():
            for values in group:
                snapshot.checked_row(values)


def copy_folder(uri: str) -> Path:
    """Return the folder of a server's copy, whose name tells nothing of the server, nor of the password. Each version
    has its own: two that are in use would make the other's results anew at every look."""
    if dialect(uri) == "sqlite":
        uri = str(sqlite_path(uri).resolve())
    parts = urlsplit(uri)
    user, at, host = parts.netloc.rpartition("@")
    named = parts._replace(netloc=f"{user.partition(':')[0]}{at}{host}").geturl()
    digest = hashlib.sha256(named.encode("utf-8", "replace")).hexdigest()[:24]
    return state_folder() / "copies" / f"{digest}.v{merged_results.VERSION}-{journal_schema.VERSION}"


def _remove_unused(folder: Path) -> None:
    """Remove the copies of this server by other versions that nobody uses any more."""
    for other in folder.parent.glob(f"{folder.name.partition('.')[0]}.v*"):
        with suppress(OSError):
            if other != folder and time.time() - other.stat().st_mtime > _UNUSED_S:
                shutil.rmtree(other)


def _listed(client: "MlflowClient") -> tuple[list[_Listed], dict[str, str]]:
    """The parent runs with a snapshot that this version may read, and the sweeps, by run id, of those with another."""
    sweeps = {str(experiment.experiment_id): str(experiment.name) for experiment in experiments(client)}
    listed: list[_Listed] = []
    unreadable: dict[str, str] = {}
    bytes_in_all = 0
    for run in active_runs(client, list(sweeps), IS_SWEEP):
        run_id, sweep, tags = str(run.info.run_id), sweeps[str(run.info.experiment_id)], run.data.tags
        if SNAPSHOT not in tags:
            continue  # nothing was published yet
        tag = read_tag(tags[SNAPSHOT])
        if tag is None or not _RUN_ID.fullmatch(run_id) or not _may_be_read(tag, bytes_in_all, len(listed)):
            unreadable[run_id] = sweep
            continue
        bytes_in_all += tag.bytes
        listed.append(_Listed(run_id, str(run.info.artifact_uri), sweep, str(tags.get(OWNER, "")), tag))
    return listed, unreadable


def _may_be_read(tag: SnapshotTag, bytes_before: int, listed: int) -> bool:
    return (
        tag.sequence >= 0
        and 0 < tag.bytes <= min(MOST_BYTES, MOST_BYTES_IN_ALL - bytes_before)
        and _SHA256.fullmatch(tag.sha256) is not None
        and listed < MOST_SNAPSHOTS
    )
