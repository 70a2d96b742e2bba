"""Retries with pauses: pauses that grow, until a deadline, or a given list of pauses."""

import math
import time
from collections.abc import Callable, Iterable, Iterator


class Backoff:
    """The time of the next try after a failure: after `first_s`, then twice as long each time, up to `longest_s`."""

    def __init__(self, first_s: float, longest_s: float, now_s: Callable[[], float] = time.monotonic) -> None:
        self._first_s, self._longest_s, self._now_s = first_s, longest_s, now_s
        self.succeeded()

    @property
    def wait_s(self) -> float:
        """The seconds until the next try is due; 0 if it is due now."""
        return max(0.0, self._due_at_s - self._now_s())

    def failed(self) -> None:
        self._due_at_s = self._now_s() + next(self._waits_s)

    def succeeded(self) -> None:
        self._waits_s = _doubling(self._first_s, self._longest_s)
        self._due_at_s = self._now_s()


def tries(
    limit_s: float,
    first_s: float,
    longest_s: float = 0.0,
    *,
    now_s: Callable[[], float] = time.monotonic,
    sleep: Callable[[float], object] = time.sleep,
) -> Iterator[bool]:
    """Yield for each try whether it is the last one, which begins after `limit_s` seconds; at least one try is made.

    The pauses between tries double from `first_s` up to `longest_s`; without `longest_s`, all are `first_s`. Leave the
    loop when a try succeeds.
    """
    return tries_with(_doubling(first_s, max(first_s, longest_s)), limit_s, now_s=now_s, sleep=sleep)


def tries_with(
    pauses_s: Iterable[float],
    limit_s: float = math.inf,
    *,
    now_s: Callable[[], float] = time.monotonic,
    sleep: Callable[[float], object] = time.sleep,
) -> Iterator[bool]:
    """Yield as `tries` does, with these pauses between the tries: the last one is that after the last pause, or after
    `limit_s` seconds."""
    ends_s = now_s() + limit_s
    for pause_s in pauses_s:
        if (left_s := ends_s - now_s()) <= 0:
            break
        yield False
        sleep(min(pause_s, left_s))
    yield True


def _doubling(first_s: float, longest_s: float) -> Iterator[float]:
    """Yield pauses in seconds without end, each twice as long as the one before, up to `longest_s`."""
    while True:
        yield first_s
        first_s = min(2 * first_s, longest_s)
