"""A race for one winner: the screens of all groups, then the finals of the candidates left; no finals if batches
decide. Pure."""

from collections.abc import Collection, Mapping

from sweeps.batches import one_process
from sweeps.protocol.racing import Elimination, Race
from sweeps.protocol.screen import Deciding, Screen
from sweeps.stats import Estimate


class ScreenedRace:
    """A race for the fastest variant. The state depends only on the arguments and on the batches and rounds, in
    their order."""

    def __init__(
        self,
        precedence: Mapping[str, float],
        groups: Mapping[str, str],
        fewest: int,
        *,
        deciding: Deciding | None = None,
    ) -> None:
        """Begin a race. `groups` has the group of each candidate that can be measured in batches, by its key. The other
        parameters are those of `Race`.

        `deciding`: the limits of batches that decide the race; used only if all candidates are of one group, which is
        screened.
        """
        self._fewest = fewest
        self._precedence = dict(precedence)
        self._batches_decide = deciding is not None and one_process(groups.get(key) for key in precedence)
        self._screens = [
            Screen(
                {key: precedence[key] for key, other in groups.items() if other == group},
                deciding if self._batches_decide else None,
            )
            for group in dict.fromkeys(groups.values())
        ]
        self._screened: list[Elimination] = []
        self._finals: Race | None = None
        self._begin_finals()

    @property
    def contending(self) -> tuple[str, ...]:
        """All candidates that were not eliminated."""
        return tuple(sorted(self._precedence)) if self._finals is None else self._finals.contending

    @property
    def batches(self) -> tuple[tuple[str, ...], ...]:
        """The keys of each batch to be measured next; none in the finals."""
        return tuple(screen.active for screen in self._screens if screen.active)

    @property
    def brief(self) -> frozenset[str]:
        """The keys in `batches` that have short blocks, see `Screen.brief`."""
        return frozenset(key for screen in self._screens for key in screen.brief)

    @property
    def most_batches(self) -> int:
        """The largest number of batches of any group so far."""
        return max((screen.rounds for screen in self._screens), default=0)

    @property
    def active(self) -> tuple[str, ...]:
        """The keys of the candidates to be measured next in separate processes; none while there are batches."""
        return () if self._finals is None else self._finals.active

    @property
    def batches_decide(self) -> bool:
        """Tell whether the batches decide the race, without finals."""
        return self._batches_decide

    @property
    def ended_in_batches(self) -> bool:
        """Tell whether the last batch was the last measurement of the race, decided or not."""
        return self._batches_decide and not self.batches

    @property
    def unusable(self) -> tuple[str, ...]:
        """See `Screen.unusable`; empty unless batches decide."""
        return tuple(key for screen in self._screens for key in screen.unusable)

    def ratio(self, key: str) -> Estimate | None:
        """Return the latency of `key` divided by the leader's, from the batches, with its 95 % interval. `None` for the
        leader, before the race ended in batches, and if no block of `key` counted."""
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
        """The reason for which the race is decided, for people; empty while it is undecided."""
        if self._finals is not None:
            return self._finals.why
        return self._screens[0].why if self.ended_in_batches else ""

    def add_batch(
        self, *processes: Mapping[str, float | None], excluded: Collection[str] = ()
    ) -> tuple[Elimination, ...]:
        """Add one batch, which is of one group, and return the eliminations. Candidates that are not in a screen are
        ignored.

        Each mapping has the medians (ms) of one process, by key; `None`: the batch held the candidate, but its block
        does not count. `excluded`: candidates that cannot be measured in batches, as this batch showed. They go to the
        finals, so there will be finals.
        """
        eliminations: tuple[Elimination, ...] = ()
        keys = {key for medians_ms in processes for key in medians_ms} | set(excluded)
        for screen in self._screens:
            if screen.active and keys & set(screen.contending):
                self._batches_decide = self._batches_decide and not set(excluded) & set(screen.contending)
                eliminations = screen.add_batch(*processes, excluded=excluded)
                if screen.fruitless:  # The device caused this: nothing is known of any candidate.
                    self._batches_decide = False
                    screen.finals_follow()
                break
        for key in (*(elimination.key for elimination in eliminations), *self.unusable):
            self._precedence.pop(key, None)
        self._screened += eliminations
        # If no two blocks of any batch count, nothing is known of any candidate.
        self._batches_decide = self._batches_decide and not (self.ended_in_batches and self.leader is None)
        self._begin_finals()
        return eliminations

    def stop(self) -> bool:
        """End the batches because no time is left. Return whether the batches so far name a leader, so that the race
        has ended with them."""
        for screen in self._screens:
            screen.stop()
        return self.ended_in_batches

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
        # Batches that end with a failure have not shown who leads.
        self._batches_decide = self._batches_decide and (ended or bool(self.batches))
        if len(self._precedence) > 1:
            del self._precedence[key]
            self._begin_finals()
        else:
            self._batches_decide = False
            self._finals = Race(self._precedence)
            self._finals.withdraw(key)

    def _begin_finals(self) -> None:
        if self._finals is None and not self.batches and not self._batches_decide:
            # A candidate that is alone in its group was compared with nothing there.
            screened = [effects for screen in self._screens if len(effects := screen.effects_ms) > 1]
            self._finals = Race(self._precedence, fewest=self._fewest, screened=screened)
