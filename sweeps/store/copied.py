"""Where a workspace's results are read: in its own journal, or in a copy of the tracking server that others write to.

The copy is a file in the user's state folder, one for each server, that is brought up to date when it is read. Runs
say when they were written or changed (`edgesweep_published_s`), so a look asks for what is later than the copy's last,
less an overlap, since clocks differ. What no overlap finds (deleted runs, clocks that are far behind, runs of early
versions) is found by comparing all runs every so often.
"""

import fcntl
import hashlib
import os
import sqlite3
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from sweeps.errors import NoResultsError, StoreError
from sweeps.journal.journal import Journal
from sweeps.journal.rebuild import rebuild
from sweeps.journal.results_table import DamagedResultsError
from sweeps.store.client import FIRST_STEP, connect, experiments, run_of, run_pages, translated
from sweeps.store.copy_file import CopiedExperiment, CopyFile, copy_path, is_copy, remove_unused_verdicts
from sweeps.store.lag import is_own
from sweeps.store.read_journal import has_sweep
from sweeps.store.reading import digest_of, read_run
from sweeps.store.run_content import PUBLISHED
from sweeps.store.uri import redact
from sweeps.workspace import Workspace

if TYPE_CHECKING:
    from mlflow import MlflowClient
    from mlflow.entities import Experiment, Run


class Look(NamedTuple):
    """One kind of look at the server; each includes those before it."""

    name: str
    back_s: float | None
    """How much earlier than the copy's last change it begins; `None`: it compares all runs."""
    every_s: float


LOOKS = (Look("news", 60.0, 1.0), Look("hour", 3600.0, 60.0), Look("all", None, 600.0))
_SHARE = 20
"""A look comes no more often than this many times what the last one took."""
THREAD = "edgesweep-copy"
_RETRY_S = 30.0
"""Until readers that do not wait ask a server again that was away."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ResultFiles:
    """What readers of results open: a journal, or a copy, which is read as one; and how old the copy is."""

    journal: Path
    verdicts: Path
    plans: Path | None = None
    """Of a copy, which knows no jobs: the workspace's own journal, which knows those of its sweeps."""
    server: str = ""
    """The tracking server that was copied, without secrets; empty for the workspace's own journal."""
    age_s: float = 0.0
    """Since the server was asked last."""
    complete: bool = True
    """Whether all runs were copied once; until then, results are missing."""
    left_out: int = 0
    """How many runs of sweeps are not EdgeSweep's or cannot be read."""
    error: str = ""
    """Why the server could not be asked, with what to do; empty if it was."""

    @property
    def is_copy(self) -> bool:
        return bool(self.server)

    @property
    def text(self) -> str:
        """For people; empty for the workspace's own journal."""
        if not self.is_copy:
            return ""
        words = [f"copied from MLflow at {self.server} {in_words(self.age_s)} ago"]
        words += [] if self.complete else ["not all of it yet"]
        words += [f"{self.left_out} runs were left out, which cannot be read"] if self.left_out else []
        words += [self.error] if self.error else []
        return "; ".join(words)

    def document(self) -> dict[str, object]:
        """A part of `edgesweep rank --json`."""
        return {name: getattr(self, name) for name in ("server", "age_s", "complete", "left_out", "error")}


def result_files(
    workspace: Workspace,
    sweep: str | None = None,
    *,
    compare: bool = False,
    wait: bool = True,
    each: Callable[[int], object] | None = None,
    own: Journal | None = None,
) -> ResultFiles:
    """The workspace's own journal if its store is its own and has the sweep (`None`: any); otherwise a copy of the
    tracking server as of now, or the last one if the server is away.

    `compare`: compare all runs now. Without `wait`, a copy that exists is returned as it is, and brought up to date
    meanwhile. `each` is called with how many runs were read of a page, and with 0 before the first. `own`: the
    workspace's own journal, if it is open. Raises `StoreError` if there is no copy and the server cannot be read.
    """
    if has_sweep(workspace, sweep, own):
        return ResultFiles(journal=workspace.journal, verdicts=workspace.verdicts)
    uri = workspace.tracking_uri
    if sweep is not None and is_own(workspace) and workspace.journal.exists():
        _check_known(uri, sweep)
    path = copy_path(uri)
    if wait or not is_copy(path):
        _bring_up_to_date(uri, path, compare=compare, patient=not is_complete(path), each=each or _unheard)
    elif compare or _is_due(path):
        threading.Thread(target=_beside, args=(uri, path, compare), name=THREAD, daemon=True).start()
    return _state(uri, path, workspace.journal)


