"""Two speeds of a device are found where there are two, and hardly ever where there is one."""

import math
from collections.abc import Callable

import numpy as np
import pytest

from sweeps.ranking.two_speeds import FEWEST_BLOCKS, two_speeds

Medians = list[dict[int, float]]
VARIANTS = 24


def drawn(
    seed: int,
    rounds: int,
    *,
    slower: float = 1.0,
    slow: Callable[[np.random.Generator, tuple[int, int]], np.ndarray] | None = None,
    noise: Callable[[np.random.Generator, tuple[int, int]], np.ndarray] | None = None,
    variants: int = VARIANTS,
) -> tuple[Medians, np.ndarray]:
    """Medians by variant and visit, and which blocks were slow (variants, rounds); visits are those of session 7."""
    random = np.random.default_rng(seed)
    shape = variants, rounds
    which = np.zeros(shape, dtype=np.bool_) if slow is None else slow(random, shape)
    logs = 0.01 * random.standard_normal(shape) if noise is None else noise(random, shape)
    logs = logs + math.log(slower) * which + 0.3 * random.standard_normal((variants, 1))
    return [{7000 + visit: 10.0 * math.exp(log) for visit, log in enumerate(row)} for row in logs], which


def by_block(share: float) -> Callable[[np.random.Generator, tuple[int, int]], np.ndarray]:
    return lambda random, shape: random.random(shape) < share


def by_round(pattern: str) -> Callable[[np.random.Generator, tuple[int, int]], np.ndarray]:
    """`S` is a round in which the device was slow."""
    return lambda _, shape: np.tile(np.array([letter == "S" for letter in pattern]), (shape[0], 1))


@pytest.mark.parametrize("slower", [1.08, 1.12, 1.5])
@pytest.mark.parametrize("share", [0.3, 0.5, 0.7])
def test_both_speeds_are_found_and_which_blocks_were_slow(slower: float, share: float) -> None:
    medians, slow = drawn(1, 8, slower=slower, slow=by_block(share))
    speeds = two_speeds(medians)
    assert speeds is not None
    assert speeds.slower == pytest.approx(slower, rel=0.01)
    assert speeds.spread == pytest.approx(0.01, rel=0.3)
    assert speeds.share_low <= slow.mean() <= speeds.share_high
    assert speeds.share_high - speeds.share_low < 0.4
    is_slow = np.array([[visit in those for visit in row] for row, those in zip(medians, speeds.slow, strict=True)])
    assert (is_slow != slow).mean() < 0.02
    assert np.mean(speeds.sure) > 0.9


def test_a_speed_may_last_for_whole_rounds() -> None:
    medians, slow = drawn(2, 5, slower=1.12, slow=by_round("FSSFS"))
    speeds = two_speeds(medians)
    assert speeds is not None
    assert all(those == {7001, 7002, 7004} for those in speeds.slow)
    assert speeds.share_low < 0.2, "five rounds do not show how often it is slow"
    assert speeds.share_high > 0.9
    assert all(speeds.sure)
    assert slow.any()


def test_a_variant_seen_at_one_speed_is_placed_by_others_of_its_rounds_or_unsure() -> None:
    medians, _ = drawn(3, 4, slower=1.2, slow=by_round("SSFF"))
    always_slow = {7000: 5.0, 7001: 5.02}
    speeds = two_speeds([*medians, always_slow])
    assert speeds is not None
    assert (speeds.slow[-1], speeds.sure[-1]) == ({7000, 7001}, True)
    medians, _ = drawn(4, 3, slower=1.2, slow=by_block(0.5))
    speeds = two_speeds(medians)
    assert speeds is not None
    one_speed = [max(row.values()) / min(row.values()) < 1.1 for row in medians]
    assert any(one_speed)
    assert [not sure for sure in speeds.sure] == one_speed, "with three rounds of both speeds nobody knows"


def correlated(random: np.random.Generator, shape: tuple[int, int]) -> np.ndarray:
    logs = random.standard_normal(shape[0] * shape[1])
    for at in range(1, logs.size):
        logs[at] = 0.8 * logs[at - 1] + 0.6 * logs[at]
    return 0.05 * logs.reshape(shape[::-1]).T


NOISES: dict[str, Callable[[np.random.Generator, tuple[int, int]], np.ndarray]] = {
    "lognormal": lambda random, shape: 0.05 * random.standard_normal(shape),
    "heavy tails": lambda random, shape: 0.03 * random.standard_t(2.5, shape),
    "AR(1) 0.8": correlated,
    "unequal": lambda random, shape: np.geomspace(0.005, 0.12, shape[0])[:, None] * random.standard_normal(shape),
    "warming": lambda random, shape: (
        0.1 * (1 - np.exp(-np.arange(shape[1]) / 3)) + 0.01 * random.standard_normal(shape)
    ),
    "one block in twenty is slow": lambda random, shape: 0.5 * (random.random(shape) < 0.05),
}


@pytest.mark.parametrize("noise", NOISES)
@pytest.mark.parametrize("rounds", [3, 10])
def test_noise_of_one_speed_is_not_taken_for_two(noise: str, rounds: int) -> None:
    assert [seed for seed in range(100) if two_speeds(drawn(seed, rounds, noise=NOISES[noise])[0])] == []


def test_too_few_blocks_and_equal_blocks_show_nothing() -> None:
    few = FEWEST_BLOCKS // 3 - 1
    medians, _ = drawn(5, 3, slower=1.5, slow=by_block(0.5), variants=few)
    assert two_speeds(medians) is None
    assert two_speeds([]) is None
    assert two_speeds([{0: 1.0}] * 30) is None
    assert two_speeds([{0: 1.0, 1: 1.0, 2: 1.0}] * 30) is None


def test_variants_of_unequal_rounds_that_no_step_splits_have_one_speed() -> None:
    random = np.random.default_rng(0)
    medians = [dict(enumerate(np.exp(0.001 * random.standard_normal(rounds)))) for rounds in (3, 4) * 5]
    medians[0][0] *= 1.5
    assert two_speeds(medians) is None
