"""Sweeps of the tiny network on virtual phones that can be made to misbehave, and what must hold whatever happens.

Fixtures: `pair`, two phones, and `built`, the artifacts that all sweeps share; tests/workers/conftest.py imports them.
"""

import shutil
import stat
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Protocol

import psutil
import pytest

from sweeps.device_facts import DeviceFacts
from sweeps.errors import DeviceError
from sweeps.journal.journal import Journal
from sweeps.records import Failed, Job, Measured
from sweeps.spec.grid import GridSpec
from sweeps.spec.model_inputs import DataSpec, SyntheticData
from sweeps.spec.objective import ObjectiveSpec
from sweeps.spec.protocol import ProtocolSpec
from tests import shared
from tests.faults import seen
from tests.faults.invariants import Scene, check
from tests.faulty_phone import FaultyPhone
from tests.fresh_mlflow import fresh_mlflow
from tests.transports import stand_in
from tests.virtual_phones import OURS, as_new
from tests.workers.tiny_model import SOURCE
from tests.workers.tiny_sweep import Sweep
from workers.devices.adb.adb_host import AdbHost
from workers.devices.adb.attempt import leads_attempt
from workers.devices.adb.device import AdbDevice
from workers.devices.local import host_abi
from workers.driver.driver_events import Event
from workers.driver.ladder import AwayWait
from workers.models.model_code import construct
from workers.runtimes.torchscript import native_runner, programs

ONE_ROUND = ProtocolSpec(preset="quick", rounds=1, warmup_seconds=0.01, min_seconds=0.02, iterations=3, gate="none")
# Two jobs of one build.
GRID = GridSpec(precision=("fp32",), layout=("nchw",), threads=(1, 2))
# 3 MB: their push takes a while.
MANY_IMAGES = DataSpec(
    calibration=SyntheticData(source="synthetic", images=8), evaluation=SyntheticData(source="synthetic", images=1000)
)
ANY = ObjectiveSpec(constraints=())

# Sourced by the runner before it does its work, once or as often as it runs.
_FAULT = "local/fault"
_STARTS = "local/starts"
_NOW = "local/now"


def pause(mark: str) -> str:
    """A script that makes this file and waits for its deletion, for a minute at most: its deleter may have failed."""
    return f"touch {mark}; i=0; while [ -e {mark} ] && [ $i -lt 600 ]; do sleep 0.1; i=$((i+1)); done"


PAUSE = pause(f"/data/{_NOW}")
_RUNNER = """#!/bin/sh
program='{program}'
[ "$1" = --nnapi-devices ] && exec "$program" "$@"
echo "$*" >>/data/local/starts
[ -e /data/local/fault ] && . /data/local/fault
exec "$program" "$@"
"""


class ImpatientPhone(AdbDevice):
    """Waits for answers, and for a phone that is away, as long as a test can."""

    ANSWER_S = 10.0
    PAUSES_S = (0.1, 0.2, 0.4)

    def __init__(self, folder: Path, name: str) -> None:
        super().__init__(folder, name, answer_s=self.ANSWER_S, backoff_s=self.PAUSES_S)


def put_runner(runners: Path) -> None:
    """The runner whose starts are counted, and which has faults, for whoever has this folder in EDGESWEEP_RUNNERS."""
    runner = runners / host_abi() / "edgesweep_runner_full"
    runner.parent.mkdir(parents=True)
    runner.write_text(_RUNNER.format(program=native_runner.program()))
    runner.chmod(runner.stat().st_mode | stat.S_IXUSR)


@pytest.fixture(scope="module")
def running(
    port: int, phones: list[FaultyPhone], tmp_path_factory: pytest.TempPathFactory
) -> Iterator[list[FaultyPhone]]:
    runners = tmp_path_factory.mktemp("runners")
    put_runner(runners)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv(programs.FOLDER_VARIABLE, str(runners))
        for phone in phones:
            # The server starts with the first, which takes longer than a test is patient.
            assert AdbHost(port).connect(phone.serial)
        stand_in(patch, "adb", f"{__name__}:{ImpatientPhone.__name__}")
        yield phones


@pytest.fixture
def pair(
    running: list[FaultyPhone], port: int, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> Iterator[list[FaultyPhone]]:
    """Two phones as new, whose drivers give up soon."""
    (tmp_path / "temporary").mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "temporary"))
    # Whichever process imports that part of torch first makes its folder: no trace of a sweep, and a matter of order.
    monkeypatch.setenv("TORCHINDUCTOR_CACHE_DIR", str(tmp_path / "torch"))
    for phone in running:
        as_new(phone)
        assert AdbHost(port).connect(phone.serial)
        wait_until_it_answers(phone)
    yield running
    for phone in running:
        as_new(phone)