def _check_known(uri: str, sweep: str) -> None:
    """A sweep's name that is misspelt is no reason to copy a workspace's own store. Raises `NoResultsError`."""
    with translated(uri):
        known = sorted(str(one.name) for one in experiments(connect(uri, make=False)))
    if sweep not in known:
        raise NoResultsError(
            f"there is no sweep {sweep!r} in MLflow", f"it has: {', '.join(known)}" if known else FIRST_STEP
        )


def is_complete(path: Path) -> bool:
    """Whether there is a copy that once had all runs."""
    if not is_copy(path):
        return False
    with CopyFile.open(path, read_only=True) as file:
        return LOOKS[-1].name in file.looks()


def in_words(age_s: float) -> str:
    for unit, length_s in (("days", 86400), ("hours", 3600), ("minutes", 60)):
        if age_s >= 2 * length_s:
            return f"{age_s / length_s:.0f} {unit}"
    return f"{age_s:.0f} seconds"


def _state(uri: str, path: Path, own: Path) -> ResultFiles:
    plans = own if own.exists() else None
    # Workspaces that share a server wait for other jobs.
    of = f".{hashlib.sha256(os.fsencode(own.resolve())).hexdigest()[:12]}" if plans else ""
    with CopyFile.open(path, read_only=True) as file:
        looks = file.looks()
        _, error = file.last_try()
        left_out = file.left_out()
    asked_s = max((at_s for at_s, _ in looks.values()), default=time.time())
    return ResultFiles(
        journal=path,
        verdicts=path.with_suffix(f"{of}.verdicts.sqlite"),
        plans=plans,
        server=redact(uri, uri),
        age_s=round(max(0.0, time.time() - asked_s), 1),
        complete=LOOKS[-1].name in looks,
        left_out=left_out,
        error=error,
    )


def _beside(uri: str, path: Path, compare: bool) -> None:
    with suppress(StoreError, sqlite3.Error, OSError):  # the copy has it
        _bring_up_to_date(uri, path, compare=compare, patient=False, each=_unheard)


def _bring_up_to_date(uri: str, path: Path, *, compare: bool, patient: bool, each: Callable[[int], object]) -> None:
    """Unless another process does; `patient`: wait for it. Raises `StoreError` if there is no complete copy then."""
    with _turn(path, patient=patient) as mine:
        if not mine:
            return
        with CopyFile.at(path) as file:
            began_s = time.time()
            look = LOOKS[-1] if compare else _due(file, began_s)
            if look is None:
                return
            each(0)
            try:
                with translated(uri):
                    _look(connect(uri, make=False), file, look, each)
            except DamagedResultsError:
                rebuild(path)  # no copy can be: it says so, and the next look makes the copy anew
            except (StoreError, sqlite3.Error, OSError) as error:
                said = (
                    f"{error.message}: {error.next_step}" if isinstance(error, StoreError) else redact(f"{error}", uri)
                )
                file.tried(began_s, said)
                if LOOKS[-1].name not in file.looks():
                    raise
                return
            included = [one.name for one in LOOKS[: LOOKS.index(look) + 1]]
            file.looked(included, began_s, time.time() - began_s)
            file.tried(began_s, "")
            if look is LOOKS[-1]:
                remove_unused_verdicts(path, file.newest_s())


