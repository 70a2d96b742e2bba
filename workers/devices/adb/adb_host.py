"""This host's adb server, which lists phones and opens connections to them. The only module that uses adbutils."""

import os
import re
import socket
import subprocess
import tempfile
from collections import Counter
from contextlib import suppress
from dataclasses import dataclass
from importlib.metadata import distribution
from pathlib import Path

from sweeps.errors import DeviceError
from sweeps.retry import tries
from workers.devices.adb.server_address import DEFAULT_PORT, LOOPBACK, SOCKET_VARIABLE, server_port
from workers.devices.adb.wire import Deadline, RefusedError, Wire, WireDeadlineError, WireError

_START_S = 20.0
_ANSWER_S = 10.0
_CONNECT_S = 5.0
_OTHERS_START_S = 5.0
"""The time to wait for a server that another process is starting, if our own could not be started."""
_LOOK_S = 0.05
# adbutils is not imported for its path: its import reads the server's port from the environment, and raises a
# ValueError if that is no port.
_OWN_ADB = Path(str(distribution("adbutils").locate_file("adbutils/binaries/adb")))
_NO_SERIAL = r"\?+|\(no serial number\)"
"""The pattern of what adb prints for a phone without a serial number. adb does not accept it as a phone's name."""
_LINE = re.compile(rf"(?P<serial>{_NO_SERIAL}|\S+)\s+(?P<state>.*?)(?P<about>(?:\s+[a-z_]+:\S+)*)\s*")


class NoTransportError(RefusedError):
    """The adb server cannot reach this phone; nothing was sent to the phone."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Attached:
    """One line of `adb devices -l`."""

    serial: str
    state: str
    """The state in adb's words: `device` is a phone that accepts commands."""
    usb: bool


def parse_devices(text: str) -> tuple[Attached, ...]:
    """Parse the output of `adb devices -l`. Pure."""
    phones = []
    for line in text.splitlines():
        if match := _LINE.fullmatch(line):
            usb = re.search(r"\busb:", match["about"]) is not None
            phones.append(Attached(serial=match["serial"], state=match["state"].strip(), usb=usb))
    return tuple(phones)


def problem(attached: Attached, listed: tuple[Attached, ...]) -> DeviceError | None:
    """Return why a phone accepts no commands, with the next step; `None` if it accepts them. `listed`: all attached
    phones; it may include this one. Pure."""
    serial, state = attached.serial, attached.state
    nameless = re.fullmatch(_NO_SERIAL, serial) is not None
    if not nameless and Counter(entry.serial for entry in listed)[serial] > 1:
        return DeviceError(
            "ambiguous_serial",
            f"adb:{serial} is ambiguous: several attached phones have this serial number",
            "attach only one of them at a time",
        )
    match state.split(" ")[0]:
        case "device" if nameless:
            return DeviceError(
                "ambiguous_serial",
                f"adb:{serial} does not name a phone: it has no serial number",
                "use the network: with only this phone on a cable, adb -d tcpip 5555, then adb connect ADDRESS:5555",
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
                f"adb:{serial} is attached but does not answer (adb says: {state[:200]})",
                "plug it in again, or switch USB debugging off and on",
            )


