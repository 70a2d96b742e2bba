"""The shell that stays open on a phone while it is leased, and what happens to a program when that shell dies."""

import os
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from tests.faulty_phone import FaultyPhone
from tests.workers.phone_sweep import eventually, programs_on, tidied_up
from workers.devices.adb.attempt import leads_attempt
from workers.devices.adb.device import AdbDevice

pytestmark = pytest.mark.system

RUNS = "local/runs"


@pytest.fixture
def leased(phone: FaultyPhone, tmp_path: Path) -> Iterator[AdbDevice]:
    """With a shell open."""
    device = AdbDevice(tmp_path, phone.serial, answer_s=10.0)
    device.take_lock()
    assert device.run(["true"], 10).exit_code == 0
    yield device
    device.release()
    (phone.data / RUNS).unlink(missing_ok=True)


def shells(phone: FaultyPhone) -> list[psutil.Process]:
    """List the shells on the phone, without what a shell has begun and has still its name, as while it cleans up."""
    leaders = [program for program, argv in programs_on(phone) if leads_attempt("\0".join(argv))]
    return [program for program in leaders if program.is_running() and os.getpgid(program.pid) == program.pid]


def count(device: AdbDevice, then: str = "true") -> str:
    """Run a program that counts its runs; its output."""
    done = device.run(["sh", "-c", f"echo run >>/data/{RUNS}; {then}; echo done"], 20)
    assert done.exit_code == 0
    return done.stdout.decode().strip()


def runs(phone: FaultyPhone) -> int:
    return len((phone.data / RUNS).read_text().splitlines())


def test_programs_share_a_shell_until_the_phone_is_released(leased: AdbDevice, phone: FaultyPhone) -> None:
    [shell] = shells(phone)
    for number in range(40):
        assert leased.run(["echo", f"it's {number} \\n"], 10).stdout == f"it's {number} \\n\n".encode()
    assert leased.run(["sh", "-c", "echo oops >&2; exit 3"], 10).exit_code == 3
    assert leased.run(["sh", "-c", "pwd\nkill -SEGV $$"], 10).exit_code == -11
    eventually(lambda: shells(phone) == [shell])
    assert leased.end_orphans() == (), "its shell is no orphan"
    leased.run(["true"], 10)
    leased.release()
    assert tidied_up(phone)


def test_a_shell_that_died_meanwhile_is_replaced(leased: AdbDevice, phone: FaultyPhone) -> None:
    [shell] = shells(phone)
    shell.kill()
    assert count(leased) == "done"
    assert runs(phone) == 1
    phone.restart_daemon()
    assert count(leased) == "done"
    assert runs(phone) == 2


def test_a_shell_that_dies_before_it_reads_a_line_costs_nothing(leased: AdbDevice, phone: FaultyPhone) -> None:
    [shell] = shells(phone)
    shell.suspend()
    results: list[str] = []
    running = threading.Thread(target=lambda: results.append(count(leased)))
    running.start()
    time.sleep(0.3)  # the line is on its way, or there: either way nobody has read it
    shell.kill()
    running.join(60)
    assert results == ["done"]
    assert runs(phone) == 1


def test_a_line_that_was_read_when_the_connection_broke_runs_once(leased: AdbDevice, phone: FaultyPhone) -> None:
    results: list[str] = []
    running = threading.Thread(target=lambda: results.append(count(leased, "sleep 2")))
    running.start()
    eventually(lambda: (phone.data / RUNS).exists())
    phone.restart_daemon()
    running.join(60)
    assert results == ["done"]
    assert runs(phone) == 1


def test_a_line_that_is_read_late_is_not_run_again(leased: AdbDevice, phone: FaultyPhone) -> None:
    [shell] = shells(phone)
    shell.suspend()
    results: list[str] = []
    running = threading.Thread(target=lambda: results.append(count(leased)))
    running.start()
    time.sleep(0.3)
    phone.restart_daemon()
    running.join(60)
    assert results == ["done"], "in another shell"
    shell.resume()
    eventually(lambda: not shell.is_running() or shell.status() == psutil.STATUS_ZOMBIE)
    assert runs(phone) == 1
