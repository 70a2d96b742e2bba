import math
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.special import stdtrit

from sweeps.errors import EdgeSweepError
from sweeps.protocol.presets import PRESETS
from sweeps.protocol.resolvable_difference import (
    ROUND,
    Calibration,
    calibrate,
    rounds_for,
    told_apart,
)
from sweeps.records import Block
from tests.sweeps.conftest import Records


def blocks_of(
    records: Records, factors: Sequence[float], samples: NDArray[np.float64], session: int = 0
) -> list[Block]:
    """One block per factor; `samples`: (blocks, samples) factors of its samples. 10 ms, 3 s a block."""
    job = records.job(0)
    return [
        records.block(
            job,
            number,
            samples_ns=tuple(int(value) for value in 10e6 * factor * row),
            warmup_ns=(200_000_000,),
            session=session,
            device_seconds=3.0,
            labels=(),
        )
        for number, (factor, row) in enumerate(zip(factors, samples, strict=True))
    ]


def normal(seed: int, *shape: int) -> NDArray[np.float64]:
    return np.random.default_rng(seed).standard_normal(shape)


def plain(records: Records, count: int = 400, process: float = 0.02, sample: float = 0.05) -> list[Block]:
    return blocks_of(records, np.exp(process * normal(0, count)).tolist(), np.exp(sample * normal(1, count, 40)))


def test_the_spread_is_split_into_processes_and_samples(records: Records) -> None:
    noise = calibrate(plain(records))
    sampling = 0.05 * math.sqrt(math.pi / 2 / 40)
    assert noise.process == pytest.approx(0.02, rel=0.1)
    assert noise.sampling == pytest.approx(sampling, rel=0.1)
    assert noise.block == pytest.approx(math.hypot(0.02, sampling), rel=0.1)
    assert noise.block_low < math.hypot(0.02, sampling) < noise.block_high
    assert noise.block == pytest.approx(math.hypot(noise.process, noise.sampling))
    assert (noise.blocks, noise.left_out, noise.sessions) == (400, 0, 1)
    assert noise.p50_ms == pytest.approx(10.0, rel=0.01)
    assert (noise.block_s, noise.warm_up_s) == (3.0, 0.2)
    assert noise.timed_s == pytest.approx(0.4, rel=0.01)


def test_dependent_samples_are_not_taken_for_differences_between_processes(
    records: Records,
) -> None:
    shocks = normal(2, 400, 100)
    for column in range(1, 100):
        shocks[:, column] = 0.8 * shocks[:, column - 1] + 0.6 * shocks[:, column]
    noise = calibrate(blocks_of(records, [1.0] * 400, np.exp(0.05 * shocks)))
    assert noise.sampling > 2 * 0.05 * math.sqrt(math.pi / 2 / 100)
    assert noise.process < 0.5 * noise.sampling


def test_what_neighbouring_blocks_share_is_a_slow_change_and_not_noise_of_blocks(records: Records) -> None:
    still = calibrate(plain(records))
    waves = 0.1 * np.sin(np.arange(400) * 2 * math.pi / 200)
    moved = calibrate(
        blocks_of(records, np.exp(0.02 * normal(0, 400) + waves).tolist(), np.exp(0.05 * normal(1, 400, 40)))
    )
    assert still.slow is not None
    assert moved.slow is not None
    assert still.slow < 0.005
    assert moved.slow == pytest.approx(0.1 / math.sqrt(2), rel=0.1)
    assert moved.block == pytest.approx(still.block, rel=0.1)
    assert calibrate(plain(records, 2 * ROUND - 1)).slow is None


@pytest.mark.parametrize("rounds", [3, 5, 10])
def test_the_difference_that_is_told_apart_is_resolved_in_four_of_five_sweeps(rounds: int) -> None:
    spread = 0.03
    shift = math.log1p(told_apart(spread, rounds))
    ratios = shift + spread * math.sqrt(2) * normal(3, 20_000, rounds)
    half = stdtrit(rounds - 1, 0.975) * ratios.std(axis=1, ddof=1) / math.sqrt(rounds)
    assert np.mean(ratios.mean(axis=1) > half) == pytest.approx(0.8, abs=0.015)


def test_less_than_two_percent_is_never_told_apart_and_more_only_with_evidence() -> None:
    assert told_apart(1e-6, 10) == pytest.approx(0.02, abs=1e-4)
    spread, rounds = 0.005, 10
    shift = math.log1p(told_apart(spread, rounds))
    differences = np.median(shift + spread * math.sqrt(2) * normal(4, 20_000, rounds), axis=1)
    assert np.mean(differences >= math.log(1.02)) == pytest.approx(0.8, abs=0.03)
    assert rounds_for(1e-5) == 2
    assert rounds_for(0.0) == 2


