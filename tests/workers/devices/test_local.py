"""The local device runs real processes."""

import errno
import os
import sys
import time
from pathlib import Path

import psutil
import pytest

from sweeps.errors import DeviceError
from workers.devices.interface import program_name
from workers.devices.local import LocalDevice, from_os_error


@pytest.fixture
def device(tmp_path: Path) -> LocalDevice:
    return LocalDevice(tmp_path / "a folder with 'quotes' and spaces")


def test_a_program_s_output_and_exit_code_come_back(device: LocalDevice) -> None:
    done = device.run(
        [sys.executable, "-c", "import sys; print('out'); print('err', file=sys.stderr); sys.exit(7)"], 30
    )
    assert (done.exit_code, done.stdout, done.stderr) == (7, b"out\n", b"err\n")


def test_a_program_that_is_killed_tells_the_signal(device: LocalDevice) -> None:
    assert device.run([sys.executable, "-c", "import os; os.kill(os.getpid(), 9)"], 30).exit_code == -9


def test_env_sets_a_variable_and_messages_name_the_program_that_it_runs(device: LocalDevice) -> None:
    program = "import os; print(os.environ['NUMBER'])"
    assert device.run(["env", "NUMBER=2", sys.executable, "-c", program], 30).stdout == b"2\n"
    with pytest.raises(DeviceError, match=r"^sleep ran longer than 0 s and was killed$"):
        device.run(["env", "NUMBER=2", "/bin/sleep", "60"], 0.2)


@pytest.mark.parametrize(
    ("argv", "name"),
    [
        (["/data/a tool", "--x=1"], "a tool"),
        (["env", "A=1", "B=/b/c", "/data/tool", "--x=1"], "tool"),
        (["env"], "env"),
    ],
)
def test_a_program_has_the_name_of_its_file(argv: list[str], name: str) -> None:
    assert program_name(argv) == name


def test_a_program_that_hangs_is_ended_with_its_children(device: LocalDevice, tmp_path: Path) -> None:
    pids = tmp_path / "pids"
    child = f"open({str(pids)!r}, 'a').write(str(__import__('os').getpid()) + ' '); __import__('time').sleep(60)"
    parent = f"import subprocess, sys; subprocess.Popen([sys.executable, '-c', {child!r}]); {child}"
    with pytest.raises(DeviceError, match="longer than") as caught:
        device.run([sys.executable, "-c", parent], 8.0)
    assert caught.value.kind == "timeout"
    started = [int(pid) for pid in pids.read_text().split()]
    assert len(started) == 2
    deadline = time.monotonic() + 10
    while any(_runs(pid) for pid in started):
        assert time.monotonic() < deadline, "a process of the ended program still runs"
        os.sched_yield()


def _runs(pid: int) -> bool:
    try:
        return psutil.Process(pid).status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


def test_pushed_files_come_back_and_can_be_removed(device: LocalDevice, tmp_path: Path) -> None:
    source, back = tmp_path / "source", tmp_path / "back"
    source.write_bytes(bytes(range(256)) * 100)
    path = device.push(source, "weird name; $(x) \n.bin")
    device.pull(path, back, 25_600)
    assert back.read_bytes() == source.read_bytes()
    device.remove(path)
    with pytest.raises(DeviceError) as caught:
        device.pull(path, back, 25_600)
    assert caught.value.kind == "no_output"


def test_a_pipe_in_place_of_an_answer_is_no_output_and_blocks_nobody(device: LocalDevice, tmp_path: Path) -> None:
    pipe = tmp_path / "answers"
    os.mkfifo(pipe)
    with pytest.raises(DeviceError) as caught:
        device.pull(str(pipe), tmp_path / "back", 100)
    assert caught.value.kind == "no_output"


def test_a_folder_that_cannot_be_written_is_a_device_error(tmp_path: Path) -> None:
    (tmp_path / "run").write_text("in the way")
    device = LocalDevice(tmp_path)
    with pytest.raises(DeviceError) as pushed:
        device.push(tmp_path / "run", "name")
    with pytest.raises(DeviceError) as ran:
        device.run([sys.executable, "-V"], 30)
    assert (pushed.value.kind, ran.value.kind) == ("os_error", "os_error")


@pytest.mark.parametrize(
    ("number", "kind"), [(errno.ENOSPC, "no_space"), (errno.EDQUOT, "no_space"), (errno.EACCES, "os_error")]
)
def test_a_full_disk_has_a_kind_of_its_own(number: int, kind: str) -> None:
    assert from_os_error(OSError(number, os.strerror(number))).kind == kind


def test_the_fingerprint_stays_the_same_and_holds_no_serial_number(device: LocalDevice) -> None:
    facts = device.facts()
    assert facts.fingerprint == device.facts().fingerprint
    assert facts.device_id.startswith("local-")
    assert facts.device_id not in facts.fingerprint
    assert "qnnpack" in facts.qengines
    assert dict(facts.runtime_versions)["torchscript"].startswith("2.12.1")


def test_load_is_a_share_of_the_machine(device: LocalDevice) -> None:
    load = device.sensors().load
    assert load is not None
    assert 0 <= load <= 1


@pytest.mark.parametrize("name", ["", ".", "..", "../out", "a/b", "/tmp/out", "nul\0"])
def test_nothing_is_written_outside_of_the_run_folder(device: LocalDevice, tmp_path: Path, name: str) -> None:
    source = tmp_path / "source"
    source.write_bytes(b"x")
    with pytest.raises(DeviceError) as caught:
        device.push(source, name)
    assert caught.value.kind == "bad_name"


def test_nothing_is_deleted_outside_of_the_run_folder(device: LocalDevice, tmp_path: Path) -> None:
    outside = tmp_path / "kept"
    outside.write_bytes(b"x")
    with pytest.raises(DeviceError) as caught:
        device.remove(str(outside))
    assert caught.value.kind == "bad_name"
    assert outside.exists()
