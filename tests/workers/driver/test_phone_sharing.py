"""Phones of one class, with the real adb daemon, that share the variants of a sweep.

Everything is real but the times that their runner tells: virtual phones are as fast as this computer is free, so that
two of them would differ by chance. Each tells one time for every iteration, its own.
"""

from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from sweeps.journal.assignments import EVERY_UNIT
from sweeps.journal.journal import Journal
from sweeps.records import Job, Measured
from sweeps.spec.grid import GridSpec
from tests.faulty_phone import FaultyPhone, faulty_phones
from tests.workers.driver_process import DriverProcess
from tests.workers.hosts.hosts import World
from tests.workers.phone_sweep import (
    ONE_ROUND,
    PAUSE,
    PhoneSweep,
    as_new,
    assert_invariants,
    eventually,
    fault,
    timed,
)
from workers.devices.adb.adb_host import AdbHost
from workers.driver.driver_events import AttemptFailed, Away
from workers.driver.sharing import Sharing
from workers.executors.lane import Lane
from workers.hosts.lab_executor import LabExecutor
from workers.plan_inputs import device_facts, plan_sweep

pytestmark = [pytest.mark.system, pytest.mark.compiler]

ROUNDS = 2
USUAL_NS, SLOWER_NS = 2_000_000, 2_600_000
# Two builds: what is of one build stays on one unit.
GRID = GridSpec(precision=("fp32",), layout=("nchw", "nhwc"), threads=(1, 2))
SHARED = {"protocol": ONE_ROUND.model_copy(update={"rounds": ROUNDS}), "share": "class"}


@pytest.fixture
def third(pair: list[FaultyPhone], port: int, tmp_path: Path) -> Iterator[FaultyPhone]:
    """A third phone of the same class as the pair."""
    with faulty_phones(1, tmp_path / "phones") as [phone]:
        assert AdbHost(port).connect(phone.serial)
        as_new(phone)
        yield phone
        AdbHost(port).disconnect(phone.serial)


def tell(phone: FaultyPhone, ns: int, *, first: str = ":") -> None:
    """Every iteration takes so long, by what the phone's runner tells. `first` is done before a block."""
    fault(
        phone,
        f"""case "$*" in
*--eval-inputs*) ;;
*) {first}; "$program" "$@" | sed 's/\\("ns": *\\)\\[[^]]*\\]/\\1[{ns}, {ns}, {ns}]/'; exit ;;
esac""",
    )


def on(sweep: PhoneSweep, phone: FaultyPhone) -> list[Job]:
    return [job for job in sweep.plan.jobs if job.device_id == phone.serialno]


def assert_shared(sweep: PhoneSweep, journal: Journal, units: list[FaultyPhone]) -> None:
    """All units measured the common variant, and each other variant was measured on one of them, beside it."""
    links = [job for job in sweep.plan.jobs if job.key == job.link]
    other_jobs = [job for job in sweep.plan.jobs if job.key != job.link]
    assert [job.device_id for job in links] == [phone.serialno for phone in units]
    assert len({(job.variant, job.run) for job in links}) == 1
    assert len({(job.variant, job.run) for job in other_jobs}) == len(other_jobs) == 3
    assert {job.device_id for job in other_jobs} == {phone.serialno for phone in units}, "each has something to do"
    assert all(isinstance(journal.outcomes.in_sweep("tiny", job), Measured) for job in sweep.plan.jobs)
    for job in other_jobs:
        rounds = {block.visit for block in journal.attempts.blocks(job.key)}
        assert len(journal.attempts.blocks(job.key)) == ROUNDS
        assert len(rounds - {block.visit for block in journal.attempts.blocks(job.link)}) <= 1, (
            "the round that was cut off"
        )
    assigned = Counter(key for (key,) in journal.file.rows("SELECT pool_key FROM assignments"))
    assert set(assigned.values()) == {1}, "once"
    assert sorted(journal.assignments.of_sweep("tiny").values()) == sorted(
        [EVERY_UNIT, *(job.device_id for job in other_jobs)]
    )


