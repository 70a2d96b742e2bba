"""Virtual phones run the real adbd, each apart from the others and from this host."""

import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import psutil
import pytest

from sweeps.errors import DeviceError
from tests.faulty_phone import FaultyPhone, faulty_phones
from tests.workers.phone_sweep import eventually, reboot, running_on
from workers.devices.adb.adb_host import AdbHost
from workers.devices.adb.device import AdbDevice
from workers.devices.virtual_phone.adbd import adbd, missing

pytestmark = pytest.mark.system


@pytest.fixture(scope="module")
def phones(port: int, tmp_path_factory: pytest.TempPathFactory) -> Iterator[list[FaultyPhone]]:
    with faulty_phones(4, tmp_path_factory.mktemp("phones")) as phones:
        yield phones


def test_four_phones_share_neither_files_nor_boots_nor_programs(phones: list[FaultyPhone], tmp_path: Path) -> None:
    devices = [AdbDevice(tmp_path, phone.serial) for phone in phones]
    source = tmp_path / "file"
    for number, device in enumerate(devices):
        source.write_text(str(number))
        device.push(source, "number")
    path = "/data/local/tmp/edgesweep/run/number"
    assert [device.run(["cat", path], 20).stdout for device in devices] == [b"0", b"1", b"2", b"3"]
    assert [(phone.data / path[6:]).read_text() for phone in phones] == ["0", "1", "2", "3"]
    assert len({device.boot_id() for device in devices}) == 4
    assert len({device.facts().device_id for device in devices}) == 4
    devices[0].run(["sh", "-c", "sleep 73.5 </dev/null >/dev/null 2>&1 &"], 20)
    lists = [device.run(["sh", "-c", "grep -a 73.5 /proc/[0-9]*/cmdline | tr '\\0' ' '"], 20) for device in devices]
    assert [b"sleep 73.5" in done.stdout for done in lists] == [True, False, False, False]


def test_no_two_phones_of_this_host_are_of_one_serial_number(phones: list[FaultyPhone], tmp_path: Path) -> None:
    with faulty_phones(1, tmp_path / "others") as more_phones:
        assert len({phone.serialno for phone in (*phones, *more_phones)}) == 5


def test_a_phone_says_that_it_is_virtual(phones: list[FaultyPhone], tmp_path: Path) -> None:
    assert AdbDevice(tmp_path, phones[0].serial).facts().exec_context == "virtual phone"


def test_the_host_has_none_of_a_phone_s_mounts(phones: list[FaultyPhone]) -> None:
    assert phones[0].data.is_dir()
    assert "edgesweep" not in Path("/proc/self/mounts").read_text()
    assert not [partition for partition in psutil.disk_partitions(all=True) if "/phone-1/" in partition.mountpoint]


def test_the_open_root_shell_listens_on_loopback_only(phones: list[FaultyPhone]) -> None:
    ports = {int(phone.serial.partition(":")[2]) for phone in phones}
    listening = [
        connection.laddr
        for connection in psutil.net_connections("tcp")
        if connection.status == "LISTEN" and connection.laddr.port in ports
    ]
    assert {address.ip for address in listening} == {"127.0.0.1"}
    assert {address.port for address in listening} == ports


def test_what_is_done_to_one_phone_is_done_to_no_other(phones: list[FaultyPhone], tmp_path: Path) -> None:
    first, second = (AdbDevice(tmp_path, phone.serial) for phone in phones[:2])
    boots = first.boot_id(), second.boot_id()
    phones[0].heat(44.0, thermal_status=2)
    phones[0].drain(5)
    phones[0].fill_storage(leave_bytes=1_000_000)
    reboot(phones[0])
    hot, cool = first.sensors(), second.sensors()
    assert (hot.temp_c, hot.thermal_status, hot.battery_percent) == (44.0, 2, 5)
    assert (cool.temp_c, cool.thermal_status, cool.battery_percent) == (25.0, 0, 80)
    assert first.boot_id() != boots[0]
    assert second.boot_id() == boots[1]
    assert shutil.disk_usage(phones[0].data).free <= 1_000_000
    assert shutil.disk_usage(phones[1].data).free > 100_000_000


def test_a_phone_is_filled_to_the_brim_though_another_writes_beside(port: int, tmp_path: Path) -> None:
    with FaultyPhone(tmp_path / "phone", storage_mb=32) as phone:
        grown, other_file = phone.data / "local/grown", phone.data / "local/others"
        writer = ["sh", "-c", f"while head -c 100000 /dev/zero; do :; done >{grown} 2>/dev/null"]
        for _ in range(20):
            with subprocess.Popen(writer):
                eventually(grown.exists)
                phone.fill_storage(leave_bytes=0)
            free = shutil.disk_usage(phone.data).free
            grown.unlink()
            other_file.unlink()
            assert free == 0


