"""One attempt to run a program on a board. Its report is kept there, so that a lost connection loses nothing."""

import re
import secrets
import time
from dataclasses import dataclass
from pathlib import PurePosixPath

from sweeps.errors import DeviceError
from workers.devices.interface import Completed
from workers.devices.shell import TAIL_BYTES, outcome_text, quoted
from workers.devices.ssh.board_connection import BOOT_ID, OUTPUT_LIMIT_BYTES, BoardConnection, no_space
from workers.devices.ssh.board_lock import BoardLock
from workers.devices.ssh.ending import MARK, kill, kill_marked
from workers.devices.ssh.streams import LostError

WORD = "edgesweep-attempt"
_STDERR_LIMIT_BYTES = 2**20
# Exit codes of our script without a report.
_NO_GROUP, _NO_FOLDER, _NOT_STARTED, _OTHER_BOOT, _NO_END = 91, 92, 93, 94, 95
# A shell's exit codes of programs that a signal ended: 128 + signal.
_SIGNALS = range(129, 129 + 64)
_QUIET_SIGNALS = frozenset({130, 141, 143})
"""Of these signals (INT, PIPE, TERM) some shells say nothing."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    boot_id: str
    completed: Completed


def leads_attempt(cmdline: str) -> bool:
    """Whether this command line, with a NUL after each word, is that of an attempt's shell."""
    return re.match(rf"[^\0\n]*\0-s\0{WORD}\0", cmdline) is not None


