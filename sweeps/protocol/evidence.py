"""The block medians of a race, round by round, and what they say of each candidate. Pure."""

import math
from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from sweeps.protocol.posterior import Posterior, posterior

SCREEN_WEIGHT = 0.5
"""What batches said before counts like one round of doubled variance."""

FEWEST_ROUNDS = 2
"""One round does not show how much processes differ."""


def candidates(precedence: Mapping[str, float], error: float) -> tuple[tuple[str, ...], NDArray[np.float64]]:
    """The keys in the order of a race, and the precedence of each.

    Raises `ValueError` for no candidate, a precedence that is not finite, or an error not between 0 and 0.5.
    """
    if not precedence or not all(map(math.isfinite, precedence.values())):
        raise ValueError(f"a race needs candidates with finite precedence: {dict(precedence)}")
    if not 0 < error < 0.5:
        raise ValueError(f"the error of a race must be between 0 and 0.5: {error}")
    keys = tuple(sorted(precedence))
    return keys, np.array([precedence[key] for key in keys], dtype=np.float64)


class Evidence:
    """Arrays are by candidate, in the order of `keys`."""

    def __init__(self, keys: Sequence[str], screened: Sequence[Mapping[str, float]] = ()) -> None:
        """`screened`: what batches said, one entry per group."""
        self._keys = tuple(keys)
        self._logs = np.array([self._row(one) for one in screened]).reshape(-1, len(self._keys))
        self._screened = len(screened)
        self._rounds = 0

    @property
    def rounds(self) -> int:
        """Without the batches."""
        return self._rounds

    @property
    def logs(self) -> NDArray[np.float64]:
        """(rounds, candidates) of log block medians, NaN where nothing was measured; batches first.

        A round of several processes has a row for each.
        """
        return self._logs

    def add(self, *processes: Mapping[str, float]) -> None:
        """Add a round, by key in ms. In batches it is one process or several: what differs between processes does not
        cancel between them, so each has an effect of its own, as a round has.

        Raises `ValueError` for a median that is not a positive number.
        """
        self._logs = np.vstack([self._logs, *map(self._row, processes)])
        self._rounds += 1

    def blocks(self) -> NDArray[np.intp]:
        """Number of blocks, without what batches said before."""
        found: NDArray[np.intp] = np.isfinite(self._logs[self._screened :]).sum(axis=0)
        return found

    def measured(self) -> NDArray[np.bool_]:
        """Whether there is anything, also in batches."""
        found: NDArray[np.bool_] = np.isfinite(self._logs).any(axis=0)
        return found

    def enough(self, leader: int, fewest: int) -> NDArray[np.bool_]:
        """Whether there is enough to hold each against `leader`: `fewest` blocks of both, or one where batches held
        both. Batches of two groups say nothing of each other, nor do two processes without anything in common."""
        blocks = np.minimum(self.blocks(), self.blocks()[leader])
        found: NDArray[np.bool_] = (blocks >= fewest) | (self.shared(leader) & (blocks > 0))
        return found & self.linked(leader)

    def linked(self, leader: int) -> NDArray[np.bool_]:
        """Whether each was held against `leader`: in one round or process, or through others that met both."""
        seen = np.isfinite(self._logs)
        found = np.zeros(len(self._keys), dtype=np.bool_)
        found[leader] = True
        while True:
            grown = found | seen[seen[:, found].any(axis=1)].any(axis=0)
            if np.array_equal(grown, found):
                return found
            found = grown

    def shared(self, leader: int) -> NDArray[np.bool_]:
        """Whether batches held each together with `leader`."""
        rows = np.isfinite(self._logs[: self._screened])
        found: NDArray[np.bool_] = (rows & rows[:, [leader]]).any(axis=0)
        return found

    def common(self, place: int, other: int) -> int:
        """Number of rounds in which both were measured; what batches said before is one round."""
        return int(np.isfinite(self._logs[:, place] - self._logs[:, other]).sum())

    def posterior(self, near: NDArray[np.bool_]) -> Posterior | None:
        """`None` before anything was measured. `near`: the candidates that are near the best."""
        if not self.measured().any():
            return None
        weights = np.where(np.arange(len(self._logs)) < self._screened, SCREEN_WEIGHT, 1.0)
        return posterior(self._logs, weights, near)

    def _row(self, medians_ms: Mapping[str, float]) -> NDArray[np.float64]:
        if not all(0 < value < math.inf for value in medians_ms.values()):
            raise ValueError(f"block medians must be positive numbers: {dict(medians_ms)}")
        return np.log([medians_ms.get(key, math.nan) for key in self._keys])
