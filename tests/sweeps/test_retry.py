"""Tries are made until a deadline, ever more rarely."""

import math

import pytest

from sweeps.retry import Backoff, tries, tries_with
from tests.waited_clock import Clock


def test_waits_double_up_to_the_longest_and_begin_anew_after_a_success() -> None:
    clock = Clock()
    backoff = Backoff(1.0, 60.0, clock)
    assert backoff.wait_s == 0
    waits = []
    for _ in range(9):
        backoff.failed()
        waits.append(backoff.wait_s)
    assert waits == [1, 2, 4, 8, 16, 32, 60, 60, 60]
    clock.sleep(60)
    assert backoff.wait_s == 0
    backoff.succeeded()
    backoff.failed()
    assert backoff.wait_s == 1


@pytest.mark.parametrize(
    ("limit_s", "longest_s", "pauses"),
    [(7.0, 60.0, [1, 2, 4]), (8.0, 60.0, [1, 2, 4, 1]), (5.5, 2.0, [1, 2, 2, 0.5]), (2.0, 0.0, [1, 1]), (0.0, 9.0, [])],
)
def test_the_last_try_is_at_the_deadline(limit_s: float, longest_s: float, pauses: list[float]) -> None:
    clock = Clock()
    attempts = list(tries(limit_s, 1.0, longest_s, now_s=clock, sleep=clock.sleep))
    assert clock.waits == pauses
    assert attempts == [False] * len(pauses) + [True]
    assert clock.now_s == 1000 + limit_s


@pytest.mark.parametrize(
    ("limit_s", "pauses"), [(math.inf, [3, 0.5, 3]), (6.5, [3, 0.5, 3]), (5.0, [3, 0.5, 1.5]), (0.0, [])]
)
def test_pauses_of_a_list_are_cut_at_the_deadline_and_the_last_try_follows_them(
    limit_s: float, pauses: list[float]
) -> None:
    clock = Clock()
    made = list(tries_with([3.0, 0.5, 3.0], limit_s, now_s=clock, sleep=clock.sleep))
    assert clock.waits == pauses
    assert made == [False] * len(pauses) + [True]


def test_a_try_that_takes_longer_than_the_limit_is_followed_by_the_last_one() -> None:
    clock = Clock()
    attempts = []
    for is_last in tries(3.0, 1.0, now_s=clock, sleep=clock.sleep):
        clock.now_s += 10.0
        attempts.append(is_last)
    assert attempts == [False, True]
