"""One attempt to run a program on a board. The program's report is stored on the board, so that a lost connection loses
nothing."""

import re
import secrets
import time

from sweeps.errors import DeviceError
from workers.devices.interface import Completed
from workers.devices.remote.attempt import (
    COLLECT,
    SIGNALS,
    STDERR_LIMIT_BYTES,
    RemoteAttempt,
    Report,
    attempt_folder,
)
from workers.devices.remote.remote_shell import BOOT_ID, OUTPUT_LIMIT_BYTES
from workers.devices.ssh.board_connection import MARK, BoardConnection
from workers.devices.ssh.board_lock import BoardLock
from workers.devices.ssh.streams import LostError

WORD = "edgesweep-attempt"
# Exit codes of our script without a report, beside those of `RemoteAttempt`.
_NO_GROUP, _NO_FOLDER = 91, 92
_QUIET_SIGNALS = frozenset({130, 141, 143})
"""The signals (INT, PIPE, TERM) that some shells do not report."""


def leads_attempt(cmdline: str) -> bool:
    """Tell whether a command line, with a NUL after each word, is that of an attempt's shell."""
    return re.match(rf"[^\0\n]*\0-s\0{WORD}\0", cmdline) is not None


class Attempt(RemoteAttempt):
    """One attempt to run a program on a board.

    The attempt's folder also contains `said`: what the shell prints about the program, which is nothing unless a signal
    ended the program. The next attempt deletes the folder.
    """

    def __init__(
        self, connection: BoardConnection, lock: BoardLock, script: str, shown: str, received: str = ""
    ) -> None:
        """Prepare the attempt. `received`: the name of an attempt whose report was received, and whose folder is
        deleted."""
        super().__init__(connection, secrets.token_hex(8), script, shown)
        self._connection = connection
        self._lock = lock
        self._received = received

    def run(self, seconds: float) -> Report:
        ends_s = time.monotonic() + seconds
        script = self._start_script()
        while True:
            try:
                done = self._connection.script(script, f"attempt {self.name}", max(0.1, ends_s - time.monotonic()))
            except LostError:
                self._connection.close()
                self._connection.reconnect(max(0.1, ends_s - time.monotonic()))
                # The lock is taken again before another driver takes it and ends the program.
                self._lock.ensure()
                script = self._collect_script()
            else:
                return self._report(done)

    def _start_script(self) -> str:
        # Later, programs are killed by group: the shell has to lead a separate process group, as it does under
        # OpenSSH's server.
        old = f"rm -rf {attempt_folder(self._connection, self._received)}; " if self._received else ""
        return f"""trap '' HUP; umask 77; d={self._folder}
kill -s 0 -- -$$ 2>/dev/null || exit {_NO_GROUP}
{old}mkdir -p "$d" || exit {_NO_FOLDER}
{{ read -r boot <{BOOT_ID}; }} 2>/dev/null
echo $$ $boot >"$d"/started || exit {_NO_FOLDER}
{{ ({MARK}={self.name}.; export {MARK}; exec {self._script}) </dev/null >"$d"/out 2>"$d"/err; s=$?; }} 2>"$d"/said
echo $s >"$d"/end
{self._report_script()}"""

    def _collect_script(self) -> str:
        """Return the script that waits for the end of a program that was started."""
        return f"d={self._folder}\n{COLLECT}{self._report_script()}"

    def _report_script(self) -> str:
        """Return the script that prints a line with the exit code, the boot id and whether the shell printed something;
        then stdout, and stderr."""
        return (
            'said=-; [ -s "$d"/said ] && said=said\n'
            f'echo $s ${{boot:--}} $said; head -c {OUTPUT_LIMIT_BYTES + 1} "$d"/out && '
            f'tail -c {STDERR_LIMIT_BYTES} "$d"/err >&2'
        )

    def _report(self, done: Completed) -> Report:
        first, _, out = done.stdout.partition(b"\n")
        head = re.fullmatch(rb"([0-9]{1,3}) ([0-9a-f-]{1,36}) (said|-)", first)
        if done.exit_code == _NO_GROUP:
            raise DeviceError(
                "os_error",
                f"{self._connection.name}: its ssh server gives programs no process group of their own, so they could "
                "not be ended",
                "use OpenSSH's server there: apt-get install openssh-server",
            )
        if done.exit_code != 0 or head is None:
            raise self._no_report(done)
        code = int(head[1])
        # A program may end with 137 by itself. If a signal ended it, its shell prints that.
        by_signal = code in SIGNALS and (head[3] == b"said" or code in _QUIET_SIGNALS)
        return self._report_of(128 - code if by_signal else code, head[2].decode().strip("-"), out, done.stderr)
