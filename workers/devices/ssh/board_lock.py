"""A lock on a board, held on the board itself: drivers on several computers may use the board.

A shell on the board holds the lock with `flock`, for as long as the driver sends it lines. The shell ends with its
connection, and after `SILENT_S` seconds if the driver's computer was cut off.
"""

import getpass
import os
import re
import secrets
import socket
from contextlib import suppress

from sweeps.errors import DeviceError
from workers.devices.linux.competing import parse_processes
from workers.devices.ssh import loop
from workers.devices.ssh.board_connection import BoardConnection
from workers.devices.ssh.connection import UNKNOWN, Holder
from workers.devices.ssh.streams import LostError

SILENT_S, _FEED_S = 300, 60.0
_END_S = 10.0
_WORD = "edgesweep-lock"
_HELD = "edgesweep-held"
# The file is not in the user's home: all users of the board share its CPU.
_FILE = "/tmp/edgesweep-board.lock"  # noqa: S108  # opened for reading only, so a link there does no harm
_BUSY, _NO_TOOL = 90, 91
_SCRIPT = f"""
for one in flock timeout; do command -v $one >/dev/null || exit {_NO_TOOL}; done
[ -e {_FILE} ] || (umask 022; : >>{_FILE}) 2>/dev/null
exec 9<{_FILE}
flock -n 9 || exit {_BUSY}
echo {_HELD}
while timeout {SILENT_S} /bin/sh -c 'read -r line' 9<&-; do :; done
"""
_HOLDER = re.compile(rf"[^\0\n]*\0-s\0{_WORD}\0([0-9a-f]{{16}})\0([\w.@-]{{1,200}})\0", re.ASCII)


class BoardLock:
    """The lock of one board, from `take()` to `release()`; it is taken again after its connection was lost."""

    def __init__(self, connection: BoardConnection) -> None:
        self._connection = connection
        self._token = secrets.token_hex(8)
        self._holder: Holder | None = None
        self.required = False

    def take(self) -> None:
        """Take the lock. Raises `DeviceError("leased", ...)` at once if another driver has it."""
        self._ensure()
        self.required = True

    def ensure(self) -> None:
        """Take the lock again if it was lost: another driver may have it by now. Raises `DeviceError` as `take`
        does."""
        if self.required:
            self._ensure()

    def release(self) -> None:
        self.required = False
        holder, self._holder = self._holder, None
        if holder is not None:
            with suppress(TimeoutError):
                loop.call(holder.end(), _END_S)

    def _ensure(self) -> None:
        for last in (False, True):
            self._connection.ensure_contact()
            if self._holder is not None and self._holder.exit_code() is None:
                return
            words = f"{_WORD} {self._token} {_who()}"
            holder = self._connection.hold(words, _SCRIPT, _HELD)
            match holder.exit_code():
                case None:
                    self._holder = holder
                    loop.call(holder.feed_every(_FEED_S), _END_S)
                    return
                case code if code == _BUSY:
                    if last or not self._end_own():
                        raise self._leased()
                case code if code == _NO_TOOL:
                    raise DeviceError(
                        "os_error",
                        f"{self._connection.name} has no flock or no timeout, with which it is locked",
                        "install util-linux and coreutils there, or BusyBox with both",
                    )
                case code if code == UNKNOWN:
                    self._connection.close()
                    if last:
                        raise self._connection.broken_off(
                            LostError("it was lost twice"), "it was locked", "unresponsive"
                        )
                case code:
                    raise DeviceError(
                        "os_error", f"{self._connection.name} cannot be locked: {_FILE} does not open ({code})"
                    )

    def _holders(self) -> list[tuple[int, str, str]]:
        """Return the process, token and computer of each holder of the lock."""
        (text,) = self._connection.sections(self._connection.processes_script)
        matches = ((pid, _HOLDER.match(cmdline)) for pid, cmdline in parse_processes(text))
        return [(pid, match[1], match[2]) for pid, match in matches if match]

    def _end_own(self) -> bool:
        """End the holder whose connection to this driver was lost, which the board may not have noticed. Return whether
        there was such a holder and it has ended."""
        own = [pid for pid, token, _ in self._holders() if token == self._token]
        return bool(own) and all(self._connection.kill(pid) for pid in own)

    def _leased(self) -> DeviceError:
        holders = self._holders()
        who = "; ".join(f"{computer}, process {pid} on the board" for pid, _, computer in holders) or "another user"
        end = f", or at once by: ssh {self._connection.address.target} kill {holders[0][0]}" if holders else ""
        return DeviceError(
            "leased",
            f"{self._connection.name} is being measured by another EdgeSweep ({who})",
            f"wait until that ends; if its computer is gone, it ends by itself within {SILENT_S / 60:.0f} minutes{end}",
        )


def _who() -> str:
    """Return the name of this driver, for people at the board; one plain word."""
    try:
        user = getpass.getuser()
    except (KeyError, OSError):
        user = "user"
    return re.sub(r"[^\w.@-]", "_", f"{user}@{socket.gethostname()}-process-{os.getpid()}", flags=re.ASCII)[:200]
