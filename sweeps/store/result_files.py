"""Where results are read: in the workspace's own journal, or in a copy of what other workspaces have published.

A sweep that the workspace has is always read from its journal. The copy is in the user's state folder, one for each
server (`sweeps.store.server_copy`).
"""

import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import asdict, dataclass
from pathlib import Path

from sweeps.errors import StoreError
from sweeps.locks import LockedError, locked
from sweeps.store.owner import own_marks
from sweeps.store.server_copy import CopyState, LeftOut, ServerCopy
from sweeps.store.snapshot_download import THROUGH_SERVER
from sweeps.store.uri import redact
from sweeps.workspace import Workspace

LOOK_S = 5.0
"""A reader that does not wait lets a server be asked at most once in so long."""
SHARE = 20
"""A look comes no more often than this many times what the last one took."""
RETRY_S = 30.0
"""Until readers that do not wait ask a server again that was away."""
THREAD = "edgesweep-copy"
ELSEWHERE = f"results of other workspaces, which are on other computers' disks; to read them, {THROUGH_SERVER}"
_NAMED = 3
"""People are told the reasons of so many snapshots that were left out; programs, of all."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ResultFiles:
    """The files that readers of results open: a journal, or a copy, which is read as one; and how old the copy is."""

    journal: Path
    verdicts: Path
    server: str = ""
    """The tracking server that was copied, without secrets; empty for the workspace's own journal."""
    age_s: float = 0.0
    """Since the server was asked last."""
    complete: bool = True
    """The server was read to its end once; until then, results are missing."""
    left_out: tuple[LeftOut, ...] = ()
    """The snapshots of sweeps that cannot be read."""
    error: str = ""
    """The reason why the server could not be asked, with what to do; empty if it was."""
    of_others: frozenset[str] = frozenset()
    """The sweeps that other workspaces have published there."""
    elsewhere: frozenset[str] = frozenset()
    """The sweeps of other workspaces whose results are on other computers' disks."""

    @property
    def is_copy(self) -> bool:
        return bool(self.server)

    @property
    def text(self) -> str:
        """For people; empty for the workspace's own journal."""
        if not self.is_copy:
            return ""
        when = f"copied from MLflow at {self.server} {in_words(self.age_s)} ago"
        words = [when if self.complete else f"not copied yet from MLflow at {self.server}"]
        words += [_left_out_text(self.left_out)] if self.left_out else []
        words += [f"{', '.join(sorted(self.elsewhere))}: {ELSEWHERE}"] if self.elsewhere else []
        words += [self.error] if self.error else []
        return "; ".join(words)

    def document(self) -> dict[str, object]:
        """A part of `edgesweep rank --json`."""
        names = ("server", "age_s", "complete", "error")
        return {
            **{name: getattr(self, name) for name in names},
            "left_out": [asdict(snapshot) for snapshot in self.left_out],
            "elsewhere": sorted(self.elsewhere),
        }


def _left_out_text(snapshots: Sequence[LeftOut]) -> str:
    reasons = [f"{snapshot.sweep:.100}: {snapshot.reason} ({snapshot.next_step})" for snapshot in snapshots[:_NAMED]]
    more = [f"{len(snapshots) - _NAMED} more"] if len(snapshots) > _NAMED else []
    count = "1 snapshot was" if len(snapshots) == 1 else f"{len(snapshots)} snapshots were"
    return f"{count} left out: {', '.join(reasons + more)}"


def own_files(workspace: Workspace) -> ResultFiles:
    return ResultFiles(journal=workspace.journal, verdicts=workspace.verdicts)


def copied_files(
    workspace: Workspace, *, wait: bool = True, each: Callable[[int], object] | None = None
) -> ResultFiles:
    """The copy of the workspace's tracking server. Without `wait`, a copy that exists is returned as it is, and brought
    up to date meanwhile. `each` is called with how many results were read of a snapshot, and with 0 before the first.

    Raises `StoreError` if there is no copy and the server cannot be read.
    """
    copy = ServerCopy(workspace.tracking_uri)
    each = each or (lambda _: None)
    if wait or not copy.results.exists():
        try:
            _bring_up_to_date(copy, patient=not copy.is_complete, each=each)
        except StoreError:
            if not copy.is_complete:
                raise
    elif _is_due(copy.state()):
        threading.Thread(target=_beside, args=(copy,), name=THREAD, daemon=True).start()
    return _files(workspace, copy)


def in_words(age_s: float) -> str:
    for unit, length_s in (("days", 86400), ("hours", 3600), ("minutes", 60)):
        if age_s >= 2 * length_s:
            return f"{age_s / length_s:.0f} {unit}"
    return f"{age_s:.0f} seconds"


def _files(workspace: Workspace, copy: ServerCopy) -> ResultFiles:
    uri, state = workspace.tracking_uri, copy.state()
    return ResultFiles(
        journal=copy.results,
        verdicts=copy.verdicts,
        server=redact(uri, uri),
        age_s=round(max(0.0, time.time() - state.asked_s), 1) if state.asked_s else 0.0,
        complete=copy.is_complete,
        left_out=state.left_out,
        error=state.error,
        of_others=state.sweeps_of_others(own_marks(workspace)),
        elsewhere=state.elsewhere_of_others(own_marks(workspace)),
    )


def _beside(copy: ServerCopy) -> None:
    with suppress(StoreError):  # the state has it
        _bring_up_to_date(copy, patient=False, each=lambda _: None)


def _is_due(state: CopyState) -> bool:
    now_s = time.time()
    if state.error and 0 <= now_s - state.tried_s < RETRY_S:
        return False
    return not 0 <= now_s - state.asked_s < max(LOOK_S, SHARE * state.took_s)  # a clock may have gone back


def _bring_up_to_date(copy: ServerCopy, *, patient: bool, each: Callable[[int], object]) -> None:
    """Unless another process does; `patient`: wait for it. Raises `StoreError`."""
    with _turn(copy.folder, patient=patient) as is_turn:
        if is_turn and not (patient and copy.is_complete):  # another process has made it meanwhile
            copy.bring_up_to_date(each)


@contextmanager
def _turn(folder: Path, *, patient: bool) -> Iterator[bool]:
    """Tell whether it is this reader's turn to bring the copy up to date: only one reader at a time does."""
    with ExitStack() as stack:
        try:
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            stack.enter_context(locked(folder / "lock", wait_s=None if patient else 0.0, mode=0o600))
            is_turn = True
        except LockedError:
            is_turn = False
        except OSError as error:
            raise StoreError(
                f"no copy of MLflow can be kept in {folder.parent}: {error.strerror}",
                "name another folder with EDGESWEEP_STATE",
            ) from error
        yield is_turn
