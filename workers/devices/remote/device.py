"""A device that is reached through a shell on it: the common part of phones over adb and boards over ssh."""

import time
from abc import ABC, abstractmethod
from collections.abc import Sequence
from pathlib import Path

from sweeps.device_facts import DeviceFacts
from sweeps.errors import DeviceError, in_one_line
from workers.devices.interface import Completed, Sensors, program_name
from workers.devices.remote.attempt import RemoteAttempt
from workers.devices.remote.files import RemoteFiles
from workers.devices.remote.remote_shell import DeadlineError, RemoteShell
from workers.devices.shell import quoted


class RemoteDevice(ABC):
    """A `Device`. A subclass for a transport provides the shell, files, attempts and lock, and reads facts and
    sensors."""

    def __init__(self, remote: RemoteShell, files: RemoteFiles) -> None:
        self._remote = remote
        self._files = files
        self._boot_id = ""
        self._facts: DeviceFacts | None = None
        self._received = ""
        """The name of the attempt whose report was received last."""
        self._unfinished: RemoteAttempt | None = None
        """An attempt that was started and may still run."""

    def facts(self) -> DeviceFacts:
        """Return the device's facts, which are read once per boot: again after `run` has detected a reboot."""
        if self._facts is None:
            try:
                self._facts, boot_id = self._ask_facts()
            except DeviceError:
                raise
            except Exception as error:  # any error: one device must not stop the others
                raise DeviceError(
                    "worker_error",
                    f"{self._remote.name}: the facts that it reports cannot be read: {in_one_line(error)}",
                    "remove it from the sweep",
                ) from error
            self._boot_id = self._boot_id or boot_id
        return self._facts

    def run(self, argv: Sequence[str], deadline_s: float) -> Completed:
        """Run a program. A lost connection loses no result: the result is stored on the device, and collected after
        connecting again.

        Raises `too_much_output` beyond `OUTPUT_LIMIT_BYTES` of stdout. The last MiB of stderr is kept.
        """
        name, shown = self._remote.name, program_name(argv)[:100]
        script = quoted(argv)
        self._ensure_ready()
        self._end_leftover()
        attempt = self._unfinished = self._attempt(script, shown)
        try:
            report = attempt.run(deadline_s)
        except DeadlineError as error:
            words = self._end_leftover(fails=False)
            raise DeviceError(
                "timeout",
                f"{name}: {shown} ran longer than {deadline_s:.0f} s and "
                + ("it is not known whether it ended" if words is None else "was killed")
                + (f"; its last output: {words}" if words else ""),
                f"reach the {self._remote.noun} again: the program is killed before anything else is started"
                if words is None
                else "",
            ) from error
        except DeviceError as error:
            if error.kind == "rebooted":
                # Only this run fails: the next one is compared with the new boot.
                self._boot_id, self._facts = "", None
            raise
        except BaseException:
            # Ctrl-C: no program may continue.
            self._end_leftover(fails=False)
            raise
        self._unfinished, self._received = None, attempt.name
        boot_before, self._boot_id = self._boot_id, report.boot_id
        if boot_before and self._boot_id != boot_before:
            self._facts = None
            raise DeviceError("rebooted", f"{name} rebooted: the result of {shown} is not comparable")
        return report.completed

    def push(self, source: Path, name: str, *, sha256: str | None = None) -> str:
        """Push a file. `sha256`: the file's hash in lower-case hex, if the caller knows it. The pushed file is verified
        by its hash."""
        return self._files.push(source, name, sha256)

    def pull(self, path: str, target: Path, most_bytes: int) -> None:
        self._files.pull(path, target, most_bytes)

    def remove(self, path: str) -> None:
        self._files.remove(path)

    def sensors(self, *, load: bool = True) -> Sensors:
        """Return the present sensor values. Measuring the load of other programs takes 0.2 s; without `load` it is
        `None`.

        First kills a program of ours whose connection was lost, so that it does not count as another benchmark.
        """
        self._end_leftover()
        return self._ask_sensors(load=load)

    def now_s(self) -> float:
        # The device's own clock, which the runners use, is not read: it restarts with each boot, cannot be read while
        # the device is away, and reading it costs an exchange.
        return time.monotonic()

    def rest(self, seconds: float) -> None:
        time.sleep(seconds)

    def release(self) -> None:
        # If an error of one device ends the run, a program may still run on the others.
        self._end_leftover(fails=False)

    def clean(self) -> None:
        """Delete all files of EdgeSweep on the device, while holding its lock.

        Raises `DeviceError("leased", ...)` if another driver has the lock.
        """
        was_locked = self._is_locked()
        self.take_lock()
        try:
            self._remote.checked(f"rm -rf -- {quoted([str(self._remote.folder())])}")
        finally:
            if not was_locked:
                self.release()

    @abstractmethod
    def take_lock(self) -> None: ...

    @abstractmethod
    def _is_locked(self) -> bool:
        """Tell whether this driver has the lock."""

    @abstractmethod
    def _ask_facts(self) -> tuple[DeviceFacts, str]:
        """Return the facts and the boot id, which is empty if the device does not report it."""

    @abstractmethod
    def _ask_sensors(self, *, load: bool) -> Sensors: ...

    @abstractmethod
    def _attempt(self, script: str, shown: str) -> RemoteAttempt:
        """Return a new attempt; all earlier ones were received or ended."""

    def _ensure_ready(self) -> None:
        """Make the device ready for a program. Raises `DeviceError`."""
        self._remote.ensure_contact()

    def _end_leftover(self, *, fails: bool = True) -> str | None:
        """Kill the attempt that may still run. Return the end of its output. If that fails, raise `DeviceError`, or
        without `fails` return `None`."""
        attempt = self._unfinished
        if attempt is None:
            return ""
        try:
            words = attempt.end()
        except DeviceError:
            if fails:
                raise
            return None
        self._unfinished = None
        return words
