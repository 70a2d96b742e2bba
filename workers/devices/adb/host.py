"""This host's adb server: which phones it sees, and connections to them. The only module that imports adbutils."""

import os
import re
import socket
import subprocess
import tempfile
import time
from collections import Counter
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import adbutils

from sweeps.errors import DeviceError
from workers.devices.adb.wire import Deadline, DeadlineError, RefusedError, Wire, WireError

_START_S = 20.0
_ANSWER_S = 10.0
_CONNECT_S = 5.0
_OTHERS_START_S = 5.0
"""How long after ours could not be started a server may come up that another process started meanwhile."""
_LOOPBACK = "127.0.0.1"
_DEFAULT_PORT = 5037
_NO_SERIAL = r"\?+|\(no serial number\)"
"""What adb lists where a phone tells none; it takes no such name for a phone."""
_LINE = re.compile(rf"(?P<serial>{_NO_SERIAL}|\S+)\s+(?P<state>.*?)(?P<about>(?:\s+[a-z_]+:\S+)*)\s*")


class NoTransportError(RefusedError):
    """The adb server has no way to this phone; nothing was sent to it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Attached:
    """One line of `adb devices -l`."""

    serial: str
    state: str
    """adb's word: `device` is a phone that takes commands."""
    usb: bool


def parse_devices(text: str) -> tuple[Attached, ...]:
    """What `adb devices -l` says. Pure."""
    found = []
    for line in text.splitlines():
        if match := _LINE.fullmatch(line):
            usb = re.search(r"\busb:", match["about"]) is not None
            found.append(Attached(serial=match["serial"], state=match["state"].strip(), usb=usb))
    return tuple(found)


def trouble(attached: Attached, others: tuple[Attached, ...]) -> DeviceError | None:
    """Why this phone takes no commands, with what to do; `None` where it does. `others` may include it. Pure."""
    serial, state = attached.serial, attached.state
    nameless = re.fullmatch(_NO_SERIAL, serial) is not None
    if not nameless and Counter(one.serial for one in others)[serial] > 1:
        return DeviceError(
            "ambiguous_serial",
            f"adb:{serial} does not name one phone: several that are attached have this serial number",
            "attach only one of them at a time",
        )
    match state.split(" ")[0]:
        case "device" if nameless:
            return DeviceError(
                "ambiguous_serial",
                f"adb:{serial} does not name a phone: it has no serial number",
                "reach it over the network: with it alone on a cable, adb -d tcpip 5555, then adb connect ADDRESS:5555",
            )
        case "device":
            return None
        case "unauthorized" | "authorizing":
            return DeviceError(
                "unauthorized",
                f"adb:{serial} has not allowed this computer to debug it",
                "unlock the phone and accept the prompt 'Allow USB debugging' (tick 'Always allow')",
            )
        case "no":
            return DeviceError(
                "no_permissions",
                f"adb:{serial}: this user may not open its USB port ({state[:200]})",
                "install Android's udev rules (apt-get install android-sdk-platform-tools-common), plug it in again",
            )
        case _:
            return DeviceError(
                "offline",
                f"adb:{serial} is attached and does not answer (adb says: {state[:200]})",
                "plug it in again, or switch USB debugging off and on",
            )