def test_a_slow_phone_answers_later(phones: list[FaultyPhone], tmp_path: Path) -> None:
    device = AdbDevice(tmp_path, phones[2].serial)
    device.run(["getprop", "ro.serialno"], 20)
    phones[2].slow_down(answer_after_s=0.6)
    began = time.monotonic()
    assert device.run(["getprop", "ro.serialno"], 20).stdout.decode().strip() == phones[2].serialno
    assert 0.6 < time.monotonic() - began < 30


def test_a_reboot_ends_programs_and_keeps_files(phones: list[FaultyPhone], tmp_path: Path) -> None:
    device = AdbDevice(tmp_path, phones[3].serial)
    source = tmp_path / "file"
    source.write_text("kept")
    path = device.push(source, "kept")
    device.run(["sh", "-c", "sleep 74.5 </dev/null >/dev/null 2>&1 &"], 20)
    reboot(phones[3])
    assert not running_on(phones[3], "74.5")
    assert AdbDevice(tmp_path, phones[3].serial).run(["cat", path], 20).stdout == b"kept"


def test_a_stopped_phone_leaves_no_program_behind(port: int, tmp_path: Path) -> None:
    with FaultyPhone(tmp_path / "phone") as phone:
        AdbDevice(tmp_path, phone.serial).run(["sh", "-c", "sleep 75.5 </dev/null >/dev/null 2>&1 &"], 20)
        running = phone.processes()
        assert len(running) >= 2
    assert not psutil.wait_procs(running, timeout=60)[1]
    assert not list((tmp_path / "phone" / "root").iterdir())
    with pytest.raises(DeviceError, match="does not run"):
        phone.processes()


def test_phones_end_with_whoever_started_them(port: int, tmp_path: Path) -> None:
    program = (
        "import sys, time; from pathlib import Path; from tests.faulty_phone import FaultyPhone\n"
        "with FaultyPhone(Path(sys.argv[1])) as phone:\n"
        "    print(*[one.pid for one in phone.processes()], flush=True); time.sleep(60)"
    )
    argv = [sys.executable, "-c", program, str(tmp_path / "phone")]
    with subprocess.Popen(argv, stdout=subprocess.PIPE, text=True) as driver:
        assert driver.stdout is not None
        running = []
        for pid in driver.stdout.readline().split():
            with suppress(psutil.NoSuchProcess):
                running.append(psutil.Process(int(pid)))
        assert running
        driver.send_signal(signal.SIGKILL)
    assert not psutil.wait_procs(running, timeout=60)[1]


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root, to give it up")
def test_who_is_not_root_is_told_so() -> None:
    program = (
        "import os; from workers.devices.virtual_phone.adbd import missing; os.setuid(65534)\n"
        "found = missing(); print(found.kind, found.next_step)"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60)
    assert done.stdout.startswith("needs_root "), done.stderr
    assert "as root" in done.stdout


def test_the_command_brings_phones_up_and_takes_them_away(port: int) -> None:
    program = "from sweeps.cli.main import main; main()"
    argv = [sys.executable, "-c", program, "virtual-phone", "up", "--count", "2"]
    with subprocess.Popen(argv, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as command:
        assert command.stdout is not None
        assert command.stderr is not None
        try:
            names = {command.stdout.readline().strip() for _ in range(2)}
            assert "2 virtual phones are up" in command.stderr.readline()
            host = AdbHost(port)
            assert names <= {f"adb:{phone.serial}" for phone in host.devices() if phone.state == "device"}
            command.send_signal(signal.SIGTERM)
            assert command.wait(timeout=60) == 0
        finally:
            command.kill()
    assert not names & {f"adb:{phone.serial}" for phone in host.devices()}


@pytest.fixture
def bare(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A PATH without apt, and a cache without adbd."""
    programs = tmp_path / "programs"
    programs.mkdir()
    for program in ("unshare", "setpriv", "chroot", "mount", "dpkg", "sh", "sort", "head", "mkdir", "chmod"):
        (programs / program).symlink_to(shutil.which(program) or "/bin/false")
    monkeypatch.setenv("PATH", str(programs))
    monkeypatch.setenv("EDGESWEEP_CACHE", str(tmp_path / "cache"))
    return programs


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root")
def test_a_machine_without_apt_is_told_so(bare: Path) -> None:
    error = missing()
    assert error is not None
    assert error.kind == "no_apt"
    assert "Debian" in error.next_step


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root")
def test_what_apt_said_is_passed_on_and_half_a_fetch_is_not_kept(bare: Path) -> None:
    (bare / "apt-get").write_text("#!/bin/sh\necho 'E: no route to the mirror' >&2\nexit 100\n")
    (bare / "apt-get").chmod(0o755)
    for _ in range(2):
        with pytest.raises(DeviceError, match=r"mirror|no Debian") as caught:
            adbd()
        assert caught.value.kind == "no_adbd"
        assert caught.value.next_step
