"""The driver of a workspace: it is found by the lock that it holds, and stopped by the signal of Ctrl-C."""

import os
import signal
import threading
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from sweeps.errors import WorkspaceError
from sweeps.launching.live_report import Live, read_live
from sweeps.launching.record import Launch, StartRequest, keep, last, lock_of
from sweeps.locks import owner
from sweeps.workspace import Workspace

_STOPPING = threading.Lock()
"""Lock that serializes requests to stop a driver, so that only one of several simultaneous requests is the first."""

State = Literal["idle", "starting", "running", "ending"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Driver:
    """Process that uses a workspace now, with the records of the last driver."""

    state: State
    pid: int | None
    """Id of the process that uses the workspace; 0 if its id is unknown, `None` if there is no such process."""
    launch: Launch | None
    """Last start from the browser."""
    live: Live | None
    """Report of the last driver about its run, started from a terminal or the browser."""
    end_request: StartRequest | None
    """Last request to end, if it was sent to this driver, or to the last one."""

    @property
    def launched(self) -> bool:
        """Tell whether the sweep that runs, or ran last, was started from the browser, and so can be started again
        there."""
        if self.launch is None:
            return False
        if self.pid is not None:
            return self.launch.pid == self.pid
        return self.live is None or self.live.pid == self.launch.pid or self.live.started_s < self.launch.started_s

    @property
    def is_asked(self) -> bool:
        """Tell whether the running driver was asked to end, from the browser or by Ctrl-C in its terminal."""
        stopping = self.live is not None and self.live.pid == self.pid and self.live.stopping
        return self.end_request is not None or stopping

    @property
    def current_report(self) -> Live | None:
        """The report of the driver that runs, or ran last, about its run; `None` if there is none yet."""
        pid = self.pid if self.pid is not None or not self.launched or self.launch is None else self.launch.pid
        return self.live if self.live is not None and pid in (None, self.live.pid) else None

    @property
    def sweep(self) -> str:
        """The name of the sweep that runs, or ran last; empty if it is not known."""
        if self.current_report is not None:
            return self.current_report.sweep
        return self.launch.sweep if self.launched and self.launch is not None else ""


def find(workspace: Workspace) -> Driver:
    """Return the driver of a workspace. It takes about 0.3 ms."""
    pid = workspace.holder()
    state: State = "running"
    launch, live, request = last(workspace, Launch), read_live(workspace.live), last(workspace, StartRequest)
    if pid is None and owner(lock_of(workspace)) is not None:
        pid = launch.pid if launch is not None else 0
        state = "ending" if live is not None and live.pid == pid and live.ended else "starting"
    of = pid if pid is not None else live.pid if live is not None else None
    is_of = request is not None and request.pid == of and request.at_s >= _begun_s(request.pid, launch, live)
    return Driver(
        state="idle" if pid is None else state,
        pid=pid,
        launch=launch,
        live=live,
        end_request=request if is_of else None,
    )


def _begun_s(pid: int, launch: Launch | None, live: Live | None) -> float:
    """Return the time when the last driver with this process id began, in seconds since 1970; 0.0 if it is not known.
    Process ids are reused, above all in containers."""
    if launch is not None and launch.pid == pid:
        return launch.started_s
    return live.started_s if live is not None and live.pid == pid else 0.0


def stop(workspace: Workspace, ask: StartRequest, at_once: bool = False) -> None:
    """Send the signal of Ctrl-C to the driver `ask.pid`: it ends after the running work. A second request, with
    `at_once`, ends the driver without finishing the running work. All accepted measurements are kept.

    Raises `WorkspaceError` if the process is not the driver of this workspace (any more), so that no other process gets
    a signal; also if the driver was asked before and `at_once` is false, because two people who pause a sweep must not
    end its running work.
    """
    if ask.pid <= 0:
        raise WorkspaceError(
            "the workspace is used by a process that this computer cannot name",
            "stop it on the computer, or in the container, where it was started",
        )
    no_driver = WorkspaceError(f"process {ask.pid} runs no sweep in this workspace now", "look at what runs now")
    try:
        process = os.pidfd_open(ask.pid)  # the descriptor names this process even if its id is reused later
    except OSError as error:
        raise no_driver from error
    try:
        with _STOPPING:
            if not _is_driver(workspace, ask.pid):
                raise no_driver
            if (before := find(workspace)).is_asked and not at_once:
                requester = before.end_request.by if before.end_request is not None else "whoever started it"
                raise WorkspaceError(
                    f"process {ask.pid} was asked to end by {requester} already, and does so after the running work",
                    "wait for it, or have it stopped at once",
                )
            signal.pidfd_send_signal(process, signal.SIGINT)
            with suppress(OSError):  # a full disk keeps nobody from stopping
                keep(workspace, ask)
    except OSError as error:
        raise WorkspaceError(
            f"process {ask.pid} cannot be stopped: {error.strerror}",
            "stop it as the user who started it",
        ) from error
    finally:
        os.close(process)


def _is_driver(workspace: Workspace, pid: int) -> bool:
    """Tell whether the process is the workspace's driver. Raises `OSError` if the process belongs to another user."""
    if workspace.holder() == pid:
        return _has_open(pid, workspace.driver_lock)
    launch = last(workspace, Launch)
    started = launch is not None and launch.pid == pid and owner(lock_of(workspace)) is not None
    return started and _has_open(pid, lock_of(workspace))


def _has_open(pid: int, file: Path) -> bool:
    file_status = file.stat()
    for entry in Path(f"/proc/{pid}/fd").iterdir():
        try:
            entry_status = entry.stat()
        except FileNotFoundError:  # the file was closed meanwhile
            continue
        if (entry_status.st_dev, entry_status.st_ino) == (file_status.st_dev, file_status.st_ino):
            return True
    return False
