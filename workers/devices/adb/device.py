"""An Android phone behind the adb server of this host. All its files lie under `/data/local/tmp/edgesweep/`."""

import secrets
import time
from collections.abc import Sequence
from pathlib import Path, PurePosixPath

from sweeps.device_facts import DeviceFacts
from sweeps.errors import DeviceError, in_one_line
from workers.devices.adb.attempt import BOOT_ID, Attempt
from workers.devices.adb.files import AdbFiles
from workers.devices.adb.host import AdbHost
from workers.devices.adb.lease import HeldError, Hold
from workers.devices.adb.link import FOLDER, AdbLink, quoted, told
from workers.devices.adb.orphans import end_orphans
from workers.devices.adb.questions import ask_facts, ask_sensors
from workers.devices.adb.wire import Deadline, DeadlineError
from workers.devices.interface import Completed, Sensors


class AdbDevice:
    """One phone, by adb's serial number of it; of the network, it is `ADDRESS:PORT`, reached again where it is lost.

    All methods raise `DeviceError` with the serial number in its message. Its kind is `offline`, `unauthorized`,
    `no_permissions`, `ambiguous_serial`, `disconnected`, `unresponsive` or `rebooted` where the phone is to be looked
    after, `adb_server` or `adb_version` where this host is, `timeout` where a program or a file took too long,
    `no_exit_code` where a program's end is not known, and what `Device` says.
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
        """`folder` is not used: nothing of a phone is kept here. `answer_s` is the deadline of everything but programs;
        `backoff_s` are the pauses before each try to reach a phone of the network again."""
        self.serial = name
        self._link = AdbLink(name, host or AdbHost(), answer_s=answer_s, backoff_s=backoff_s)
        self._files = AdbFiles(self._link)
        self._boot_id = ""
        self._facts: DeviceFacts | None = None
        self._lease: Hold | None = None
        self._series = secrets.token_hex(8)
        self._attempts = 0
        self._unended: Attempt | None = None
        """What was started, and is not known to have ended."""

    def facts(self) -> DeviceFacts:
        """Asked once per boot of the phone: what `run` finds started anew is asked again."""
        if self._facts is None:
            try:
                self._facts = self._read_facts()
            except DeviceError:
                raise
            except Exception as error:  # of any kind: what one phone says must not end the others
                raise DeviceError(
                    "worker_error",
                    f"adb:{self.serial}: what it says of itself cannot be read: {in_one_line(error)}",
                    "take it out of the sweep",
                ) from error
        return self._facts

    def run(self, argv: Sequence[str], deadline_s: float) -> Completed:
        """A connection that breaks meanwhile costs no result: it waits on the phone, and is collected from there.

        Raises `too_much_output` beyond `OUTPUT_LIMIT_BYTES` of stdout; of stderr, the last MiB is kept.
        """
        attempt = Attempt(self._link, self._series, self._attempts + 1, quoted(argv), _shown(argv))
        self._attempts += 1
        self._link.meet()
        self._end_leftover()
        self._unended = attempt
        try:
            report = attempt.run(Deadline(deadline_s))
        except DeadlineError as error:
            words = self._end_leftover(fails=False)
            raise DeviceError(
                "timeout",
                f"adb:{self.serial}: {_shown(argv)} ran longer than {deadline_s:.0f} s and "
                + ("it is not known whether it ended" if words is None else "was ended")
                + (f"; it last said: {words}" if words else ""),
                "reach the phone again: what still runs is ended before anything else is started"
                if words is None
                else "",
            ) from error
        except DeviceError as error:
            if error.kind == "rebooted":
                # This is the one run that it costs: the next is compared with the boot that is now.
                self._boot_id, self._facts = "", None
            raise
        except BaseException:
            # Ctrl-C: nothing that was started here goes on.
            self._end_leftover(fails=False)
            raise
        self._unended = None
        self._same_boot(report.boot_id, argv)
        return report.completed

    def push(self, source: Path, name: str, *, sha256: str | None = None) -> str:
        """`sha256`: of the file, in lower-case hex, where the caller knows it; what arrives is checked against it."""
        return self._files.push(source, name, sha256)

    def pull(self, path: str, target: Path) -> None:
        self._files.pull(path, target)

    def remove(self, path: str) -> None:
        self._files.remove(path)

    def sensors(self, *, load: bool = True) -> Sensors:
        """`load` of others takes a look of 0.2 s; without it, it is `None`.

        A program of ours that was lost with its connection is ended first: it is no benchmark of others.
        """
        self._end_leftover()
        return ask_sensors(self._link, load=load)

    def now_s(self) -> float:
        # Not the phone's clock: that begins anew with each boot, cannot be asked while the phone is away, and costs
        # an exchange. Runners time themselves with it.
        return time.monotonic()

    def rest(self, seconds: float) -> None:
        time.sleep(seconds)

    def set_fixed_performance(self, on: bool) -> bool:
        done = self._link.shell(f"cmd power set-fixed-performance-mode-enabled {'true' if on else 'false'}")
        words = (done.stdout + done.stderr).lower()
        # The service did not answer, which says nothing of the mode.
        if b"failure calling service" in words:
            raise DeviceError("os_error", f"adb:{self.serial}: the fixed-performance mode was not switched{told(done)}")
        # Before Android 11, or without the service. Where the phone's Power HAL lacks the mode, or its maker keeps it
        # from the shell, each phone has words of its own, but none of them ends well.
        unknown = any(one in words for one in (b"unknown command", b"can't find service", b"not found"))
        return done.exit_code == 0 and not unknown

    def boot_id(self) -> str:
        """Another one after each start of the phone; empty where the phone does not tell."""
        return self._link.shell(f"cat {BOOT_ID}").stdout.decode("ascii", "replace").strip()

    def take_lease(self) -> None:
        """Let no other process of this host measure on this phone, whatever way it reaches it. Until `release()`, or
        the end of this process, however that comes.

        Nothing is ended on the phone: another host may measure on it. Raises `DeviceError("leased", ...)` at once where
        another process of this one does.
        """
        if self._lease is not None:
            return
        try:
            self._lease = Hold(f"phone {self.facts().device_id}")
        except HeldError as error:
            process = f" (process {error.process})" if error.process else ""
            raise DeviceError(
                "leased",
                f"adb:{self.serial} is being measured by another EdgeSweep{process}",
                "wait until that ends, or take this phone out of the sweep",
            ) from error

    def release(self) -> None:
        # Where one of several phones ends a run, the others may be in the middle of a program.
        self._end_leftover(fails=False)
        if self._lease is not None:
            self._lease.release()
            self._lease = None

    def end_orphans(self) -> tuple[str, ...]:
        """End the programs of ours that an earlier driver left behind, and forget their reports; returns them, one
        line each.

        For whoever holds the phone's lease and has started nothing on it. Raises `DeviceError("orphan", ...)` where
        one does not end.
        """
        return end_orphans(self._link)

    def clean(self) -> None:
        """Delete all files of EdgeSweep on the phone, with its lease held meanwhile.

        Raises `DeviceError("leased", ...)` where another process of this host measures on it.
        """
        held = self._lease is not None
        self.take_lease()
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
            raise DeviceError(
                "rebooted", f"adb:{self.serial} was started anew: what {_shown(argv)} gave is not comparable"
            )

    def _end_leftover(self, *, fails: bool = True) -> str | None:
        """Returns the last words of what was ended; `None` where it did not end, which is an error if `fails`."""
        attempt = self._unended
        if attempt is None:
            return ""
        try:
            words = attempt.end()
        except DeviceError:
            if fails:
                raise
            return None
        self._unended = None
        return words


def _shown(argv: Sequence[str]) -> str:
    return PurePosixPath(argv[0]).name[:100]
