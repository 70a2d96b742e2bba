"""A program that an earlier sweep left running on a phone is ended (row 12), and a listing leaves nothing there."""

import json
import re
import shutil
from pathlib import Path

import psutil
import pytest
from click.testing import CliRunner

from sweeps.cli import main as cli
from sweeps.errors import DeviceError
from tests.faulty_phone import FaultyPhone
from tests.transports import stand_in
from tests.workers.phone_sweep import eventually, programs_on, tidied_up
from workers.devices.adb.device import AdbDevice
from workers.devices.adb.facts import benchmark, parse_processes

pytestmark = pytest.mark.system

RUN = "/data/local/tmp/edgesweep/run"
HASH = "0f" * 8


@pytest.fixture
def device(phone: FaultyPhone, tmp_path: Path) -> AdbDevice:
    return AdbDevice(tmp_path, phone.serial, answer_s=10.0)


def sleepers(phone: FaultyPhone) -> list[psutil.Process]:
    # The shells that start them have these words too, and are not meant.
    return [program for program, argv in programs_on(phone) if len(argv) == 2 and argv[1] == "73.5"]


@pytest.mark.parametrize("name", [f"speed_benchmark_torch-{HASH}", f"anything-{HASH}"])
def test_a_program_that_was_brought_and_outlived_its_shell_is_ended(
    device: AdbDevice, phone: FaultyPhone, name: str
) -> None:
    program = shutil.which("sleep")
    assert program is not None
    path = device.push(Path(program), name)
    device.run(["sh", "-c", '"$@" </dev/null >/dev/null 2>&1 &', "sh", path, "73.5"], 10)
    device.run(["sh", "-c", '"$@" </dev/null >/dev/null 2>&1 &', "sh", "sleep", "73.5"], 10)
    eventually(lambda: len(sleepers(phone)) == 2)
    eventually(lambda: tidied_up(phone))
    assert len(device.sensors().competing) == 1
    assert len(device.end_orphans()) == 1
    assert device.sensors().competing == ()
    (other,) = sleepers(phone)
    assert other.cmdline() == ["sleep", "73.5"]
    other.kill()


def test_only_what_lies_in_our_folder_is_ours() -> None:
    programs = [f"{RUN}/speed_benchmark_torch-{HASH}", "/data/local/tmp/speed_benchmark_torch", "/data/local/tmp/mine"]
    programs.append("/data/local/tmp/edgesweep2/mine")
    lines = "".join(f"/proc/{pid}/cmdline:{program}\0--model=m.pt\0\n" for pid, program in enumerate(programs))
    benchmarks = [(pid, benchmark(cmdline)) for pid, cmdline in parse_processes(lines)]
    assert [(pid, match[1]) for pid, match in benchmarks if match] == [(0, True), (1, False)]


def test_a_program_of_ours_that_cannot_be_ended_is_said(port: int, tmp_path: Path) -> None:
    with FaultyPhone(tmp_path / "phone") as phone:
        device = AdbDevice(tmp_path, phone.serial, answer_s=10.0)
        assert device.end_orphans() == ()
        # The first process of a phone takes no signal from it. Here it is called what a runner is.
        init = Path("/proc") / phone.data.parts[2]
        begin = int((init / "stat").read_text().rpartition(")")[2].split()[45])
        with (init / "mem").open("r+b", buffering=0) as memory:
            memory.seek(begin)
            memory.write(f"{RUN}/runner-{HASH}\0--model\0".encode())
        with pytest.raises(DeviceError) as caught:
            device.end_orphans()
    assert caught.value.kind == "orphan"
    assert phone.serial in caught.value.message
    assert caught.value.next_step


class Kept(AdbDevice):
    """A phone whose driver nobody forgets."""

    ALL: list[AdbDevice] = []  # noqa: RUF012  # of the class: the registry makes them

    def __init__(self, folder: Path, name: str) -> None:
        super().__init__(folder, name)
        self.ALL.append(self)


def test_a_phone_that_was_listed_is_free_again(
    phone: FaultyPhone, device: AdbDevice, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    device.boot_id()
    stand_in(monkeypatch, "adb", f"{__name__}:Kept")
    listed = CliRunner().invoke(cli.main, ["devices", "--json", "--workspace", str(tmp_path / "data")])
    document = json.loads(re.sub(r"\A[^{]*", "", listed.stdout))
    assert f"adb:{phone.serial}" in [device["name"] for device in document["devices"]]
    assert len(Kept.ALL) == 1
    device.take_lock()
    device.release()
    Kept.ALL.clear()