@pytest.fixture(scope="module")
def built(running: list[FaultyPhone]) -> Path:
    """A workspace with what the grid of all sweeps needs."""

    def build(folder: Path) -> None:
        sweep = Sweep(folder, GRID, devices=(f"adb:{running[0].serial}",), protocol=ONE_ROUND)
        with Journal.open(sweep.workspace.journal) as journal:
            sweep.run(journal)
            assert all(isinstance(journal.outcomes.in_sweep("tiny", job), Measured) for job in sweep.plan.jobs)

    # A process keeps the files of a model of one's own in a folder that it makes at first use. Whichever worker builds,
    # no test may be the first: it looks for what is left in the folder for temporary files.
    construct("tiny_net:make", {}, {"tiny_net.py": SOURCE})
    return shared.made_once("phone-sweep", build) / "workspace"


class PhoneSweep(Sweep):
    """On these phones, with nothing left to build. Gives a phone that goes away up soon."""

    def __init__(
        self, home: Path, built: Path, phones: Sequence[FaultyPhone], grid: GridSpec = GRID, **changes: object
    ) -> None:
        home = home / "home"
        for part in ("artifacts", "references"):
            shutil.copytree(built / part, home / "workspace" / part, dirs_exist_ok=True)
        fresh_mlflow(home / "workspace")
        self.phones = phones
        devices = tuple(f"adb:{phone.serial}" for phone in phones)
        super().__init__(home, grid, **{"devices": devices, "objective": ANY, "protocol": ONE_ROUND} | changes)

    def run(self, journal: Journal, *words: object, away_s: float = 1.0, **named: object) -> list[Event]:
        return super().run(journal, *words, **{"away_wait": AwayWait(away_s, 0.5)} | named)

    def jobs(self, phone: FaultyPhone) -> list[Job]:
        return [job for job in self.plan.jobs if job.device_id == phone.serialno]

    def outcomes(self, journal: Journal, phone: FaultyPhone) -> list[Measured | Failed | None]:
        return [journal.outcomes.in_sweep("tiny", job) for job in self.jobs(phone)]

    def facts(self, job: Job) -> DeviceFacts:
        return next(facts for facts in self.plan.devices if facts.device_id == job.device_id)


class Phone(Protocol):
    """One on any computer's cable: what a test reads and writes on it."""

    @property
    def data(self) -> Path: ...


def fault(phone: Phone, script: str, *, once: bool = False) -> None:
    """Have the runner do this first, in a shell, whenever it times or evaluates: `$program "$@"` is the real one."""
    (phone.data / _FAULT).write_text("rm /data/local/fault\n" * once + f"{script}\n")


def sizes(folder: Path, pattern: str) -> dict[Path, int]:
    """Files in it by their bytes, while some of them may be deleted."""
    while True:
        with suppress(FileNotFoundError):
            return {path: path.stat().st_size for path in folder.glob(pattern) if path.is_file()}


def files(phone: FaultyPhone, beginning: str) -> list[str]:
    """List our files on the phone, by the beginning of their names."""
    return sorted(path.name for path in sizes(phone.data / "local/tmp/edgesweep", f"**/{beginning}*"))


def programs_on(phone: FaultyPhone) -> list[tuple[psutil.Process, list[str]]]:
    """List the programs that run on the phone, with their argv. Whoever ends while it is asked is not among them."""
    programs = []
    for process in phone.processes():
        with suppress(psutil.Error):
            programs.append((process, process.cmdline()))
    return programs


def running_on(phone: FaultyPhone, word: str) -> list[str]:
    """Command lines on the phone that hold it."""
    return [line for _, argv in programs_on(phone) if word in (line := " ".join(argv))]


def tidied_up(phone: FaultyPhone) -> bool:
    """Tell whether no shell that ran a program for us still removes what it left."""
    return not any(leads_attempt("\0".join(argv)) for _, argv in programs_on(phone))


def eventually(true: Callable[[], bool], seconds: float = 200.0) -> None:
    deadline = time.monotonic() + seconds
    while not true():
        assert time.monotonic() < deadline
        time.sleep(0.02)