class AdbHost:
    """The adb server on a port of this host. If none runs, it is started with our own adb.

    `port` is that of `server_port`: `ADB_SERVER_SOCKET`, `ANDROID_ADB_SERVER_PORT` or 5037. Our own adb is the one in
    adbutils, or the one that `ADBUTILS_ADB_PATH` names. Two versions of adb on one host would keep ending each other's
    servers. Methods raise `DeviceError` of the kinds in `sweeps.errors.HOST_KINDS`.
    """

    def __init__(self, port: int | None = None) -> None:
        # The lifeline is a bare descriptor: a socket object could be garbage-collected before this object, and would
        # then warn.
        self._lifeline = -1
        """A connection that the server closes only when the server ends; -1 if there is none."""
        self.server_count = 0
        """The number of servers contacted on the port so far: one more after each server that ended."""
        self.misnamed: DeviceError | None = None  # raised when the server is needed
        try:
            self.port = port or server_port(os.environ)
        except DeviceError as error:
            self.port, self.misnamed = DEFAULT_PORT, error
        self.adb = Path(os.environ.get("ADBUTILS_ADB_PATH") or _OWN_ADB)

    def __del__(self) -> None:
        self.close()

    def ensure_server(self) -> None:
        """Ensure that a server of our own version runs. Starting one may take longer than any of its answers."""
        if self.misnamed is not None:
            raise self.misnamed
        if self._lifeline < 0 or not self._is_alive():
            self._contact_server()

    def devices(self) -> tuple[Attached, ...]:
        try:
            return parse_devices(self._text("host:devices-l", _ANSWER_S))
        except WireError as error:
            raise self._no_server(f"does not list its phones ({error})") from error

    def find(self, serial: str) -> Attached | None:
        return next((entry for entry in self.devices() if entry.serial == serial), None)

    def features(self, serial: str, deadline: Deadline) -> frozenset[str]:
        """Return the features of the phone's adb. Raises `NoTransportError`."""
        with self._wire(deadline) as wire:
            try:
                wire.ask(f"host-serial:{serial}:features")
            except (RefusedError, WireDeadlineError) as error:
                raise NoTransportError(str(error)) from error
            return frozenset(wire.text().split(","))

    def connect(self, address: str) -> bool:
        """Connect a phone over the network. Return `False` if it cannot be reached, which adb reports only as text."""
        with suppress(WireError):
            words = self._text(f"host:connect:{address}", _CONNECT_S)
            return words.startswith(("connected to", "already connected"))
        return False

    def disconnect(self, address: str) -> None:
        with suppress(WireError):
            self._text(f"host:disconnect:{address}", _ANSWER_S)

    def reconnect(self, serial: str) -> None:
        """Drop the connection to one phone, over USB too, so that it is opened again. Raises `WireError`."""
        self._text(f"host-serial:{serial}:reconnect", _ANSWER_S)

    def open(self, serial: str, service: str, deadline: Deadline) -> Wire:
        """Open a service of one phone. Raises `NoTransportError`, and `WireError` for other failures."""
        wire = self._wire(deadline)
        try:
            try:
                wire.ask(f"host:transport:{serial}")
            except (RefusedError, WireDeadlineError) as error:
                raise NoTransportError(str(error)) from error
            wire.ask(service)
        except BaseException:
            wire.__exit__()
            raise
        return wire

    def has_ended(self) -> bool:
        """Tell whether the last contacted server has ended, even if another one runs now."""
        return self._lifeline >= 0 and not self._is_alive()

    def close(self) -> None:
        lifeline, self._lifeline = self._lifeline, -1
        if lifeline >= 0:
            os.close(lifeline)

    def _text(self, service: str, seconds: float) -> str:
        self.ensure_server()
        with self._wire(Deadline(seconds)) as wire:
            wire.ask(service)
            return wire.text()

    def _wire(self, deadline: Deadline) -> Wire:
        self.ensure_server()
        try:
            connection = self._connection()
        except DeviceError:
            # The server is ending: it closes its port before the lifeline.
            self._contact_server()
            connection = self._connection()
        return Wire(connection, deadline)

    def _is_alive(self) -> bool:
        """Tell whether the last contacted server still runs. The lifeline tracks phones: the server writes to it on
        each change, and closes it only when the server ends."""
        try:
            while os.read(self._lifeline, 65536):
                pass
        except BlockingIOError:
            return True
        except OSError:
            return False
        return False

    def _contact_server(self) -> None:
        """Start the server if none runs, and check its version."""
        self.close()
        try:
            socket.create_connection((LOOPBACK, self.port), _ANSWER_S).close()
        except OSError:
            self._start()
        try:
            with Wire(self._connection(), Deadline(_ANSWER_S)) as wire:
                wire.ask("host:version")
                running = int(wire.text(), 16)
        except (WireError, ValueError) as error:
            raise self._no_server(f"does not answer like an adb server ({error})") from error
        if running != (own := self._version()):
            raise DeviceError(
                "adb_version",
                f"the adb server on port {self.port} is version 1.0.{running}, and {self.adb} is 1.0.{own}",
                "use one adb on this host: end the other (adb kill-server), or name it in ADBUTILS_ADB_PATH",
            )
        lifeline = self._connection()
        try:
            Wire(lifeline, Deadline(_ANSWER_S)).ask("host:track-devices")
        except WireError as error:
            lifeline.close()
            raise self._no_server(f"does not answer like an adb server ({error})") from error
        lifeline.setblocking(False)
        self._lifeline = lifeline.detach()
        self.server_count += 1

    def _start(self) -> None:
        try:
            ended = _run(self.adb, self.port, "start-server")
        except (OSError, subprocess.TimeoutExpired) as error:
            raise self._no_server(f"could not be started ({error})") from error
        # If several processes start a server at once, all but one fail, before the server of that one answers.
        if ended.returncode != 0 and not self._comes_up():
            raise self._no_server(f"could not be started ({ended.stdout.strip()[-500:]})")

    def _comes_up(self) -> bool:
        for _ in tries(_OTHERS_START_S, _LOOK_S):
            with suppress(OSError):
                socket.create_connection((LOOPBACK, self.port), _ANSWER_S).close()
                return True
        return False

    def version(self) -> str:
        """Return the version as adb itself prints it. No server is needed."""
        return f"1.0.{self._version()}"

    def _version(self) -> int:
        """Return the last number of `1.0.41`. Client and server compare only this number."""
        try:
            match = re.search(r"version 1\.0\.(\d+)", _run(self.adb, self.port, "version").stdout)
        except (OSError, subprocess.TimeoutExpired) as error:
            raise self._no_server(f"cannot be checked, because our adb does not start ({error})") from error
        if match is None:
            raise self._no_server(f"cannot be checked, because {self.adb} reports no version")
        return int(match[1])

    def _connection(self) -> socket.socket:
        # adbutils does not open the connection: if no server runs, adbutils starts one on the default port and leaks a
        # socket.
        try:
            return socket.create_connection((LOOPBACK, self.port), _ANSWER_S)
        except OSError as error:
            raise self._no_server(f"cannot be reached ({error})") from error

    def _no_server(self, why: str) -> DeviceError:
        return DeviceError(
            "adb_server",
            f"the adb server of this host (port {self.port}) {why}",
            f"find out what uses the port, or start the server: {self.adb} -P {self.port} start-server",
        )


def _run(adb: Path, port: int, word: str) -> "subprocess.CompletedProcess[str]":
    # The output does not go to a pipe: a started server would keep it open.
    with tempfile.TemporaryFile("w+", errors="replace") as printed:
        ended = subprocess.run(  # noqa: S603  # a fixed program and word
            [str(adb), "-P", str(port), word],
            stdin=subprocess.DEVNULL,
            stdout=printed,
            stderr=printed,
            text=True,
            timeout=_START_S,
            check=False,
            # Beside -P, adb refuses the variable; with mDNS, its server sends to the whole network.
            env={"ADB_MDNS": "0"} | {name: value for name, value in os.environ.items() if name != SOCKET_VARIABLE},
        )
        printed.seek(0)
        ended.stdout = printed.read()
        return ended
