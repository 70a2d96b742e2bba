"""The clock of a simulated phone that ticks seldom, and tools that round each sample separately. Pure."""

from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

_ROUNDINGS = {"nearest": np.rint, "down": np.floor, "up": np.ceil}


@dataclass(frozen=True, slots=True, kw_only=True)
class Ticks:
    """A clock that shows the time of its last tick, in whole nanoseconds."""

    tick_s: float
    """The length of a tick (s), which need not be a whole number of nanoseconds."""
    faster: float = 0.0
    """The share by which the clock is fast: 12.3e-6 is 12.3 ppm."""
    each: Literal["", "nearest", "down", "up"] = ""
    """How a tool rounds each sample to ticks; empty: a sample lies between two readings of the clock, and the first
    reading is the one at the end of the previous sample."""

    def shown_ns(self, began_s: float, taken_s: NDArray[np.float64]) -> NDArray[np.int64]:
        """Return the times (ns) that the clock shows for `taken_s`, successive durations of which the first began at
        `began_s`; the same shape as `taken_s`."""
        if self.each:
            return self._ns(_ROUNDINGS[self.each](taken_s / self.tick_s))
        readings_s = began_s + np.concatenate([[0.0], taken_s.cumsum()])
        return np.diff(self._ns(np.floor(readings_s / self.tick_s)))

    def _ns(self, ticks: NDArray[np.float64]) -> NDArray[np.int64]:
        return np.rint(ticks * self.tick_s * (1.0 + self.faster) * 1e9).astype(np.int64)


def shown_ns(ticks: Ticks | None, began_s: float, taken_s: NDArray[np.float64]) -> NDArray[np.int64]:
    """Return the times of `Ticks.shown_ns`; with `None`, those of a clock of whole nanoseconds."""
    return np.rint(taken_s * 1e9).astype(np.int64) if ticks is None else ticks.shown_ns(began_s, taken_s)
