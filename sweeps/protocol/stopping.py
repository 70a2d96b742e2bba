"""Which jobs of one device are still measured, and why the others have ended. Pure.

Rounds are added one at a time. A job ends when it is stable or, in a race, when it cannot win. The recorded rounds
always give the same decisions, so an interrupted run continues at the point where it stopped.
"""

import hashlib
from collections.abc import Collection, Iterable, Mapping
from dataclasses import replace
from types import MappingProxyType
from typing import TYPE_CHECKING

from sweeps.batches import BatchItem
from sweeps.label_kinds import disqualified
from sweeps.protocol.clock import figure_ns
from sweeps.protocol.end_messages import eliminated, ended_in_batches
from sweeps.protocol.lost_rounds import is_lost, missing_rounds
from sweeps.protocol.presets import STABLE_WITHIN, Protocol
from sweeps.protocol.sentinel_rules import in_race
from sweeps.records import Block
from sweeps.settled import Settled, SettledReason
from sweeps.stats import stable

if TYPE_CHECKING:
    from sweeps.protocol.front_race import FrontRace
    from sweeps.protocol.racing import Elimination
    from sweeps.protocol.screened_race import ScreenedRace

_NONE_COUNTS = "none of its blocks counts; see its trust labels"


class Contest:
    """The rounds of the timed jobs of one device. One class holds them, because batches, rounds and used-up time all
    end jobs by the state of the same race."""

    def __init__(
        self,
        names: Mapping[str, str],
        protocol: Protocol,
        precedence: Mapping[str, float],
        *,
        front: bool = False,
        groups: Mapping[str, str] = MappingProxyType({}),
        batches_decide: bool = False,
        noise: float | None = None,
    ) -> None:
        """Begin without any round. `names` maps job keys to names for people, `precedence` is as in `Race`. There is at
        least one job. `groups`: the groups of the jobs that a race for one winner may measure in batches, by job key.
        `batches_decide`: whether the device was shown to keep latency ratios in batches. `noise`: as `Settled.noise`.
        """
        self._names = names
        self._protocol = protocol
        self._medians: dict[str, list[float]] = {key: [] for key in names}
        self._blocks = dict.fromkeys(names, 0)
        self._lost = dict.fromkeys(names, 0)
        self._left = dict.fromkeys(names)
        self._noise = noise
        self._race: ScreenedRace | FrontRace | None = None
        self._screened: ScreenedRace | None = None
        if protocol.budget == "race":
            # Imported here, because numpy is slow to import and not needed to read stored results.
            from sweeps.protocol import front_race, screen, screened_race

            if front:
                self._race = front_race.FrontRace(precedence)
            else:
                deciding = screen.Deciding(protocol.rounds, protocol.last_round) if batches_decide else None
                self._screened = screened_race.ScreenedRace(precedence, groups, protocol.rounds, deciding=deciding)
                self._race = self._screened

    @property
    def contending(self) -> tuple[str, ...]:
        """Keys of the jobs that have not ended, in the order of `names`."""
        return tuple(self._left)

    @property
    def active(self) -> tuple[str, ...]:
        """Keys of the jobs to be measured in the next round. In a race, others may rest."""
        if self._race is None:
            return self.contending
        active = set(self._race.active)
        return tuple(key for key in self._left if key in active)

    @property
    def batches(self) -> tuple[tuple[str, ...], ...]:
        """The job keys of each batch to be measured next, before any block of `active`."""
        # No job is left once the device's time is used up.
        return () if self._screened is None or not self._left else self._screened.batches

    @property
    def brief(self) -> frozenset[str]:
        """The keys in `batches` that have short blocks, see `Screen.brief`."""
        return frozenset() if self._screened is None else self._screened.brief

    @property
    def race(self) -> "ScreenedRace | FrontRace | None":
        """The race; `None` if the protocol has no race."""
        return self._race

    def take(self, blocks: Iterable[Block]) -> list[Settled]:
        """Add the blocks of one round, at most one per job. Return the jobs that end now.

        Blocks of jobs that ended earlier are ignored.
        """
        medians: dict[str, float | None] = {}
        for block in (block for block in blocks if block.job_key in self._left):
            counts = not disqualified(self._labels(block))
            medians[block.job_key] = figure_ns(block.samples_ns) / 1e6 if counts else None
            self._lost[block.job_key] += is_lost(block)
        return self.count(medians)

    def count(self, round_: Mapping[str, float | None]) -> list[Settled]:
        """Add one round as `take` does, from the block medians (ms) of jobs that have not ended; `None`: the block does
        not count."""
        if not round_:
            return []
        for key in round_:
            self._blocks[key] += 1
        medians = {key: value for key, value in round_.items() if value is not None}
        for key, value in medians.items():
            self._medians[key].append(value)
        return self._ended(self._ended_by_race(medians) if self._race else self._ended_by_stability())

    def count_batch(self, *processes: Mapping[str, float | None], excluded: Collection[str] = ()) -> list[Settled]:
        """Add the block medians of one batch, as in `ScreenedRace.add_batch`. Return the jobs that end now."""
        if self._screened is None:
            return []
        left = [{key: value for key, value in medians.items() if key in self._left} for medians in processes]
        eliminations = self._screened.add_batch(*left, excluded=[key for key in excluded if key in self._left])
        put_aside = [key for key in self._screened.unusable if key in self._left]
        ended = [
            *map(self._settled, eliminations),
            *(self._end(key, "disqualified", _NONE_COUNTS) for key in put_aside),
        ]
        ended += self._ended_by_decision()
        return self._ended(_of_batches(ended, self._screened))

    def take_batch(self, *processes: Mapping[str, BatchItem], excluded: Collection[str] = ()) -> list[Settled]:
        """Add one batch as `count_batch` does, from the measured batch items of each process, by job key."""
        medians = [
            {
                key: None if disqualified(in_race(item.labels)) else figure_ns(item.samples_ns) / 1e6
                for key, item in items.items()
            }
            for items in processes
        ]
        return self.count_batch(*medians, excluded=excluded)

    @property
    def _batches(self) -> int:
        """The largest number of batches of any group."""
        return 0 if self._screened is None else self._screened.most_batches

    def _ended(self, settled: list[Settled]) -> list[Settled]:
        for end in settled:
            self._left.pop(end.job_key, None)
        return settled

    def _labels(self, block: Block) -> tuple[str, ...]:
        return block.labels if self._race is None else in_race(block.labels)

    def withdraw(self, key: str) -> None:
        """Remove a job that failed too often, or cannot be measured for another reason."""
        self._left.pop(key, None)
        if self._race and key in self._race.contending:
            self._race.withdraw(key)

    def expire(self) -> list[Settled]:
        """End all remaining jobs: the device's time is used up."""
        message = f"the {self._protocol.device_minutes:g} minutes of the device were used up before this was decided"
        if self._screened is not None and self._screened.stop():
            settled = self._ended_in_batches(message)
        else:
            message += "" if self._screened is None else _only_batches(self._screened)
            settled = [self._end(key, "out_of_time", message) for key in self._left]
        self._left.clear()
        return settled if self._screened is None else _of_batches(settled, self._screened)

    def _ended_by_stability(self) -> list[Settled]:
        protocol = self._protocol
        settled: list[Settled] = []
        for key in self._left:
            medians = self._medians[key]
            fixed = protocol.last_round == protocol.rounds
            if len(medians) >= protocol.rounds and (fixed or stable(medians, STABLE_WITHIN)):
                settled.append(self._end(key, "stable", f"its last rounds agree, after {len(medians)}"))
            elif self._blocks[key] >= protocol.last_round and not self._missing(key):
                settled.append(self._end(key, *_unstable(self._blocks[key], len(medians), protocol.rounds)))
        return settled

    def _missing(self, key: str) -> int:
        return missing_rounds(self._protocol, self._blocks[key], self._lost[key])

    def _ended_by_race(self, medians: Mapping[str, float]) -> list[Settled]:
        assert self._race is not None
        settled = [*map(self._settled, self._race.add_round(medians))]
        settled += self._unusable()
        return settled + self._ended_by_decision()

    def _ended_by_decision(self) -> list[Settled]:
        assert self._race is not None
        if self._screened is not None and self._screened.ended_in_batches:
            return self._ended_in_batches()
        if not self._race.active:
            return []
        left = self._race.contending
        fewest = min(self._blocks[key] for key in self._race.active)
        if self._race.decided and (fewest >= self._protocol.rounds or self._batches):
            return [self._end(key, "best", f"the race is decided: {self._race.why}") for key in left]
        if fewest >= self._protocol.last_round:
            # The race does not end earlier: a job that joined later still has rounds to run together with the others.
            return [
                self._end(key, "undecided", f"the race was not decided after {self._blocks[key]} rounds")
                for key in left
            ]
        return []

    def _ended_in_batches(self, out_of_time: str = "") -> list[Settled]:
        assert self._screened is not None
        names, left = self._names, self._left
        return ended_in_batches(self._screened, names, left, self._end, noise=self._noise, out_of_time=out_of_time)

    def _unusable(self) -> list[Settled]:
        """Remove and return the jobs with enough rounds but no block that counts: they would keep the race
        undecided."""
        assert self._race is not None
        keys = [
            key
            for key in self._race.contending
            if self._blocks[key] >= self._protocol.rounds and not self._medians[key]
        ]
        for key in keys:
            self._race.withdraw(key)
        return [self._end(key, "disqualified", _NONE_COUNTS) for key in keys]

    def _settled(self, elimination: "Elimination") -> Settled:
        return eliminated(elimination, self._names, self._blocks[elimination.key], self._protocol.question)

    def _end(self, key: str, reason: SettledReason, message: str) -> Settled:
        leads = self._race is not None and key == self._race.leader
        in_batches = self._screened is not None and self._screened.ended_in_batches
        # A single job was not selected among others. If batches decide, the leader has no latency yet.
        won = (reason in ("best", "undecided") or in_batches) and len(self._names) > 1
        return Settled(
            job_key=key,
            budget=self._protocol.budget,
            rounds=self._blocks[key],
            reason=reason,
            message=message,
            device_minutes=self._protocol.device_minutes,
            last_round=self._protocol.last_round if reason == "undecided" else 0,
            leads=leads,
            batches=self._batches,
            confirmations=self._protocol.confirmations if leads and won else 0,
            question=self._protocol.question,
        )


