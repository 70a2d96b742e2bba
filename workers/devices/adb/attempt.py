"""One attempt to run a program on a phone. Its report is kept on the phone, so that a lost connection loses nothing."""

import re
import secrets
from dataclasses import dataclass

from sweeps.errors import DeviceError
from workers.devices.adb.kept_shell import KeptShell
from workers.devices.adb.phone_connection import FOLDER, OUTPUT_LIMIT_BYTES, PhoneConnection
from workers.devices.adb.wire import Deadline, DeadlineError, Output, Wire, WireError, read_until, send_line
from workers.devices.interface import Completed
from workers.devices.shell import TAIL_BYTES, outcome_text

ATTEMPTS = FOLDER / "attempts"
BOOT_ID = "/proc/sys/kernel/random/boot_id"
_BEGIN = f"trap '' HUP; d={ATTEMPTS}/"
_SHELL = re.compile(rf"[^\0\n]*\0-c\0{re.escape(_BEGIN)}")
_STDERR_LIMIT_BYTES = 2**20
_TRIES = 3
_FOLDERS_AT_ONCE = 16
# Exit codes of our script without a report. Neither signals nor the shell's own exit codes.
_NOT_STARTED, _OTHER_BOOT, _NO_END = 93, 94, 95
# A shell's exit codes of programs that a signal ended: 128 + signal.
_SIGNALS = range(129, 129 + 64)


# Shell built-ins, because each program started costs a millisecond.
# begin NAME: whoever makes the file `started` runs the program, and nobody else can. False where another shell did; its
# program has ended then.
# collect: waits for the end. It polls seldom, because each `sleep` is a process beside the measured one.
# report MARK: prints stdout; a line with the mark, exit code and boot id; stderr; a line with the mark. Then it waits
# for the acknowledgement. Android 7's `head` has no `-c`. Each `echo` sends a packet: without stderr one prints both
# lines.
_FUNCTIONS = f"""
n='
'
begin() {{
    d={ATTEMPTS}/$1; [ -d $d ] || mkdir -p $d || exit
    {{ read -r boot <{BOOT_ID}; }} 2>/dev/null
    set -C; echo $$ $boot >$d/started; s=$?; set +C
    [ $s = 0 ] && return
    [ -s $d/started ] || exit $s
    collect; return 1
}}
collect() {{
    {{
        read -r boot <{BOOT_ID}; read -r pid was <$d/started || exit {_NOT_STARTED}
        [ "$was" = "$boot" ] || {{ rm -rf $d; exit {_OTHER_BOOT}; }}
        until read -r s <$d/end; do
            kill -s 0 -- -$pid || read -r s <$d/end || exit {_NO_END}
            sleep 0.5
        done
    }} 2>/dev/null
}}
report() {{
    [ -s $d/out ] && {{ head -c {OUTPUT_LIMIT_BYTES + 1} $d/out 2>/dev/null || cat $d/out; }}
    if [ -s $d/err ]; then
        echo "$n$1 $s $boot"; tail -c {_STDERR_LIMIT_BYTES} $d/err; echo "$n$1"
    else
        echo "$n$1 $s $boot$n$n$1"
    fi
    read -r s
}}
"""
KEPT_SHELL = f'{_BEGIN}{_FUNCTIONS}while IFS= read -r line; do eval "$line"; done'
"""The script of a shell that runs attempts line by line."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    boot_id: str
    completed: Completed


def leads_attempt(cmdline: str) -> bool:
    """Whether this command line, with a NUL after each word, is that of an attempt's shell."""
    return _SHELL.match(cmdline) is not None