def test_more_rounds_tell_more_apart_whatever_the_spread() -> None:
    for spread in np.geomspace(1e-3, 1.0, 80).tolist():
        least = [told_apart(spread, rounds) for rounds in (2, 3, 4, 5, 7, 10, 20)]
        assert least == sorted(least, reverse=True), spread
        assert [told_apart(1.03 * spread, rounds) for rounds in (3, 10)] > [least[1], least[5]]


@pytest.mark.parametrize("spread", [0.01, 0.02, 0.05, 0.1])
def test_so_many_rounds_are_enough_and_one_fewer_is_not(spread: float) -> None:
    rounds = rounds_for(spread)
    assert rounds is not None
    assert told_apart(spread, rounds) <= 0.05 < told_apart(spread, rounds - 1)
    assert rounds_for(3.0) is None


def test_longer_blocks_lessen_what_comes_from_samples_and_nothing_else(records: Records) -> None:
    noise = replace(calibrate(plain(records)), sampling=0.04, process=0.03, timed_s=0.5, warm_up_s=0.2, block_s=3.2)
    assert noise.block_under(replace(PRESETS["quick"], min_seconds=0.5)) == pytest.approx(0.05)
    longer = replace(PRESETS["quick"], min_seconds=8.0, warmup_seconds=1.0)
    assert noise.block_under(longer) == pytest.approx(math.hypot(0.03, 0.01))
    assert noise.block_s_under(longer) == pytest.approx(2.5 + 1.0 + 8.0)


def test_blocks_that_are_disqualified_do_not_count(records: Records) -> None:
    blocks = plain(records, 40)
    hot = [replace(block, labels=("throttled",), samples_ns=(30_000_000,) * 40) for block in blocks[:10]]
    noise = calibrate([*hot, *blocks])
    assert (noise.blocks, noise.left_out) == (40, 10)
    assert replace(noise, left_out=0) == calibrate(blocks)


def test_too_few_blocks_show_no_noise(records: Records) -> None:
    blocks = plain(records, 5)
    assert calibrate(blocks).blocks == 5
    with pytest.raises(EdgeSweepError, match=r"^4 blocks are too few") as few:
        calibrate(blocks[:4])
    assert "--minutes" in few.value.next_step
    with pytest.raises(EdgeSweepError, match=r"^4 blocks \(1 more do not count: throttled\) are too few"):
        calibrate([replace(blocks[0], labels=("throttled",)), *blocks[1:]])
    with pytest.raises(EdgeSweepError, match="of one session"):
        calibrate([replace(block, session=number) for number, block in enumerate(blocks)])
    with pytest.raises(EdgeSweepError, match=r"^0 blocks"):
        calibrate([])


def test_samples_that_are_all_equal_show_no_noise(records: Records) -> None:
    with pytest.raises(EdgeSweepError, match="all 20 blocks took 10 ms") as equal:
        calibrate(blocks_of(records, [1.0] * 20, np.ones((20, 40))))
    assert "clock" in equal.value.next_step


def in_sessions(records: Records, count: int, spread: float) -> Calibration:
    levels = np.exp(spread * normal(5, count))
    return calibrate(
        [
            block
            for session, level in enumerate(levels)
            for block in blocks_of(
                records,
                (level * np.exp(0.01 * normal(session, 16))).tolist(),
                np.exp(0.02 * normal(session + 1000, 16, 20)),
                session,
            )
        ]
    )


def test_the_spread_between_sessions_is_assumed_until_there_are_some(records: Records) -> None:
    assert in_sessions(records, 1, 0.0).session == 0.025
    few, many = in_sessions(records, 3, 0.0), in_sessions(records, 40, 0.0)
    assert 0.025 > few.session > many.session
    assert many.session < 0.01
    assert in_sessions(records, 40, 0.08).session == pytest.approx(0.08, rel=0.2)
    assert (few.sessions, many.sessions) == (3, 40)


def test_two_sessions_tell_less_apart_than_one_and_more_rounds_hardly_help(records: Records) -> None:
    noise = in_sessions(records, 1, 0.0)
    assert noise.told_apart_in_sessions(3) > 2 * told_apart(noise.block, 3)
    assert noise.told_apart_in_sessions(100) > 0.8 * noise.told_apart_in_sessions(3)
    assert in_sessions(records, 40, 0.0).told_apart_in_sessions(3) < 0.6 * noise.told_apart_in_sessions(3)
    noisy = replace(noise, block=0.2)
    assert noisy.told_apart_in_sessions(3) == told_apart(0.2, 3), "never more than in one session"
