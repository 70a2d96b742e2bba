"""A Linux board over ssh. All our files on it are in `.edgesweep/`, in the home of its user."""

import time
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from sweeps.device_facts import DeviceFacts
from sweeps.errors import DeviceError, in_one_line
from workers.devices.interface import Completed, Sensors, program_name
from workers.devices.shell import quoted
from workers.devices.ssh.address import parse
from workers.devices.ssh.attempt import Attempt, folder_of
from workers.devices.ssh.board_connection import BoardConnection
from workers.devices.ssh.board_lock import BoardLock
from workers.devices.ssh.connection import DeadlineError
from workers.devices.ssh.files import SshFiles
from workers.devices.ssh.orphans import end_orphans
from workers.devices.ssh.questions import ask_facts, ask_sensors


class SshDevice:
    """One board, by `USER@BOARD:PORT`. A lost connection is opened again; a program on the board goes on meanwhile.

    All methods raise `DeviceError` with the board's name in its message. The kind is `offline`, `unauthorized`,
    `unknown_host_key`, `changed_host_key`, `unresponsive`, `disconnected` or `rebooted` for a problem of the board,
    `timeout` if a program or a file takes too long, `no_exit_code` if it is not known how a program ended, or one that
    `Device` documents.
    """

    def __init__(
        self,
        folder: Path,
        name: str,
        *,
        answer_s: float = 30.0,
        backoff_s: Sequence[float] = (0.2, 1.0, 3.0, *(5.0,) * 12),
    ) -> None:
        """`folder` is not used: a board needs no files on this host. `answer_s` is the deadline of everything but
        programs and files; `backoff_s` are the pauses before each attempt to reach a board again that was lost while a
        program runs there: a minute in all."""
        self.name = f"ssh:{name}"
        self._link = BoardConnection(parse(name), answer_s=answer_s, backoff_s=backoff_s)
        self._files = SshFiles(self._link)
        self._lease = BoardLock(self._link)
        self._boot_id = ""
        self._facts: DeviceFacts | None = None
        self._received = ""
        """The attempt whose report was received last: the next one deletes its files."""
        self._unfinished: Attempt | None = None
        """An attempt that was started and may still run."""

    def facts(self) -> DeviceFacts:
        """Read once per boot of the board: again after `run` has detected a reboot."""
        if self._facts is None:
            try:
                self._facts = ask_facts(self._link)
                self._boot_id = self._boot_id or self._link.boot_id
            except DeviceError:
                raise
            except Exception as error:  # any error: one board must not stop the others
                raise DeviceError(
                    "worker_error",
                    f"{self.name}: the facts that it reports cannot be read: {in_one_line(error)}",
                    "remove it from the sweep",
                ) from error
        return self._facts

    def run(self, argv: Sequence[str], deadline_s: float) -> Completed:
        """A lost connection loses no result: it is kept on the board, and collected after connecting again.

        Raises `too_much_output` beyond `OUTPUT_LIMIT_BYTES` of stdout. Of stderr, the last MiB is kept.
        """
        shown = program_name(argv)[:100]
        script = quoted(argv)
        self._link.ensure_contact()
        self._lease.ensure()
        self._end_leftover()
        attempt = Attempt(self._link, self._lease, script, shown, self._received)
        self._unfinished = attempt
        try:
            report = attempt.run(deadline_s)
        except DeadlineError as error:
            words = self._end_leftover(fails=False)
            raise DeviceError(
                "timeout",
                f"{self.name}: {shown} ran longer than {deadline_s:.0f} s and "
                + ("it is not known whether it ended" if words is None else "was killed")
                + (f"; its last output: {words}" if words else ""),
                "reach the board again: the program is killed before anything else is started" if words is None else "",
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
        self._same_boot(report.boot_id, shown)
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
        # Not the board's clock: it restarts with each boot, and reading it costs an exchange.
        return time.monotonic()

    def rest(self, seconds: float) -> None:
        time.sleep(seconds)

    def set_fixed_performance(self, on: bool) -> bool:
        return False  # Linux has no such mode without root

    def boot_id(self) -> str:
        """It changes with each boot of the board; empty if the board does not report it."""
        self._link.ensure_contact()
        return self._link.boot_id

    def take_lock(self) -> None:
        """Lock the board against every other driver that measures on it, on whatever computer and as whatever user. The
        lock lasts until `release()`, the end of this process, or five minutes without a connection.

        Raises `DeviceError("leased", ...)` at once if another driver has the lease.
        """
        self._lease.take()

    def release(self) -> None:
        """Also closes the connection, which the next call opens again."""
        # If an error of one board ends the run, a program may still run on the others.
        self._end_leftover(fails=False)
        if self._received:
            with suppress(DeviceError):  # the next driver deletes it
                self._link.shell(f"rm -rf {folder_of(self._link.folder, self._received)}")
            self._received = ""
        self._lease.release()
        self._link.close()

    def end_orphans(self) -> tuple[str, ...]:
        """Kill our programs that an earlier driver left running, and delete their reports; returns a line for each.

        Only while holding the board's lease, and before starting a program. Raises `DeviceError("orphan", ...)` if one
        does not end. Programs of other users of the board are not ended: they are other benchmarks.
        """
        return end_orphans(self._link)

    def clean(self) -> None:
        """Delete all files of EdgeSweep on the board, while holding its lease.

        Raises `DeviceError("leased", ...)` if another driver has it.
        """
        self.take_lock()
        try:
            self._link.checked(f"rm -rf -- {quoted([str(self._link.folder)])}")
        finally:
            self.release()

    def _same_boot(self, boot_id: str, shown: str) -> None:
        before, self._boot_id = self._boot_id, boot_id
        if before and self._boot_id != before:
            self._facts = None
            raise DeviceError("rebooted", f"{self.name} rebooted: the result of {shown} is not comparable")

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
