"""One attempt to run a program on a phone. The program's report is stored on the phone, so that a lost connection loses
nothing."""

import re
import secrets

from sweeps.errors import DeviceError
from workers.devices.adb.open_shell import KeptShell
from workers.devices.adb.phone_connection import FOLDER, PhoneConnection
from workers.devices.adb.wire import Deadline, Output, Wire, WireError, read_until, send_line
from workers.devices.interface import Completed
from workers.devices.remote.attempt import COLLECT, SIGNALS, STDERR_LIMIT_BYTES, RemoteAttempt, Report
from workers.devices.remote.remote_shell import BOOT_ID, OUTPUT_LIMIT_BYTES, DeadlineError

ATTEMPTS = FOLDER / "attempts"
_BEGIN = f"trap '' HUP; d={ATTEMPTS}/"
_SHELL = re.compile(rf"[^\0\n]*\0-c\0{re.escape(_BEGIN)}")
_TRIES = 3
_FOLDERS_AT_ONCE = 16


# Shell built-ins, because each program started costs a millisecond.
# begin NAME: the shell that creates the file `started` runs the program, and no other shell can. Returns false if
# another shell created the file; its program has ended by then.
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
{COLLECT}}}
report() {{
    [ -s $d/out ] && {{ head -c {OUTPUT_LIMIT_BYTES + 1} $d/out 2>/dev/null || cat $d/out; }}
    if [ -s $d/err ]; then
        echo "$n$1 $s $boot"; tail -c {STDERR_LIMIT_BYTES} $d/err; echo "$n$1"
    else
        echo "$n$1 $s $boot$n$n$1"
    fi
    read -r s
}}
"""
KEPT_SHELL = f'{_BEGIN}{_FUNCTIONS}while IFS= read -r line; do eval "$line"; done'
"""The script of a shell that runs attempts line by line."""


def leads_attempt(cmdline: str) -> bool:
    """Tell whether a command line, with a NUL after each word, is that of an attempt's shell."""
    return _SHELL.match(cmdline) is not None


class Attempt(RemoteAttempt):
    """One attempt to run a program on a phone.

    After the report is received, the output files are emptied. Folders of received attempts are deleted
    `_FOLDERS_AT_ONCE` at a time.
    """

    def __init__(
        self,
        connection: PhoneConnection,
        series: str,
        number: int,
        script: str,
        shown: str,
        shell: KeptShell | None = None,
    ) -> None:
        """Prepare the attempt. `number` counts the attempts of `series` from 1. All earlier attempts must have been
        received or ended. `shell`, opened with `KEPT_SHELL`, runs the program if it can."""
        super().__init__(connection, f"{series}-{number}", script, shown)
        self._connection = connection
        # The mark is not the folder's name: other programs on the phone can see that, and could print it.
        self._mark = secrets.token_hex(8)
        self._series, self._number = series, number
        self._shell = shell

    def run(self, seconds: float) -> Report:
        """Run the program; if the connection is lost, it is opened again up to `_TRIES` times."""
        deadline = Deadline(seconds)
        # The program outlives its connection.
        line = (
            # A shell prints a message if a signal ended the program; without a listener, printing that would end the
            # shell.
            f"begin {self.name} && "
            f"{{ {{ (exec {self._script}) </dev/null >$d/out 2>$d/err; s=$?; }} 2>/dev/null; echo $s >$d/end; }}; "
            f"{self._report_script()}"
        )
        lost = False
        if self._shell is not None and self._shell.takes(line):
            try:
                return self._report_by(self._shell, line, deadline)
            except DeadlineError:
                raise
            except WireError:
                # The shell may have read the line or not: another shell gets the same line.
                lost = True
        script = f"{_BEGIN}{_FUNCTIONS}{line}"
        for step in range(1 + _TRIES):
            try:
                return self._report(script, deadline, retry_usb=lost or step > 0)
            except DeadlineError:
                raise
            except WireError as error:
                if step == _TRIES:
                    self._connection.raise_lost(error, f"{self._shown} ran", "no_exit_code")
            script = self._collect_script()
        raise AssertionError("the last try returns or raises")

    def _collect_script(self) -> str:
        """Return the script that waits for the end of a program that was started."""
        return f"{_FUNCTIONS}d={self._folder}; collect; {self._report_script()}"

    def _report_script(self) -> str:
        """Return the script that prints the report, and cleans up while the host continues."""
        return f"report {self._mark} && {{ : >$d/out; : >$d/err; {self._folders_script()} }} >/dev/null 2>&1"

    def _folders_script(self) -> str:
        # `rm` and `mkdir` take as long as the rest of the script, so each runs once for many attempts.
        if (self._number - 1) % _FOLDERS_AT_ONCE:
            return ""
        # Folders are deleted by name: the next attempt may have begun.
        old = self._names(self._number - _FOLDERS_AT_ONCE, self._number)
        new = self._names(self._number + 1, self._number + _FOLDERS_AT_ONCE)
        return f"(cd {ATTEMPTS} && {{ rm -rf {old}; mkdir {new}; }})"

    def _names(self, first: int, last: int) -> str:
        return " ".join(f"{self._series}-{number}" for number in range(max(first, 1), last + 1))

    def _report_by(self, shell: KeptShell, line: str, deadline: Deadline) -> Report:
        """Let the open shell run the program, and return the report. Raises `WireError`, also if the shell ended."""
        try:
            return self._received(shell.send(line, deadline))
        except BaseException as error:
            shell.close()
            if isinstance(error, DeviceError) and error.kind == "no_exit_code":
                raise WireError("the shell ended") from error
            raise

    def _report(self, script: str, deadline: Deadline, *, retry_usb: bool) -> Report:
        with self._connection.open(f"shell,v2,raw:{script}", deadline, retry_usb=retry_usb) as wire:
            return self._received(wire)

    def _received(self, wire: Wire) -> Report:
        mark = b"\n" + self._mark.encode()
        output = Output(OUTPUT_LIMIT_BYTES + 2 * STDERR_LIMIT_BYTES, bytearray(), bytearray())
        status = read_until(wire, output, mark + b"\n")
        if status is not None:
            raise self._no_report(Completed(exit_code=status, stdout=b"", stderr=bytes(output.stderr)))
        send_line(wire, "")
        out, _, rest = output.stdout.partition(mark + b" ")
        ended, _, err = rest.removesuffix(mark + b"\n").partition(b"\n")
        code, _, boot = ended.partition(b" ")
        if not re.fullmatch(rb"[0-9]{1,3}", code):
            raise DeviceError("no_exit_code", f"{self._connection.name}: the report of {self._shown} is incomplete")
        exit_code = 128 - int(code) if int(code) in SIGNALS else int(code)
        return self._report_of(exit_code, boot.decode("ascii", "replace").strip(), bytes(out), bytes(err))
