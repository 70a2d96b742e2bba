"""Sessions add to the uncertainty of a ratio."""

import math
from dataclasses import replace

import numpy as np
import pytest

from sweeps.ranking.comparison_input import Origin, Result
from sweeps.ranking.session_ratio import (
    MOST_SESSIONS,
    PRIOR,
    Series,
    Spread,
    one_session,
    ratio,
    session_spread,
    sessions,
    sessions_needed,
    side_by_side,
    together,
)
from tests.builders import result_of


def result(*blocks: tuple[int, int, float], device_id: str = "unit-1") -> Result:
    """Each block: its run, its session, its median (ms)."""
    return result_of(
        "net · a",
        (ms for _, _, ms in blocks),
        (Origin(run=str(run), session=session) for run, session, _ in blocks),
        device_id=device_id,
    )


def session(number: int, *medians_ms: float) -> list[tuple[int, int, float]]:
    return [(number, number, ms) for ms in medians_ms]


def variance_of(interval, degrees: float) -> float:
    """The variance behind a 95 % interval with so many degrees of freedom."""
    from scipy.stats import t

    return (math.log(interval.high / interval.low) / 2 / t.ppf(0.975, degrees)) ** 2


def test_without_evidence_it_is_the_prior() -> None:
    assert session_spread([]) == PRIOR == Spread(0.025**2, 3.0)
    assert session_spread([Series((10.0, 20.0, 30.0), (5, 5, 5))]) == PRIOR, "one session"
    assert session_spread([Series((10.0, 20.0, 30.0), (0, 0, 0))]) == PRIOR, "sessions that nobody recorded"


def test_evidence_is_added_to_the_prior_by_its_degrees_of_freedom() -> None:
    means = np.array([10.0, 11.0, 10.0, 9.5])
    series = Series(tuple(np.repeat(means, 2)), (1, 1, 2, 2, 3, 3, 4, 4))
    spread = session_spread([series])
    assert spread.degrees == 6.0
    assert spread.variance == pytest.approx((3 * 0.025**2 + 3 * np.log(means).var(ddof=1)) / 6)
    assert spread.percent == pytest.approx(100 * math.sqrt(spread.variance))


def test_what_processes_differ_by_is_no_spread_between_sessions() -> None:
    spread = session_spread([Series((9.0, 11.0, 9.0, 11.0), (1, 1, 2, 2))])
    assert spread == Spread(3 * 0.025**2 / 4, 4.0)


def test_many_builds_of_the_same_sessions_are_not_more_sessions() -> None:
    series = Series((10.0, 10.0, 11.0, 11.0), (1, 1, 2, 2))
    assert session_spread([series] * 24) == session_spread([series])
    other = replace(series, sessions=(3, 3, 4, 4))
    assert session_spread([series, other]).degrees == 5.0
    linked = Series((10.0, 11.0), (2, 3))
    assert session_spread([series, other, linked]).degrees == 6.0, "four sessions that are all connected"


def test_of_builds_and_the_sentinel_the_larger_spread_counts() -> None:
    calm = Series((10.0, 10.0), (1, 2))
    wild = Series((10.0, 11.0), (1, 2))
    assert session_spread([calm], [wild]) == session_spread([wild], [calm]) == session_spread([wild])


def test_a_side_with_more_sessions_has_a_smaller_part_of_the_spread() -> None:
    a = result(*session(1, 10.0, 10.0), *session(2, 10.0, 10.0))
    b = result(*session(3, 12.0, 12.0))
    interval = ratio(b, a, Spread(0.01, 5.0))
    assert interval.value == pytest.approx(1.2)
    assert variance_of(interval, 5.0) == pytest.approx(0.01 * (1 / 2 + 1))
    assert (sessions(a), sessions(b)) == (2, 1)


def test_each_session_counts_the_same_however_many_blocks_it_has() -> None:
    a = result(*session(1, *[10.0] * 9), *session(2, 14.4))
    b = result(*session(3, 12.0, 12.0))
    assert ratio(b, a, PRIOR).value == pytest.approx(1.0)


