"""A race for the fastest variant: it ends as soon as its leader is good enough, even if others may be as good. Pure.

After every round, `sweeps.protocol.posterior` gives the distribution of each candidate's latency. Three rules use it:

* **End.** The race is decided when its leader is within 2 % of the best candidate with a probability of at least
  1 - `error`, and has two blocks in separate processes, or one if batches held it together with all of its rivals.
* **Measured on.** Only the leader and those who may be faster than it by more than 2 % get further blocks. The others
  rest: as long as their probabilities sum up to `RESTING` at most, measuring them would change nothing. So near-ties do
  not hold up a race. The choice is made again after every round, so a candidate may come back.
* **Eliminated.** A candidate that is slower than the leader beyond doubt is out for good: candidates are eliminated as
  long as their probabilities of not being slower sum up to `ELIMINATED` at most. No candidate leaves after the first
  round, however slow: a single block, and all blocks near it in time, may have met a burst of other work.

The leader has the smallest mean among the candidates of the highest precedence.

**Error.** These are Bayesian stopping rules: the probabilities hold under the model and its priors, and testing after
every round needs no correction. How often they are wrong with other noise (heavy tails, bursts, two-state clocks,
correlated samples) was simulated: `infra/protocol-evidence.md` shows it, `tests/benchmarks/bench_policy.py` repeats it.
The scheme is that of Bayesian ranking and selection: Chick and Inoue, Operations Research 49(5), 2001; Branke, Chick
and Schmidt, Management Science 53(12), 2007 stop at a probability of good selection, too.

**Precedence** says which candidate may eliminate which: a class (`sweeps.ranking.precedence`). 2 passes the
constraints, 1 is unresolved, 0 fails and cannot win while another may.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from sweeps.protocol.posterior import Posterior
from sweeps.protocol.race_medians import FEWEST_ROUNDS, Evidence, candidates
from sweeps.stats import NEGLIGIBLE, Estimate

ERROR = 0.02
"""The probability that a decided race's leader is more than 2 % slower than the best."""
RESTING = 0.01
ELIMINATED = 0.0005
_NEGLIGIBLE_LOG = math.log1p(NEGLIGIBLE)


@dataclass(frozen=True, slots=True, kw_only=True)
class Elimination:
    """The elimination of a variant, with its reason and the evidence."""

    key: str
    by: str
    """Key of the candidate that eliminated it."""
    rounds: int
    """Number of rounds of the race so far, or of batches of the screen."""
    common: int
    """Number of rounds in which both were measured."""
    ratio: float | None
    """Latency of `key` divided by that of `by`, by the additive model; candidates that were measured with both may link
    them. `None` if latency did not decide and the two were never measured together."""
    ratio_low: float | None
    """The lower bound of the ratio; `None` if latency did not decide."""
    error: float
    """The probability that `ratio_low` is wrong is at most this."""
    reason: Literal["slower", "constraint"]
    """`constraint`: `key` fails a constraint, and `by` does not."""
    in_batches: bool = False
    """Whether the evidence is from batches, not from blocks in separate processes."""


