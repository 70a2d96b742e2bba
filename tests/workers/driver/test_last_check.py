"""Shifts and bursts that only the last check of the sentinel sees: nothing is lost by them, and nothing worse ships."""

from pathlib import Path

import pytest

from sweeps.protocol.stopping import shuffled_order
from tests.workers.shifting_device import ShiftingDevice, ShiftingSweep, Speed

BUILDS = 9
"""27 blocks in three rounds: checks follow the blocks 12 and 24, and the last one the last three blocks."""
LAST_S = 162.0
"""When these three are done; each block takes 5 s, and each of a check's three 2.9 s."""


def steady(_: float) -> float:
    return 1.0


def burst(at_s: float) -> float:
    return 1.5 if LAST_S - 3.0 < at_s < LAST_S + 30.0 else 1.0


def shift(at_s: float) -> float:
    return 1.3 if at_s > LAST_S - 3.0 else 1.0


@pytest.fixture
def sweep(tmp_path: Path) -> ShiftingSweep:
    """The best build is measured last in the third round, and the others are 10 % apart."""
    keys = [job.key for job in ShiftingSweep(tmp_path, (1.0,) * BUILDS).jobs]
    slowest_first = shuffled_order(keys, 2, 0)
    return ShiftingSweep(tmp_path, tuple(5.0 * 1.1 ** (BUILDS - slowest_first.index(key)) for key in keys))


def checks(sweep: ShiftingSweep, device: ShiftingDevice) -> int:
    return sum(key == sweep.sentinel.key for _, key in device.measured)


def test_a_quiet_sweep_has_no_more_than_its_rounds_and_checks(sweep: ShiftingSweep) -> None:
    device = sweep.device(steady)
    with sweep.open() as journal:
        sweep.run(journal, device)
        assert [journal.attempts.block_count(job.key) for job in sweep.jobs] == [3] * BUILDS
        assert checks(sweep, device) == 4 * 3
        last_s = max(at_s for at_s, key in device.measured if key != sweep.sentinel.key)
        assert last_s < LAST_S < last_s + 6.0, "the shifts of the other tests are where they should be"
        assert sweep.run(journal, device) == []


@pytest.mark.parametrize("slowness", [burst, shift])
def test_what_the_last_check_makes_worthless_is_measured_again(sweep: ShiftingSweep, slowness: Speed) -> None:
    device = sweep.device(slowness)
    with sweep.open() as journal:
        sweep.run(journal, device)
        ranking = sweep.ranked(journal)
        for job in sweep.jobs:
            blocks = journal.attempts.blocks(job.key, job.sentinel)
            assert sum("device_changed" not in block.labels for block in blocks) >= 3
        assert sweep.run(journal, device) == [], "it is over"
    assert ranking.winner is not None
    assert sweep.true_ms[ranking.winner.job_key] == min(sweep.true_ms.values())
    assert not any(row.verdict == "disqualified" for row in ranking.ranking)
    times_ms = [sweep.true_ms[row.job_key] for row in ranking.ranking]
    assert times_ms == sorted(times_ms), "also those that lost no round"


@pytest.mark.parametrize(("slowness", "blocks"), [(shift, 36), (shift, 40), (burst, 42), (shift, 43)])
def test_an_interrupted_run_goes_on_to_the_same_end(sweep: ShiftingSweep, slowness: Speed, blocks: int) -> None:
    """`blocks`: of jobs and of the sentinel, after which the first run is interrupted: when the jobs have theirs, in
    the last check, when it has found the shift, and when the first lost block was measured again."""
    device = sweep.device(slowness)
    with sweep.open() as journal:
        sweep.run(journal, device, stop=lambda: len(device.measured) >= blocks)
        kept_blocks = {job.key: journal.attempts.blocks(job.key) for job in sweep.jobs}
        sweep.run(journal, device)
        for key, before in kept_blocks.items():
            assert journal.attempts.blocks(key)[: len(before)] == before
        ranking = sweep.ranked(journal)
        assert sweep.run(journal, device) == []
    assert ranking.winner is not None
    assert sweep.true_ms[ranking.winner.job_key] == min(sweep.true_ms.values())


def test_what_is_still_to_be_measured_again_is_shown_with_its_label(sweep: ShiftingSweep, tmp_path: Path) -> None:
    sweep = ShiftingSweep(tmp_path, tuple(sweep.true_ms.values()), rounds=3, max_rounds=3)
    device = sweep.device(shift)
    with sweep.open() as journal:
        sweep.run(journal, device, stop=lambda: checks(sweep, device) >= 15)
        ranking = sweep.ranked(journal)
    lost = [row for row in ranking.ranking if "device_changed" in row.trust]
    assert len(lost) == 3
    assert ranking.better_disqualified[0].job_key == min(sweep.true_ms, key=lambda key: sweep.true_ms[key])


@pytest.mark.parametrize(("protocol", "most"), [({}, 10), ({"rounds": 3, "max_rounds": 3}, 6)])
def test_a_device_that_shifts_at_every_check_does_not_hold_a_sweep_for_ever(
    tmp_path: Path, protocol: dict[str, int], most: int
) -> None:
    sweep = ShiftingSweep(tmp_path, tuple(5.0 * 1.1**number for number in range(BUILDS)), **protocol)
    device = sweep.device(lambda at_s: 1.2 ** (at_s // 60.0))
    with sweep.open() as journal:
        sweep.run(journal, device)
        assert max(journal.attempts.block_count(job.key) for job in sweep.jobs) <= most
        assert sweep.run(journal, device) == []


def test_the_winner_of_a_race_has_no_doubt_where_only_the_start_was_slow(tmp_path: Path) -> None:
    sweep = ShiftingSweep(tmp_path, tuple(5.0 * 1.3**number for number in range(4)), budget="race")
    device = sweep.device(lambda at_s: 1.2 if at_s < 10.0 else 1.0)
    with sweep.open() as journal:
        sweep.run(journal, device)
        ranking = sweep.ranked(journal)
        assert ranking.winner is not None
        assert journal.attempts.block_marks(ranking.winner.job_key).confirmations == 6, (
            "three before the shift was found, three after"
        )
        assert sweep.run(journal, device) == []
    assert "device_moved" not in ranking.winner.trust
    assert ranking.winner.figures["latency_p50_ms"] == pytest.approx(5.0, rel=0.02)
    assert all("device_moved" in row.trust for row in ranking.ranking[1:])
