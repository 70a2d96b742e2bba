"""A Linux board over ssh. All our files on it are in `.edgesweep/`, in the home folder of its user."""

from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from sweeps.device_facts import DeviceFacts
from sweeps.errors import DeviceError
from workers.devices.interface import Sensors
from workers.devices.remote.attempt import attempt_folder
from workers.devices.remote.device import RemoteDevice
from workers.devices.remote.orphans import end_orphans
from workers.devices.ssh.address import parse
from workers.devices.ssh.attempt import Attempt, leads_attempt
from workers.devices.ssh.board_connection import BoardConnection
from workers.devices.ssh.board_lock import BoardLock
from workers.devices.ssh.facts import is_ours
from workers.devices.ssh.files import SshFiles
from workers.devices.ssh.questions import ask_facts, ask_sensors


class SshDevice(RemoteDevice):
    """One board, by `USER@BOARD:PORT`. A lost connection is opened again; a program on the board keeps running
    meanwhile.

    All methods raise `DeviceError` with the board's name in its message. The kind is `offline`, `unauthorized`,
    `unknown_host_key`, `changed_host_key`, `unresponsive`, `disconnected` or `rebooted` for a problem of the board,
    `timeout` if a program or a file takes too long, `no_exit_code` if it is unknown how a program ended, or one that
    `Device` documents.
    """

    def __init__(
        self,
        folder: Path,
        name: str,
        *,
        answer_s: float = 30.0,
        backoff_s: Sequence[float] = (0.2, 1.0, 3.0, *(5.0,) * 12),
    ) -> None:
        """Prepare access to the board. `folder` is not used: a board needs no files on this host. `answer_s` is the
        deadline (s) of everything but programs and files; `backoff_s` are the pauses (s) before each attempt to reach a
        board again that was lost while a program runs on it: a minute in all."""
        self.name = f"ssh:{name}"
        self._connection = BoardConnection(parse(name), answer_s=answer_s, backoff_s=backoff_s)
        super().__init__(self._connection, SshFiles(self._connection))
        self._lock = BoardLock(self._connection)

    def set_fixed_performance(self, on: bool) -> bool:
        return False  # Linux has no such mode without root

    def boot_id(self) -> str:
        """Return the board's boot id, which changes with each boot; empty if the board does not report it."""
        self._connection.ensure_contact()
        return self._connection.boot_id

    def take_lock(self) -> None:
        """Lock the board against every other driver that measures on it, from any computer and as any user. The lock
        lasts until `release()`, the end of this process, or five minutes without a connection.

        Raises `DeviceError("leased", ...)` at once if another driver has the lock.
        """
        self._lock.take()

    def release(self) -> None:
        """Release the lock, and close the connection, which the next call opens again."""
        super().release()
        if self._received:
            with suppress(DeviceError):  # The next driver deletes the folder.
                self._connection.shell(f"rm -rf {attempt_folder(self._connection, self._received)}")
            self._received = ""
        self._lock.release()
        self._connection.close()

    def end_orphans(self) -> tuple[str, ...]:
        """Kill our programs that an earlier driver left running, and delete their reports. Return a line for each
        program.

        The board's lock must be held, and no program started yet. Raises `DeviceError("orphan", ...)` if one of the
        programs does not end. Programs of other users of the board are not ended: they count as other benchmarks.
        """
        folder = str(self._connection.folder())
        return end_orphans(self._connection, leads_attempt, lambda cmdline: is_ours(cmdline, folder))

    def _is_locked(self) -> bool:
        return self._lock.required

    def _ask_facts(self) -> tuple[DeviceFacts, str]:
        return ask_facts(self._connection), self._connection.boot_id

    def _ask_sensors(self, *, load: bool) -> Sensors:
        return ask_sensors(self._connection, load=load)

    def _ensure_ready(self) -> None:
        super()._ensure_ready()
        self._lock.ensure()

    def _attempt(self, script: str, shown: str) -> Attempt:
        return Attempt(self._connection, self._lock, script, shown, self._received)
