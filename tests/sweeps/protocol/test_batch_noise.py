import math
from dataclasses import replace

import numpy as np
import pytest

from sweeps.protocol.batch_noise import BatchSpread, PairedRound, batch_key, batch_spread, of_rounds


def batches_of(seed: int, spread: float, rounds: int = 30, variants: int = 8, noise: float = 0.02) -> BatchSpread:
    random = np.random.default_rng(seed)
    true = np.exp(0.3 * random.standard_normal((variants, 1)))
    own = np.exp(spread * random.standard_normal((variants, 1)))
    together = true * own * np.exp(noise * random.standard_normal((variants, rounds)))
    alone = true * np.exp(noise * random.standard_normal((variants, rounds)))
    # A factor that a round or a batch shares says nothing of ratios.
    together *= 1.4 * np.exp(0.1 * random.standard_normal((1, rounds)))
    alone *= np.exp(0.1 * random.standard_normal((1, rounds)))
    return batch_spread(together.tolist(), alone.tolist())


@pytest.mark.parametrize("spread", [0.003, 0.01, 0.03])
def test_the_upper_bound_of_what_batches_change_holds_in_nine_of_ten_cases(spread: float) -> None:
    estimates = [batches_of(seed, spread) for seed in range(1000)]
    assert 0.885 <= np.mean([estimate.upper >= spread for estimate in estimates]) <= 0.96
    # An estimate is not below 0, so small ones are too large on average.
    assert math.sqrt(np.mean([estimate.spread**2 for estimate in estimates])) == pytest.approx(
        spread, rel=0.1, abs=6e-4
    )


def test_thirty_rounds_and_not_three_show_that_batches_change_less_than_one_percent() -> None:
    assert np.mean([batches_of(seed, 0.0).upper <= 0.01 for seed in range(300)]) > 0.9
    assert np.mean([batches_of(seed, 0.0, rounds=3).upper <= 0.01 for seed in range(300)]) < 0.3


def test_figures_that_say_nothing_of_batches_are_refused() -> None:
    good = [[1.0, 1.1]] * 8
    for bad in (good[:7], [[1.0]] * 8, [[1.0, 1.1]] * 7 + [[1.0, 1.1, 1.2]], [[1.0, 0.0]] * 8, [[1.0, math.nan]] * 8):
        with pytest.raises(ValueError, match=r"needed|positive"):
            batch_spread(bad, good)
    with pytest.raises(ValueError, match="9 variants in batches, 8 alone"):
        batch_spread([[1.0, 1.1]] * 9, good)


def test_rounds_count_with_those_of_the_same_builds() -> None:
    random = np.random.default_rng(0)
    figures = 5e6 * np.exp(0.02 * random.standard_normal((2, 6, 8)))
    rounds = [
        PairedRound(
            builds="a",
            batch=batch_key(),
            session=0,
            round=number,
            together_ns=tuple(figures[0, number].tolist()),
            alone_ns=tuple(figures[1, number].tolist()),
            device_seconds=30.0,
        )
        for number in range(6)
    ]
    spread = of_rounds(rounds)
    assert spread == batch_spread(figures[0].T.tolist(), figures[1].T.tolist())
    assert (spread.variants, spread.rounds) == (8, 6)
    other_rounds = [replace(round_, builds="b", together_ns=(1.0,) * 9, alone_ns=(1.0,) * 9) for round_ in rounds]
    assert of_rounds([*other_rounds, *rounds]) == spread
    assert of_rounds([*other_rounds, rounds[0]]) is None
    assert of_rounds([]) is None
    assert of_rounds([rounds[0], replace(rounds[0], round=1)]) is None, "a clock that shows no difference"
    cut = replace(rounds[0], together_ns=(1.0,) * 9, alone_ns=(1.0,) * 9)
    assert of_rounds([cut, *rounds]) == spread


def test_rounds_from_before_batches_warmed_up_as_they_do_now_do_not_count() -> None:
    now = [
        PairedRound(
            builds="a",
            batch=batch_key(),
            session=0,
            round=number,
            together_ns=tuple(5e6 + 1e4 * (number * build % 5) for build in range(8)),
            alone_ns=tuple(5e6 + 1e4 * (number * build % 7) for build in range(8)),
            device_seconds=30.0,
        )
        for number in range(6)
    ]
    before = [replace(round_, batch="", together_ns=round_.alone_ns) for round_ in now]
    assert of_rounds(now) is not None
    assert of_rounds(before) is None, "they say how batches of another kind changed ratios"
    assert of_rounds([*now, *before]) == of_rounds([*before, *now]) == of_rounds(now)
