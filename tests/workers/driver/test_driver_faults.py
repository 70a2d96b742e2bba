"""A driver that is killed or stopped while it builds, pushes, measures or publishes on two virtual phones."""

import os
import random
import sqlite3
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from typing import Protocol

import pytest
from click.testing import CliRunner

from sweeps.cli import main as cli
from sweeps.errors import DeviceError
from sweeps.journal.journal import Journal
from sweeps.records import Measured
from sweeps.spec.grid import GridSpec
from sweeps.workspace import Workspace
from tests.faked_clock import faked_clock
from tests.faulty_phone import FaultyPhone
from tests.workers.driver_process import DriverProcess
from tests.workers.phone_sweep import (
    MANY_IMAGES,
    PAUSE,
    Phone,
    PhoneSweep,
    assert_invariants,
    eventually,
    fault,
    programs_on,
    resume,
    timed,
)

pytestmark = [pytest.mark.system, pytest.mark.long]

Pair = list[FaultyPhone]

SIX = GridSpec(precision=("fp32",), layout=("nchw",), threads=(1, 2, 3, 4, 5, 6))


def at_work(phone: FaultyPhone) -> bool:
    """Tell whether a runner runs on the phone. The shell that led it may wait until its report was received."""
    return any("--model" in argv for _, argv in programs_on(phone))


class Phased(Protocol):
    """A sweep, whose phases are seen on its phones and in its workspace."""

    @property
    def phones(self) -> Sequence[Phone]: ...

    @property
    def workspace(self) -> Workspace: ...


def building(sweep: Phased, chance: random.Random) -> Callable[[], bool]:
    """A folder of a build that is not whole yet is there."""
    return lambda: any(path.name.startswith(".") for path in sweep.workspace.artifacts.glob(".*"))


def pushing(sweep: Phased, chance: random.Random) -> Callable[[], bool]:
    bytes_ = chance.randrange(1, 2_500_000)

    def arrives() -> bool:
        with suppress(FileNotFoundError):
            parts = [phone.data / "local/tmp/edgesweep/part" for phone in sweep.phones]
            return any(part.stat().st_size >= bytes_ for part in parts)
        return False

    return arrives


def measuring(sweep: Phased, chance: random.Random) -> Callable[[], bool]:
    phone, count = chance.choice(sweep.phones), chance.randrange(1, 6)
    return lambda: timed(phone) >= count


def publishing(sweep: Phased, chance: random.Random) -> Callable[[], bool]:
    count = chance.randrange(1, 10)
    return lambda: published(sweep.workspace) >= count


def published(workspace: Workspace) -> int:
    """Count the jobs that the publisher has marked as published."""
    with suppress(sqlite3.Error), closing(sqlite3.connect(f"file:{workspace.published}?mode=ro", uri=True)) as db:
        return int(db.execute("SELECT count(*) FROM marks").fetchone()[0])
    return 0


PHASES = {"building": building, "pushing": pushing, "measuring": measuring, "publishing": publishing}
# In the second tier one point of each phase that leaves something on a phone or in MLflow.
TIER = {("pushing", 1), ("measuring", 1), ("publishing", 1)}


def points() -> Iterator[object]:
    """Twenty: five in each phase."""
    for phase in PHASES:
        for seed in range(1, 6):
            marks = () if (phase, seed) in TIER else (pytest.mark.suite,)
            yield pytest.param(phase, seed, id=f"{phase}-{seed}", marks=marks)


@pytest.mark.fault(29, "SIGKILL while it builds, pushes, measures, publishes", "resumed; at most a block a phone again")
@pytest.mark.fault(50, "SIGKILL of the driver while it publishes", "its runs are closed, each job published once")
@pytest.mark.parametrize(("phase", "seed"), list(points()))
def test_a_driver_that_is_killed_at_any_point_loses_nothing_and_leaves_nothing(
    pair: Pair, built: Path, tmp_path: Path, phase: str, seed: int
) -> None:
    chance = random.Random(f"{phase} {seed}")
    sweep = PhoneSweep(tmp_path, built, pair, SIX, data=MANY_IMAGES)
    if phase == "building":
        for build in sweep.workspace.artifacts.iterdir():
            build.rename(tmp_path / build.name)
    for phone in pair:
        phone.slow_down(bytes_per_s=8e6)
    reached = PHASES[phase](sweep, chance)
    with DriverProcess(sweep) as driver:
        eventually(lambda: reached() or driver.process.poll() is not None)
        time.sleep(chance.uniform(0.0, 0.3))
        driver.kill()
    if chance.random() < 0.5:
        eventually(lambda: not any(map(at_work, pair)))
    for phone in pair:
        phone.slow_down()
    with Journal.open(sweep.workspace.journal) as journal:
        resume(sweep, journal)


