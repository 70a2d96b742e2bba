"""The adb server of a host where there is none yet, and which of the phones that it lists can be used."""

import os
import threading
import time
from pathlib import Path

import pytest

from sweeps.errors import DeviceError
from tests.faulty_phone import FaultyPhone
from tests.workers.adb_server import kill_server
from workers.devices.adb import adb_host as adb_host
from workers.devices.adb.adb_host import AdbHost, Attached, parse_devices, problem
from workers.devices.adb.device import AdbDevice
from workers.devices.adb.server_address import server_port

SLOW_ADB = """#!/bin/sh
[ "$3" = start-server ] && sleep 5.5
exec '{adb}' "$@"
"""


@pytest.fixture
def slow(port: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> int:
    """A port without a server, which takes longer to start than anything is waited for."""
    kill_server(port)
    program = tmp_path / "adb"
    program.write_text(SLOW_ADB.format(adb=AdbHost(port).adb))
    program.chmod(0o755)
    monkeypatch.setenv("ADBUTILS_ADB_PATH", str(program))
    monkeypatch.setattr(adb_host, "_ANSWER_S", 5.0)
    monkeypatch.setattr(adb_host, "_CONNECT_S", 5.0)
    return port


def test_a_server_that_is_slow_to_start_lists_its_phones(slow: int) -> None:
    assert AdbHost(slow).devices() == ()


def test_a_phone_is_reached_over_a_server_that_is_slow_to_start(slow: int, tmp_path: Path) -> None:
    with FaultyPhone(tmp_path / "phone") as phone:
        assert AdbHost(slow).connect(phone.serial)
        kill_server(slow)
        device = AdbDevice(tmp_path, phone.serial, answer_s=5.0)
        device.push(Path(__file__), "pushed")
        AdbHost(slow).disconnect(phone.serial)


@pytest.mark.parametrize(
    ("environment", "port"),
    [
        ({}, 5037),
        ({"ANDROID_ADB_SERVER_PORT": ""}, 5037),
        ({"ANDROID_ADB_SERVER_PORT": "5038"}, 5038),
        ({"ADB_SERVER_SOCKET": "tcp:5039", "ANDROID_ADB_SERVER_PORT": "5038"}, 5039),
        ({"ADB_SERVER_SOCKET": "tcp:localhost:5039"}, 5039),
        ({"ADB_SERVER_SOCKET": "tcp:127.0.0.1:5039"}, 5039),
    ],
)
def test_the_server_is_the_one_that_adb_s_own_variables_name(environment: dict[str, str], port: int) -> None:
    assert server_port(environment) == port


@pytest.mark.parametrize(
    ("variable", "value", "why"),
    [
        ("ANDROID_ADB_SERVER_PORT", "50x7", "no port"),
        ("ANDROID_ADB_SERVER_PORT", "0", "no port"),
        ("ANDROID_ADB_SERVER_PORT", "65536", "no port"),
        ("ANDROID_ADB_SERVER_PORT", "٥٠٣٧", "no port"),
        ("ANDROID_ADB_SERVER_PORT", "9" * 5000, "no port"),
        ("ADB_SERVER_SOCKET", "localabstract:adb", "no port"),
        ("ADB_SERVER_SOCKET", "tcp:", "no port"),
        ("ADB_SERVER_SOCKET", "tcp:localhost:99999", "no port"),
        ("ADB_SERVER_SOCKET", "tcp:lab-host:5037", "another computer"),
    ],
)
def test_a_server_that_cannot_be_used_is_named_with_its_variable(
    variable: str, value: str, why: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("ADB_SERVER_SOCKET", "ANDROID_ADB_SERVER_PORT"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv(variable, value)
    with pytest.raises(DeviceError, match=why) as caught:
        AdbHost().devices()
    assert caught.value.kind == "adb_server"
    assert caught.value.message.startswith(variable)
    assert len(caught.value.message) < 200


def test_our_adb_starts_where_a_socket_is_named(port: int, monkeypatch: pytest.MonkeyPatch) -> None:
    kill_server(port)
    monkeypatch.setenv("ADB_SERVER_SOCKET", f"tcp:{port}")
    host = AdbHost()
    assert (host.port, host.devices()) == (port, ())


def test_several_that_start_a_server_at_once_all_reach_it(port: int) -> None:
    for _ in range(2):
        kill_server(port)
        time.sleep(0.2)
        hosts = [AdbHost(port) for _ in range(4)]
        listings: list[object] = []

        def ask(host: AdbHost, listings: list[object] = listings) -> None:
            try:
                listings.append(host.devices())
            except DeviceError as error:
                listings.append(error)

        threads = [threading.Thread(target=ask, args=(host,)) for host in hosts]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert listings == [()] * 4


def test_a_server_that_closed_its_port_and_not_yet_the_rest_is_replaced(
    port: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    host = AdbHost(port)
    assert host.devices() == ()
    kill_server(port)
    living = iter([True, True])
    monkeypatch.setattr(host, "_is_alive", lambda: next(living, False))
    assert host.devices() == ()
    assert host.server_count == 2


def test_a_server_that_does_not_come_up_is_named_with_what_adb_said(
    port: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    kill_server(port)
    program = tmp_path / "adb"
    program.write_text("#!/bin/sh\necho no luck today\nexit 255\n")
    program.chmod(0o755)
    monkeypatch.setenv("ADBUTILS_ADB_PATH", os.fspath(program))
    with pytest.raises(DeviceError, match="no luck today") as caught:
        AdbHost(port).devices()
    assert caught.value.kind == "adb_server"


# Row 8


def problems_of(listed: str) -> list[DeviceError | None]:
    listed_phones = parse_devices(listed)
    return [problem(phone, listed_phones) for phone in listed_phones]


@pytest.mark.parametrize("serial", ["0123456789ABCDEF", "0123456789abcdef", "000000000000", "0"])
def test_a_number_that_many_phones_have_is_good_enough_where_one_has_it(serial: str) -> None:
    line = f"{serial} device usb:1-2 transport_id:1\n"
    assert (
        problems_of(f"{line}???????????? device usb:1-3 transport_id:2\nR58M device usb:1-4 transport_id:3\n")[0]
        is None
    )
    first, second = problems_of(line + line)
    assert first is not None
    assert second is not None
    assert (first.kind, second.kind) == ("ambiguous_serial", "ambiguous_serial")
    assert serial in first.message
    assert "only one of them" in first.next_step


@pytest.mark.parametrize("serial", ["????????????", "(no serial number)"])
@pytest.mark.fault(8, "a phone that is ????????????", "refused, told the way over the network")
def test_a_phone_without_a_serial_number_is_refused_with_the_way_over_the_network(serial: str) -> None:
    (phone,) = parse_devices(f"{serial}     device usb:1-2 product:a transport_id:1\n")
    assert phone == Attached(serial=serial, state="device", usb=True)
    error = problem(phone, (phone,))
    assert error is not None
    assert error.kind == "ambiguous_serial"
    assert "no serial number" in error.message
    assert "tcpip" in error.next_step


def test_a_phone_whose_port_may_not_be_opened_lacks_its_serial_number_for_that() -> None:
    words = "no permissions (missing udev rules? user is in the plugdev group); see [http://x/y]"
    kinds = [error and error.kind for error in problems_of(f"???????????? {words} usb:1-2 transport_id:1\n" * 2)]
    assert kinds == ["no_permissions", "no_permissions"]
