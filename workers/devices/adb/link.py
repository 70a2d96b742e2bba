"""The way to one phone: commands of its shell and file transfers, each an answer or a `DeviceError` that names it."""

import secrets
import shlex
import time
from collections.abc import Callable, Sequence
from pathlib import PurePosixPath
from typing import NoReturn

from sweeps.errors import DeviceError
from workers.devices.adb.host import AdbHost, NoTransportError, trouble
from workers.devices.adb.wire import Deadline, DeadlineError, Output, RefusedError, Wire, WireError, read_shell
from workers.devices.interface import Completed

FOLDER = PurePosixPath("/data/local/tmp/edgesweep")
OUTPUT_LIMIT_BYTES = 64 * 2**20
TAIL_BYTES = 500
_SLOWEST_BYTES_PER_S = 1e6
"""USB 2 moves 20 MB/s, bad Wi-Fi 2."""


class AdbLink:
    """By adb's serial number; `ADDRESS:PORT` is one of the network, and is reached again where it was lost."""

    def __init__(self, serial: str, host: AdbHost, *, answer_s: float, backoff_s: Sequence[float]) -> None:
        self.serial = serial
        self._host = host
        self._answer_s = answer_s
        self._backoff_s = tuple(backoff_s)
        self._knows_shell = False
        self._server = 0
        """Over which server of the host (`AdbHost.met`) the phone was reached last."""

    def transfer(self, transfer: Callable[[Wire], None], name: str, size: int, refused: str = "os_error") -> None:
        self._host.meet()
        deadline = Deadline(self._answer_s + size / _SLOWEST_BYTES_PER_S)
        try:
            with self.open("sync:", deadline) as wire:
                transfer(wire)
        except DeadlineError as error:
            # A way that is too slow for this file is no phone that hangs: that would not answer this either.
            self.shell(":")
            raise DeviceError(
                "timeout",
                f"adb:{self.serial}: {name[:100]} ({size / 1e6:.1f} MB) was too long on its way",
                "use another cable or port, or a cable instead of Wi-Fi",
            ) from error
        except RefusedError as error:
            if "no space" in str(error).lower():
                raise self.no_space(f"{name[:100]} did not fit") from error
            raise DeviceError(refused, f"adb:{self.serial}: {name[:100]}: {str(error)[:TAIL_BYTES]}") from error
        except WireError as error:
            self.lost(error, f"{name[:100]} was on its way", "disconnected")

    def sections(self, *commands: str) -> list[str]:
        """What each prints, in one exchange. How they end is not told: a phone may lack what they ask for."""
        # Not to be guessed by what a phone has to say, nor whole in the command line of this very shell.
        one, other = secrets.token_hex(8), secrets.token_hex(8)
        mark = one + other
        done = self.shell(f"\necho {one}''{other}\n".join(f"({command}) 2>/dev/null" for command in commands))
        sections = done.stdout.decode("utf-8", "replace").split(f"{mark}\n")
        if len(sections) != len(commands):
            raise DeviceError(
                "no_exit_code", f"adb:{self.serial} answered {len(sections)} of {len(commands)} questions{told(done)}"
            )
        return sections

    def checked(self, script: str) -> None:
        done = self.shell(script)
        if done.exit_code != 0:
            raise DeviceError("os_error", f"adb:{self.serial}: {script[:200]} failed{told(done)}")

    def meet(self) -> None:
        """What a first contact takes, such as a server that starts (3 s), is not the time of a program."""
        if not self._knows_shell or self._host.gone():
            self.shell(":")

    def shell(self, script: str) -> Completed:
        """A few lines for the phone's own shell, to their end. They are ours: that no answer came is no job's fault."""
        output = Output(OUTPUT_LIMIT_BYTES, bytearray(), bytearray())
        what = f"{script.strip().splitlines()[0][:100]} ran"
        self._host.meet()
        try:
            with self.open(f"shell,v2,raw:{script}", Deadline(self._answer_s)) as wire:
                status = read_shell(wire, output)
        except DeadlineError as error:
            raise DeviceError(
                "unresponsive",
                f"adb:{self.serial} did not answer in time while {what}",
                "plug it in again, or restart it",
            ) from error
        except WireError as error:
            self.lost(error, what, "unresponsive")
        return Completed(exit_code=status, stdout=bytes(output.stdout), stderr=bytes(output.stderr))

    def open(self, service: str, deadline: Deadline, *, patient: bool = False) -> Wire:
        """Nothing was asked of the phone where this fails to reach it, so it tries again, over a network.

        `patient`: over USB too, where a server that was just started has yet to find the phone.
        """
        try:
            service.encode("utf-8", "surrogateescape")
        except UnicodeEncodeError as error:
            raise DeviceError(
                "bad_name", f"adb:{self.serial}: a name or argument cannot be written as UTF-8"
            ) from error
        for pause in (*self._backoff_s, None):
            try:
                if not self._knows_shell:
                    self._ask_for_shell(deadline)
                wire = self._host.open(self.serial, service, deadline)
                self._server = self._host.met
                return wire
            except NoTransportError as error:
                if pause is None or deadline.passed() or not (self._of_network() or patient):
                    self.lost(error, "it was asked for", "offline")
                time.sleep(pause)
                if self._of_network():
                    self._reconnect()
        raise AssertionError("the last try returns or raises")

    def _of_network(self) -> bool:
        return ":" in self.serial

    def _reconnect(self) -> None:
        seen = self._host.find(self.serial)
        if seen is not None and (found := trouble(seen, ())) is not None:
            if found.kind != "offline":
                raise found
            self._host.disconnect(self.serial)
        self._host.connect(self.serial)

    def _ask_for_shell(self, deadline: Deadline) -> None:
        if "shell_v2" not in self._host.features(self.serial, deadline):
            raise DeviceError(
                "no_shell_v2",
                f"adb:{self.serial} does not tell how programs end (its adb has no shell_v2)",
                "Android 7 is the oldest that works",
            )
        self._knows_shell = True

    def kill(self, pid: int, *, group: bool = False) -> bool:
        """End a process, or the group that it leads; `False` where it goes on."""
        if pid < 2:
            # The group of 1 is, to `kill`, every process there is.
            return False
        target = f"-{pid}" if group else str(pid)
        # adbd starts each program as the leader of a group. The dead stay until somebody asks after them.
        alive = f"kill -s 0 -- {target} 2>/dev/null"
        script = (
            f"kill -s KILL -- {target}; i=0; while {alive} && [ $i -lt 50 ]; do sleep 0.1; i=$((i+1)); done; ! {alive}"
        )
        return self.shell(script).exit_code == 0

    def lost(self, error: WireError, what: str, kind: str) -> NoReturn:
        """Say why the way to the phone ended: the host, the phone's state, or neither."""
        # A server that ends lets go of the phones first: that it is gone may show only when it is asked for them.
        seen = None if self._host.gone() else self._host.find(self.serial)
        if self._host.gone() or self._server not in (0, self._host.met):
            self._server = self._host.met
            raise DeviceError(
                "adb_server",
                f"the adb server of this host was stopped or replaced while, on adb:{self.serial}, {what}",
                "use one adb on this host; another version ends the server of the first",
            ) from error
        if seen is None:
            raise DeviceError(
                "offline" if isinstance(error, NoTransportError) or kind == "unresponsive" else "disconnected",
                f"adb:{self.serial} is not attached (any more): {what}",
                "plug it in, or see that it is on the same network; `adb devices` must list it",
            ) from error
        if (found := trouble(seen, self._host.devices())) is not None:
            raise DeviceError(found.kind, f"{found.message}: {what}", found.next_step) from error
        raise DeviceError(kind, f"adb:{self.serial}: {error} while {what}", "see that the cable is firm") from error

    def no_space(self, why: str) -> DeviceError:
        return DeviceError(
            "no_space",
            f"adb:{self.serial}: {why}",
            "free storage on the phone; what EdgeSweep has there is deleted by: edgesweep devices clean "
            f"adb:{self.serial}",
        )


def told(done: Completed) -> str:
    """How it ended and its last words, to follow a message."""
    said = (done.stderr or done.stdout)[-TAIL_BYTES:].decode("utf-8", "replace").strip()
    return f" (exit code {done.exit_code}{': ' if said else ''}{said})"


def quoted(argv: Sequence[str]) -> str:
    if any("\0" in word for word in argv):
        raise DeviceError("bad_name", "a name or argument holds a NUL")
    return shlex.join(argv)
