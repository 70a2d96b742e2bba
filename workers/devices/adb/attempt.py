"""One attempt to run a program on a phone. Its report waits on the phone, whatever becomes of the connection."""

import re
import secrets
from dataclasses import dataclass

from sweeps.errors import DeviceError
from workers.devices.adb.link import FOLDER, OUTPUT_LIMIT_BYTES, TAIL_BYTES, AdbLink, told
from workers.devices.adb.wire import Deadline, DeadlineError, Output, WireError, acknowledge, read_until
from workers.devices.interface import Completed

ATTEMPTS = FOLDER / "attempts"
BOOT_ID = "/proc/sys/kernel/random/boot_id"
_BEGIN = f"trap '' HUP; d={ATTEMPTS}/"
_SHELL = re.compile(rf"[^\0\n]*\0-c\0{re.escape(_BEGIN)}")
_STDERR_LIMIT_BYTES = 2**20
_TRIES = 3
_AT_ONCE = 16
# What the phone says instead of a report; no signal, and not what its shell says.
_NOT_STARTED, _OTHER_BOOT, _NO_END = 93, 94, 95
# What a shell says where a signal ended the program: 128 and the signal.
_SIGNALS = range(129, 129 + 64)


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    boot_id: str
    completed: Completed


def leads_attempt(cmdline: str) -> bool:
    """Whether the process with this command line, a NUL behind each word, leads an attempt."""
    return _SHELL.match(cmdline) is not None


