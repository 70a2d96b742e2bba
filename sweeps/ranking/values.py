"""The values of a ranking: `sweeps.ranking.rank` makes them; terminal, JSON and pages show them."""

from dataclasses import dataclass
from typing import Literal

from sweeps.advice import RUN
from sweeps.imported import Imported
from sweeps.ranking.amounts import ONLY_IN_BATCHES, amount, in_words
from sweeps.ranking.backends import BackendFigure
from sweeps.ranking.device_classes import ClassRanking
from sweeps.ranking.interval_scope import IntervalOf
from sweeps.ranking.provisional import Provisional
from sweeps.ranking.resolution import Resolution
from sweeps.ranking.ties import LATENCY, MadeOf, Settling
from sweeps.ranking.verdict import ConstraintResult, Verdict
from sweeps.ranking.why_first import why_first
from sweeps.results import ComparisonConditions
from sweeps.settled import Settled
from sweeps.stats import Estimate
from sweeps.text import duration
from sweeps.trust import TRUST, disqualified, said_of_winner

Tie = Literal["equal", "unresolved"]
"""How a candidate shares the first place. `equal`: shown to be within 2 % of the best. `unresolved`: neither told apart
from the best nor shown to be equal."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Candidate:
    """A measured variant. It can win only if it is ranked and its state is `pass`."""

    name: str
    name_here: str
    """As `sweeps.results.ResultRow.name_here`."""
    variant: str
    job_key: str
    build_key: str
    figures: dict[str, float | None]
    """Every name in `METRICS`, and the extra metrics that it has."""
    runner: str
    """Name and version of the program that timed it; empty if it was not timed."""
    executor: str
    """What the accuracy was computed by: a device's fingerprint or `reference:<backend>@<version>`."""
    emulated: bool
    """Whether a reference implementation gave its answers, and not the device."""
    trust: tuple[str, ...]
    constraints: tuple[ConstraintResult, ...]
    verdict: Verdict
    why: str
    """Empty if it passes."""
    tie: Tie | None = None
    """The winner is `equal` if others are equal to it, and otherwise has none."""
    ratio_to_winner: Estimate | None = None
    """Latency (p50) divided by the winner's, for every objective."""
    made_of: MadeOf | None = None
    """What that ratio is made of: as a rule it is paired by round, and no quotient of two figures over all rounds."""
    settling: Settling | None = None
    """How many more rounds would settle its tie in latency; `None` without such a tie."""
    interval_of: IntervalOf = ""
    """Which states of the device the interval of its latency is of, where it is the winner."""
    settled: Settled | None = None
    """Why its rounds ended; `None` if the number of rounds was fixed."""
    eliminated: str = ""
    """Why a race eliminated it, in words; empty if none did."""
    on_front: bool | None = None
    """Whether it is on the Pareto front of the objective and the front's metric; `None` if no front was asked for, or
    one of the two figures is unknown."""

    @property
    def timed(self) -> bool:
        return self.figures[LATENCY] is not None

    @property
    def only_in_batches(self) -> bool:
        """Whether it is left of a race that batches decided: its ratio to the winner is known, and no time."""
        return not self.timed and self.settled is not None and self.settled.ratio_high is not None

    @property
    def untimed(self) -> str:
        """What stands in place of a time that it has not."""
        return "in batches" if self.only_in_batches else "not timed"

    @property
    def place(self) -> str:
        """What stands in place of the number in the ranking: `1=` equal to the best, `1?` unresolved, or empty."""
        return {"equal": "1=", "unresolved": "1?", None: ""}[self.tie]

    @property
    def state(self) -> str:
        """The verdict, or `eliminated` if it passes but lost a race."""
        return "eliminated" if self.eliminated and self.verdict == "pass" else self.verdict

    @property
    def open_race(self) -> str:
        """Why its rounds ended before the race was decided; empty if the race was decided, or there was none."""
        ended = self.settled
        return ended.message if ended is not None and ended.reason in ("undecided", "out_of_time") else ""


@dataclass(frozen=True, slots=True, kw_only=True)
class NotRanked:
    """A variant without a measurement, and why."""

    name: str
    name_here: str
    variant: str
    outcome: str
    """`failed` or `skipped`."""
    reason: str
    next_step: str  # about a failure; empty of what was skipped


