"""What a test of a fault saw: when the fault was there, when EdgeSweep told of it, and which invariants held after it.

The figures are shown by `make faults` and asserted by no test.
"""

import time
from collections.abc import Iterable
from dataclasses import dataclass, field


@dataclass(slots=True)
class Seen:
    """Times are of `time.monotonic()`."""

    injected: float | None = None
    told: float | None = None
    held: set[int] = field(default_factory=set)
    vain: int | None = None
    """How often a block was begun, on any device, that the journal has not."""

    @property
    def after_s(self) -> float | None:
        """How long it took until the fault was told of; `None` where that has no moment."""
        return None if self.injected is None or self.told is None else self.told - self.injected


_seen = Seen()


def begin() -> Seen:
    """Of the test that starts now."""
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
    """So many blocks were begun that the journal has not."""
    _seen.vain = blocks


def held(invariants: Iterable[int]) -> None:
    """These were checked and found to hold."""
    _seen.held.update(invariants)