class Attempt:
    """`script` is the program with its arguments, quoted for a shell; `shown` is its name in messages.

    Its folder on the phone contains `started` (process id and boot id), the program's `out` and `err`, and finally
    `end`, the exit code. After the report is received the outputs are emptied. Folders of received attempts are
    deleted `_FOLDERS_AT_ONCE` at a time.
    """

    def __init__(self, link: PhoneConnection, series: str, number: int, script: str, shown: str) -> None:
        """`number` counts the attempts of `series` from 1. All earlier attempts must have been received or ended."""
        self._link = link
        self._script = script
        self._shown = shown
        # Not the folder's name: other programs on the phone can see that, and could print it.
        self._mark = secrets.token_hex(8)
        self._series, self._number = series, number
        self._name = f"{series}-{number}"
        self._folder = ATTEMPTS / self._name

    def run(self, deadline: Deadline, kept: KeptShell | None = None) -> Report:
        """Wait for the end; if the connection is lost, reconnect up to `_TRIES` times.

        `kept` runs it if it can; of `KEPT_SHELL`. Raises `DeadlineError`, and `DeviceError` if it is not known how the
        program ended.
        """
        # The program outlives its connection.
        line = (
            f"begin {self._name} && {{ (exec {self._script}) </dev/null >$d/out 2>$d/err; s=$?; echo $s >$d/end; }}; "
            f"{self._report_script()}"
        )
        lost = False
        if kept is not None and kept.takes(line):
            try:
                return self._report_by(kept, line, deadline)
            except DeadlineError:
                raise
            except WireError:
                # It may have read the line or not: another shell gets the same line.
                lost = True
        script = f"{_BEGIN}{_FUNCTIONS}{line}"
        for step in range(1 + _TRIES):
            try:
                return self._report(script, deadline, retry_usb=lost or step > 0)
            except DeadlineError:
                raise
            except WireError as error:
                if step == _TRIES:
                    self._link.raise_lost(error, f"{self._shown} ran", "no_exit_code")
            script = self._collect_script()
        raise AssertionError("the last try returns or raises")

    def end(self) -> str:
        """Kill the program with its child processes, and delete its report; returns the end of its output.

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
        is_known = re.fullmatch(r"[0-9]{1,9}", pid) and before == boot.strip()
        if is_known and not self._link.kill(int(pid), group=True):
            raise DeviceError(
                "orphan",
                f"adb:{self._link.serial}: process {pid}, whose connection was lost, cannot be killed",
                "restart the phone",
            )
        self._link.checked(f"rm -rf {folder}")
        return (err or out).strip()

    def _collect_script(self) -> str:
        """Waits for the end of a program that was started."""
        return f"{_FUNCTIONS}d={self._folder}; collect; {self._report_script()}"

    def _report_script(self) -> str:
        """Cleans up while the host continues."""
        return f"report {self._mark} && {{ : >$d/out; : >$d/err; {self._folders_script()} }} >/dev/null 2>&1"

    def _folders_script(self) -> str:
        # `rm` and `mkdir` take as long as the rest of the script, so each runs once for many attempts.
        if (self._number - 1) % _FOLDERS_AT_ONCE:
            return ""
        # Delete by name: the next attempt may have begun.
        old = self._names(self._number - _FOLDERS_AT_ONCE, self._number)
        new = self._names(self._number + 1, self._number + _FOLDERS_AT_ONCE)
        return f"(cd {ATTEMPTS} && {{ rm -rf {old}; mkdir {new}; }})"

    def _names(self, first: int, last: int) -> str:
        return " ".join(f"{self._series}-{number}" for number in range(max(first, 1), last + 1))

    def _report_by(self, kept: KeptShell, line: str, deadline: Deadline) -> Report:
        """Raises `WireError` also where the shell ended."""
        try:
            return self._received(kept.send(line, deadline))
        except BaseException as error:
            kept.close()
            if isinstance(error, DeviceError) and error.kind == "no_exit_code":
                raise WireError("the shell ended") from error
            raise

    def _report(self, script: str, deadline: Deadline, *, retry_usb: bool) -> Report:
        with self._link.open(f"shell,v2,raw:{script}", deadline, retry_usb=retry_usb) as wire:
            return self._received(wire)

    def _received(self, wire: Wire) -> Report:
        mark = b"\n" + self._mark.encode()
        output = Output(OUTPUT_LIMIT_BYTES + 2 * _STDERR_LIMIT_BYTES, bytearray(), bytearray())
        status = read_until(wire, output, mark + b"\n")
        if status is not None:
            raise self._no_report(status, output)
        send_line(wire, "")
        out, _, rest = output.stdout.partition(mark + b" ")
        ended, _, err = rest.removesuffix(mark + b"\n").partition(b"\n")
        code, _, boot = ended.partition(b" ")
        if not re.fullmatch(rb"[0-9]{1,3}", code):
            raise DeviceError("no_exit_code", f"adb:{self._link.serial}: the report of {self._shown} is incomplete")
        if len(out) > OUTPUT_LIMIT_BYTES:
            raise DeviceError(
                "too_much_output",
                f"adb:{self._link.serial}: {self._shown} printed more than {OUTPUT_LIMIT_BYTES / 1e6:.0f} MB",
                "write large output to a file, and pull that",
            )
        exit_code = int(code)
        return Report(
            boot_id=boot.decode("ascii", "replace").strip(),
            completed=Completed(
                exit_code=128 - exit_code if exit_code in _SIGNALS else exit_code, stdout=bytes(out), stderr=bytes(err)
            ),
        )

    def _no_report(self, status: int, output: Output) -> DeviceError:
        serial, shown = self._link.serial, self._shown
        match status:
            case _ if status == _OTHER_BOOT:
                return DeviceError("rebooted", f"adb:{serial} rebooted while {shown} ran")
            case _ if status == _NOT_STARTED:
                # Not a failure of the job: it has not begun.
                return DeviceError("offline", f"adb:{serial} was disconnected before {shown} was started")
            case _ if status == _NO_END:
                return DeviceError("no_exit_code", f"adb:{serial}: {shown} ended without an exit code")
        done = Completed(exit_code=status, stdout=b"", stderr=bytes(output.stderr))
        if b"no space" in done.stderr.lower():
            return self._link.no_space(f"{shown} has no room for its report")
        return DeviceError("no_exit_code", f"adb:{serial}: {shown} left no report{outcome_text(done)}")
