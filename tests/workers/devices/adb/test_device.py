"""The adb device on virtual phones: the real daemon, the real server. Faults by their rows in faults.md."""

import contextlib
import hashlib
import os
import socket
import struct
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from sweeps.errors import ABSENT_KINDS
from tests.conformance.test_devices import (  # noqa: F401  # the same checks, on this device
    home,
    outside,
    test_a_file_elsewhere_is_not_removed,
    test_a_file_larger_than_it_may_be_does_not_come_back,
    test_a_fixed_performance_mode_is_restored,
    test_a_name_that_leads_elsewhere_is_refused,
    test_a_program_s_output_and_exit_code_come_back,
    test_a_program_that_is_killed_tells_the_signal,
    test_a_program_that_is_not_there_is_an_error_or_an_exit_code,
    test_arguments_arrive_as_they_are,
    test_facts_name_the_device_and_say_what_results_depend_on,
    test_files_go_there_and_back_under_any_name,
    test_sensors_are_in_their_units_or_unknown,
    test_sensors_are_read_in_little_time,
    test_the_clock_never_goes_back_and_rest_lets_it_pass,
    test_what_is_pushed_can_be_run_on,
)
from tests.conformance.test_remote_devices import failure, file_of
from tests.faulty_phone import FaultyPhone
from tests.transports import stand_in
from tests.workers.adb_server import kill_server
from tests.workers.phone_sweep import (
    PAUSE,
    as_new,
    eventually,
    in_a_pause,
    in_a_push,
    in_a_transfer,
    once,
    reboot,
    running_on,
    sizes,
    tidied_up,
)
from workers.devices.adb.adb_host import AdbHost, parse_devices, problem
from workers.devices.adb.attempt import Attempt
from workers.devices.adb.device import AdbDevice
from workers.devices.adb.discovery import attached
from workers.devices.adb.facts import parse_battery, parse_properties
from workers.devices.adb.wire import Deadline
from workers.measure.fixed_performance import FixedPerformance

pytestmark = pytest.mark.system

RUN = "local/tmp/edgesweep/run"


@pytest.fixture
def phone(phones: list[FaultyPhone]) -> Iterator[FaultyPhone]:
    """Each test gets the phone as new."""
    yield phones[0]
    as_new(phones[0])


@pytest.fixture
def name(phone: FaultyPhone, monkeypatch: pytest.MonkeyPatch) -> str:
    stand_in(monkeypatch, "adb", "workers.devices.adb.device:AdbDevice")
    return f"adb:{phone.serial}"


@pytest.fixture
def device(name: str, phone: FaultyPhone, tmp_path: Path) -> AdbDevice:
    return AdbDevice(tmp_path, phone.serial, answer_s=10.0, backoff_s=(0.1, 0.2, 0.4))


@pytest.fixture
def patient(name: str, phone: FaultyPhone, tmp_path: Path) -> AdbDevice:
    """Finds the phone also where all that a test does to it takes a while."""
    return AdbDevice(tmp_path, phone.serial, answer_s=30.0, backoff_s=(0.5, 2.0, 10.0))


def later(seconds: float, call: Callable[[], object]) -> threading.Timer:
    timer = threading.Timer(seconds, call)
    timer.start()
    return timer


def pushed(phone: FaultyPhone) -> list[str]:
    folder = phone.data / "local/tmp/edgesweep"
    return sorted(str(path.relative_to(folder)) for path in sizes(folder, "**/*"))


# Row 1


def test_a_program_not_begun_when_the_connection_broke_is_no_failure_of_a_job(device: AdbDevice) -> None:
    attempt = Attempt(device._connection, "0123456789abcdef", 1, "echo never", "echo")
    error = failure(lambda: attempt._report(attempt._collect_script(), Deadline(20), retry_usb=False))
    assert error.kind in ABSENT_KINDS, "it is waited for, and no attempt is counted"
    assert error.message == f"adb:{device.serial} was disconnected before echo was started"


# Rows 3 and 6


def test_a_phone_that_is_not_there_is_tried_three_times_and_named(device: AdbDevice, phone: FaultyPhone) -> None:
    phone.unplug()
    began = time.monotonic()
    error = failure(lambda: device.run(["true"], 20))
    assert error.kind == "offline"
    assert phone.serial in error.message
    assert 0.6 < time.monotonic() - began < 30