def wait_until_it_answers(phone: FaultyPhone) -> None:
    """After it came back: the adb server holds the connection that died until it has noticed."""

    def answers() -> bool:
        with suppress(DeviceError):
            return AdbDevice(Path(), phone.serial, answer_s=30.0).boot_id() != ""
        return False

    eventually(answers)


def reboot(phone: FaultyPhone) -> None:
    """Between two uses of it: it answers again."""
    phone.reboot()
    wait_until_it_answers(phone)


def once(true: Callable[[], bool], call: Callable[[], object]) -> threading.Thread:
    def watch() -> None:
        eventually(true)
        call()
        seen.injected()

    thread = threading.Thread(target=watch)
    thread.start()
    return thread


def in_a_push(phone: FaultyPhone, call: Callable[[], object]) -> threading.Thread:
    """Call it once half a megabyte of a file has arrived."""
    return in_a_transfer(phone.data / "local/tmp/edgesweep", "part", call)


def in_a_transfer(folder: Path, pattern: str, call: Callable[[], object]) -> threading.Thread:
    """Call it once a large file arrives in the folder under a name of this pattern."""

    def arrives() -> bool:
        # Smaller files arrive under this name too, and get one of their own.
        with suppress(FileNotFoundError):
            return any(part.stat().st_size > 500_000 for part in folder.glob(pattern))
        return False

    return once(arrives, call)


def timed(phone: Phone) -> int:
    """Count the runner's starts to time a block."""
    return sum("--eval-inputs" not in line for line in _starts(phone))


def _starts(phone: Phone) -> list[str]:
    path = phone.data / _STARTS
    return path.read_text().splitlines() if path.exists() else []


def in_a_pause(phones: Sequence[FaultyPhone], call: Callable[[], object]) -> threading.Thread:
    """Call it once a program is at its `PAUSE` on each of them; they go on when it has returned."""
    marks = [phone.data / _NOW for phone in phones]

    def act() -> None:
        try:
            call()
        finally:
            for mark in marks:
                mark.unlink()

    return once(lambda: all(mark.exists() for mark in marks), act)


def amid(phones: Sequence[FaultyPhone], call: Callable[[], object]) -> threading.Thread:
    """Call it in the middle of the next run of the runner on each of them, which lasts 2 s beyond it."""
    for phone in phones:
        fault(phone, f"{PAUSE}; sleep 2", once=True)
    return in_a_pause(phones, call)


def resume(sweep: PhoneSweep, journal: Journal) -> None:
    """Run it again, to its end: what is there stays as it is, and only what is missing is measured."""
    kept_blocks = {job.key: journal.attempts.blocks(job.key) for job in sweep.plan.jobs}
    before = sum(map(timed, sweep.phones))
    sweep.run(journal)
    assert all(isinstance(journal.outcomes.in_sweep("tiny", job), Measured) for job in sweep.plan.jobs)
    new = 0
    for key, blocks in kept_blocks.items():
        assert journal.attempts.blocks(key)[: len(blocks)] == blocks
        new += len(journal.attempts.blocks(key)) - len(blocks)
    assert sum(map(timed, sweep.phones)) - before == new
    starts = [len(_starts(phone)) for phone in sweep.phones]
    assert sweep.run(journal) == [], "what is done costs nothing"
    assert [len(_starts(phone)) for phone in sweep.phones] == starts
    assert_invariants(sweep, journal)


def assert_invariants(sweep: PhoneSweep, journal: Journal, faults: int = 1) -> None:
    """Check the invariants of tests/faults/invariants.py. Each of so many `faults` may have cost each phone the block
    in flight."""
    blocks = (block for job in sweep.plan.jobs for block in journal.attempts.blocks(job.key))
    assert {(block.runner, block.runtime_version) for block in blocks} <= {(native_runner.runner(), "2.12.1")}
    folders: dict[Path, set[str]] = {
        sweep.home: {"tiny_net.py", "tiny.pt", "workspace"},
        Path(tempfile.gettempdir()): set(),
        Path.home(): {".android"},
    }
    for phone in sweep.phones:
        folders[phone.data] = {"local", "misc"}
        folders[phone.data / "misc/perfetto-traces"] = set()
        folders[phone.data / "local"] = {"tmp", *OURS}
        folders[phone.data / "local/tmp"] = {"edgesweep"}
    scene = Scene(
        workspace=sweep.workspace,
        sweep=sweep.spec.name,
        leases=[f"phone {facts.device_id}" for facts in sweep.plan.devices],
        started=sum(map(timed, sweep.phones)),
        in_flight=faults * len(sweep.phones),
        folders=folders,
    )
    check(scene, journal)
