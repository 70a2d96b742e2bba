"""Steps that may bring back a phone that stopped answering, gentle ones first (`workers.devices.interface.Recovery`).

No step needs the phone's lock, or an object that was created while the phone still answered.
"""

import subprocess
from contextlib import suppress

import psutil

from sweeps.errors import DeviceError
from sweeps.locks import LockedError
from sweeps.retry import tries
from workers.devices.adb.adb_host import AdbHost, problem
from workers.devices.adb.phone_connection import PhoneConnection
from workers.devices.adb.phone_lock import server_alone
from workers.devices.adb.wire import WireError
from workers.devices.interface import Rung
from workers.devices.remote.remote_shell import BOOT_ID
from workers.devices.shell import outcome_text

ANSWER_S = 10.0
"""The time (s) that a phone may take to answer during recovery. Before recovery, it has three times as long."""
_LISTED_S = 5.0
"""The time that a server which has just started has to find a phone."""
_ENDS_S = 20.0
_LOOK_S = 0.1
_GOES_DOWN_S = 20.0
_STARTING = "running"
"""The state of Android's boot animation while the system starts: the shell already answers long before the start is
complete."""


def climb(name: str, rung: Rung) -> None:
    """Take a recovery step. Raises `DeviceError`; with `ask` if the phone does not answer or is still starting."""
    serial = name.partition(":")[2]
    host = AdbHost()
    try:
        match rung:
            case "ask":
                _ask(serial, host)
            case "reconnect":
                _reconnect(serial, host)
            case "restart_adb":
                _restart(serial, host)
            case "reboot":
                _reboot(serial, host)
    finally:
        host.close()


def _connection(serial: str, host: AdbHost) -> PhoneConnection:
    # A phone of the network that is not listed is connected to once.
    return PhoneConnection(serial, host, answer_s=ANSWER_S, backoff_s=(0.2,))


def _ask(serial: str, host: AdbHost) -> None:
    done = _connection(serial, host).shell("getprop init.svc.bootanim")
    if done.stdout.decode("utf-8", "replace").strip() == _STARTING:
        raise DeviceError("offline", f"adb:{serial} is still starting", "wait until it has")


def _reconnect(serial: str, host: AdbHost) -> None:
    if ":" in serial:
        host.disconnect(serial)
        connected = host.connect(serial)
    else:
        try:
            host.reconnect(serial)
            connected = True
        except WireError:
            connected = False
    if not connected:
        raise DeviceError(
            "offline", f"adb:{serial} cannot be connected again", "plug it in, or connect it to the same network"
        )


def _restart(serial: str, host: AdbHost) -> None:
    try:
        alone = server_alone(host.port)
    except LockedError as error:
        raise _not_restarted(serial, "another phone of this computer is being measured") from error
    try:
        of_network = {entry.serial for entry in host.devices() if ":" in entry.serial and problem(entry, ()) is None}
        if not _is_local(host.port):
            # A server on another computer, once ended, could not be started from this process.
            raise _not_restarted(serial, "it is not known to run on this computer for this user")
        _end_server(host)
        host.ensure_server()
        # Only phones on a cable are found again by themselves.
        for phone in sorted({*of_network, *([serial] if ":" in serial else [])}):
            host.connect(phone)
        _wait_until_listed(serial, host)
    finally:
        alone.release()


def _not_restarted(serial: str, why: str) -> DeviceError:
    return DeviceError(
        "adb_in_use",
        f"the adb server is not restarted for adb:{serial}: {why}",
        "plug the phone in again, or restart it",
    )


def _is_local(port: int) -> bool:
    """Tell whether the adb server is a process of this computer that this user may inspect, and not a tunnel to a
    server on another computer."""
    with suppress(psutil.Error):
        for entry in psutil.net_connections("tcp"):
            if entry.status == psutil.CONN_LISTEN and getattr(entry.laddr, "port", 0) == port and entry.pid is not None:
                return psutil.Process(entry.pid).name() == "adb"
    return False


def _end_server(host: AdbHost) -> None:
    """End the adb server, whoever started it."""
    # A server that hangs does not end; the next contact then reports it.
    with suppress(OSError, subprocess.TimeoutExpired):
        subprocess.run(  # noqa: S603  # a fixed program and word
            [str(host.adb), "-P", str(host.port), "kill-server"],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=_ENDS_S,
            check=False,
        )


def _wait_until_listed(serial: str, host: AdbHost) -> None:
    for _ in tries(_LISTED_S, _LOOK_S):
        entry = host.find(serial)
        if entry is not None and problem(entry, ()) is None:
            return


def _reboot(serial: str, host: AdbHost) -> None:
    connection = _connection(serial, host)
    before = connection.shell(f"cat {BOOT_ID}").stdout
    # `reboot` does the same on Android. A computer that runs adbd for another reason has no such program.
    done = connection.shell("setprop sys.powerctl reboot")
    if done.exit_code != 0:
        raise DeviceError("os_error", f"adb:{serial} does not restart{outcome_text(done)}", "restart it by hand")
    # The phone answers for a while yet.
    with suppress(DeviceError):
        for _ in tries(_GOES_DOWN_S, _LOOK_S):
            if connection.shell(f"cat {BOOT_ID}").stdout != before:
                return