def test_a_phone_lost_from_the_network_is_reached_again(patient: AdbDevice, phone: FaultyPhone, port: int) -> None:
    patient.run(["true"], 10)
    phone.unplug()
    eventually(lambda: (listed := AdbHost(port).find(phone.serial)) is None or listed.state != "device")
    timer = later(0.25, phone.plug)
    assert patient.run(["echo", "back"], 20).stdout == b"back\n"
    timer.join()


def test_a_daemon_that_ends_and_comes_back_is_reached_again(device: AdbDevice, phone: FaultyPhone) -> None:
    device.run(["true"], 10)
    phone.stop_daemon()
    assert failure(lambda: device.run(["true"], 20)).kind == "offline"
    phone.start_daemon()
    assert device.run(["echo", "back"], 20).stdout == b"back\n"


def test_a_daemon_started_anew_in_a_run_costs_no_result(patient: AdbDevice, phone: FaultyPhone) -> None:
    patient.run(["true"], 10)
    anew = in_a_pause([phone], phone.restart_daemon)
    assert patient.run(["sh", "-c", f"{PAUSE}; sleep 1; echo whole"], 60).stdout == b"whole\n"
    anew.join()


def test_what_still_runs_after_a_drop_ends_at_its_deadline(patient: AdbDevice, phone: FaultyPhone) -> None:
    patient.run(["true"], 10)
    anew = in_a_pause([phone], phone.restart_daemon)
    error = failure(lambda: patient.run(["sh", "-c", f"echo here; {PAUSE}; sleep 79.5; echo"], 20.0))
    anew.join()
    assert error.kind == "timeout"
    assert "was killed" in error.message
    assert "here" in error.message
    assert not running_on(phone, "79.5")


# Row 4


class Stranger:
    """A phone that never accepts this computer's key; as much of adb's protocol as that takes."""

    def __init__(self) -> None:
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.serial = f"127.0.0.1:{self._listener.getsockname()[1]}"
        threading.Thread(target=self._serve, daemon=True).start()

    def close(self) -> None:
        self._listener.close()

    def _serve(self) -> None:
        try:
            connection, _ = self._listener.accept()
            with connection:
                while header := connection.recv(24, socket.MSG_WAITALL):
                    command, _, _, size, _, _ = struct.unpack("<4s5I", header)
                    while size > 0 and (part := connection.recv(size)):
                        size -= len(part)
                    token = os.urandom(20)
                    if command in (b"CNXN", b"AUTH"):
                        magic = struct.unpack("<I", b"AUTH")[0] ^ 0xFFFFFFFF
                        connection.sendall(struct.pack("<4s5I", b"AUTH", 1, 0, 20, sum(token), magic) + token)
        except OSError:
            return


def test_a_phone_that_has_not_allowed_this_computer_says_what_to_tap(port: int, tmp_path: Path) -> None:
    stranger = Stranger()
    host = AdbHost(port)
    try:
        host.connect(stranger.serial)
        error = failure(lambda: AdbDevice(tmp_path, stranger.serial, host).run(["true"], 10))
        names, refused = attached(host)
    finally:
        stranger.close()
        host.disconnect(stranger.serial)
    assert error.kind == "unauthorized"
    assert "accept the prompt" in error.next_step
    assert f"adb:{stranger.serial}" not in names
    assert [error.kind for error in refused if stranger.serial in error.message] == ["unauthorized"]


# Row 5


def test_a_killed_adb_server_costs_no_result(patient: AdbDevice, phone: FaultyPhone, port: int) -> None:
    patient.run(["true"], 10)
    killed = in_a_pause([phone], lambda: kill_server(port))
    assert patient.run(["sh", "-c", f"{PAUSE}; sleep 1; echo whole"], 60).stdout == b"whole\n"
    killed.join()


def test_a_killed_adb_server_is_an_event_of_the_host_where_the_phone_is_gone_too(
    device: AdbDevice, phone: FaultyPhone, port: int
) -> None:
    device.run(["true"], 10)

    def lose() -> None:
        phone.hang()
        kill_server(port)
        phone.unplug()

    losing = in_a_pause([phone], lose)
    error = failure(lambda: device.run(["sh", "-c", f"{PAUSE}; sleep 76.5"], 60))
    losing.join()
    assert error.kind == "adb_server"
    phone.go_on()
    phone.plug()
    assert device.run(["echo", "back"], 20).stdout == b"back\n"
    assert not running_on(phone, "76.5")


