"""The screen of a race: batches, in which one new process times a short block of every candidate. Pure.

A process of its own costs seconds to start on a phone; in a batch, a variant costs its loading, its warm-up and a short
block. Every batch is a new process with a new order, so that what differs from process to process is drawn anew.

One process cannot hold everything: a batch is of one runtime, program, number of threads and CPUs. Each such group is
screened for itself. Across groups, only the finals decide: blocks in processes of their own (`sweeps.protocol.racing`).

A batch that ends early is continued in a second process, without whatever ended it. Each process has an effect of its
own: the two are one batch, and two rounds of the model. So an item that had its process to itself says nothing.

What a variant shows in a shared process may differ from what it shows alone. So a screen eliminates only who is more
than `NEAR` times as slow as the group's leader, and its batches count in the finals like one round of doubled variance.
"""

from collections.abc import Collection, Mapping
from dataclasses import replace

from sweeps.protocol.racing import Elimination, Race

MOST_BATCHES = 4
ENOUGH = 0.9
"""A screen ends when its leader is within 2 % of the group's best with this probability."""
NEAR = 1.07
FEWEST_CANDIDATES = 3
"""A group of fewer goes to the finals directly."""


class Screen:
    """The batches of one group. It depends only on its arguments and the batches, in their order."""

    def __init__(self, precedence: Mapping[str, float]) -> None:
        """`precedence`: as of a `Race`; at least one candidate."""
        self._race = Race(precedence, 1 - ENOUGH, near=NEAR)
        self._ended = len(precedence) < FEWEST_CANDIDATES

    @property
    def contending(self) -> tuple[str, ...]:
        """Those that were not eliminated: once the screen has ended, those in the finals."""
        return self._race.contending

    @property
    def active(self) -> tuple[str, ...]:
        """Those in the next batch; nobody once it has ended."""
        return () if self._ended else self._race.active

    @property
    def rounds(self) -> int:
        """Batches so far."""
        return self._race.rounds

    def add_batch(self, *processes: Mapping[str, float | None], alone: Collection[str] = ()) -> tuple[Elimination, ...]:
        """Add what one batch measured, by its processes, and return who is eliminated. See `ScreenedRace.add_batch`."""
        for key in alone:
            if key in self.contending:
                self._race.withdraw(key)
        contending = set(self.contending)
        gone: tuple[Elimination, ...] = ()
        if any(processes):
            counting = [
                {key: value for key, value in medians_ms.items() if value is not None and key in contending}
                for medians_ms in processes
            ]
            gone = self._race.add_round(*(one for one in counting if len(one) > 1))
        if self._race.decided or self._race.rounds >= MOST_BATCHES:
            self._ended = True
            gone += self._race.leave_behind()
        return tuple(replace(one, in_batches=True) for one in gone)

    def withdraw(self, key: str) -> None:
        """Remove a candidate that failed. Raises `ValueError` if it is not in the race."""
        self._race.withdraw(key)
        self._ended = self._ended or self._race.decided

    @property
    def effects_ms(self) -> Mapping[str, float]:
        """What the batches say of those in the finals, up to a common factor."""
        return self._race.effects_ms


class ScreenedRace:
    """A race for the fastest variant: the screens of all groups, then the finals of those left."""

    def __init__(self, precedence: Mapping[str, float], groups: Mapping[str, str], fewest: int) -> None:
        """`groups`: the group of each candidate that can be measured in batches, by its key. The rest as of `Race`."""
        self._fewest = fewest
        self._precedence = dict(precedence)
        self._screens = [
            Screen({key: precedence[key] for key, other in groups.items() if other == group})
            for group in dict.fromkeys(groups.values())
        ]
        self._screened: list[Elimination] = []
        self._finals: Race | None = None
        self._begin_finals()

    @property
    def contending(self) -> tuple[str, ...]:
        """All that were not eliminated."""
        return tuple(sorted(self._precedence)) if self._finals is None else self._finals.contending

    @property
    def batches(self) -> tuple[tuple[str, ...], ...]:
        """The keys of each batch that is measured next; none in the finals."""
        return tuple(screen.active for screen in self._screens if screen.active)

    @property
    def most_batches(self) -> int:
        """The largest number of batches of any group so far."""
        return max((screen.rounds for screen in self._screens), default=0)

    @property
    def active(self) -> tuple[str, ...]:
        """The keys of those that are measured next in processes of their own; nobody while there are batches."""
        return () if self._finals is None else self._finals.active

    @property
    def eliminations(self) -> tuple[Elimination, ...]:
        """All eliminations so far, in their order."""
        return (*self._screened, *(() if self._finals is None else self._finals.eliminations))

    @property
    def leader(self) -> str | None:
        """See `Race.leader`; `None` while there are batches."""
        return None if self._finals is None else self._finals.leader

    @property
    def decided(self) -> bool:
        return bool(self.why)

    @property
    def why(self) -> str:
        """Why the race is decided, for people; empty while it is undecided."""
        return "" if self._finals is None else self._finals.why

    def add_batch(self, *processes: Mapping[str, float | None], alone: Collection[str] = ()) -> tuple[Elimination, ...]:
        """Add one batch, which is of one group, and return who is eliminated. Those not in a screen are ignored.

        It has the medians (ms) of each of its processes; `None`: it was in the batch, but its block does not count.
        `alone`: cannot be measured in batches, as this one showed. They go to the finals.
        """
        gone: tuple[Elimination, ...] = ()
        keys = {key for medians_ms in processes for key in medians_ms} | set(alone)
        for screen in self._screens:
            if screen.active and keys & set(screen.contending):
                gone = screen.add_batch(*processes, alone=alone)
                break
        for one in gone:
            del self._precedence[one.key]
        self._screened += gone
        self._begin_finals()
        return gone

    def add_round(self, medians_ms: Mapping[str, float]) -> tuple[Elimination, ...]:
        """See `Race.add_round`. Raises `ValueError` while there are batches."""
        if self._finals is None:
            raise ValueError("the finals have not begun")
        return self._finals.add_round(medians_ms)

    def withdraw(self, key: str) -> None:
        """Remove a candidate that failed. Raises `ValueError` if it is not in the race."""
        if self._finals is not None:
            self._finals.withdraw(key)
            return
        if key not in self._precedence:
            raise ValueError(f"not in the race: {key}")
        for screen in self._screens:
            if key in screen.contending:
                screen.withdraw(key)
        if len(self._precedence) > 1:
            del self._precedence[key]
            self._begin_finals()
        else:
            self._finals = Race(self._precedence)
            self._finals.withdraw(key)

    def _begin_finals(self) -> None:
        if self._finals is None and not self.batches:
            # One that is left alone by its group is held against nobody by it.
            screened = [effects for screen in self._screens if len(effects := screen.effects_ms) > 1]
            self._finals = Race(self._precedence, fewest=self._fewest, screened=screened)