@pytest.mark.suite
@pytest.mark.ray
@pytest.mark.fault(29, "SIGKILL while its Ray builds", "nothing of Ray is left, resumed")
def test_a_driver_that_is_killed_while_ray_builds_leaves_nothing_of_ray(
    pair: Pair, built: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in [name for name in os.environ if name.startswith("RAY_")]:
        monkeypatch.delenv(name)
    sweep = PhoneSweep(tmp_path, built, pair)
    for build in sweep.workspace.artifacts.iterdir():
        build.rename(tmp_path / build.name)
    reached = building(sweep, random.Random(0))
    # Ray's sockets are there, and their paths must be short.
    with DriverProcess(sweep, {"RAY_TMPDIR": "/tmp"}, executor="ray") as driver:
        eventually(lambda: reached() or driver.process.poll() is not None)
        assert driver.process.poll() is None, driver.output.read_text()
        assert {"raylet", "gcs_server"} <= {process.name() for process in driver.tree()}
        driver.kill()
    with Journal.open(sweep.workspace.journal) as journal:
        resume(sweep, journal)


@contextmanager
def held_in_a_block(pair: Sequence[Phone]) -> Iterator[None]:
    """Within the block each phone is in its first block, which ends after it."""
    marks = [phone.data / "local/now" for phone in pair]
    eventually(lambda: all(mark.exists() for mark in marks))
    yield
    for mark in marks:
        mark.unlink()


@pytest.mark.fault(30, "SIGSTOP in a block, SIGCONT after the phones had ended theirs", "goes on, no block repeated")
@pytest.mark.fault(36, "a second command in one workspace", "refused, with the first one's process")
@pytest.mark.fault(28, "a second driver while the first one is stopped", "leased: left to the first")
@pytest.mark.parametrize(
    "seconds", [1.0, pytest.param(10.0, marks=pytest.mark.suite), pytest.param(60.0, marks=pytest.mark.suite)]
)
def test_a_driver_that_is_suspended_goes_on_and_nobody_takes_its_phones(
    pair: Pair, built: Path, tmp_path: Path, seconds: float
) -> None:
    sweep = PhoneSweep(tmp_path, built, pair)
    for phone in pair:
        fault(phone, PAUSE, once=True)
    with DriverProcess(sweep) as driver:
        with held_in_a_block(pair):
            driver.stop()
        eventually(lambda: not any(map(at_work, pair)))
        with pytest.raises(DeviceError, match=rf"process {driver.process.pid}\)") as caught:
            PhoneSweep(tmp_path / "other", built, pair)
        assert caught.value.kind == "leased"
        words = ["run", str(tmp_path / "sweep.yaml"), "--workspace", str(sweep.workspace.root), "--executor", "inline"]
        refused = CliRunner().invoke(cli.main, words)
        assert refused.exit_code == 1
        assert f"locked by process {driver.process.pid}" in " ".join(refused.output.split())
        time.sleep(seconds)
        driver.go_on()
        driver.ended()
    with Journal.open(sweep.workspace.journal) as journal:
        assert all(isinstance(outcome, Measured) for phone in pair for outcome in sweep.outcomes(journal, phone))
        assert [timed(phone) for phone in pair] == [2, 2]
        assert_invariants(sweep, journal, faults=0)


@pytest.fixture
def clock(tmp_path: Path) -> tuple[Path, dict[str, str]]:
    """A file with what is added to the clock, and the environment of a process that reads it."""
    file = tmp_path / "clock"
    file.write_text("+0\n")
    if not (environment := faked_clock(file)):
        pytest.skip("libfaketime is missing; enable with: make faults")
    return file, environment


@pytest.mark.suite
@pytest.mark.fault(20, "the driver's clock set on by a day, back by two", "nothing lost, nothing repeated")
def test_a_driver_whose_clock_jumps_goes_on(
    pair: Pair, built: Path, tmp_path: Path, clock: tuple[Path, dict[str, str]]
) -> None:
    file, environment = clock
    sweep = PhoneSweep(tmp_path, built, pair, SIX)
    for phone in pair:
        fault(phone, PAUSE, once=True)
    with DriverProcess(sweep, environment) as driver:
        with held_in_a_block(pair):
            file.write_text("+86400\n")
            for phone in pair:
                fault(phone, PAUSE, once=True)
        with held_in_a_block(pair):
            file.write_text("-86400\n")
        driver.ended()
    with Journal.open(sweep.workspace.journal) as journal:
        assert all(isinstance(outcome, Measured) for phone in pair for outcome in sweep.outcomes(journal, phone))
        assert [timed(phone) for phone in pair] == [6, 6]
        created = [str(row[0])[:10] for row in journal.file.rows("SELECT created FROM attempts WHERE kind = 'block'")]
        assert len(set(created)) > 1, "its clock did jump"
        assert_invariants(sweep, journal, faults=0)
