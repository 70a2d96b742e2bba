"""The values of a ranking: `sweeps.ranking.rank` computes them; terminal, JSON and pages show them."""

from dataclasses import dataclass
from typing import Literal

from sweeps.command_hints import RUN
from sweeps.imported import Imported
from sweeps.label_kinds import TRUST, disqualified, said_of_winner
from sweeps.ranking.amounts import ONLY_IN_BATCHES, amount, in_words
from sweeps.ranking.device_classes import ClassRanking
from sweeps.ranking.eligibility import ConstraintResult, Verdict
from sweeps.ranking.interval_scope import IntervalOf
from sweeps.ranking.nnapi_gain import BackendFigure
from sweeps.ranking.provisional import Provisional
from sweeps.ranking.resolution import Resolution
from sweeps.ranking.ties import LATENCY, MadeOf, Settling
from sweeps.ranking.why_first import why_first
from sweeps.results import ComparisonConditions
from sweeps.settled import Settled
from sweeps.stats import Estimate
from sweeps.text import duration

Tie = Literal["equal", "unresolved"]
"""How a candidate shares the first place: `equal` if it is shown to be within 2 % of the best, `unresolved` if it is
neither told apart from the best nor shown to be equal."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Candidate:
    """A measured variant. It can win only if it is ranked and its state is `pass`."""

    name: str
    name_here: str
    """The name as `sweeps.results.ResultRow.name_here`."""
    variant: str
    job_key: str
    build_key: str
    figures: dict[str, float | None]
    """The figures of all names in `METRICS`, and the extra metrics that the variant has."""
    runner: str
    """The name and version of the program that timed the variant; empty if it was not timed."""
    executor: str
    """The executor that computed the accuracy: a device's fingerprint or `reference:<backend>@<version>`."""
    emulated: bool
    """Whether a reference implementation, and not the device, computed the variant's answers."""
    trust: tuple[str, ...]
    constraints: tuple[ConstraintResult, ...]
    verdict: Verdict
    why: str
    """The reason of the verdict; empty if the variant passes."""
    tie: Tie | None = None
    """The winner's tie is `equal` if others are equal to it, and otherwise `None`."""
    ratio_to_winner: Estimate | None = None
    """The latency (p50) divided by the winner's, for every objective."""
    made_of: MadeOf | None = None
    """The source of `ratio_to_winner`: usually it is paired by round, and not the quotient of two figures over all
    rounds."""
    settling: Settling | None = None
    """The number of further rounds that would settle the tie in latency; `None` without such a tie."""
    interval_of: IntervalOf = ""
    """The states of the device that the interval of the winner's latency covers; empty for other candidates."""
    settled: Settled | None = None
    """The reason why the variant's rounds ended; `None` if the number of rounds was fixed."""
    eliminated: str = ""
    """The reason why a race eliminated the variant, as text; empty if none did."""
    on_front: bool | None = None
    """Whether the candidate is on the Pareto front of the objective and the front's metric; `None` if the objective has
    no front, or one of the two figures is unknown."""

    @property
    def timed(self) -> bool:
        return self.figures[LATENCY] is not None

    @property
    def only_in_batches(self) -> bool:
        """Tell whether a race that batches decided left only a ratio to the winner, and no latency."""
        return not self.timed and self.settled is not None and self.settled.ratio_high is not None

    @property
    def untimed(self) -> str:
        """The text shown instead of a missing latency."""
        return "in batches" if self.only_in_batches else "not timed"

    @property
    def place(self) -> str:
        """The text shown instead of the number in the ranking: `1=` equal to the best, `1?` unresolved, or empty."""
        return {"equal": "1=", "unresolved": "1?", None: ""}[self.tie]

    @property
    def state(self) -> str:
        """The verdict, or `eliminated` if it passes but lost a race."""
        return "eliminated" if self.eliminated and self.verdict == "pass" else self.verdict

    @property
    def open_race(self) -> str:
        """The reason why the rounds ended before the race was decided; empty if the race was decided, or there was
        none."""
        ended = self.settled
        return ended.message if ended is not None and ended.reason in ("undecided", "out_of_time") else ""


@dataclass(frozen=True, slots=True, kw_only=True)
class NotRanked:
    """A variant without a measurement, and the reason."""

    name: str
    name_here: str
    variant: str
    outcome: str
    """`failed` or `skipped`."""
    reason: str
    next_step: str  # For a failure; empty for a skipped variant.