def test_phones_share_a_sweep_that_is_killed_and_go_on_without_the_slower_one(
    pair: list[FaultyPhone], third: FaultyPhone, built: Path, tmp_path: Path
) -> None:
    sweep = PhoneSweep(tmp_path, built, [*pair, third], GRID, **SHARED)
    whole = sweep.plan
    # Two blocks compare the units, one more is of what comes after that, and the next one is cut off.
    enough = f"[ $(grep -vc -e --eval-inputs /data/local/starts) -le {ROUNDS + 1} ] || {{ {PAUSE}; }}"
    for phone in pair:
        tell(phone, USUAL_NS, first=enough)
    tell(third, SLOWER_NS)
    marks = [phone.data / "local/now" for phone in pair]
    with DriverProcess(sweep) as driver:
        eventually(lambda: all(mark.exists() for mark in marks) or driver.process.poll() is not None)
        driver.kill()
    for phone, mark in zip(pair, marks, strict=True):
        tell(phone, USUAL_NS)
        mark.unlink()
    output = " ".join(driver.output.read_text().split())
    assert "3 units share 4 variants of tiny" in output
    assert f"adb:{third.serial} is taken out of its class" in output
    assert "takes 1.300 times" in output
    with Journal.open(sweep.workspace.journal) as journal:
        places = journal.assignments.of_sweep("tiny")
        kept_blocks = {job.key: journal.attempts.blocks(job.key) for job in whole.jobs}
    assert {*places.values()} == {EVERY_UNIT, *(phone.serialno for phone in pair)}

    with DriverProcess(sweep) as driver:
        driver.ended()
    with Journal.open(sweep.workspace.journal) as journal:
        assert journal.assignments.of_sweep("tiny") == places
        for key, blocks in kept_blocks.items():
            assert journal.attempts.blocks(key)[: len(blocks)] == blocks
        sweep.plan = Sharing(whole, journal).plan
        assert_shared(sweep, journal, pair)
        of_third = [
            (job, blocks) for job in whole.jobs if job.device_id == third.serialno and (blocks := kept_blocks[job.key])
        ]
        assert [len(blocks) for _, blocks in of_third] == [ROUNDS], "what it has measured stays"
        assert timed(third) == ROUNDS
        assert_invariants(sweep, journal)


class OnAHost(Lane):
    """A phone of a host in this process."""

    def kill(self) -> None:
        raise NotImplementedError


def test_phones_of_two_hosts_share_a_sweep(pair: list[FaultyPhone], built: Path, tmp_path: Path) -> None:
    for phone in pair:
        tell(phone, USUAL_NS)
    sweep = PhoneSweep(tmp_path, built, pair, GRID, **SHARED)
    world = World(tmp_path / "hosts")
    try:
        for number, phone in enumerate(pair, 1):
            host, _ = world.add(f"lab-{number}")
            host.names = [f"adb:{phone.serial}"]
            host.make = lambda name, folder=host.folder: device_facts(name, folder, {}, (), lambda _: None)  # type: ignore[misc]
            host.make_worker = lambda facts, folder=host.folder: OnAHost(facts, folder)  # type: ignore[misc]
            host.agent.tend()
        lab = world.lab()
        sweep.spec = sweep.spec.model_copy(update={"devices": ("host:lab-1/adb:*", "host:lab-2/adb:*")})
        whole = plan_sweep(sweep.spec, sweep.workspace.root, (sweep.home,), lab=lab.select)
        with Journal.open(sweep.workspace.journal) as journal:
            sharing = Sharing(whole, journal)
            changed = True
            while changed:
                sweep.plan = sharing.plan
                events = sweep.run(journal, executor=LabExecutor(lab, sweep.workspace.root))
                assert not any(isinstance(event, AttemptFailed | Away) for event in events)
                changed = sharing.advance(wait=False)
            assert_shared(sweep, journal, pair)
    finally:
        world.close()