class Attempt:
    """`script` is the program with its arguments, quoted for a shell; `shown` is its name in messages.

    Its folder on the board contains `started` (process id and boot id), the program's `out` and `err`, `said` (what the
    shell says of it, which is nothing unless a signal ended it), and finally `end`, the exit code. The next attempt
    deletes it.
    """

    def __init__(self, link: BoardConnection, lease: BoardLock, script: str, shown: str, before: str = "") -> None:
        """`before`: the name of an attempt whose report was received."""
        self._link = link
        self._lease = lease
        self._script = script
        self._shown = shown
        self._before = before
        self.name = secrets.token_hex(8)

    def run(self, seconds: float) -> Report:
        """Wait for the end; if the connection is lost, connect again and collect the report.

        Raises `DeadlineError`, and `DeviceError` if it is not known how the program ended.
        """
        ends_s = time.monotonic() + seconds
        script = self._start_script()
        while True:
            try:
                done = self._link.script(script, f"attempt {self.name}", max(0.1, ends_s - time.monotonic()))
            except LostError:
                self._link.close()
                self._link.reconnect(max(0.1, ends_s - time.monotonic()))
                # Before another driver takes it, and ends the program.
                self._lease.ensure()
                script = self._collect_script()
            else:
                return self._report(done)

    def end(self) -> str:
        """Kill the program with all that it started, and delete its report; returns the end of its output.

        Raises `DeviceError`, and `orphan` if it does not end: nothing may be measured while it runs.
        """
        folder = self._folder
        started, boot, out, err = self._link.sections(
            f"cat {folder}/started",
            f"cat {BOOT_ID}",
            *(f"tail -c {TAIL_BYTES} {folder}/{one}" for one in ("out", "err")),
        )
        pid, _, before = started.strip().partition(" ")
        # After a reboot the program no longer runs, and another process may have its id.
        if before.strip() == boot.strip():
            is_known = re.fullmatch(r"[0-9]{1,9}", pid) is not None
            if (is_known and not kill(self._link, int(pid), group=True)) or not kill_marked(self._link, self.name):
                raise DeviceError(
                    "orphan",
                    f"{self._link.name}: {self._shown}, whose connection was lost, cannot be killed",
                    "restart the board",
                )
        self._link.checked(f"rm -rf {folder}")
        return (err or out).strip()

    @property
    def _folder(self) -> str:
        return folder_of(self._link.folder, self.name)

    def _start_script(self) -> str:
        # Later, the shell kills by group: it has to lead its own, as it does under OpenSSH's server.
        old = f"rm -rf {folder_of(self._link.folder, self._before)}; " if self._before else ""
        return f"""trap '' HUP; umask 77; d={self._folder}
kill -s 0 -- -$$ 2>/dev/null || exit {_NO_GROUP}
{old}mkdir -p "$d" || exit {_NO_FOLDER}
{{ read -r boot <{BOOT_ID}; }} 2>/dev/null
echo $$ $boot >"$d"/started || exit {_NO_FOLDER}
{{ ({MARK}={self.name}.; export {MARK}; exec {self._script}) </dev/null >"$d"/out 2>"$d"/err; s=$?; }} 2>"$d"/said
echo $s >"$d"/end
{self._report_script()}"""

    def _collect_script(self) -> str:
        """Waits for the end. It polls seldom, because each `sleep` is a process beside the measured one."""
        return f"""d={self._folder}
{{ read -r boot <{BOOT_ID}; read -r pid was <"$d"/started || exit {_NOT_STARTED}
[ "$was" = "$boot" ] || {{ rm -rf "$d"; exit {_OTHER_BOOT}; }}
until read -r s <"$d"/end; do
    kill -s 0 -- -$pid || read -r s <"$d"/end || exit {_NO_END}
    sleep 0.5
done; }} 2>/dev/null
{self._report_script()}"""

    def _report_script(self) -> str:
        """Prints a line with exit code, boot id and whether the shell said something; then stdout, and stderr."""
        return (
            'said=-; [ -s "$d"/said ] && said=said\n'
            f'echo $s ${{boot:--}} $said; head -c {OUTPUT_LIMIT_BYTES + 1} "$d"/out && '
            f'tail -c {_STDERR_LIMIT_BYTES} "$d"/err >&2'
        )

    def _report(self, done: Completed) -> Report:
        first, _, out = done.stdout.partition(b"\n")
        head = re.fullmatch(rb"([0-9]{1,3}) ([0-9a-f-]{1,36}) (said|-)", first)
        if done.exit_code != 0 or head is None:
            raise self._no_report(done)
        if len(out) > OUTPUT_LIMIT_BYTES:
            raise DeviceError(
                "too_much_output",
                f"{self._link.name}: {self._shown} printed more than {OUTPUT_LIMIT_BYTES / 1e6:.0f} MB",
                "write large output to a file, and pull that",
            )
        code = int(head[1])
        # A program may end with 137 by itself. When a signal ends it, its shell says so.
        by_signal = code in _SIGNALS and (head[3] == b"said" or code in _QUIET_SIGNALS)
        return Report(
            boot_id=head[2].decode().strip("-"),
            completed=Completed(exit_code=128 - code if by_signal else code, stdout=out, stderr=done.stderr),
        )

    def _no_report(self, done: Completed) -> DeviceError:
        name, shown = self._link.name, self._shown
        match done.exit_code:
            case _ if done.exit_code == _NO_GROUP:
                return DeviceError(
                    "os_error",
                    f"{name}: its ssh server gives programs no process group of their own, so they could not be ended",
                    "use OpenSSH's server there: apt-get install openssh-server",
                )
            case _ if done.exit_code == _OTHER_BOOT:
                return DeviceError("rebooted", f"{name} rebooted while {shown} ran")
            case _ if done.exit_code == _NOT_STARTED:
                # Not a failure of the job: it has not begun.
                return DeviceError("offline", f"{name} was disconnected before {shown} was started")
            case _ if done.exit_code == _NO_END:
                return DeviceError("no_exit_code", f"{name}: {shown} ended without an exit code")
        if b"no space" in done.stderr.lower():
            return no_space(name, f"{shown} has no room for its report")
        return DeviceError("no_exit_code", f"{name}: {shown} left no report{outcome_text(done)}")


def folder_of(folder: PurePosixPath, name: str) -> str:
    """Of the attempt, quoted for a shell."""
    return quoted([str(folder / "attempts" / name)])