@dataclass(frozen=True, slots=True, kw_only=True)
class DeviceRanking:
    """The ranking of the results of one model on one device under the same conditions."""

    device: str
    device_id: str
    fingerprint: str
    model: str
    conditions: ComparisonConditions
    metric: str
    """The metric that the objective minimizes or maximizes."""
    front: str | None
    """The other metric of the Pareto front; `None` if the objective has no front."""
    winner: Candidate | None
    no_winner_reason: str
    """The reason why there is no winner; empty if there is one."""
    provisional: Provisional | None
    """The job to use until a job wins, and the step that would settle it; `None` if there is a winner."""
    led: bool
    """Whether the winner won as the leader of a decided race."""
    tied: tuple[Candidate, ...]
    """The candidates that share the first place with the winner, without the winner: the equal ones first."""
    ranking: tuple[Candidate, ...]
    """All ranked candidates in this order: winner, equal to it, not told apart from it, others that pass, eliminated,
    constraint unresolved, constraint failed, disqualified."""
    checked: tuple[Candidate, ...]
    """The candidates without a latency if the objective needs one: by verdict, then the most accurate first."""
    not_ranked: tuple[NotRanked, ...]
    device_seconds: float
    """The device time of everything that was measured for this entry, with batches and without waiting."""
    batch_seconds: float
    """The part of the device time in batches; 0 if not recorded."""
    timed_seconds: float
    """The part of the device time in timed iterations; 0 if not recorded."""
    waited_seconds: float
    """The time spent waiting for the gate."""
    push_seconds: float
    """The time spent sending files for blocks; 0 if not recorded."""
    accuracy_seconds: float
    """The time of the accuracy passes, with the files sent for them; 0 if not recorded."""
    full_seconds: float
    """A lower bound of the device time with the preset `full`, without waiting."""
    better_disqualified: tuple[Candidate, ...] = ()
    """The candidates with a better estimate than the winner's that may not win because of their trust labels, the best
    first."""
    resolution: Resolution | None = None
    """The smallest difference that the rounds can tell apart; `None` if a race decides, or too few blocks show it."""
    alarm: str = ""
    """How blocks in separate processes contradict the batches that decided the race, as text; otherwise empty."""
    imported: tuple[Imported, ...] = ()
    """The figures of hand-run tools for this model on this device, under any conditions: not ranked."""

    @property
    def equal(self) -> tuple[Candidate, ...]:
        """The candidates in `tied` that are shown to be within 2 % of the best."""
        return tuple(candidate for candidate in self.tied if candidate.tie == "equal")

    @property
    def unresolved(self) -> tuple[Candidate, ...]:
        """The candidates in `tied` that are not told apart from the best, but not shown to be equal."""
        return tuple(candidate for candidate in self.tied if candidate.tie == "unresolved")

    @property
    def winner_reason(self) -> str:
        """The reason why the winner wins, as text; empty without a winner."""
        if self.winner is None:
            return ""
        bounds = [
            f"{check.metric}: {amount(self.winner.figures, check.metric)}, {check.bound}"
            for check in self.winner.constraints
        ]
        return "; ".join([why_first(self, self.winner), *bounds, *said_of_winner(self.winner.trust)])

    @property
    def better_disqualified_text(self) -> str:
        """The text, for the first lines of a report, that something better was measured but may not win; empty if
        nothing was."""
        if not self.better_disqualified:
            return ""
        best, *rest = self.better_disqualified
        reasons = "; ".join(TRUST[label].title for label in disqualified(best.trust) if label in TRUST)
        more = f", and {len(rest)} more" if rest else ""
        return f"{best.variant}, {in_words(best.figures, self.metric)} ({reasons or best.why}){more}"

    @property
    def libraries_differ(self) -> bool:
        """Tell whether apps need runtime libraries of different sizes for the candidates."""
        return len({candidate.figures.get("runtime_mb") for candidate in self.ranking} - {None}) > 1

    @property
    def rounds_to_settle(self) -> int | None:
        """The number of further rounds that settle every tie in latency that rounds can settle; `None` if there is no
        such tie."""
        return max((tie.settling.rounds or 0 for tie in self.tied if tie.settling), default=0) or None

    @property
    def settle_command(self) -> str:
        """The command that measures only the tied candidates again; empty if more rounds would settle nothing."""
        rounds = self.rounds_to_settle
        return "" if rounds is None else f"{RUN} --settle {rounds}"

    @property
    def reasons(self) -> dict[str, list[Candidate]]:
        """Each reason why candidates cannot win, or why the race is not decided, with its candidates."""
        by_reason: dict[str, list[Candidate]] = {}
        for candidate in self.ranking:
            reasons = [f"{candidate.state}: {why}" for why in (candidate.why, candidate.eliminated) if why]
            if candidate.only_in_batches:
                reasons.append(ONLY_IN_BATCHES)
            for reason in filter(None, (*reasons, candidate.open_race)):
                by_reason.setdefault(reason, []).append(candidate)
        return by_reason

    @property
    def cost_text(self) -> str:
        """The device time of the measurements, for people; empty if it was not recorded."""
        if not self.device_seconds:
            return ""
        eliminated = sum(bool(candidate.eliminated) for candidate in self.ranking)
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
            # The time of the preset full is estimated from blocks, and many candidates have none.
            return text if self.batch_seconds else f"{text}; and batches, whose time edgesweep status shows"
        if not eliminated:
            return text
        return (
            f"{text}; {eliminated} of {len(self.ranking)} left the race early: "
            f"without elimination (preset full) it would have taken {duration(self.full_seconds + beside)} or more"
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Ranking:
    """The results of a sweep: one entry per device, model and set of conditions."""

    sweep: str
    objective: str
    """The objective for people: `smallest latency_p50_ms with accuracy_drop_points at most 1 points`."""
    devices: tuple[DeviceRanking, ...]
    classes: tuple[ClassRanking, ...] = ()
    """One entry per class of which several units were measured alike; empty if the objective is not latency."""
    imported: tuple[Imported, ...] = ()
    """The figures of hand-run tools for devices and models without an entry in `devices`."""
    backends: BackendFigure | None = None
    """The comparison of NNAPI with the CPU; `None` unless the sweep has both."""
