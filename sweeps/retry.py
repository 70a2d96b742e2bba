"""Retries until a deadline, with growing pauses."""

import time
from collections.abc import Callable, Iterator


class Backoff:
    """The time of the next try after a failure: after `first_s`, then twice as long each time, up to `longest_s`."""

    def __init__(self, first_s: float, longest_s: float, now_s: Callable[[], float] = time.monotonic) -> None:
        self._first_s, self._longest_s, self._now_s = first_s, longest_s, now_s
        self._next_wait_s = first_s
        self._due_at_s = now_s()

    @property
    def wait_s(self) -> float:
        """The seconds until the next try is due; 0 if it is due now."""
        return max(0.0, self._due_at_s - self._now_s())

    def failed(self) -> None:
        self._due_at_s = self._now_s() + self._next_wait_s
        self._next_wait_s = min(2 * self._next_wait_s, self._longest_s)

    def succeeded(self) -> None:
        self._next_wait_s = self._first_s
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

    Between tries are pauses as in `Backoff`; without `longest_s`, all pauses are `first_s`. Leave the loop when a try
    succeeds.
    """
    ends_s = now_s() + limit_s
    backoff = Backoff(first_s, max(first_s, longest_s), now_s)
    while (left_s := ends_s - now_s()) > 0:
        yield False
        backoff.failed()
        sleep(min(backoff.wait_s, left_s))
    yield True
