"""An Android phone that is attached to the adb server of this host. All our files on it are in
`/data/local/tmp/edgesweep/`."""

import secrets
from collections.abc import Sequence
from pathlib import Path

from sweeps.device_facts import DeviceFacts
from sweeps.errors import DeviceError
from workers.devices.adb.adb_host import AdbHost
from workers.devices.adb.attempt import KEPT_SHELL, Attempt, leads_attempt
from workers.devices.adb.facts import is_ours
from workers.devices.adb.files import AdbFiles
from workers.devices.adb.open_shell import KeptShell
from workers.devices.adb.phone_connection import PhoneConnection
from workers.devices.adb.phone_lock import PhoneLock
from workers.devices.adb.questions import ask_facts, ask_sensors
from workers.devices.interface import Sensors
from workers.devices.remote.device import RemoteDevice
from workers.devices.remote.orphans import end_orphans
from workers.devices.remote.remote_shell import BOOT_ID
from workers.devices.shell import outcome_text


class AdbDevice(RemoteDevice):
    """One phone, by its serial number in adb. A network phone is `ADDRESS:PORT`; if it is lost, it is reconnected.

    All methods raise `DeviceError` with the serial number in its message. The kind is `offline`, `unauthorized`,
    `no_permissions`, `ambiguous_serial`, `disconnected`, `unresponsive` or `rebooted` for a problem of the phone,
    `adb_server` or `adb_version` for one of this host, `timeout` if a program or a file takes too long,
    `no_exit_code` if it is not known how a program ended, or one that `Device` documents.
    """

    def __init__(
        self,
        folder: Path,
        name: str,
        host: AdbHost | None = None,
        *,
        answer_s: float = 30.0,
        backoff_s: Sequence[float] = (0.2, 1.0, 3.0),
    ) -> None:
        """Prepare access to the phone. `folder` is not used: a phone needs no files on this host. `answer_s` is the
        deadline (s) of everything but programs; `backoff_s` are the pauses (s) before each attempt to reconnect a
        network phone."""
        self.serial = name
        host = host or AdbHost()
        self._port = host.port
        self._connection = PhoneConnection(name, host, answer_s=answer_s, backoff_s=backoff_s)
        super().__init__(self._connection, AdbFiles(self._connection))
        self._kept_shell = KeptShell(self._connection, KEPT_SHELL)
        self._lock: PhoneLock | None = None
        self._series = secrets.token_hex(8)
        self._attempts = 0

    def set_fixed_performance(self, on: bool) -> bool:
        done = self._connection.shell(f"cmd power set-fixed-performance-mode-enabled {'true' if on else 'false'}")
        words = (done.stdout + done.stderr).lower()
        # The service did not answer, so whether the phone has the mode is not known.
        if b"failure calling service" in words:
            raise DeviceError(
                "os_error", f"adb:{self.serial}: the fixed-performance mode was not switched{outcome_text(done)}"
            )
        # The phone may be older than Android 11, or lack the service. If the phone's Power HAL lacks the mode, or its
        # maker forbids it to the shell, the message differs between phones, but the exit code is never 0.
        unknown = any(text in words for text in (b"unknown command", b"can't find service", b"not found"))
        return done.exit_code == 0 and not unknown

    def boot_id(self) -> str:
        """Return the phone's boot id, which changes with each boot; empty if the phone does not report it."""
        return self._connection.shell(f"cat {BOOT_ID}").stdout.decode("ascii", "replace").strip()

    def take_lock(self) -> None:
        """Lock the phone, over USB and network, against other processes of this host, and lock the adb server against a
        restart. The locks last until `release()` or the end of this process for any reason.

        No program on the phone is killed: another host may measure on it. Raises `DeviceError("leased", ...)` if
        another process of this host has the lock.
        """
        if self._lock is None:
            self._lock = PhoneLock(self.serial, self.facts().device_id, self._port)

    def release(self) -> None:
        super().release()
        self._kept_shell.end()
        if self._lock is not None:
            self._lock.release()
            self._lock = None

    def end_orphans(self) -> tuple[str, ...]:
        """Kill our programs that an earlier driver left running, and delete their reports. Return a line for each
        program.

        The phone's lock must be held, and no program started yet. Raises `DeviceError("orphan", ...)` if one of the
        programs does not end.
        """
        self._kept_shell.end()
        return end_orphans(self._connection, leads_attempt, is_ours)

    def _is_locked(self) -> bool:
        return self._lock is not None

    def _ask_facts(self) -> tuple[DeviceFacts, str]:
        return ask_facts(self._connection)

    def _ask_sensors(self, *, load: bool) -> Sensors:
        return ask_sensors(self._connection, load=load)

    def _attempt(self, script: str, shown: str) -> Attempt:
        self._attempts += 1
        shell = self._kept_shell if self._is_locked() else None
        return Attempt(self._connection, self._series, self._attempts, script, shown, shell)
