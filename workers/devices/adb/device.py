"""An Android phone at the adb server of this host. All our files on it are in `/data/local/tmp/edgesweep/`."""

import secrets
import time
from collections.abc import Sequence
from pathlib import Path

from sweeps.device_facts import DeviceFacts
from sweeps.errors import DeviceError, in_one_line
from workers.devices.adb.attempt import BOOT_ID, KEPT_SHELL, Attempt
from workers.devices.adb.files import AdbFiles
from workers.devices.adb.host import AdbHost
from workers.devices.adb.kept_shell import KeptShell
from workers.devices.adb.orphans import end_orphans
from workers.devices.adb.phone_connection import FOLDER, PhoneConnection
from workers.devices.adb.phone_lock import PhoneLock
from workers.devices.adb.questions import ask_facts, ask_sensors
from workers.devices.adb.wire import Deadline, DeadlineError
from workers.devices.interface import Completed, Sensors, program_name
from workers.devices.shell import outcome_text, quoted


class AdbDevice:
    """One phone, by its serial number in adb. A network phone is `ADDRESS:PORT`; if it is lost, it is reconnected.

    All methods raise `DeviceError` with the serial number in its message. The kind is `offline`, `unauthorized`,
    `no_permissions`, `ambiguous_serial`, `disconnected`, `unresponsive` or `rebooted` for a problem of the phone,
    `adb_server` or `adb_version` for one of this host, `timeout` if a program or a file takes too long,
    `no_exit_code` if it is not known how a program ended, or one that `Device` documents.
    """

    def __init__(
        self,
        folder: Path,
        name: str,
        host: AdbHost | None = None,
        *,
        answer_s: float = 30.0,
        backoff_s: Sequence[float] = (0.2, 1.0, 3.0),
    ) -> None:
        """`folder` is not used: a phone needs no files on this host. `answer_s` is the deadline of everything but
        programs; `backoff_s` are the pauses before each attempt to reconnect a network phone."""
        self.serial = name
        host = host or AdbHost()
        self._port = host.port
        self._link = PhoneConnection(name, host, answer_s=answer_s, backoff_s=backoff_s)
        self._files = AdbFiles(self._link)
        self._kept = KeptShell(self._link, KEPT_SHELL)
        self._boot_id = ""
        self._facts: DeviceFacts | None = None
        self._lease: PhoneLock | None = None
        self._series = secrets.token_hex(8)
        self._attempts = 0
        self._unfinished: Attempt | None = None
        """An attempt that was started and may still run."""

    def facts(self) -> DeviceFacts:
        """Read once per boot of the phone: again after `run` has detected a reboot."""
        if self._facts is None:
            try:
                self._facts = self._read_facts()
            except DeviceError:
                raise
            except Exception as error:  # any error: one phone must not stop the others
                raise DeviceError(
                    "worker_error",
                    f"adb:{self.serial}: the facts that it reports cannot be read: {in_one_line(error)}",
                    "remove it from the sweep",
                ) from error
        return self._facts

    def run(self, argv: Sequence[str], deadline_s: float) -> Completed:
        """A lost connection loses no result: it is kept on the phone, and collected after reconnecting.

        Raises `too_much_output` beyond `OUTPUT_LIMIT_BYTES` of stdout. Of stderr, the last MiB is kept.
        """
        attempt = Attempt(self._link, self._series, self._attempts + 1, quoted(argv), _shown(argv))
        self._attempts += 1
        self._link.ensure_contact()
        self._end_leftover()
        self._unfinished = attempt
        try:
            report = attempt.run(Deadline(deadline_s), self._kept if self._lease is not None else None)
        except DeadlineError as error:
            words = self._end_leftover(fails=False)
            raise DeviceError(
                "timeout",
                f"adb:{self.serial}: {_shown(argv)} ran longer than {deadline_s:.0f} s and "
                + ("it is not known whether it ended" if words is None else "was killed")
                + (f"; its last output: {words}" if words else ""),
                "reconnect the phone: the program is killed before anything else is started" if words is None else "",
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
        self._unfinished = None
        self._same_boot(report.boot_id, argv)
        return report.completed

    def push(self, source: Path, name: str, *, sha256: str | None = None) -> str:
        """`sha256`: the file's hash in lower-case hex, if the caller knows it. The pushed file is verified with it."""
        return self._files.push(source, name, sha256)

    def pull(self, path: str, target: Path, most_bytes: int) -> None:
        self._files.pull(path, target, most_bytes)

    def remove(self, path: str) -> None:
        self._files.remove(path)

    def sensors(self, *, load: bool = True) -> Sensors:
        """The present values. Measuring the load of other programs takes 0.2 s; without `load` it is `None`.

        First kills a program of ours whose connection was lost, so that it does not count as another benchmark.
        """
        self._end_leftover()
        return ask_sensors(self._link, load=load)

    def now_s(self) -> float:
        # Not the phone's clock, which the runners use: it restarts with each boot, cannot be read while the phone is
        # away, and reading it costs a round trip.
        return time.monotonic()

    def rest(self, seconds: float) -> None:
        time.sleep(seconds)

    def set_fixed_performance(self, on: bool) -> bool:
        done = self._link.shell(f"cmd power set-fixed-performance-mode-enabled {'true' if on else 'false'}")
        words = (done.stdout + done.stderr).lower()
        # The service did not answer, so whether the phone has the mode is not known.
        if b"failure calling service" in words:
            raise DeviceError(
                "os_error", f"adb:{self.serial}: the fixed-performance mode was not switched{outcome_text(done)}"
            )
        # Before Android 11, or without the service. If the phone's Power HAL lacks the mode, or its maker forbids it to
        # the shell, the message differs between phones, but the exit code is never 0.
        unknown = any(one in words for one in (b"unknown command", b"can't find service", b"not found"))
        return done.exit_code == 0 and not unknown

    def boot_id(self) -> str:
        """It changes with each boot of the phone; empty if the phone does not report it."""
        return self._link.shell(f"cat {BOOT_ID}").stdout.decode("ascii", "replace").strip()

    def take_lock(self) -> None:
        """Lock the phone, over USB and network, against other processes of this host, and the adb server against its
        restart. The locks last until `release()` or the end of this process, however it ends.

        No program on the phone is killed: another host may measure on it. Raises `DeviceError("leased", ...)` at once
        if another process of this host has the lease.
        """
        if self._lease is None:
            self._lease = PhoneLock(self.serial, self.facts().device_id, self._port)

    def release(self) -> None:
        # If an error of one phone ends the run, a program may still run on the others.
        self._end_leftover(fails=False)
        self._kept.end()
        if self._lease is not None:
            self._lease.release()
            self._lease = None

    def end_orphans(self) -> tuple[str, ...]:
        """Kill our programs that an earlier driver left running, and delete their reports; returns a line for each.

        Only while holding the phone's lease, and before starting a program. Raises `DeviceError("orphan", ...)` if one
        does not end.
        """
        self._kept.end()
        return end_orphans(self._link)

    def clean(self) -> None:
        """Delete all files of EdgeSweep on the phone, while holding its lease.

        Raises `DeviceError("leased", ...)` if another process of this host has it.
        """
        held = self._lease is not None
        self.take_lock()
        try:
            self._link.checked(f"rm -rf -- {FOLDER}")
        finally:
            if not held:
                self.release()

    def _read_facts(self) -> DeviceFacts:
        facts, boot_id = ask_facts(self._link)
        self._boot_id = self._boot_id or boot_id
        return facts

    def _same_boot(self, boot_id: str, argv: Sequence[str]) -> None:
        before, self._boot_id = self._boot_id, boot_id
        if before and self._boot_id != before:
            self._facts = None
            raise DeviceError("rebooted", f"adb:{self.serial} rebooted: the result of {_shown(argv)} is not comparable")

    def _end_leftover(self, *, fails: bool = True) -> str | None:
        """Kill the attempt that may still run; returns the end of its output. If that fails, raises `DeviceError`, or
        returns `None` without `fails`."""
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


def _shown(argv: Sequence[str]) -> str:
    return program_name(argv)[:100]