class AdbHost:
    """The adb server on a port of this host, started with our own adb where there is none.

    `port` is `ANDROID_ADB_SERVER_PORT` or 5037. Ours is the adb that adbutils brings, or what `ADBUTILS_ADB_PATH`
    names: two versions on one host would keep ending each other's servers. Methods raise `DeviceError` of the kinds
    in `sweeps.errors.HOST_KINDS`.
    """

    def __init__(self, port: int | None = None) -> None:
        # A bare descriptor: a socket that is forgotten together with this one may be the first to go, and then warns.
        self._lifeline = -1
        self.met = 0
        """How many servers were met on the port: one more after each that ended."""
        self.port = port or int(os.environ.get("ANDROID_ADB_SERVER_PORT") or _DEFAULT_PORT)
        own = Path(adbutils.__file__).parent / "binaries" / "adb"
        self.adb = Path(os.environ.get("ADBUTILS_ADB_PATH") or own)

    def __del__(self) -> None:
        self.close()

    def meet(self) -> None:
        """See that there is a server of our version. To start one may take longer than any answer of it."""
        if self._lifeline < 0 or not self._lives():
            self._greet()

    def devices(self) -> tuple[Attached, ...]:
        try:
            return parse_devices(self._text("host:devices-l", _ANSWER_S))
        except WireError as error:
            raise self._no_server(f"does not list its phones ({error})") from error

    def find(self, serial: str) -> Attached | None:
        return next((one for one in self.devices() if one.serial == serial), None)

    def features(self, serial: str, deadline: Deadline) -> frozenset[str]:
        """What the phone's adb can do. Raises `NoTransportError`."""
        with self._wire(deadline) as wire:
            try:
                wire.ask(f"host-serial:{serial}:features")
            except (RefusedError, DeadlineError) as error:
                raise NoTransportError(str(error)) from error
            return frozenset(wire.text().split(","))

    def connect(self, address: str) -> bool:
        """Reach a phone over the network; `False` where there is none now, which adb tells in words only."""
        with suppress(WireError):
            words = self._text(f"host:connect:{address}", _CONNECT_S)
            return words.startswith(("connected to", "already connected"))
        return False

    def disconnect(self, address: str) -> None:
        with suppress(WireError):
            self._text(f"host:disconnect:{address}", _ANSWER_S)

    def open(self, serial: str, service: str, deadline: Deadline) -> Wire:
        """A service of one phone. Raises `NoTransportError`, and `WireError` for the rest of the way."""
        wire = self._wire(deadline)
        try:
            try:
                wire.ask(f"host:transport:{serial}")
            except (RefusedError, DeadlineError) as error:
                raise NoTransportError(str(error)) from error
            wire.ask(service)
        except BaseException:
            wire.__exit__()
            raise
        return wire

    def gone(self) -> bool:
        """Whether the server that was there has ended since, even if another one runs now."""
        return self._lifeline >= 0 and not self._lives()

    def close(self) -> None:
        lifeline, self._lifeline = self._lifeline, -1
        if lifeline >= 0:
            os.close(lifeline)

    def _text(self, service: str, seconds: float) -> str:
        self.meet()
        with self._wire(Deadline(seconds)) as wire:
            wire.ask(service)
            return wire.text()

    def _wire(self, deadline: Deadline) -> Wire:
        self.meet()
        try:
            connection = self._connection()
        except DeviceError:
            # It is ending just now: it closes its port before what its tracker of phones is told by.
            self._greet()
            connection = self._connection()
        return Wire(connection, deadline)

    def _lives(self) -> bool:
        """The server writes to a tracker of phones whenever one comes or goes, and closes it only with its end."""
        try:
            while os.read(self._lifeline, 65536):
                pass
        except BlockingIOError:
            return True
        except OSError:
            return False
        return False

    def _greet(self) -> None:
        """Start the server where there is none, and see that it is of our version."""
        self.close()
        try:
            socket.create_connection((_LOOPBACK, self.port), _ANSWER_S).close()
        except OSError:
            self._start()
        try:
            with Wire(self._connection(), Deadline(_ANSWER_S)) as wire:
                wire.ask("host:version")
                theirs = int(wire.text(), 16)
        except (WireError, ValueError) as error:
            raise self._no_server(f"does not answer as one ({error})") from error
        if theirs != (ours := self._version()):
            raise DeviceError(
                "adb_version",
                f"the adb server on port {self.port} is version 1.0.{theirs}, and {self.adb} is 1.0.{ours}",
                "use one adb on this host: end the other (adb kill-server), or name it in ADBUTILS_ADB_PATH",
            )
        lifeline = self._connection()
        try:
            Wire(lifeline, Deadline(_ANSWER_S)).ask("host:track-devices")
        except WireError as error:
            lifeline.close()
            raise self._no_server(f"does not answer as one ({error})") from error
        lifeline.setblocking(False)
        self._lifeline = lifeline.detach()
        self.met += 1

    def _start(self) -> None:
        try:
            ended = self._run("start-server")
        except (OSError, subprocess.TimeoutExpired) as error:
            raise self._no_server(f"could not be started ({error})") from error
        # Of several that start one at once, all but one fail, before that one's answers.
        if ended.returncode != 0 and not self._comes_up():
            raise self._no_server(f"could not be started ({ended.stdout.strip()[-500:]})")

    def _comes_up(self) -> bool:
        deadline = Deadline(_OTHERS_START_S)
        while not deadline.passed():
            with suppress(OSError):
                socket.create_connection((_LOOPBACK, self.port), _ANSWER_S).close()
                return True
            time.sleep(0.05)
        return False

    def _version(self) -> int:
        """The last number of `1.0.41`, which is all that the two sides compare."""
        try:
            match = re.search(r"version 1\.0\.(\d+)", self._run("version").stdout)
        except (OSError, subprocess.TimeoutExpired) as error:
            raise self._no_server(f"has no adb of ours beside it ({error})") from error
        if match is None:
            raise self._no_server(f"has no adb of ours beside it ({self.adb} tells no version)")
        return int(match[1])

    def _run(self, word: str) -> "subprocess.CompletedProcess[str]":
        # Not a pipe: the server that it starts would hold it open.
        with tempfile.TemporaryFile("w+", errors="replace") as said:
            ended = subprocess.run(  # noqa: S603  # a fixed program and word
                [str(self.adb), "-P", str(self.port), word],
                stdin=subprocess.DEVNULL,
                stdout=said,
                stderr=said,
                text=True,
                timeout=_START_S,
                check=False,
            )
            said.seek(0)
            ended.stdout = said.read()
            return ended

    def _connection(self) -> socket.socket:
        # Not adbutils' own: where there is no server, that starts one on the default port and leaks a socket.
        try:
            return socket.create_connection((_LOOPBACK, self.port), _ANSWER_S)
        except OSError as error:
            raise self._no_server(f"cannot be reached ({error})") from error

    def _no_server(self, why: str) -> DeviceError:
        return DeviceError(
            "adb_server",
            f"the adb server of this host (port {self.port}) {why}",
            f"look what uses the port, or start it: {self.adb} -P {self.port} start-server",
        )