class Attempt:
    """`script` is the program with its arguments, quoted for a shell; `shown` is what messages call it.

    In a folder of its own on the phone are `started` (its process and the phone's boot), `out` and `err`, which it
    writes itself, and last `end`, its exit code. Once the report was received they are emptied; the folder goes away
    with those of the other attempts, `_AT_ONCE` at a time.
    """

    def __init__(self, link: AdbLink, series: str, number: int, script: str, shown: str) -> None:
        """`number`, from 1 on, is no other attempt's of `series`, and the attempts before it were received or ended."""
        self._link = link
        self._script = script
        self._shown = shown
        # Not the folder's name, which is for all on the phone to see and to print.
        self._mark = secrets.token_hex(8)
        self._series, self._number = series, number
        self._name = f"{series}-{number}"
        self._folder = ATTEMPTS / self._name

    def run(self, deadline: Deadline) -> Report:
        """To its end, over as many connections as that takes; `_TRIES` more at most.

        Raises `DeadlineError`, and `DeviceError` where it is not known how it ended.
        """
        # It outlives its connection. Words of the shell, not programs: each of those costs a millisecond.
        script = (
            f"{_BEGIN}{self._name}; [ -d $d ] || mkdir -p $d || exit; {{ read -r boot <{BOOT_ID}; }} "
            f"2>/dev/null; echo $$ $boot >$d/started || exit; (exec {self._script}) </dev/null >$d/out 2>$d/err; s=$?; "
            f"echo $s >$d/end; {self._telling()}"
        )
        for step in range(1 + _TRIES):
            try:
                return self._report(script, deadline, patient=step > 0)
            except DeadlineError:
                raise
            except WireError as error:
                if step == _TRIES:
                    self._link.lost(error, f"{self._shown} ran", "no_exit_code")
            script = self._collecting()
        raise AssertionError("the last try returns or raises")

    def end(self) -> str:
        """End it with all that it started, and forget its report; returns its last words.

        Raises `DeviceError`, and `orphan` where it does not end: nothing may be measured beside it.
        """
        folder = self._folder
        started, boot, out, err = self._link.sections(
            f"cat {folder}/started",
            f"cat {BOOT_ID}",
            *(f"tail -c {TAIL_BYTES} {folder}/{one}" for one in ("out", "err")),
        )
        pid, _, before = started.strip().partition(" ")
        # What ran before the phone was started anew has ended, and its id may be another's.
        is_known = re.fullmatch(r"[0-9]{1,9}", pid) and before == boot.strip()
        if is_known and not self._link.kill(int(pid), group=True):
            raise DeviceError(
                "orphan",
                f"adb:{self._link.serial}: process {pid}, which was lost, cannot be ended",
                "restart the phone",
            )
        self._link.checked(f"rm -rf {folder}")
        return (err or out).strip()

    def _collecting(self) -> str:
        """Waits for the end. Each `sleep` is a program beside the one that may be measured: seldom."""
        return (
            f"d={self._folder}; {{ read -r boot <{BOOT_ID}; read -r pid was <$d/started || exit {_NOT_STARTED}; "
            f'[ "$was" = "$boot" ] || {{ rm -rf $d; exit {_OTHER_BOOT}; }}; '
            f"until read -r s <$d/end; do kill -s 0 -- -$pid || read -r s <$d/end || exit {_NO_END}; "
            f"sleep 0.5; done; }} 2>/dev/null; {self._telling()}"
        )

    def _telling(self) -> str:
        """Stdout, a line of the mark, exit code and boot, stderr, a line of the mark. Then it awaits an answer, and
        does what need not be waited for."""
        # Android 7's `head` knows no `-c`. Each `echo` is a packet: without stderr both lines go in one.
        return (
            f"[ -s $d/out ] && {{ head -c {OUTPUT_LIMIT_BYTES + 1} $d/out 2>/dev/null || cat $d/out; }}; "
            f"if [ -s $d/err ]; then echo '\n{self._mark} '$s $boot; "
            f"tail -c {_STDERR_LIMIT_BYTES} $d/err; echo '\n{self._mark}'; "
            f"else echo '\n{self._mark} '$s $boot'\n\n{self._mark}'; fi; "
            f"read -r s && {{ : >$d/out; : >$d/err; {self._making_room()} }} >/dev/null 2>&1"
        )

    def _making_room(self) -> str:
        # `rm` and `mkdir` take as long as all the rest: one of each for many attempts.
        if (self._number - 1) % _AT_ONCE:
            return ""
        # By name: the next attempt may have begun.
        old = self._names(self._number - _AT_ONCE, self._number)
        new = self._names(self._number + 1, self._number + _AT_ONCE)
        return f"cd {ATTEMPTS} && {{ rm -rf {old}; mkdir {new}; }};"

    def _names(self, first: int, last: int) -> str:
        return " ".join(f"{self._series}-{number}" for number in range(max(first, 1), last + 1))

    def _report(self, script: str, deadline: Deadline, *, patient: bool) -> Report:
        mark = b"\n" + self._mark.encode()
        output = Output(OUTPUT_LIMIT_BYTES + 2 * _STDERR_LIMIT_BYTES, bytearray(), bytearray())
        with self._link.open(f"shell,v2,raw:{script}", deadline, patient=patient) as wire:
            status = read_until(wire, output, mark + b"\n")
            if status is not None:
                raise self._no_report(status, output)
            acknowledge(wire)
        out, _, rest = output.stdout.partition(mark + b" ")
        ended, _, err = rest.removesuffix(mark + b"\n").partition(b"\n")
        code, _, boot = ended.partition(b" ")
        if not re.fullmatch(rb"[0-9]{1,3}", code):
            raise DeviceError("no_exit_code", f"adb:{self._link.serial}: the report of {self._shown} is not whole")
        if len(out) > OUTPUT_LIMIT_BYTES:
            raise DeviceError(
                "too_much_output",
                f"adb:{self._link.serial}: {self._shown} printed more than {OUTPUT_LIMIT_BYTES / 1e6:.0f} MB",
                "write what is large to a file, and pull that",
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
                return DeviceError("rebooted", f"adb:{serial} was started anew while {shown} ran")
            case _ if status == _NOT_STARTED:
                return DeviceError("disconnected", f"adb:{serial} was lost before {shown} was started")
            case _ if status == _NO_END:
                return DeviceError("no_exit_code", f"adb:{serial}: {shown} was ended, and how is not known")
        done = Completed(exit_code=status, stdout=b"", stderr=bytes(output.stderr))
        if b"no space" in done.stderr.lower():
            return self._link.no_space(f"{shown} has no room for its report")
        return DeviceError("no_exit_code", f"adb:{serial}: {shown} left no report{told(done)}")