@pytest.mark.fault(5, "a server that says another version", "named, and not ended")
def test_a_server_of_another_version_is_named_and_not_ended(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def serve() -> None:
            while True:
                try:
                    connection, _ = listener.accept()
                except OSError:
                    return
                with connection, contextlib.suppress(OSError):
                    while (size := connection.recv(4)) and connection.recv(int(size, 16)):
                        connection.sendall(b"OKAY0004001f")

        server = threading.Thread(target=serve)
        server.start()
        error = failure(AdbHost(listener.getsockname()[1]).devices)
        listener.shutdown(socket.SHUT_RDWR)
        server.join()
    assert error.kind == "adb_version"
    assert "1.0.31" in error.message
    assert "kill-server" in error.next_step


def test_something_else_on_the_server_s_port_is_named() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def serve() -> None:
            for _ in range(2):
                connection, _ = listener.accept()
                connection.close()

        server = threading.Thread(target=serve)
        server.start()
        port = listener.getsockname()[1]
        error = failure(AdbHost(port).devices)
        server.join()
    assert error.kind == "adb_server"
    assert str(port) in error.message
    assert error.next_step


def test_an_adb_that_cannot_be_started_is_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("ADBUTILS_ADB_PATH", str(tmp_path / "no-adb"))
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    error = failure(AdbHost(port).devices)
    assert error.kind == "adb_server"
    assert "no-adb" in error.message


# Rows 7 and 8


def test_one_phone_reached_two_ways_is_found_once(device: AdbDevice, phone: FaultyPhone, port: int) -> None:
    host = AdbHost(port)
    device.run(["true"], 10)
    other = f"localhost:{phone.serial.partition(':')[2]}"
    assert host.connect(other)
    try:
        names, _ = attached(host)
        assert len({f"adb:{phone.serial}", f"adb:{other}"} & set(names)) == 1
        assert device.facts().device_id == AdbDevice(Path(), other, host).facts().device_id == phone.serialno
    finally:
        host.disconnect(other)


def test_two_phones_that_call_themselves_the_same_are_refused(
    device: AdbDevice, phone: FaultyPhone, port: int, tmp_path: Path
) -> None:
    device.run(["true"], 10)
    host = AdbHost(port)
    with FaultyPhone(tmp_path / "twin", phone.serialno) as twin:
        assert host.connect(twin.serial)
        names, refused = attached(host)
        host.disconnect(twin.serial)
    assert not {f"adb:{phone.serial}", f"adb:{twin.serial}"} & set(names)
    assert any(error.kind == "ambiguous_serial" and phone.serialno in error.message for error in refused)


LISTED = """\
R58M12345 device usb:1-2 product:a model:SM_G991B device:o1s transport_id:1
???????????? device usb:1-3 transport_id:2
twin device usb:1-4 transport_id:3
twin device usb:1-5 transport_id:4
new unauthorized usb:1-6 transport_id:5
sleepy offline transport_id:6
locked no permissions (user in plugdev group; are your udev rules wrong?); see [http://x/y] usb:1-7 transport_id:7
192.168.1.7:5555 device product:a model:P transport_id:8
"""


def test_each_state_of_a_phone_has_its_own_advice() -> None:
    phones_listed = parse_devices(LISTED)
    errors = [problem(phone, phones_listed) for phone in phones_listed]
    kinds = [None if error is None else error.kind for error in errors]
    ambiguous = "ambiguous_serial"
    assert kinds == [None, ambiguous, ambiguous, ambiguous, "unauthorized", "offline", "no_permissions", None]
    assert [phone.usb for phone in phones_listed] == [True, True, True, True, True, False, True, False]
    assert all(error.next_step for error in errors if error is not None)


# Rows 9 to 12


@pytest.mark.parametrize("number", [6, 9, 11])
def test_a_program_that_crashes_tells_the_signal(device: AdbDevice, number: int) -> None:
    assert device.run(["sh", "-c", f"kill -{number} $$"], 10).exit_code == -number


def test_a_hang_that_cannot_be_ended_is_said(phone: FaultyPhone, tmp_path: Path) -> None:
    device = AdbDevice(tmp_path, phone.serial, answer_s=3.0)
    device.run(["true"], 10)
    hung = in_a_pause([phone], phone.hang)
    error = failure(lambda: device.run(["sh", "-c", f"{PAUSE}; sleep 77.5 & sleep 77.5; echo"], 20.0))
    hung.join()
    assert error.kind == "timeout"
    assert "not known whether it ended" in error.message
    assert error.next_step
    assert running_on(phone, "77.5")
    assert failure(lambda: device.run(["true"], 1.0)).kind in ("unresponsive", "offline")
    phone.go_on()
    assert device.run(["echo", "alone"], 20).stdout == b"alone\n"
    assert not running_on(phone, "77.5")


def test_a_program_that_is_ended_with_its_shell_has_no_result(patient: AdbDevice, phone: FaultyPhone) -> None:
    error = failure(lambda: patient.run(["sh", "-c", "kill -9 0"], 10))
    assert error.kind == "no_exit_code"
    now = phone.data / "local/now"

    def slip() -> None:
        phone.unplug()
        now.unlink()
        eventually(lambda: not running_on(phone, "kill -9 0"))
        phone.plug()

    slipping = once(now.exists, slip)
    error = failure(lambda: patient.run(["sh", "-c", f"{PAUSE}; kill -9 0"], 60))
    slipping.join()
    assert error.kind == "no_exit_code"


def test_an_exit_code_that_is_not_whole_is_not_taken_for_one(patient: AdbDevice, phone: FaultyPhone) -> None:
    patient.run(["true"], 10)

    def cut() -> None:
        phone.restart_daemon()
        attempts = phone.data / "local/tmp/edgesweep/attempts"
        (folder,) = (out.parent for out, size in sizes(attempts, "*/out").items() if size)
        (folder / "end").write_text("1")

    cutting = in_a_pause([phone], cut)
    assert patient.run(["sh", "-c", f"echo here; {PAUSE}; sleep 1.5; exit 42"], 60).exit_code == 42
    cutting.join()


def test_a_report_that_was_received_is_gone_from_the_phone(device: AdbDevice, phone: FaultyPhone) -> None:
    attempts = phone.data / "local/tmp/edgesweep/attempts"
    for _ in range(40):
        device.run(["sh", "-c", "echo out; echo err >&2"], 10)
    eventually(lambda: not any(size for path, size in sizes(attempts, "*/*").items() if path.name in ("out", "err")))
    assert len(list(attempts.iterdir())) <= 17
    device.end_orphans()
    assert not attempts.exists()


def test_an_orphan_of_an_earlier_sweep_is_seen_and_swept_away(device: AdbDevice, phone: FaultyPhone) -> None:
    orphan = f"""exec -a runner {sys.executable} -c 'import time; time.sleep(72.5)' --model m"""
    device.run(["sh", "-c", 'bash -c "$1" </dev/null >/dev/null 2>&1 &', "sh", orphan], 10)
    eventually(lambda: bool(device.sensors().competing))
    assert device.sensors().competing[0].startswith("a runner of EdgeSweep")
    eventually(lambda: tidied_up(phone))
    assert len(device.end_orphans()) == 1
    assert not device.sensors().competing
    assert device.end_orphans() == ()


# Rows 13 to 15


def test_a_phone_that_fills_up_during_a_push_keeps_nothing_of_it(
    device: AdbDevice, phone: FaultyPhone, tmp_path: Path
) -> None:
    device.run(["true"], 10)
    phone.fill_storage(leave_bytes=8_000_000)
    phone.slow_down(bytes_per_s=2e6)
    filling = in_a_push(phone, lambda: phone.fill_storage(leave_bytes=0))
    error = failure(lambda: device.push(file_of(tmp_path, 6_000_000), "full.pt"))
    filling.join()
    assert error.kind == "no_space"
    assert "run/full.pt" not in pushed(phone)
    assert (phone.data / "local" / "others").exists()


def test_a_hash_that_the_caller_knows_is_what_must_arrive(
    device: AdbDevice, phone: FaultyPhone, tmp_path: Path
) -> None:
    source = file_of(tmp_path, 100_000)
    digest = hashlib.sha256(source.read_bytes()).hexdigest()
    device.push(source, "model.pt", sha256=digest)
    assert (phone.data / RUN / "model.pt").read_bytes() == source.read_bytes()
    error = failure(lambda: device.push(source, "other.pt", sha256="0" * 64))
    assert error.kind == "corrupt_push"
    assert "run/other.pt" not in pushed(phone)


def test_a_push_that_hangs_ends_at_its_deadline(phone: FaultyPhone, tmp_path: Path, port: int) -> None:
    device = AdbDevice(tmp_path, phone.serial, answer_s=3.0)
    device.run(["true"], 10)
    phone.slow_down(bytes_per_s=1e6)
    hung = in_a_push(phone, phone.hang)
    error = failure(lambda: device.push(file_of(tmp_path, 2_000_000), "model.pt"))
    hung.join()
    assert error.kind in ("unresponsive", "offline")
    assert phone.serial in error.message
    assert "run/model.pt" not in pushed(phone)


def test_a_file_is_sent_once_however_often_it_is_pushed(device: AdbDevice, phone: FaultyPhone, tmp_path: Path) -> None:
    source = file_of(tmp_path, 2_000_000)
    path = device.push(source, "once.pt")
    phone.slow_down(bytes_per_s=50_000)
    began = time.monotonic()
    assert AdbDevice(tmp_path, phone.serial).push(source, "once.pt") == path
    assert time.monotonic() - began < 20, "to send it would take 40 s"


# Row 16


def test_a_phone_that_was_started_anew_has_no_result_of_before(device: AdbDevice, phone: FaultyPhone) -> None:
    device.run(["true"], 10)
    before = device.boot_id()
    reboot(phone)
    assert device.boot_id() != before
    error = failure(lambda: device.run(["echo", "fast"], 20))
    assert error.kind == "rebooted"
    assert device.run(["echo", "again"], 10).stdout == b"again\n"


def test_a_reboot_during_a_run_is_an_error(device: AdbDevice, phone: FaultyPhone) -> None:
    device.run(["true"], 10)
    booting = in_a_pause([phone], phone.reboot)
    error = failure(lambda: device.run(["sh", "-c", f"{PAUSE}; sleep 20"], 60))
    booting.join()
    assert error.kind in ("disconnected", "offline", "no_exit_code", "rebooted")


def test_a_reboot_during_a_run_costs_no_other_run(patient: AdbDevice, phone: FaultyPhone) -> None:
    before = patient.facts()
    patient.run(["true"], 10)

    def restart() -> None:
        phone.unplug()
        phone.reboot()
        phone.plug()

    booting = in_a_pause([phone], restart)
    phone.set_property("ro.product.model", "Updated Phone")
    try:
        assert failure(lambda: patient.run(["sh", "-c", f"{PAUSE}; sleep 20"], 60)).kind == "rebooted"
        booting.join()
        assert patient.run(["echo", "next"], 10).stdout == b"next\n"
        assert (before.model, patient.facts().model) == ("Virtual Phone", "Updated Phone")
        assert patient.run(["echo", "last"], 10).stdout == b"last\n"
    finally:
        phone.set_property("ro.product.model", "Virtual Phone")


# Rows 17, 18


def test_a_look_without_the_load_of_others_does_not_wait_for_it(device: AdbDevice, phone: FaultyPhone) -> None:
    phone.heat(33.0)
    took_s: dict[bool, list[float]] = {False: [], True: []}
    for load in [False, True] * 10:
        began = time.monotonic()
        sensors = device.sensors(load=load)
        took_s[load].append(time.monotonic() - began)
    # The window of the load is 0.2 s.
    assert min(took_s[False]) < min(took_s[True]) - 0.1
    sensors = device.sensors(load=False)
    assert (sensors.temp_c, sensors.load) == (33.0, None)
    assert sensors.steal_seconds is not None
    assert device.sensors().load is not None


def test_heat_and_charge_are_told(device: AdbDevice, phone: FaultyPhone) -> None:
    phone.heat(41.5, thermal_status=3)
    phone.drain(9)
    sensors = device.sensors()
    assert (sensors.temp_c, sensors.temp_is_battery, sensors.thermal_status) == (41.5, True, 3)
    assert (sensors.has_battery, sensors.battery_percent) == (True, 9)


@pytest.mark.parametrize("text", ["", "Can't find service: battery", "level: \x00\xff\ntemperature: hot", None])
def test_a_battery_that_cannot_be_read_is_unknown(device: AdbDevice, phone: FaultyPhone, text: str | None) -> None:
    phone.say("battery", text)
    sensors = device.sensors()
    assert sensors.battery_percent is None
    assert not sensors.temp_is_battery


@pytest.mark.parametrize(
    ("text", "read"),
    [
        ("present: true\nlevel: 43\nscale: 50\ntemperature: 317", (True, 86.0, 31.7)),
        ("present: true\nlevel: 101\nscale: 100\ntemperature: 0", (True, None, None)),
        ("present: true\nlevel: -1\nscale: 0\ntemperature: -2730", (True, None, None)),
        ("present: false\nlevel: 0\ntemperature: 250", (False, None, None)),
        ("level: 1e3\ntemperature: 99999999999999999999", (True, None, None)),
        # Whole degrees, or tenths in a refrigerator.
        ("level: 43\ntemperature: 38", (True, 43.0, None)),
        ("level: 43\ntemperature: 80", (True, 43.0, 8.0)),
        ("level: 43\ntemperature: -20", (True, 43.0, -2.0)),
        ("(UPDATES STOPPED -- use 'reset' to restart)\nlevel: 99\ntemperature: 250", (True, None, None)),
    ],
)
def test_battery_figures_out_of_range_are_unknown(text: str, read: tuple[bool, float | None, float | None]) -> None:
    assert parse_battery(text) == read


def test_a_phone_without_a_fixed_performance_mode_says_so(port: int, tmp_path: Path) -> None:
    with FaultyPhone(tmp_path / "old", "OLD", has_fixed_performance=False) as phone:
        assert AdbDevice(tmp_path, phone.serial).set_fixed_performance(True) is False


@pytest.mark.parametrize(
    "words",
    [
        # Android 11 and later say it in these words.
        "Failed to set FIXED_PERFORMANCE mode\n"
        "This is likely because Power HAL AIDL is not implemented on this device\n",
        "Exception occurred while executing: java.lang.SecurityException: not for the shell\n",
    ],
)
def test_a_phone_that_refuses_the_mode_has_none(
    device: AdbDevice, phone: FaultyPhone, tmp_path: Path, words: str
) -> None:
    phone.refuse_fixed_performance(words)
    assert device.set_fixed_performance(False) is False
    assert device.set_fixed_performance(True) is False
    with FixedPerformance(device, "any", tmp_path) as fixed:
        assert fixed.on is None
    assert not phone.fixed_performance


def test_a_service_that_fails_says_nothing_of_the_mode(device: AdbDevice, phone: FaultyPhone) -> None:
    phone.refuse_fixed_performance("cmd: Failure calling service power: Broken pipe (32)\n")
    error = failure(lambda: device.set_fixed_performance(False))
    assert (error.kind, "Broken pipe" in error.message) == ("os_error", True)


def test_the_mode_is_really_on(device: AdbDevice, phone: FaultyPhone) -> None:
    assert device.set_fixed_performance(True)
    assert phone.fixed_performance
    assert device.set_fixed_performance(False)
    assert not phone.fixed_performance


# Row 21


def test_output_that_is_huge_is_kept_nowhere(device: AdbDevice, phone: FaultyPhone) -> None:
    assert failure(lambda: device.run(["head", "-c", "70000000", "/dev/zero"], 60)).kind == "too_much_output"
    eventually(lambda: not any(sizes(phone.data, "**/out").values()))


def test_output_that_looks_like_a_report_s_end_is_output(device: AdbDevice) -> None:
    program = "for d in /data/local/tmp/edgesweep/attempts/*; do echo; echo ${d##*/} 0 x; echo; echo ${d##*/}; done"
    done = device.run(["sh", "-c", f"{program}; exit 3"], 10)
    assert done.exit_code == 3
    assert done.stdout.endswith(b"\n")
    assert b" 0 x\n" in done.stdout


# Row 22


def test_a_result_that_is_not_whole_is_no_result(device: AdbDevice, phone: FaultyPhone, tmp_path: Path) -> None:
    path = device.push(file_of(tmp_path, 3_000_000), "logits")
    phone.slow_down(bytes_per_s=1e6)
    target = tmp_path / "results" / "logits"
    target.parent.mkdir()
    pull = in_a_transfer(target.parent, ".*.part", phone.unplug)
    assert failure(lambda: device.pull(path, target, 2**30)).kind in ("disconnected", "offline")
    pull.join()
    assert not list(target.parent.iterdir())


# Row 27


@pytest.mark.fault(27, "the reply cut off after the program ended", "collected, nothing runs twice")
def test_a_reply_that_was_lost_is_collected_and_nothing_runs_twice(patient: AdbDevice, phone: FaultyPhone) -> None:
    patient.run(["true"], 10)
    times, now = phone.data / "local" / "times", phone.data / "local/now"

    def lose() -> None:
        phone.hang()
        now.unlink()
        # The shell that waits to be told that its report arrived has the same words.
        eventually(lambda: not any(line.startswith("sh -c") for line in running_on(phone, "echo done")))
        time.sleep(0.2)
        phone.unplug()
        phone.go_on()
        phone.plug()

    losing = once(now.exists, lose)
    done = patient.run(["sh", "-c", f"echo once >>/data/local/times; {PAUSE}; echo done"], 60)
    losing.join()
    assert done.stdout == b"done\n"
    assert times.read_text() == "once\n"
    times.unlink()


# Rows 23 to 25


HOSTILE = "<script>alert(1)</script> | `x` $(touch /tmp/x) [link](y)\nsecond line"


def test_hostile_properties_stay_text(device: AdbDevice, phone: FaultyPhone) -> None:
    phone.set_property("ro.product.model", HOSTILE)
    phone.set_property("ro.z", "x]\n[ro.serialno]: [FORGED")
    try:
        facts = device.facts()
    finally:
        phone.set_property("ro.product.model", "Virtual Phone")
        phone.set_property("ro.z", None)
    assert facts.model == HOSTILE
    assert facts.device_id == phone.serialno


@pytest.mark.parametrize(
    "serial", ["a,b", "../../etc", "\x1b[2J\x1b]0;x\x07", "R58M\nsecond", "é٣", "S" * 65, "S" * 2**20]
)
def test_a_serial_number_that_is_no_short_word_is_told_by_its_hash(
    device: AdbDevice, phone: FaultyPhone, serial: str
) -> None:
    phone.set_property("ro.serialno", serial)
    try:
        facts = device.facts()
        device.take_lock()
    finally:
        phone.set_property("ro.serialno", phone.serialno)
    device.release()
    assert facts.device_id == f"phone-{hashlib.sha256(serial.encode()).hexdigest()[:16]}"


@pytest.mark.parametrize("serial", ["R58M12345", "emulator-5554", "192.168.1.7:5555", "a_b.c", "S" * 64])
def test_a_serial_number_that_is_a_short_word_is_the_unit(device: AdbDevice, phone: FaultyPhone, serial: str) -> None:
    phone.set_property("ro.serialno", serial)
    try:
        assert device.facts().device_id == serial
    finally:
        phone.set_property("ro.serialno", phone.serialno)


def test_facts_are_asked_once_per_boot(device: AdbDevice, phone: FaultyPhone) -> None:
    before = device.facts()
    phone.set_property("ro.product.model", "Updated Phone")
    try:
        assert device.facts() is before
        reboot(phone)
        assert failure(lambda: device.run(["true"], 20)).kind == "rebooted"
        assert device.facts().model == "Updated Phone"
    finally:
        phone.set_property("ro.product.model", "Virtual Phone")


def test_missing_properties_are_empty(device: AdbDevice, phone: FaultyPhone) -> None:
    before = device.facts()
    phone.set_property("ro.product.model", None)
    phone.set_property("ro.serialno", None)
    try:
        facts = AdbDevice(Path(), phone.serial).facts()
    finally:
        phone.set_property("ro.product.model", "Virtual Phone")
        phone.set_property("ro.serialno", phone.serialno)
    assert (facts.model, facts.device_id) == ("", phone.serial)
    assert facts.nnapi_level is None
    assert (facts.cores, facts.ram_bytes, facts.maker) == (before.cores, before.ram_bytes, "EdgeSweep")


def test_properties_in_another_format_are_read_as_far_as_they_go() -> None:
    text = "[a]: [1]\ngarbage\n[b]: []\n[c]: [two\nlines]\n[d]: [x] y]\n[e\n[f]: [" + "z" * 999 + "]"
    properties = parse_properties(text)
    assert (properties["a"], properties["b"], properties["c"], properties["d"], len(properties["f"])) == (
        "1",
        "",
        "two\nlines",
        "x] y",
        200,
    )
    assert parse_properties("") == {}
    assert parse_properties("getprop: not found") == {}


def test_files_of_the_phone_are_nowhere_else(device: AdbDevice, phone: FaultyPhone, tmp_path: Path) -> None:
    device.push(file_of(tmp_path, 1000), "../x".replace("/", "_"))
    rest = {path.name for path in (phone.data / "local/tmp").iterdir()}
    assert rest == {"edgesweep"}
    device.clean()
    assert not list((phone.data / "local/tmp").iterdir())
