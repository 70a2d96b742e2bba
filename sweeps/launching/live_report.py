"""The live file: a file in the workspace that only the driver writes, with what it does now."""

import os
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from types import TracebackType
from typing import Literal, Self

from sweeps.errors import EdgeSweepError, StoreError
from sweeps.json_records import from_json, to_json
from sweeps.text import plain
from sweeps.whole_file import write_whole

WRITE_EVERY_S = 1.0
NOTES = 20
WAITS_S = 15.0

End = Literal["", "finished", "stopped", "failed"]


@dataclass(frozen=True, slots=True, kw_only=True)
class LiveDevice:
    """Work of one device. Its steps are blocks and accuracy passes."""

    name: str
    running: str = ""
    """Running job and its round, in words; empty while nothing runs."""
    job: str = ""
    """Key of the job that `running` names."""
    done: int = 0
    total: int = 0
    """Number of steps, as far as it is known; a race may end earlier."""
    began_s: float | None = None
    """Time when the first step began, in seconds since 1970."""
    waiting: tuple[str, ...] = ()
    """Conditions that the device lacks for its next step, in words."""
    waited_s: float = 0.0
    waiting_at_s: float = 0.0
    """Time of the last report of these conditions, in seconds since 1970; the driver reports them every 10 s while the
    device waits."""
    away: str = ""
    """Reason why the device is away for the rest of this run; empty if it is not away."""
    away_at_s: float = 0.0
    """Time when the device's absence was noticed, in seconds since 1970."""
    pending: int = 0
    """Number of jobs that wait for the device, if it is away."""

    def lacks(self, now_s: float) -> tuple[str, ...]:
        """Return the conditions that the device waits for now; empty if their last report is 15 s old."""
        return self.waiting if now_s - self.waiting_at_s < WAITS_S else ()

    def seconds_left(self, now_s: float) -> float | None:
        """Return the seconds that are left at the device's pace so far; `None` before its first step has ended, after
        its last one, or while it is away."""
        if self.began_s is None or not self.done or self.total <= self.done or self.away:
            return None
        return (now_s - self.began_s) / self.done * (self.total - self.done)


@dataclass(frozen=True, slots=True, kw_only=True)
class Note:
    """Event of the run, in words."""

    at_s: float
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Live:
    """State of one run of one sweep. Times are in seconds since 1970."""

    sweep: str
    pid: int
    started_s: float
    file: str = ""
    """Path of the sweep file; empty if it is not known."""
    step: str = "planning"
    """Current work of the whole run, in words; empty while the run builds or measures."""
    builds_done: int = 0
    builds_total: int = 0
    building: tuple[str, ...] = ()
    devices: tuple[LiveDevice, ...] = ()
    notes: tuple[Note, ...] = ()
    """Last events, the latest last."""
    stopping: bool = False
    """Whether the run was asked to end after the running work, from a terminal or the browser."""
    ended: End = ""
    """How the run ended; empty while it runs, and also after it was killed."""
    problem: str = ""
    """Reason why the run failed."""
    next_step: str = ""

    @property
    def away_devices(self) -> tuple[LiveDevice, ...]:
        """The devices that were away when the driver last looked for them."""
        return tuple(device for device in self.devices if device.away)

    def device(self, name: str) -> LiveDevice:
        return next((device for device in self.devices if device.name == name), LiveDevice(name=name))


def read_live(path: Path) -> Live | None:
    """Return the run's state from a live file; `None` if there is no file, or none that this EdgeSweep can read."""
    try:
        return from_json(Live, path.read_text(encoding="utf-8"))
    except (OSError, ValueError, StoreError):
        return None


class LiveFile:
    """Live file of one run, open in a `with` block. It is written at most once a second, and always at the end.

    A live file that cannot be written stops no measurement.
    """

    def __init__(
        self, path: Path, sweep: str, now_s: Callable[[], float] = time.time, *, file: Path | None = None
    ) -> None:
        self._path = path
        self._now_s = now_s
        self._lock = threading.Lock()
        self._later: threading.Timer | None = None
        self._stopping = False
        self._written_s = float("-inf")
        self.live = Live(
            sweep=sweep, pid=os.getpid(), started_s=now_s(), file="" if file is None else str(file.resolve())
        )

    def __enter__(self) -> Self:
        self._write()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None) -> None:
        if error is None:
            self.end("finished")
        elif isinstance(error, EdgeSweepError):
            self.end("failed", error.message, error.next_step)
        elif isinstance(error, KeyboardInterrupt | SystemExit):
            self.end("stopped")
        else:
            self.end("failed", f"{type(error).__name__}: {error}"[:500], "this is a bug in EdgeSweep: please report it")

    def end(self, how: End, problem: str = "", next_step: str = "") -> None:
        """Record the end of the run. Only the first call counts."""
        with self._lock:
            if self._later is not None:
                self._later.cancel()
            if not self.live.ended:
                devices = tuple(replace(device, running="", job="", waiting=()) for device in self.live.devices)
                self.live = replace(
                    self.live, ended=how, problem=problem, next_step=next_step, step="", building=(), devices=devices
                )
            self._write()

    def step(self, text: str) -> None:
        self._change(replace(self.live, step=text))

    def builds(self, done: int, total: int, running: tuple[str, ...]) -> None:
        self._change(replace(self.live, step="", builds_done=done, builds_total=total, building=running))

    def measuring(self, device: str, done: int, total: int, running: str, job: str = "") -> None:
        """Record a step of a device. `job`: the key of the job that `running` names."""
        known = self.live.device(device)
        goes_on = known.began_s is not None and done >= known.done
        began_s = known.began_s if goes_on else (self._now_s() if running else None)
        known = replace(known, running=running, job=job, waiting=(), away="")
        self._put(replace(known, done=done, total=total, began_s=began_s))

    def waiting(self, device: str, lacking: tuple[str, ...], waited_s: float) -> None:
        known = self.live.device(device)
        self._put(replace(known, waiting=lacking, waited_s=waited_s, waiting_at_s=self._now_s()))

    def away(self, device: str, reason: str, pending: int) -> None:
        known = self.live.device(device)
        since_s = known.away_at_s if known.away else self._now_s()
        self._put(replace(known, running="", job="", waiting=(), away=reason, away_at_s=since_s, pending=pending))

    def stopping(self) -> None:
        """Record, from any thread, that the run was asked to end after the running work."""
        self._stopping = True
        self._change(None)

    def note(self, text: str) -> None:
        notes = (*self.live.notes, Note(at_s=self._now_s(), text=plain(text)[:2000]))
        self._change(replace(self.live, notes=notes[-NOTES:]))

    def _put(self, device: LiveDevice) -> None:
        devices = [device if known.name == device.name else known for known in self.live.devices]
        devices += [] if device in devices else [device]
        self._change(replace(self.live, step="", devices=tuple(devices)))

    def _change(self, live: Live | None) -> None:
        """Store the new state, and write it now or within a second. `None`: only `_stopping` has changed, perhaps in
        another thread."""
        with self._lock:
            self.live = replace(live or self.live, stopping=self._stopping)
            if self._later is not None:
                return
            left_s = self._written_s + WRITE_EVERY_S - time.monotonic()
            if left_s <= 0:
                self._write()
                return
            self._later = threading.Timer(left_s, self._write_later)
            self._later.daemon = True
            self._later.start()

    def _write_later(self) -> None:
        with self._lock:
            self._later = None
            if not self.live.ended:
                self._write()

    def _write(self) -> None:
        self._written_s = time.monotonic()
        with suppress(OSError, StoreError):
            write_whole(self._path, to_json(self.live))
