"""The ssh device on a real sshd. Faults by their rows in faults.md."""

import shutil
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import psutil
import pytest

from sweeps.errors import ABSENT_KINDS, DeviceError
from tests.conformance.test_devices import (  # noqa: F401  # the same checks, on this device
    home,
    outside,
    test_a_deadline_ends_the_program,
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
from tests.conformance.test_remote_devices import failure
from tests.sshd import Board
from tests.workers.phone_sweep import eventually, once, pause
from workers.devices import registry
from workers.devices.local import local_facts
from workers.devices.ssh import board_lock, loop
from workers.devices.ssh.device import SshDevice
from workers.devices.ssh.discovery import are_one

pytestmark = [pytest.mark.system, pytest.mark.sshd]


@pytest.fixture
def name(board: Board) -> str:
    return board.name


@pytest.fixture
def device(board: Board) -> Iterator[SshDevice]:
    ssh_device = SshDevice(Path(), board.unit, answer_s=20.0, backoff_s=(0.1,) * 100)
    yield ssh_device
    ssh_device.release()


def files(board: Board) -> list[str]:
    return sorted(str(path.relative_to(board.folder)) for path in board.folder.rglob("*") if path.is_file())


# The right to connect


def test_an_unknown_host_key_is_never_accepted_and_the_command_for_it_is_told(device: SshDevice, board: Board) -> None:
    board.known_hosts.write_text("")
    for _ in range(2):
        error = failure(device.facts)
        assert error.kind == "unknown_host_key"
        assert f"[127.0.0.1]:{board.port}" in error.message
        assert f"ssh -p {board.port} 127.0.0.1" in error.next_step
    assert board.known_hosts.read_text() == ""
    board.known_hosts.unlink()
    assert failure(device.facts).kind == "unknown_host_key"
    board.trust()
    assert device.facts()


def test_another_host_key_than_the_known_one_is_told_apart(device: SshDevice, board: Board) -> None:
    other = board.root / "other_key"
    board.make_key(other)
    board.trust(other.with_suffix(".pub").read_text())
    error = failure(device.facts)
    assert error.kind == "changed_host_key"
    assert f"ssh-keygen -R '[127.0.0.1]:{board.port}'" in error.next_step


@pytest.mark.parametrize(
    "option", ["UserKnownHostsFile none", "StrictHostKeyChecking no", "UserKnownHostsFile /dev/null"]
)
def test_no_setting_of_ssh_switches_the_check_off(device: SshDevice, board: Board, option: str) -> None:
    board.known_hosts.write_text("")
    (board.client / ".ssh" / "config").write_text(f"Host *\n    {option}\n")
    assert failure(device.facts).kind == "unknown_host_key"


def test_a_board_is_reached_by_its_name_in_the_settings_of_ssh(board: Board) -> None:
    key = board.client / ".ssh" / "id_ed25519"
    moved_key = key.with_name("other-name")
    key.rename(moved_key)
    try:
        (board.client / ".ssh" / "config").write_text(
            f"Host bench-1\n    Hostname 127.0.0.1\n    Port {board.port}\n    IdentityFile {moved_key}\n"
        )
        device = SshDevice(Path(), "bench-1")
        assert device.run(["echo", "there"], 30).stdout == b"there\n"
        device.release()
    finally:
        moved_key.rename(key)


def test_settings_that_cannot_be_read_are_told(device: SshDevice, board: Board) -> None:
    (board.client / ".ssh" / "config").write_text("Host *\n    Port none\n")
    error = failure(device.facts)
    assert error.kind == "os_error"
    assert "~/.ssh/config" in error.next_step


def test_a_key_that_is_not_accepted_is_told_and_no_password_is_tried(device: SshDevice, board: Board) -> None:
    accepted = board.root / "authorized_keys"
    keys = accepted.read_text()
    accepted.write_text("")
    before = len(board.log())
    try:
        error = failure(device.facts)
    finally:
        accepted.write_text(keys)
    assert error.kind == "unauthorized"
    assert f"ssh-copy-id -p {board.port} 127.0.0.1" in error.next_step
    assert "password" not in board.log()[before:]


def test_a_key_with_a_passphrase_is_not_asked_for_it(device: SshDevice, board: Board) -> None:
    key = board.client / ".ssh" / "id_ed25519"
    plain = key.read_bytes()
    subprocess.run(["ssh-keygen", "-q", "-p", "-N", "secret", "-f", str(key)], check=True, timeout=60)
    try:
        error = failure(device.facts)
    finally:
        key.write_bytes(plain)
    assert error.kind == "unauthorized"
    assert "ssh-add" in error.next_step


def test_a_board_that_is_off_is_offline(device: SshDevice, board: Board) -> None:
    board.stop()
    error = failure(device.facts)
    assert (error.kind, error.kind in ABSENT_KINDS) == ("offline", True)
    assert f"ssh -p {board.port} 127.0.0.1 true" in error.next_step
    board.start()
    assert device.facts()


def test_what_is_no_ssh_server_is_offline_in_little_time(monkeypatch: pytest.MonkeyPatch, board: Board) -> None:
    monkeypatch.setattr("workers.devices.ssh.board_connection._CONNECT_S", 2.0)
    with socket.create_server(("127.0.0.1", 0)) as silent:
        device = SshDevice(Path(), f"127.0.0.1:{silent.getsockname()[1]}")
        began = time.monotonic()
        assert failure(device.facts).kind == "offline"
        assert time.monotonic() - began < 30


# The board's own shell


@pytest.mark.parametrize("shell", ["/bin/sh", "/bin/bash"])
def test_start_files_that_print_do_no_harm(device: SshDevice, board: Board, shell: str) -> None:
    board.stop()
    board.start(shell=shell, noise="echo welcome; echo 0 x -; echo to you >&2")
    done = device.run([sys.executable, "-c", "print('one')"], 60)
    assert (done.exit_code, done.stdout) == (0, b"one\n")
    assert device.facts().cores >= 1


def test_an_account_that_runs_nothing_is_told(device: SshDevice, board: Board) -> None:
    board.stop()
    board.start(noise="echo This account is not available.; exit 1")
    error = failure(device.facts)
    assert error.kind in ("os_error", "unresponsive")
    assert f"ssh -p {board.port}" in error.next_step


# Rows 1, 9, 10: programs and their ends


@pytest.mark.parametrize(("end", "code"), [("sys.exit(137)", 137), ("os.kill(os.getpid(), 9)", -9)])
def test_signals_are_told_from_exit_codes(device: SshDevice, end: str, code: int) -> None:
    assert device.run([sys.executable, "-c", f"import os, sys; {end}"], 60).exit_code == code


def test_a_reboot_is_told_and_the_next_run_counts(device: SshDevice, board: Board) -> None:
    device.facts()
    device._boot_id = "another-boot"
    assert failure(lambda: device.run(["true"], 30)).kind == "rebooted"
    assert device.run(["true"], 30).exit_code == 0
    mark = board.root / "mark"

    def reboot() -> None:
        (started,) = board.folder.glob("attempts/*/started")
        started.write_text(f"{started.read_text().split()[0]} 00000000-another-boot\n")
        board.cut()
        mark.unlink()

    rebooting = once(mark.exists, reboot)
    assert failure(lambda: device.run(["sh", "-c", pause(str(mark))], 100)).kind == "rebooted"
    rebooting.join()
    assert device.run(["true"], 30).exit_code == 0


def test_a_deadline_ends_also_what_left_the_program_s_group(device: SshDevice, board: Board) -> None:
    program = "import subprocess, time; subprocess.Popen(['sleep', '7654.31'], start_new_session=True); time.sleep(60)"
    assert failure(lambda: device.run([sys.executable, "-c", program], 3)).kind == "timeout"
    assert not board.programs("7654.31")
    assert device.run(["true"], 30).exit_code == 0


def test_a_runner_of_this_machine_is_no_orphan_of_the_board(device: SshDevice, board: Board) -> None:
    other = board.root / "runner"
    shutil.copy("/bin/sleep", other)
    with subprocess.Popen([str(other), "60"], start_new_session=True) as own:
        device.take_lock()
        device.end_orphans()
        assert own.poll() is None
        own.kill()


# Row 7, 28: the lease


def test_a_lease_is_taken_again_where_the_board_still_believes_in_a_lost_connection(
    device: SshDevice, board: Board
) -> None:
    device.take_lock()
    # The network seems to have swallowed all: this side has given it up, the board's side knows of nothing.
    connection, lock = device._connection, device._lock
    lost, connection._connection, lock._holder = connection._connection, None, None
    assert lost is not None
    device.take_lock()
    assert lost.is_open()
    other = SshDevice(Path(), f"{psutil.Process().username()}@{board.unit}")
    error = failure(other.take_lock)
    assert (error.kind, f"ssh -p {board.port}" in error.next_step) == ("leased", True)
    assert device.run(["true"], 30).exit_code == 0
    loop.call(lost.close(), 30)


def test_a_holder_that_is_not_fed_lets_go(board: Board, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        board_lock, "_SCRIPT", board_lock._SCRIPT.replace(f"timeout {board_lock.SILENT_S} ", "timeout 1 ")
    )
    silent, other = SshDevice(Path(), board.unit), SshDevice(Path(), board.unit)
    silent.take_lock()

    def is_held() -> bool:
        with suppress(DeviceError):
            other.take_lock()
            return True
        return False

    eventually(is_held, 30)
    assert failure(lambda: silent.run(["true"], 30)).kind == "leased", "it measures nothing beside the other one"
    other.release()
    assert silent.run(["true"], 30).exit_code == 0
    silent.release()


# Rows 21, 23: hostile boards


def test_a_tool_that_hangs_is_no_answer(board: Board) -> None:
    device = SshDevice(Path(), board.unit, answer_s=2.0)
    device.facts()
    for tool in ("grep", "uname"):
        (board.bin / tool).write_text("#!/bin/sh\nexec sleep 600\n")
        (board.bin / tool).chmod(0o755)
    error = failure(device.sensors)
    assert (error.kind, error.kind in ABSENT_KINDS) == ("unresponsive", True)
    assert board.name in error.message
    for tool in ("grep", "uname"):
        (board.bin / tool).unlink()
    assert device.sensors(load=False)
    device.release()


def test_a_board_that_lies_about_itself_is_a_board_all_the_same(device: SshDevice, board: Board) -> None:
    for tool in ("uname", "getconf", "cat", "grep", "tr", "ls"):
        (board.bin / tool).write_text("#!/bin/sh\nhead -c 100000 /dev/urandom\necho '\x1b[31m$(touch /tmp/x)'\n")
        (board.bin / tool).chmod(0o755)
    facts = device.facts()
    assert len(repr(facts)) < 5000
    assert all(text.isprintable() for text in (facts.maker, facts.model, facts.soc, facts.os_build))
    device.sensors()


# The whole of it


def test_a_board_keeps_nothing_of_a_run_but_what_was_pushed(device: SshDevice, board: Board, tmp_path: Path) -> None:
    device.take_lock()
    for _ in range(3):
        device.run(["echo", "x"], 30)
    device.release()
    assert files(board) == []
    eventually(lambda: not board.connections(), 20)


def test_two_names_of_one_board_are_one(board: Board, tmp_path: Path) -> None:
    user = psutil.Process().username()
    assert are_one(board.name, f"ssh:{user}@{board.unit}", tmp_path)


def test_it_is_another_device_than_this_machine(device: SshDevice) -> None:
    facts, local = device.facts(), local_facts()
    assert facts.device_id != local.device_id
    assert facts.fingerprint != local.fingerprint
    assert (facts.abi, facts.exec_context, facts.python) == (local.abi, "board", sys.executable)
    assert facts.runtime_versions == ()


def test_a_device_that_is_forgotten_closes_its_connection(board: Board) -> None:
    device = registry.connect(board.name, Path())
    device.facts()
    assert board.connections()
    del device
    eventually(lambda: not board.connections(), 30)
