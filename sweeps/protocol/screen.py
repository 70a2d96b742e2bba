"""The screen of a race: batches, in which one new process times a short block of every candidate. Pure.

A separate process costs seconds to start on a phone; in a batch, a variant costs only its loading, its warm-up and a
short block. Every batch is a new process with a new order, so that differences from process to process average out.

One process cannot hold everything: a batch is of one runtime, program, number of threads and CPUs. Each such group is
screened separately. Between groups, only the finals decide: blocks in separate processes (`sweeps.protocol.racing`).

A batch that ends early is continued in a second process, without the build that ended it. The two processes are one
batch, but two rounds of the model, as each process has a separate effect. So a block that was alone in its process
gives no information.

A variant's latency in a shared process may differ from its latency alone. So a screen eliminates only candidates that
are more than `NEAR` times as slow as the group's leader, and its batches count in the finals like one round of doubled
variance.

If the device was shown to keep the ratios (`sweeps.protocol.batch_noise`) and all candidates are of one group, the
batches decide: they go on until the race is decided, and there are no finals. A candidate that is still in the race
then has a ratio to the leader, but no latency of its own.
"""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace

from sweeps.batches import FEWEST
from sweeps.protocol.race_medians import FEWEST_ROUNDS
from sweeps.protocol.racing import ERROR, Elimination, Race, ratio_to_leader
from sweeps.stats import Estimate

MOST_BATCHES = 4
ENOUGH = 0.9
"""A screen ends when its leader is within 2 % of the group's best with this probability."""
NEAR = 1.07
FAR = 1.3
"""A candidate that is more than this many times as slow as the leader has short blocks until its elimination is
sure."""


@dataclass(frozen=True, slots=True)
class Deciding:
    """The limits of batches that decide the race: no finals follow."""

    fewest: int
    """The number of batches before the leader may be declared the best."""
    most: int
    """The largest number of batches of a race that is not decided."""


class Screen:
    """The batches of one group. The state depends only on the arguments and on the batches in their order.

    A group of fewer than 3 goes to the finals directly.
    """

    def __init__(self, precedence: Mapping[str, float], deciding: Deciding | None = None) -> None:
        """Begin a screen. `precedence` is as in `Race`, with at least one candidate. `deciding`: the limits of batches
        that decide the race; `None` if the batches only screen."""
        error, fewest = (1 - ENOUGH, FEWEST_ROUNDS) if deciding is None else (ERROR, deciding.fewest)
        self._race = Race(precedence, error, fewest=fewest, near=NEAR)
        self._deciding = deciding
        self._joined: dict[str, int] = {}
        """The number of batches before the first one of each candidate ..."""
        self._looks: dict[str, int] = {}
        """... and the number of batches that held each candidate."""
        self._counted: set[str] = set()
        """The candidates with a block that counts."""
        self._unusable: list[str] = []
        self._ended = len(precedence) < FEWEST

    @property
    def contending(self) -> tuple[str, ...]:
        """The candidates that were not eliminated; after the end of the screen, those in the finals."""
        return self._race.contending

    @property
    def active(self) -> tuple[str, ...]:
        """The candidates in the next batch; none after the end of the screen."""
        return () if self._ended else self._race.active

    @property
    def brief(self) -> tuple[str, ...]:
        """The candidates of `active` whose blocks may be half as long: the batches so far show them far behind the
        leader, or do not compare them with it. Precision matters only between candidates that are near each other."""
        known, leader = self._race.effects_ms, self._race.leader
        near = {key for key, ms in known.items() if leader in known and ms <= FAR * known[leader]}
        return tuple(key for key in self.active if key not in near)

    @property
    def rounds(self) -> int:
        """The number of batches so far."""
        return self._race.rounds

    def add_batch(
        self, *processes: Mapping[str, float | None], excluded: Collection[str] = ()
    ) -> tuple[Elimination, ...]:
        """Add the block medians of one batch, one mapping per process, and return the eliminations. See
        `ScreenedRace.add_batch`."""
        for key in excluded:
            if key in self.contending:
                self.finals_follow()
                self._race.withdraw(key)
        contending = set(self.contending)
        for key in {key for medians_ms in processes for key in medians_ms} & contending:
            self._joined.setdefault(key, self.rounds)
            self._looks[key] = self._looks.get(key, 0) + 1
        eliminations: tuple[Elimination, ...] = ()
        if any(processes):
            counting = [
                {key: value for key, value in medians_ms.items() if value is not None and key in contending}
                for medians_ms in processes
            ]
            self._counted |= {key for medians in counting for key in medians}
            eliminations = self._race.add_round(*(medians for medians in counting if len(medians) > 1))
        self._put_aside()
        if self._race.decided or self._spent():
            self._ended = True
            eliminations += self._race.leave_behind()
        return tuple(replace(elimination, in_batches=True) for elimination in eliminations)

    @property
    def unusable(self) -> tuple[str, ...]:
        """The candidates that were removed, because none of their blocks counts after the number of batches that it
        takes to decide, though blocks of others do. They would keep the race undecided. In the finals such candidates
        leave anyway."""
        return tuple(self._unusable)

    @property
    def fruitless(self) -> bool:
        """Tell whether no block of any candidate counts, after the number of batches that it takes to decide."""
        return self._deciding is not None and not self._counted and self.rounds >= self._deciding.fewest

    def _put_aside(self) -> None:
        if self._deciding is None or not self._counted:
            return
        for key in self.contending:
            looks = self._looks.get(key, 0)
            if key not in self._counted and looks >= self._deciding.fewest and len(self.contending) > 1:
                self._race.withdraw(key)
                self._unusable.append(key)

    def finals_follow(self) -> None:
        """Let the batches only screen, and not decide, from now on."""
        self._deciding = None
        self._ended = self._ended or self._spent()

    def stop(self) -> None:
        """End the screen because no time is left, if its batches are enough to name a leader: no batch follows."""
        if self._deciding is not None and self.rounds >= self._deciding.fewest and self.leader is not None:
            self._ended = True

    def _spent(self) -> bool:
        if self._deciding is None:
            return self.rounds >= MOST_BATCHES
        # A candidate that joined later gets as many batches together with the others.
        since = max(self._joined.get(key, self.rounds) for key in self.contending)
        return self.rounds - since >= self._deciding.most

    def withdraw(self, key: str) -> None:
        """Remove a candidate that failed. Raises `ValueError` if it is not in the race."""
        self._race.withdraw(key)
        self._ended = self._ended or self._race.decided

    @property
    def effects_ms(self) -> Mapping[str, float]:
        """The latencies of the candidates in the finals, from the batches, up to a common factor."""
        return self._race.effects_ms

    @property
    def leader(self) -> str | None:
        return self._race.leader

    @property
    def why(self) -> str:
        """See `Race.why`."""
        return self._race.why

    def ratio(self, key: str) -> Estimate | None:
        """See `ratio_to_leader`."""
        return ratio_to_leader(self._race, key)
