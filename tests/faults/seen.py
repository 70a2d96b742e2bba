"""Each test of a fault notes when the fault was there, when EdgeSweep told of it, and which invariants held after it.

The figures are shown by `make faults` and asserted by no test.
"""

import time
from collections.abc import Iterable
from dataclasses import dataclass, field


@dataclass(slots=True)
class Seen:
    """The observations of one test; times are of `time.monotonic()`."""

    injected: float | None = None
    told: float | None = None
    held: set[int] = field(default_factory=set)
    vain: int | None = None
    """The number of blocks that were begun, on any device, and that the journal has not."""

    @property
    def after_s(self) -> float | None:
        """The time until EdgeSweep told of the fault; `None` where that has no moment."""
        return None if self.injected is None or self.told is None else self.told - self.injected


_seen = Seen()


def begin() -> Seen:
    """Begin the observations of the test that starts now."""
    global _seen
    _seen = Seen()
    return _seen


def injected() -> None:
    """The fault is there, from now on. Of several before the first word of EdgeSweep the last one counts."""
    if _seen.told is None:
        _seen.injected = time.monotonic()


def told() -> None:
    """EdgeSweep told of it: an error, an event or an exit. The first word counts."""
    if _seen.injected is not None and _seen.told is None:
        _seen.told = time.monotonic()


def vain(blocks: int) -> None:
    """The journal lacks so many of the blocks that were begun."""
    _seen.vain = blocks


def held(invariants: Iterable[int]) -> None:
    """The invariants were checked and found to hold."""
    _seen.held.update(invariants)
