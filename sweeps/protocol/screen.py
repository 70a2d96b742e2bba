"""The screen of a race: batches, in which one new process times a short block of every candidate. Pure.

A process of its own costs seconds to start on a phone; in a batch, a variant costs its loading, its warm-up and a short
block. Every batch is a new process with a new order, so that what differs from process to process is drawn anew.

One process cannot hold everything: a batch is of one runtime, program, number of threads and CPUs. Each such group is
screened for itself. Across groups, only the finals decide: blocks in processes of their own (`sweeps.protocol.racing`).

A batch that ends early is continued in a second process, without whatever ended it. Each process has an effect of its
own: the two are one batch, and two rounds of the model. So an item that had its process to itself says nothing.

What a variant shows in a shared process may differ from what it shows alone. So a screen eliminates only who is more
than `NEAR` times as slow as the group's leader, and its batches count in the finals like one round of doubled variance.

Where the device was shown to keep the ratios (`sweeps.protocol.batch_noise`) and all candidates are of one group,
batches decide alone: they go on until the race is decided, and there are no finals. Who is still in the race then has a
ratio to the leader, and no time of its own.
"""

from collections.abc import Collection, Mapping
from dataclasses import replace

from sweeps.batches import FEWEST, one_process
from sweeps.protocol.racing import ERROR, Elimination, Race, ratio_to_leader
from sweeps.stats import Estimate

MOST_BATCHES = 4
MOST_ALONE = 24
"""The most batches where they decide alone."""
ENOUGH = 0.9
"""A screen ends when its leader is within 2 % of the group's best with this probability."""
NEAR = 1.07


class Screen:
    """The batches of one group. It depends only on its arguments and the batches, in their order.

    A group of fewer than 3 goes to the finals directly.
    """

    def __init__(self, precedence: Mapping[str, float], *, alone: bool = False) -> None:
        """`precedence`: as of a `Race`; at least one candidate. `alone`: nothing follows, the batches decide."""
        self._race = Race(precedence, ERROR if alone else 1 - ENOUGH, near=NEAR)
        self._alone = alone
        self._joined: dict[str, int] = {}
        """Batches before the first one of each candidate."""
        self._ended = len(precedence) < FEWEST

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

    def add_batch(self, *processes: Mapping[str, float | None], apart: Collection[str] = ()) -> tuple[Elimination, ...]:
        """Add what one batch measured, by its processes, and return who is eliminated. See `ScreenedRace.add_batch`."""
        for key in apart:
            if key in self.contending:
                self.finals_follow()
                self._race.withdraw(key)
        contending = set(self.contending)
        for key in {key for medians_ms in processes for key in medians_ms} & contending:
            self._joined.setdefault(key, self.rounds)
        gone: tuple[Elimination, ...] = ()
        if any(processes):
            counting = [
                {key: value for key, value in medians_ms.items() if value is not None and key in contending}
                for medians_ms in processes
            ]
            gone = self._race.add_round(*(one for one in counting if len(one) > 1))
        if self._race.decided or self._spent():
            self._ended = True
            gone += self._race.leave_behind()
        return tuple(replace(one, in_batches=True) for one in gone)

    def finals_follow(self) -> None:
        """From now on the batches only screen."""
        self._alone = False
        self._ended = self._ended or self._spent()

    def _spent(self) -> bool:
        if not self._alone:
            return self.rounds >= MOST_BATCHES
        # Who joined a race that had batches before has the same number with the others.
        return self.rounds - max(self._joined.get(key, self.rounds) for key in self.contending) >= MOST_ALONE

    def withdraw(self, key: str) -> None:
        """Remove a candidate that failed. Raises `ValueError` if it is not in the race."""
        self._race.withdraw(key)
        self._ended = self._ended or self._race.decided

    @property
    def effects_ms(self) -> Mapping[str, float]:
        """What the batches say of those in the finals, up to a common factor."""
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


class ScreenedRace:
    """A race for the fastest variant: the screens of all groups, then the finals of those left."""

    def __init__(
        self, precedence: Mapping[str, float], groups: Mapping[str, str], fewest: int, *, alone: bool = False
    ) -> None:
        """`groups`: the group of each candidate that can be measured in batches, by its key. The rest as of `Race`.

        `alone`: batches decide alone, if they can: all candidates are of one group, which is screened.
        """
        self._fewest = fewest
        self._precedence = dict(precedence)
        self._alone = alone and one_process(groups.get(key) for key in precedence)
        self._screens = [
            Screen({key: precedence[key] for key, other in groups.items() if other == group}, alone=self._alone)
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
    def alone(self) -> bool:
        """Whether batches decide alone: there are no finals."""
        return self._alone

    @property
    def ended_in_batches(self) -> bool:
        """Whether the last batch was the last measurement of the race, decided or not."""
        return self._alone and not self.batches

    def ratio(self, key: str) -> Estimate | None:
        """The latency of `key` divided by the leader's, as batches show it, with 95 %. `None` for the leader, before
        the race ended in batches, and where nothing of it counted."""
        return self._screens[0].ratio(key) if self.ended_in_batches and key != self.leader else None

    @property
    def eliminations(self) -> tuple[Elimination, ...]:
        """All eliminations so far, in their order."""
        return (*self._screened, *(() if self._finals is None else self._finals.eliminations))

    @property
    def leader(self) -> str | None:
        """See `Race.leader`; `None` while there are batches."""
        if self._finals is not None:
            return self._finals.leader
        return self._screens[0].leader if self.ended_in_batches else None

    @property
    def decided(self) -> bool:
        return bool(self.why)

    @property
    def why(self) -> str:
        """Why the race is decided, for people; empty while it is undecided."""
        if self._finals is not None:
            return self._finals.why
        return self._screens[0].why if self.ended_in_batches else ""

    def add_batch(self, *processes: Mapping[str, float | None], apart: Collection[str] = ()) -> tuple[Elimination, ...]:
        """Add one batch, which is of one group, and return who is eliminated. Those not in a screen are ignored.

        It has the medians (ms) of each of its processes; `None`: it was in the batch, but its block does not count.
        `apart`: cannot be measured in batches, as this one showed. They go to the finals, which follow in any case.
        """
        gone: tuple[Elimination, ...] = ()
        keys = {key for medians_ms in processes for key in medians_ms} | set(apart)
        for screen in self._screens:
            if screen.active and keys & set(screen.contending):
                self._alone = self._alone and not set(apart) & set(screen.contending)
                gone = screen.add_batch(*processes, apart=apart)
                break
        for one in gone:
            del self._precedence[one.key]
        self._screened += gone
        # Where no block of any batch counts, nothing is known of anyone.
        self._alone = self._alone and not (self.ended_in_batches and self.leader is None)
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
        ended = self.ended_in_batches
        for screen in self._screens:
            if key in screen.contending:
                screen.withdraw(key)
        # Batches that end with a failure have measured nothing that shows who leads.
        self._alone = self._alone and (ended or bool(self.batches))
        if len(self._precedence) > 1:
            del self._precedence[key]
            self._begin_finals()
        else:
            self._alone = False
            self._finals = Race(self._precedence)
            self._finals.withdraw(key)

    def _begin_finals(self) -> None:
        if self._finals is None and not self.batches and not self._alone:
            # One that is left alone by its group is held against nobody by it.
            screened = [effects for screen in self._screens if len(effects := screen.effects_ms) > 1]
            self._finals = Race(self._precedence, fewest=self._fewest, screened=screened)
