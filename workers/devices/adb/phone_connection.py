"""The connection to one phone: shell commands and file transfers. Each call returns an answer or raises a
`DeviceError`."""

from collections.abc import Callable, Sequence
from pathlib import PurePosixPath
from typing import NoReturn

from sweeps.errors import DeviceError
from sweeps.retry import tries_with
from workers.devices.adb.adb_host import AdbHost, NoTransportError, problem
from workers.devices.adb.wire import Deadline, Output, RefusedError, Wire, WireError, read_shell
from workers.devices.interface import Completed
from workers.devices.remote.remote_shell import OUTPUT_LIMIT_BYTES, DeadlineError, RemoteShell
from workers.devices.shell import TAIL_BYTES

FOLDER = PurePosixPath("/data/local/tmp/edgesweep")
_SLOWEST_BYTES_PER_S = 1e6
"""The slowest transfer that is still waited for: USB 2 moves 20 MB/s, bad Wi-Fi 2 MB/s."""


class PhoneConnection(RemoteShell):
    """A phone by its serial number in adb. A network phone is `ADDRESS:PORT`; if it is lost, it is reconnected."""

    noun = "phone"
    processes_script = "grep -a '' /dev/null /proc/[0-9]*/cmdline"

    def __init__(self, serial: str, host: AdbHost, *, answer_s: float, backoff_s: Sequence[float]) -> None:
        self.serial = serial
        self.name = f"adb:{serial}"
        self._host = host
        self._answer_s = answer_s
        self._backoff_s = tuple(backoff_s)
        self._knows_shell = False
        self._server = 0
        """The number of the server (`AdbHost.server_count`) at the last contact with the phone."""

    def transfer(self, transfer: Callable[[Wire], None], name: str, size: int, refused: str = "os_error") -> None:
        self._host.ensure_server()
        deadline = Deadline(self._answer_s + size / _SLOWEST_BYTES_PER_S)
        try:
            with self.open("sync:", deadline) as wire:
                transfer(wire)
        except DeadlineError as error:
            # If the phone hangs, this raises another error. If not, the connection was just too slow for the file.
            self.shell(":")
            raise DeviceError(
                "timeout",
                f"{self.name}: the transfer of {name[:100]} ({size / 1e6:.1f} MB) took too long",
                "use another cable or port, or a cable instead of Wi-Fi",
            ) from error
        except RefusedError as error:
            if "no space" in str(error).lower():
                raise self.no_space(f"{name[:100]} did not fit") from error
            raise DeviceError(refused, f"{self.name}: {name[:100]}: {str(error)[:TAIL_BYTES]}") from error
        except WireError as error:
            self.raise_lost(error, f"{name[:100]} was transferred", "disconnected")

    def folder(self) -> PurePosixPath:
        return FOLDER

    def ensure_contact(self) -> None:
        # The first contact may start a server, which takes 3 s.
        if not self._knows_shell or self._host.has_ended():
            self.shell(":")

    def shell(self, script: str) -> Completed:
        output = Output(OUTPUT_LIMIT_BYTES, bytearray(), bytearray())
        action = f"{script.strip().splitlines()[0][:100]} ran"
        self._host.ensure_server()
        try:
            with self.open(f"shell,v2,raw:{script}", Deadline(self._answer_s)) as wire:
                status = read_shell(wire, output)
        except DeadlineError as error:
            raise DeviceError(
                "unresponsive",
                f"{self.name} did not answer in time while {action}",
                "plug it in again, or restart it",
            ) from error
        except WireError as error:
            self.raise_lost(error, action, "unresponsive")
        return Completed(exit_code=status, stdout=bytes(output.stdout), stderr=bytes(output.stderr))

    def open(self, service: str, deadline: Deadline, *, retry_usb: bool = False) -> Wire:
        """Open a service. If a network phone cannot be reached, try again: nothing was sent to it yet.

        `retry_usb`: also try again over USB, because a server that has just started may not have found the phone yet.
        """
        try:
            service.encode("utf-8", "surrogateescape")
        except UnicodeEncodeError as error:
            raise DeviceError("bad_name", f"{self.name}: a name or argument cannot be written as UTF-8") from error
        for number, is_last in enumerate(tries_with(self._backoff_s)):
            if number and self._is_on_network():
                self._reconnect()
            try:
                if not self._knows_shell:
                    self._ask_for_shell(deadline)
                wire = self._host.open(self.serial, service, deadline)
                self._server = self._host.server_count
                return wire
            except NoTransportError as error:
                if is_last or deadline.passed() or not (self._is_on_network() or retry_usb):
                    self.raise_lost(error, "a connection was opened", "offline")
        raise AssertionError("the last try returns or raises")

    def _is_on_network(self) -> bool:
        return ":" in self.serial

    def _reconnect(self) -> None:
        entry = self._host.find(self.serial)
        if entry is not None and (refusal := problem(entry, ())) is not None:
            if refusal.kind != "offline":
                raise refusal
            self._host.disconnect(self.serial)
        self._host.connect(self.serial)

    def _ask_for_shell(self, deadline: Deadline) -> None:
        if "shell_v2" not in self._host.features(self.serial, deadline):
            raise DeviceError(
                "no_shell_v2",
                f"{self.name} does not report how programs end (its adb has no shell_v2)",
                "Android 7 is the oldest version that works",
            )
        self._knows_shell = True

    def raise_lost(self, error: WireError, action: str, kind: str) -> NoReturn:
        """Raise the error that says why the connection was lost: because of the server, the phone's state, or otherwise
        one of `kind`."""
        # A server that is ending closes the phones' connections first: its end may only be noticed when it is asked for
        # the phones.
        entry = None if self._host.has_ended() else self._host.find(self.serial)
        if self._host.has_ended() or self._server not in (0, self._host.server_count):
            self._server = self._host.server_count
            raise DeviceError(
                "adb_server",
                f"the adb server of this host was stopped or replaced while, on adb:{self.serial}, {action}",
                "use one adb on this host; another version ends the server of the first",
            ) from error
        if entry is None:
            raise DeviceError(
                "offline" if isinstance(error, NoTransportError) or kind == "unresponsive" else "disconnected",
                f"{self.name} is not attached (any more), noticed while {action}",
                "plug it in, or connect it to the same network; `adb devices` must list it",
            ) from error
        if (refusal := problem(entry, self._host.devices())) is not None:
            raise DeviceError(refusal.kind, f"{refusal.message}, noticed while {action}", refusal.next_step) from error
        raise DeviceError(kind, f"{self.name}: {error} while {action}", "check that the cable is firm") from error
