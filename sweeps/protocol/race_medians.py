"""The block medians of a race, round by round, and their evidence about each candidate. Pure."""

import math
from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from sweeps.protocol.posterior import Posterior, posterior

SCREEN_WEIGHT = 0.5
"""Weight of the medians of earlier batches: they count like one round of doubled variance."""

FEWEST_ROUNDS = 2
"""The smallest number of rounds: one round does not show how much processes differ."""


def candidates(precedence: Mapping[str, float], error: float) -> tuple[tuple[str, ...], NDArray[np.float64]]:
    """Return the keys in the order of a race, and the precedence of each.

    Raises `ValueError` for no candidate, a precedence that is not finite, or an error not between 0 and 0.5.
    """
    if not precedence or not all(map(math.isfinite, precedence.values())):
        raise ValueError(f"a race needs candidates with finite precedence: {dict(precedence)}")
    if not 0 < error < 0.5:
        raise ValueError(f"the error of a race must be between 0 and 0.5: {error}")
    keys = tuple(sorted(precedence))
    return keys, np.array([precedence[key] for key in keys], dtype=np.float64)


class Evidence:
    """The block medians of one race. Arrays are by candidate, in the order of `keys`."""

    def __init__(self, keys: Sequence[str], screened: Sequence[Mapping[str, float]] = ()) -> None:
        """Begin with the medians (ms) of earlier batches, `screened`: one entry per group, by key."""
        self._keys = tuple(keys)
        self._logs = np.array([self._row(medians_ms) for medians_ms in screened]).reshape(-1, len(self._keys))
        self._screened = len(screened)
        self._rounds = 0

    @property
    def rounds(self) -> int:
        """The number of rounds, without earlier batches."""
        return self._rounds

    @property
    def logs(self) -> NDArray[np.float64]:
        """Log block medians, an array (rounds, candidates) with NaN for missing blocks; earlier batches come first.

        A round of several processes has a row for each process.
        """
        return self._logs

    def add(self, *processes: Mapping[str, float]) -> None:
        """Add one round: block medians (ms) by key, for each process. A batch has one process or several. Differences
        between processes do not cancel in a batch, so each process has a separate effect, as a round has.

        Raises `ValueError` for a median that is not a positive number.
        """
        self._logs = np.vstack([self._logs, *map(self._row, processes)])
        self._rounds += 1

    def blocks(self) -> NDArray[np.intp]:
        """Return the number of blocks of each candidate, without earlier batches."""
        counts: NDArray[np.intp] = np.isfinite(self._logs[self._screened :]).sum(axis=0)
        return counts

    def measured(self) -> NDArray[np.bool_]:
        """Return for each candidate whether it has any block, also in earlier batches."""
        measured: NDArray[np.bool_] = np.isfinite(self._logs).any(axis=0)
        return measured

    def enough(self, leader: int, fewest: int) -> NDArray[np.bool_]:
        """Return for each candidate whether it has enough blocks to be compared with `leader`: `fewest` blocks of both,
        or one block of both if an earlier batch held both. Batches of two groups do not compare their candidates, nor
        do two processes without a common candidate."""
        blocks = np.minimum(self.blocks(), self.blocks()[leader])
        enough: NDArray[np.bool_] = (blocks >= fewest) | (self.shared(leader) & (blocks > 0))
        return enough & self.linked(leader)

    def linked(self, leader: int) -> NDArray[np.bool_]:
        """Return for each candidate whether it was compared with `leader`: in the same round or process, or through
        other candidates that were measured together with both."""
        measured = np.isfinite(self._logs)
        linked = np.zeros(len(self._keys), dtype=np.bool_)
        linked[leader] = True
        while True:
            grown = linked | measured[measured[:, linked].any(axis=1)].any(axis=0)
            if np.array_equal(grown, linked):
                return linked
            linked = grown

    def shared(self, leader: int) -> NDArray[np.bool_]:
        """Return for each candidate whether an earlier batch held it together with `leader`."""
        rows = np.isfinite(self._logs[: self._screened])
        shared: NDArray[np.bool_] = (rows & rows[:, [leader]]).any(axis=0)
        return shared

    def common(self, place: int, other: int) -> int:
        """Return the number of rounds in which both were measured; each group's earlier batches count as one round."""
        return int(np.isfinite(self._logs[:, place] - self._logs[:, other]).sum())

    def posterior(self, near: NDArray[np.bool_]) -> Posterior | None:
        """Return the posterior, or `None` before anything was measured. `near`: the candidates near the best."""
        if not self.measured().any():
            return None
        weights = np.where(np.arange(len(self._logs)) < self._screened, SCREEN_WEIGHT, 1.0)
        return posterior(self._logs, weights, near)

    def _row(self, medians_ms: Mapping[str, float]) -> NDArray[np.float64]:
        if not all(0 < value < math.inf for value in medians_ms.values()):
            raise ValueError(f"block medians must be positive numbers: {dict(medians_ms)}")
        return np.log([medians_ms.get(key, math.nan) for key in self._keys])