def _is_due(path: Path) -> bool:
    now_s = time.time()
    with CopyFile.open(path, read_only=True) as file:
        tried_s, error = file.last_try()
        waits = bool(error) and 0 <= now_s - tried_s < _RETRY_S
        return not waits and _due(file, now_s) is not None


def _due(file: CopyFile, now_s: float) -> Look | None:
    """The largest look whose time has come."""
    looks = file.looks()

    def is_due(look: Look) -> bool:
        at_s, took_s = looks.get(look.name, (0.0, 0.0))
        return not 0 <= now_s - at_s < max(look.every_s, _SHARE * took_s)  # also where the clock went back

    return next((look for look in reversed(LOOKS) if is_due(look)), None)


def _look(client: "MlflowClient", file: CopyFile, look: Look, each: Callable[[int], object]) -> None:
    there = {_identity(one) for one in experiments(client)}
    known = file.experiments()
    for sweep in {one.sweep for one in known} - {one.sweep for one in there}:
        file.drop(file.runs_of(sweep))
    since = "" if look.back_s is None else _since(file.newest_s(), look.back_s)
    for some, condition in ((there & known, since), (there - known, "")):
        sweeps = {one.experiment_id: one.sweep for one in some}
        seen: set[str] = set()
        for page in run_pages(client, list(sweeps), condition):
            each(len(page))
            active = [run for run in page if run.info.lifecycle_stage == "active"]
            seen.update(str(run.info.run_id) for run in active)
            _take(client, file, sweeps, active)
            deleted = [str(run.info.run_id) for run in page if run.info.lifecycle_stage != "active"]
            _read_again(client, file, sweeps, file.drop(deleted))
        if not condition:
            gone = {run_id for sweep in sweeps.values() for run_id in file.runs_of(sweep)} - seen
            _read_again(client, file, sweeps, file.drop(gone))
    file.set_experiments(there)


def _identity(one: "Experiment") -> CopiedExperiment:
    return CopiedExperiment(str(one.experiment_id), str(one.name), int(getattr(one, "creation_time", None) or 0))


def _since(newest_s: float, back_s: float) -> str:
    """Of a writer whose clock is ahead nobody else's runs are missed: the copy's last change is in no future."""
    return f"metrics.{PUBLISHED} > {min(newest_s, time.time()) - back_s:.3f}"


def _take(client: "MlflowClient", file: CopyFile, sweeps: dict[str, str], runs: "list[Run]") -> None:
    known = file.digests(str(run.info.run_id) for run in runs)
    digests = ((run, digest_of(run)) for run in runs)
    again = file.put(
        read_run(sweeps[str(run.info.experiment_id)], run, digest)
        for run, digest in digests
        if known.get(str(run.info.run_id)) != digest
    )
    _read_again(client, file, sweeps, again)


def _read_again(client: "MlflowClient", file: CopyFile, sweeps: dict[str, str], run_ids: list[str]) -> None:
    """Runs that take the place of others, unless they were purged meanwhile."""
    found = {run_id: run_of(client, run_id) for run_id in run_ids}
    if purged := [run_id for run_id, run in found.items() if run is None]:
        _read_again(client, file, sweeps, file.drop(purged))
    if active := [run for run in found.values() if run is not None and run.info.lifecycle_stage == "active"]:
        _take(client, file, sweeps, active)


@contextmanager
def _turn(path: Path, *, patient: bool) -> Iterator[bool]:
    """Whether it is this reader's turn to bring the copy up to date: one does at a time."""
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        descriptor = os.open(path.with_suffix(".lock"), os.O_CREAT | os.O_RDWR, 0o600)
    except OSError as error:
        raise StoreError(
            f"no copy of MLflow can be kept in {path.parent}: {error.strerror}",
            "name another folder with EDGESWEEP_STATE",
        ) from error
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | (0 if patient else fcntl.LOCK_NB))
        except BlockingIOError:
            yield False
            return
        yield True
    finally:
        os.close(descriptor)


def _unheard(_: int) -> None:
    """Nobody asked to be told."""
