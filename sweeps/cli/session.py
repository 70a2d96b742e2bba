"""Shared by the commands that build or measure: the executor, Ctrl-C, and a message for each event."""

import os
import signal
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from queue import SimpleQueue
from types import FrameType
from typing import assert_never

from sweeps.launching.live import LiveFile
from sweeps.planning.plan import Plan
from sweeps.report.progress import RunProgress
from sweeps.workspace import Workspace
from workers.devices.interface import Rung
from workers.driver import events
from workers.driver.events import Event
from workers.driver.recovery import has_devices
from workers.executors.inline import InlineExecutor
from workers.executors.interface import Executor
from workers.executors.loopback import keep_to_this_machine
from workers.hosts.executor import LabExecutor
from workers.hosts.lab import Lab

_LAST_WORD_SECONDS = 1.0
"""A blocked terminal must not delay the end."""

_TOGETHER = ("Building", "Measuring on ")
"""Titles of bars that are shown at the same time: phones measure while the rest is built."""

_Noted = (
    events.AttemptFailed
    | events.Waiting
    | events.Back
    | events.Left
    | events.DeviceChanged
    | events.Away
    | events.Recovering
    | events.Quarantined
    | events.Readmitted
    | events.MeasuredAlone
    | events.TrackingDown
)

_RUNGS: Mapping[Rung, str] = {
    "ask": "asking its shell",
    "reconnect": "connecting to it again",
    "restart_adb": "restarting the adb server of its host",
    "reboot": "restarting it",
}


@contextmanager
def open_executor(name: str, workspace: Workspace, planned: Plan, lab: Lab | None = None) -> Iterator[Executor]:
    """`lab`: its hosts measure, whatever `name` says."""
    executor: Executor
    if lab is not None:
        executor = LabExecutor(lab, workspace.root)
    elif name == "inline":
        executor = InlineExecutor(workspace.root)
    else:
        keep_to_this_machine()
        from workers.executors.ray import RayExecutor  # takes over a second, and inline does not need Ray

        executor = RayExecutor(workspace.root, [facts.device_id for facts in planned.devices])
    try:
        yield executor
    finally:
        executor.close()


class CtrlC:
    """A context manager: the first Ctrl-C requests an orderly end, the second one stops at once. A terminal that closes
    requests an orderly end, too.

    A thread prints the message. The signal handler cannot, because it may interrupt another write. The work cannot
    either, because it may take minutes until it checks for the request. `asked` is called by it, too.
    """

    def __init__(self, note: Callable[[str], None], asked: Callable[[], None] = lambda: None) -> None:
        self._note = note
        self._tell_asked = asked
        self._asked = False
        self._told: SimpleQueue[str | None] = SimpleQueue()  # its `put` is reentrant

    def __enter__(self) -> Callable[[], bool]:
        self._teller = threading.Thread(target=self._tell, daemon=True)
        self._teller.start()
        self._terminals = [descriptor for descriptor in (1, 2) if os.isatty(descriptor)]
        self._before = {number: signal.signal(number, self._handle) for number in _asking()}
        return lambda: self._asked

    def __exit__(self, *_: object) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)
        self._told.put(None)
        self._teller.join(_LAST_WORD_SECONDS)

    def _handle(self, number: int, frame: FrameType | None) -> None:
        if number == signal.SIGHUP:
            self._leave_terminal()
            if self._asked:
                return  # kernel and shell each tell of the same terminal
        if self._asked:
            raise KeyboardInterrupt
        self._asked = True
        self._told.put("stopping after the running work; press Ctrl-C again to stop at once")

    def _leave_terminal(self) -> None:
        """Nothing can be written to a terminal that was closed, and the work is to end in order."""
        nowhere = os.open(os.devnull, os.O_WRONLY)
        for descriptor in self._terminals:
            os.dup2(nowhere, descriptor)
        os.close(nowhere)
        self._terminals = []

    def _tell(self) -> None:
        for message in iter(self._told.get, None):
            self._tell_asked()
            self._note(message)


def _asking() -> list[signal.Signals]:
    """The signals that ask for an end: Ctrl-C, `kill`, and a terminal that closes, unless `nohup` is in force."""
    hangup = [signal.SIGHUP] if signal.getsignal(signal.SIGHUP) is not signal.SIG_IGN else []
    return [signal.SIGINT, signal.SIGTERM, *hangup]


def show(event: Event, progress: RunProgress, live: LiveFile | None = None) -> None:
    """`live`: the file for whoever looks from elsewhere."""
    match event:
        case events.Preparing(model):
            progress.preparing(model, None)
        case events.Building(done, total, running):
            progress.step("Building", done, total, ", ".join(running), beside=_TOGETHER)
            if done == total:
                progress.end("Building")
        case events.Measuring(device, done, total, running):
            progress.step(f"Measuring on {device}", done, total, running, beside=_TOGETHER)
        case events.Published(done, total):
            progress.step("Publishing to MLflow", done, total, "")
        case _:
            progress.note(in_words(event))
    if live is not None:
        _keep(event, live)


def in_words(event: _Noted) -> str:
    match event:
        case events.AttemptFailed(name, failed, final):
            again = "" if final else "; trying again"
            return f"{name}: {failed.stage} failed ({failed.kind}): {failed.message}{again}"
        case events.Waiting(device, lacking, waited):
            return f"waiting for {device} ({waited:.0f} s): {'; '.join(lacking)}"
        case events.Back(device, host, seconds):
            return f"back after {seconds:.0f} s without {host}: {device} answers again"
        case events.Left(name, settled):
            return f"{name}: {settled.message}"
        case events.DeviceChanged(device):
            return f"{device} changed its speed: the sentinel's latency moved by more than 5 %"
        case events.Away(device, failed, pending):
            return f"{device} is away ({failed.kind}): {failed.message}; {pending} of its jobs wait for the next run"
        case events.Recovering(device, rung, refused):
            return f"{device}: {_RUNGS[rung]}" + (f" was not possible: {refused}" if refused else "")
        case events.Quarantined(device, quarantine):
            return f"{device} is quarantined: {quarantine.reason}; {quarantine.way_out}"
        case events.Readmitted(device, _):
            return f"{device} is in quarantine no more: its canary job succeeded"
        case events.MeasuredAlone(names, failed):
            which = names[0] if len(names) == 1 else f"{len(names)} builds"
            return f"{which}: measured in processes of their own only ({failed.kind}): {failed.message}"
        case events.TrackingDown(message):
            return f"MLflow does not take results now; the journal keeps them: {message}"
        case never:
            assert_never(never)


def _keep(event: Event, live: LiveFile) -> None:
    match event:
        case events.Preparing(model):
            live.step(f"preparing {model}")
        case events.Building(done, total, running):
            live.builds(done, total, running)
        case events.Measuring(device, done, total, running):
            live.measuring(device, done, total, running)
        case events.Published(done, total):
            live.step(f"publishing to MLflow: {done} of {total}")
        case events.Waiting(device, lacking, waited) if not has_devices(device):
            live.waiting(device, lacking, waited)
        case events.Away(device, failed, pending):
            live.away(device, failed.message, pending)
            live.note(in_words(event))
        case _:
            live.note(in_words(event))
