"""A shell on a phone that stays open from one program to the next: starting a shell takes longer than all that it
does."""

from contextlib import suppress

from workers.devices.adb.phone_connection import PhoneConnection
from workers.devices.adb.wire import Deadline, Output, Wire, WireError, read_shell, send_line

_LONGEST_LINE = 4096
"""The longest line to send: a shell reads its input byte by byte."""
_END_S = 1.0


class KeptShell:
    """A shell that is opened with the first line. `script` reads lines from its input and runs each, until there are no
    more."""

    def __init__(self, connection: PhoneConnection, script: str) -> None:
        self._connection = connection
        self._script = script
        self._wire: Wire | None = None

    @staticmethod
    def takes(line: str) -> bool:
        return "\n" not in line and len(line) <= _LONGEST_LINE

    def send(self, line: str, deadline: Deadline) -> Wire:
        """Sends a line; its output comes over the returned connection, which stays the shell's.

        Raises `DeviceError` if no shell could be opened, and `WireError` if it is not known whether the line was read.
        """
        # A shell that ended while nobody asked it has said so.
        if self._wire is not None and not self._wire.is_silent():
            self.close()
        if self._wire is None:
            self._wire = self._connection.open(f"shell,v2,raw:{self._script}", deadline)
        self._wire.renew(deadline)
        send_line(self._wire, line)
        return self._wire

    def close(self) -> None:
        """Closes the connection without a word to the phone, where the shell ends by itself."""
        if self._wire is not None:
            self._wire.close()
            self._wire = None

    def end(self) -> None:
        """Ends the shell; if the phone answers, it has ended when this returns."""
        if self._wire is not None:
            with suppress(WireError):
                self._wire.renew(Deadline(_END_S))
                read_shell(self._wire, Output(0, bytearray(), bytearray()))
            self.close()