@dataclass(frozen=True, slots=True, kw_only=True)
class DeviceRanking:
    """Results of one model on one device under the same conditions."""

    device: str
    device_id: str
    fingerprint: str
    model: str
    conditions: ComparisonConditions
    metric: str
    """The metric that the objective minimizes or maximizes."""
    front: str | None
    """The other metric of the Pareto front; `None` if no front was asked for."""
    winner: Candidate | None
    no_winner_reason: str
    """Empty if there is a winner."""
    provisional: Provisional | None
    """What to take until something wins, and what would settle it; `None` if there is a winner."""
    led: bool
    """Whether the winner is the leader of a decided race, and wins as that."""
    tied: tuple[Candidate, ...]
    """The candidates that share the first place with the winner, without the winner: the equal ones first."""
    ranking: tuple[Candidate, ...]
    """In this order: winner, equal to it, unresolved beside it, others that pass, eliminated, constraint unresolved,
    constraint failed, disqualified."""
    checked: tuple[Candidate, ...]
    """Candidates without a latency if the objective needs one: by verdict, then the most accurate first."""
    not_ranked: tuple[NotRanked, ...]
    device_seconds: float
    """Device time of everything that was measured here, with batches and without waiting."""
    batch_seconds: float
    """The part of it in batches; 0 where that was not recorded."""
    timed_seconds: float
    """The part of it in timed iterations; 0 where that was not recorded."""
    waited_seconds: float
    """Time spent waiting for the gate."""
    push_seconds: float
    """Time spent sending files for blocks; 0 where that was not recorded."""
    accuracy_seconds: float
    """Time of the accuracy passes, with the files sent for them; 0 where that was not recorded."""
    full_seconds: float
    """A lower bound of the device time with the preset `full`, without waiting."""
    better_disqualified: tuple[Candidate, ...] = ()
    """Those with a better estimate than the winner's that its trust labels keep from winning, the best first."""
    resolution: Resolution | None = None
    """What its rounds can tell apart; `None` where a race decides, or too few blocks show it."""
    alarm: str = ""
    """How processes of their own contradict the batches that decided the race, in words; otherwise empty."""
    imported: tuple[Imported, ...] = ()
    """Figures of hand-run tools for this model on this device, under any conditions: not ranked."""

    @property
    def equal(self) -> tuple[Candidate, ...]:
        """Those in `tied` that are shown to be within 2 % of the best."""
        return tuple(candidate for candidate in self.tied if candidate.tie == "equal")

    @property
    def unresolved(self) -> tuple[Candidate, ...]:
        """Those in `tied` that are only not told apart from the best."""
        return tuple(candidate for candidate in self.tied if candidate.tie == "unresolved")

    @property
    def winner_reason(self) -> str:
        """Why the winner is it, in words; empty without one."""
        if self.winner is None:
            return ""
        kept = [
            f"{check.metric}: {amount(self.winner.figures, check.metric)}, {check.bound}"
            for check in self.winner.constraints
        ]
        return "; ".join([why_first(self, self.winner), *kept, *said_of_winner(self.winner.trust)])

    @property
    def better_disqualified_text(self) -> str:
        """That something better was measured and may not win, for the first lines; empty if there is nothing."""
        if not self.better_disqualified:
            return ""
        best, *others = self.better_disqualified
        reasons = "; ".join(TRUST[label].title for label in disqualified(best.trust) if label in TRUST)
        more = f", and {len(others)} more" if others else ""
        return f"{best.variant}, {in_words(best.figures, self.metric)} ({reasons or best.why}){more}"

    @property
    def libraries_differ(self) -> bool:
        """Whether apps need runtime libraries of different sizes for its candidates."""
        return len({candidate.figures.get("runtime_mb") for candidate in self.ranking} - {None}) > 1

    @property
    def rounds_to_settle(self) -> int | None:
        """More rounds needed to settle every tie in latency that rounds can settle; `None` if there is no such tie."""
        return max((tie.settling.rounds or 0 for tie in self.tied if tie.settling), default=0) or None

    @property
    def settle_command(self) -> str:
        """The command that measures only the tied candidates again; empty if more rounds would settle nothing."""
        rounds = self.rounds_to_settle
        return "" if rounds is None else f"{RUN} --settle {rounds}"

    @property
    def reasons(self) -> dict[str, list[Candidate]]:
        """Each reason why candidates cannot win, or why the race is not decided, with its candidates."""
        found: dict[str, list[Candidate]] = {}
        for candidate in self.ranking:
            said = [f"{candidate.state}: {why}" for why in (candidate.why, candidate.eliminated) if why]
            if candidate.only_in_batches:
                said.append(ONLY_IN_BATCHES)
            for reason in filter(None, (*said, candidate.open_race)):
                found.setdefault(reason, []).append(candidate)
        return found

    @property
    def cost_text(self) -> str:
        """The device time of the measurements, for people; empty if it was not recorded."""
        if not self.device_seconds:
            return ""
        gone = sum(bool(candidate.eliminated) for candidate in self.ranking)
        beside = self.push_seconds + self.accuracy_seconds
        parts = {"timed iterations": self.timed_seconds, "pushes and accuracy passes": beside}
        shares = ", ".join(
            f"{100 * seconds / (self.device_seconds + beside):.0f} % {name}"
            for name, seconds in parts.items()
            if seconds
        )
        text = f"device time: {duration(self.device_seconds + beside)}{f' ({shares})' if shares else ''}, "
        text += f"and {duration(self.waited_seconds)} of waiting"
        if any(candidate.settled is not None and candidate.settled.batches for candidate in self.ranking):
            # What the preset full would have taken is estimated from blocks, and many have none.
            return text if self.batch_seconds else f"{text}; and batches, whose time edgesweep status shows"
        if not gone:
            return text
        return (
            f"{text}; {gone} of {len(self.ranking)} left the race early: "
            f"without elimination (preset full) it would have taken {duration(self.full_seconds + beside)} or more"
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Ranking:
    """A sweep's results: one entry per device, model and set of conditions."""

    sweep: str
    objective: str
    """For people: `smallest latency_p50_ms with accuracy_drop_points at most 1 points`."""
    devices: tuple[DeviceRanking, ...]
    classes: tuple[ClassRanking, ...] = ()
    """One entry per class of which several units were measured alike; empty if the objective is not latency."""
    imported: tuple[Imported, ...] = ()
    """Figures of hand-run tools for devices and models without an entry in `devices`."""
    backends: BackendFigure | None = None
    """NNAPI against the CPU; `None` unless the sweep has both."""
