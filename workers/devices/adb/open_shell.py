"""A shell on a phone that stays open from one program to the next: starting a shell takes longer than all the shell
does."""

from contextlib import suppress

from workers.devices.adb.phone_connection import PhoneConnection
from workers.devices.adb.wire import Deadline, Output, Wire, WireError, read_shell, send_line

_LONGEST_LINE = 4096
"""The longest line (characters) that is sent: a shell reads its input byte by byte."""
_END_S = 1.0


class KeptShell:
    """A shell that is opened when the first line is sent. `script` reads lines from its input and runs each of them,
    until the input ends."""

    def __init__(self, connection: PhoneConnection, script: str) -> None:
        self._connection = connection
        self._script = script
        self._wire: Wire | None = None

    @staticmethod
    def takes(line: str) -> bool:
        return "\n" not in line and len(line) <= _LONGEST_LINE

    def send(self, line: str, deadline: Deadline) -> Wire:
        """Send a line. Its output arrives over the returned connection, which still belongs to the shell.

        Raises `DeviceError` if no shell could be opened, and `WireError` if it is unknown whether the shell read the
        line.
        """
        # If a shell has ended since the last line, the end of its connection has arrived.
        if self._wire is not None and not self._wire.is_silent():
            self.close()
        if self._wire is None:
            self._wire = self._connection.open(f"shell,v2,raw:{self._script}", deadline)
        self._wire.renew(deadline)
        send_line(self._wire, line)
        return self._wire

    def close(self) -> None:
        """Close the connection without sending anything to the phone, where the shell ends by itself."""
        if self._wire is not None:
            self._wire.close()
            self._wire = None

    def end(self) -> None:
        """End the shell; if the phone answers, the shell has ended when this call returns."""
        if self._wire is not None:
            with suppress(WireError):
                self._wire.renew(Deadline(_END_S))
                read_shell(self._wire, Output(0, bytearray(), bytearray()))
            self.close()