def _of_batches(settled: Iterable[Settled], race: "ScreenedRace") -> list[Settled]:
    """Return copies of the ends that also say whether batches decide."""
    return [replace(end, batches_decide=race.batches_decide) for end in settled]


def _only_batches(race: "ScreenedRace") -> str:
    """Return the text for batches that named no leader before the time ran out."""
    if not race.batches:
        return ""
    count = f"{race.most_batches} batch{'es' * (race.most_batches != 1)}"
    return f"; {count} had been measured, which give no time: raise device_minutes"


def _unstable(blocks: int, counted: int, fewest: int) -> tuple[SettledReason, str]:
    """Return the reason and message of a job that ends though its rounds do not agree. `counted`: how many of its
    blocks count."""
    if not counted:
        return "disqualified", _NONE_COUNTS
    if counted < fewest:
        return "unstable", f"only {counted} of its {blocks} blocks count; see its trust labels"
    return "unstable", f"its last 3 rounds do not agree after {blocks} rounds"


def shuffled_order(job_keys: Iterable[str], round: int, seed: int) -> list[str]:
    """Return the jobs of one round, shuffled by a hash of seed, round and key.

    The order does not depend on the order of `job_keys` or on the process. A job that is added later does not change
    the order of the others.
    """
    return sorted(job_keys, key=lambda key: hashlib.sha256(f"{seed}:{round}:{key}".encode()).digest())