class Race:
    """The state of one race. The state depends only on the arguments and the rounds, so recorded rounds restore it."""

    def __init__(
        self,
        precedence: Mapping[str, float],
        error: float = ERROR,
        *,
        fewest: int = FEWEST_ROUNDS,
        near: float = 1.0,
        screened: Sequence[Mapping[str, float]] = (),
    ) -> None:
        """Begin a race. `precedence` has the class of each candidate, by its key. `fewest`: number of rounds before the
        leader may be declared the best.

        A candidate that is less than `near` times as slow as the leader is not eliminated. `screened`: latencies from
        earlier batches (`sweeps.protocol.screen`); each entry counts like a round of doubled variance.

        Raises `ValueError` for no candidate, a precedence that is not finite, or an error not between 0 and 0.5.
        """
        self._keys, self._precedence = candidates(precedence, error)
        self._error = error
        self._fewest = fewest
        self._near = near
        self._evidence = Evidence(self._keys, screened)
        self._in = np.ones(len(self._keys), dtype=np.bool_)
        self._active = self._in.copy()
        self._posterior: Posterior | None = None
        self._eliminations: list[Elimination] = []
        if screened:
            self._posterior = self._evidence.posterior(self._in & self._active)
            self._rest()

    @property
    def contending(self) -> tuple[str, ...]:
        """All candidates that were not eliminated."""
        return _named(self._keys, self._in)

    @property
    def active(self) -> tuple[str, ...]:
        """The candidates of `contending` whose next block may change the result."""
        return _named(self._keys, self._in & self._active)

    @property
    def rounds(self) -> int:
        """The number of rounds, without earlier batches."""
        return self._evidence.rounds

    @property
    def eliminations(self) -> tuple[Elimination, ...]:
        """All eliminations so far, in their order."""
        return tuple(self._eliminations)

    def add_round(self, *processes: Mapping[str, float]) -> tuple[Elimination, ...]:
        """Add one round's block medians (ms) and return the new eliminations, the clearest one first.

        A round of blocks has one mapping, a batch has one for each of its processes. Candidates without a block in this
        round may be missing. Raises `ValueError` for a key that is not in the race and for a median that is not a
        positive number.
        """
        if unknown := {key for medians_ms in processes for key in medians_ms} - set(self.contending):
            raise ValueError(f"not in the race: {', '.join(sorted(unknown))}")
        self._evidence.add(*processes)
        self._posterior = self._evidence.posterior(self._in & self._active)
        leader = self._leader()
        leaving = () if leader is None else (*self._failing(leader), *self._slower(leader))
        self._eliminations += leaving
        self._rest()
        return leaving

    def withdraw(self, key: str) -> None:
        """Remove a candidate that failed. Raises `ValueError` if it is not in the race."""
        if key not in self.contending:
            raise ValueError(f"not in the race: {key}")
        self._in[self._keys.index(key)] = False
        self._rest()

    def leave_behind(self) -> tuple[Elimination, ...]:
        """Eliminate all candidates that rest and are more than `near` times as slow as the leader, and return the
        eliminations."""
        leader = self._leader()
        if leader is None or self._posterior is None:
            return ()
        resting = np.flatnonzero(self._in & ~self._active)
        far_behind = resting[self._behind(resting, leader) > math.log(self._near)]
        leaving = tuple(self._leaves(int(place), leader, "slower", RESTING) for place in far_behind)
        self._eliminations += leaving
        return leaving

    @property
    def effects_ms(self) -> dict[str, float]:
        """The latencies of the candidates still in the race, up to a common factor. Candidates that were never compared
        with the leader are left out, because their factor differs."""
        leader = self._leader()
        if leader is None or self._posterior is None:
            return {}
        comparable = np.flatnonzero(self._in & self._evidence.measured() & self._evidence.linked(leader))
        return {self._keys[place]: float(np.exp(self._posterior.effects[place])) for place in comparable}

    @property
    def leader(self) -> str | None:
        """The fastest of the candidates of the highest precedence; `None` before the first round of two or more."""
        place = self._leader()
        return None if place is None else self._keys[place]

    @property
    def decided(self) -> bool:
        return bool(self.why)

    @property
    def why(self) -> str:
        """The reason for which the race is decided, for people; empty while it is undecided."""
        left = np.flatnonzero(self._in)
        if left.size < 2:
            return "one variant is left" if left.size else "no variant is left"
        leader = self._leader()
        if self._posterior is None or leader is None:
            return ""
        rivals = self._rivals(leader)
        # One block of the leader is enough only if all rivals shared a batch with it.
        fewest = 1 if rivals.size and self._evidence.shared(leader)[rivals].all() else self._fewest
        if self._evidence.blocks()[leader] < fewest or not self._evidence.linked(leader)[rivals].all():
            return ""
        if self._posterior.none_faster(rivals, leader, _NEGLIGIBLE_LOG) < 1 - self._error:
            return ""
        return f"no other is faster by more than 2 %, with a probability of {100 * (1 - self._error):g} %"

    def _leader(self) -> int | None:
        left = np.flatnonzero(self._in)
        places = left[self._evidence.measured()[left]]
        if self._posterior is None or not places.size:
            return int(left[0]) if left.size == 1 else None
        places = places[self._precedence[places] == self._precedence[places].max()]
        return int(places[np.argmin(self._posterior.means[places])])

    def _rivals(self, leader: int) -> NDArray[np.intp]:
        """Return the candidates that may replace the leader: those of the leader's class, or of a higher one."""
        rivals = self._in & (self._precedence >= self._precedence[leader])
        rivals[leader] = False
        return np.flatnonzero(rivals)

    def _failing(self, leader: int) -> list[Elimination]:
        if self._precedence[leader] <= 0 or self.rounds < FEWEST_ROUNDS:
            return []
        failing = np.flatnonzero(self._in & self._evidence.measured() & (self._precedence <= 0))
        return [self._leaves(int(place), leader, "constraint") for place in failing]

    def _slower(self, leader: int) -> list[Elimination]:
        assert self._posterior is not None
        rivals = self._in & self._evidence.measured()
        rivals[leader] = False
        places = np.flatnonzero(rivals)
        enough = self._evidence.enough(leader, FEWEST_ROUNDS)
        places = places[enough[places] & (self._behind(places, leader) > math.log(self._near))]
        slower = _least(places, self._posterior.not_slower(places, leader), ELIMINATED)
        return [self._leaves(int(place), leader, "slower") for place in slower]

    def _behind(self, places: NDArray[np.intp], leader: int) -> NDArray[np.float64]:
        """Return how much slower the candidates at `places` are than the leader, in logarithms."""
        assert self._posterior is not None
        distances: NDArray[np.float64] = self._posterior.means[places] - self._posterior.means[leader]
        return distances

    def _rest(self) -> None:
        """Choose the candidates that get further blocks."""
        leader = self._leader()
        self._active = self._in.copy()
        if self._posterior is None or leader is None:
            return
        rivals = self._rivals(leader)
        chances = self._posterior.faster(rivals, leader, _NEGLIGIBLE_LOG)
        # A candidate that was near the leader in batches must be measured in a separate process before it rests.
        may_rest = self._in & self._evidence.enough(leader, self._fewest)
        self._active[np.setdiff1d(np.flatnonzero(may_rest), [*rivals, leader])] = False
        self._active[_least(rivals[may_rest[rivals]], chances[may_rest[rivals]], RESTING)] = False
        if self._near > 1:
            # In batches, one block of a rival is enough if no disturbance of a block can explain the distance to the
            # leader.
            known = self._evidence.enough(leader, 1)[rivals]
            active = self._active.copy()
            active[_least(rivals[known], chances[known], ELIMINATED)] = False
            # A leader that needs more blocks is not measured alone: it would be compared with nothing.
            if active.sum() > 1 or self._evidence.blocks()[leader] >= self._fewest:
                self._active = active

    def _leaves(
        self, place: int, by: int, reason: Literal["slower", "constraint"], error: float = ELIMINATED
    ) -> Elimination:
        assert self._posterior is not None
        self._in[place] = False
        common = self._evidence.common(place, by)
        effects = self._posterior.effects
        low = self._posterior.log_ratio_low(place, by, error)
        return Elimination(
            key=self._keys[place],
            by=self._keys[by],
            rounds=self.rounds,
            common=common,
            ratio=float(np.exp(effects[place] - effects[by])) if common or reason == "slower" else None,
            ratio_low=float(np.exp(low)) if reason == "slower" else None,
            error=error,
            reason=reason,
        )


def ratio_to_leader(race: Race, key: str) -> Estimate | None:
    """Return the latency of `key` divided by that of the leader, with its 95 % interval; `None` unless it was compared
    with the leader."""
    leader, place = race._leader(), race._keys.index(key)
    if race._posterior is None or leader is None or not race._evidence.linked(leader)[place]:
        return None
    return race._posterior.ratio(place, leader)


def _named(keys: Sequence[str], chosen: NDArray[np.bool_]) -> tuple[str, ...]:
    return tuple(key for key, is_chosen in zip(keys, chosen, strict=True) if is_chosen)


def _least(places: NDArray[np.intp], chances: NDArray[np.float64], most: float) -> NDArray[np.intp]:
    """Return as many of `places` as have `chances` that sum up to at most `most`, the smallest chances first."""
    order = np.argsort(chances, kind="stable")
    least: NDArray[np.intp] = places[order][np.cumsum(chances[order]) <= most]
    return least