def test_a_run_in_which_both_were_measured_cancels() -> None:
    a, b = result(*session(1, 10.0, 10.1, 9.9)), result(*session(1, 11.0, 11.1, 10.9))
    assert together(b, a)
    assert ratio(b, a, Spread(1.0, 3.0)) == ratio(b, a, None)
    elsewhere = replace(b, device_id="unit-2")
    assert not together(elsewhere, a)


def test_two_runs_of_one_session_do_not_cancel_for_the_device_may_drift_between_them() -> None:
    a = result((1, 1, 10.0), (1, 1, 10.0))
    b = result((2, 1, 10.0), (2, 1, 10.0))
    assert not together(b, a)
    assert one_session(b, a)
    assert variance_of(ratio(b, a, Spread(0.01, 5.0)), 5.0) == pytest.approx(0.02)


def test_blocks_of_unknown_origin_are_one_session_and_share_no_run() -> None:
    unknown = replace(result(*session(1, 10.0, 10.1)), origins=())
    assert sessions(unknown) == 1
    assert not together(unknown, unknown)


def test_where_both_were_measured_in_a_run_only_that_run_counts() -> None:
    a = result(*session(1, 10.0, 10.0), *session(2, 20.0, 20.0))
    b = result(*session(2, 22.0, 22.0), *session(3, 99.0))
    now, then = side_by_side(b, a)
    assert (now.medians_ms, then.medians_ms) == ((22.0, 22.0), (20.0, 20.0))
    assert together(now, then)
    once = result(*session(2, 22.0), *session(3, 99.0))
    assert side_by_side(once, a) == (once, a), "one common block has no interval"
    elsewhere = replace(b, device_id="unit-2")
    assert side_by_side(elsewhere, a) == (elsewhere, a)


@pytest.mark.parametrize(("sessions", "alone"), [(1, True), (2, True), (5, True), (6, False)])
def test_one_session_against_few_is_one_session(sessions: int, alone: bool) -> None:
    many = result(*(block for number in range(1, sessions + 1) for block in session(number, 10.0, 10.0)))
    single = result(*session(99, 10.0, 10.0))
    assert one_session(single, many) is one_session(many, single) is alone
    two = result(*session(98, 10.0, 10.0), *session(99, 10.0, 10.0))
    assert not one_session(two, result(*session(1, 10.0, 10.0), *session(2, 10.0, 10.0)))


def test_single_blocks_of_many_sessions_have_a_wider_interval_and_no_narrower_one() -> None:
    a = result(*session(1, 10.0), *session(2, 10.4), *session(3, 9.8))
    b = result(*session(4, 10.1), *session(5, 10.3), *session(6, 9.9))
    interval, least = ratio(b, a, PRIOR), ratio(b, a, None)
    assert least.high / least.low < interval.high / interval.low


def test_sessions_never_make_an_interval_narrower() -> None:
    # Two rounds of each: Welch's two degrees of freedom, against a hundred of the spread between sessions.
    a, b = result(*session(1, 10.0, 10.5)), result(*session(2, 10.0, 10.5))
    within, over = (ratio(b, a, spread, 0.999) for spread in (None, Spread(0.025**2, 100.0)))
    assert over.low <= within.low < within.high <= over.high


def test_fewer_than_two_blocks_have_no_interval() -> None:
    assert ratio(result(*session(1, 10.0)), result(*session(2, 10.0, 10.0)), PRIOR) is None


def test_how_many_sessions_would_settle_it() -> None:
    a, b = result(*session(1, 10.0, 10.1)), result(*session(2, 10.0, 10.1))

    def within(limit: float):
        return lambda interval: interval.low > 1 / limit and interval.high < limit

    needed = [sessions_needed(b, a, PRIOR, 0.95, within(limit)) for limit in (1.5, 1.10, 1.05, 1.001)]
    assert needed[0] == 2
    assert needed[0] <= needed[1] < needed[2] <= MOST_SESSIONS
    assert needed[3] is None
    assert sessions_needed(b, a, PRIOR, 0.999, within(1.05)) > needed[2]
