"""The values of a ranking: what `sweeps.ranking.rank` makes, and what terminal, JSON and pages show."""

from dataclasses import dataclass

from sweeps.imported import Imported
from sweeps.ranking.backends import BackendFigure
from sweeps.ranking.device_classes import ClassRanking
from sweeps.ranking.ties import LATENCY, Settling
from sweeps.ranking.verdict import ConstraintResult, Verdict
from sweeps.records import Settled
from sweeps.results import ComparisonConditions
from sweeps.stats import Estimate


@dataclass(frozen=True, slots=True, kw_only=True)
class Candidate:
    """A measured variant. Only one that is ranked, and whose state is `pass`, can win."""

    name: str
    variant: str
    job_key: str
    build_key: str
    figures: dict[str, float | None]
    """Every name in `METRICS`, and the extra metrics that it has."""
    runner: str
    """Name and version of the program that timed it; empty where none did."""
    executor: str
    """What computed the accuracy: a device's fingerprint or `reference:<backend>@<version>`."""
    emulated: bool
    """Its answers are a reference implementation's, not the device's."""
    trust: tuple[str, ...]
    constraints: tuple[ConstraintResult, ...]
    verdict: Verdict
    why: str
    """Empty where it passes."""
    tied: bool = False
    """Shares the first place with others; of the winner too."""
    ratio_to_winner: Estimate | None = None
    """Latency (p50) as a multiple of the winner's, paired by round; whatever the objective is."""
    settling: Settling | None = None
    """Of one that is tied with the winner in latency: what would settle it."""
    settled: Settled | None = None
    """Why its rounds ended, where that was decided by more than their number."""
    eliminated: str = ""
    """What a race decided against it, in words; empty where it did not."""
    on_front: bool | None = None
    """Whether no other beats it in both the objective and the front's metric; `None` where that is not asked, or
    one of them is not known."""

    @property
    def timed(self) -> bool:
        return self.figures[LATENCY] is not None

    @property
    def state(self) -> str:
        """The verdict, or `eliminated` where that is why it cannot win."""
        return "eliminated" if self.eliminated and self.verdict == "pass" else self.verdict

    @property
    def open_race(self) -> str:
        """Why its rounds ended before the race was decided; empty where it was, or there was none."""
        ended = self.settled
        return ended.message if ended is not None and ended.reason in ("undecided", "out_of_time") else ""


@dataclass(frozen=True, slots=True, kw_only=True)
class NotRanked:
    """A variant without a measurement, and why."""

    name: str
    variant: str
    outcome: str
    """`failed` or `skipped`."""
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class DeviceRanking:
    """Results of one model on one device under like conditions."""

    device: str
    device_id: str
    fingerprint: str
    model: str
    conditions: ComparisonConditions
    metric: str
    """What the objective looks at."""
    front: str | None
    """The other metric of the Pareto front, where one was asked for."""
    winner: Candidate | None
    no_winner_reason: str
    """Empty where there is a winner."""
    tied: tuple[Candidate, ...]
    """Those that share the first place with the winner, without it."""
    ranking: tuple[Candidate, ...]
    """The winner, those tied with it, others that pass, eliminated, unresolved, failed constraints, disqualified."""
    checked: tuple[Candidate, ...]
    """Candidates without a time, where the objective needs one: by their verdicts, then the most accurate first."""
    not_ranked: tuple[NotRanked, ...]
    device_seconds: float
    """On the device's clock, over everything that was measured here; waits are not counted."""
    waited_seconds: float
    """For the gate."""
    full_seconds: float
    """What the preset `full` would have taken for all of it at least; waits are not counted."""
    imported: tuple[Imported, ...] = ()
    """Figures of hand-run tools for this model on this device, under whatever conditions: never in the ranking."""

    @property
    def rounds_to_settle(self) -> int | None:
        """How many more rounds would settle every tie in latency that rounds can settle; `None` where there is none."""
        return max((tie.settling.rounds or 0 for tie in self.tied if tie.settling), default=0) or None

    @property
    def settle_command(self) -> str:
        """Measures just the tied ones; empty where no rounds are known to settle anything."""
        rounds = self.rounds_to_settle
        return "" if rounds is None else f"edgesweep run SWEEP.yaml --settle {rounds}"

    @property
    def reasons(self) -> dict[str, list[Candidate]]:
        """Why candidates cannot win, or why the race is not decided. Each reason with its candidates."""
        found: dict[str, list[Candidate]] = {}
        for candidate in self.ranking:
            said = [f"{candidate.state}: {why}" for why in (candidate.why, candidate.eliminated) if why]
            for reason in filter(None, (*said, candidate.open_race)):
                found.setdefault(reason, []).append(candidate)
        return found

    @property
    def cost_text(self) -> str:
        """What measuring cost, for people; empty where it was not recorded."""
        if not self.device_seconds:
            return ""
        gone = sum(bool(candidate.eliminated) for candidate in self.ranking)
        text = f"device time: {duration(self.device_seconds)}, and {duration(self.waited_seconds)} of waiting"
        if not gone:
            return text
        return (
            f"{text}; {gone} of {len(self.ranking)} left the race early: "
            f"to the end (preset full) it would have taken {duration(self.full_seconds)} or more"
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Ranking:
    """A sweep's results: one entry per device, model and set of conditions."""

    sweep: str
    objective: str
    """For people: `smallest latency_p50_ms with accuracy_drop_points at most 1 points`."""
    devices: tuple[DeviceRanking, ...]
    classes: tuple[ClassRanking, ...] = ()
    """Where several units of one class were measured alike, and latency is the objective."""
    imported: tuple[Imported, ...] = ()
    """Figures of hand-run tools for devices and models without an entry in `devices`."""
    backends: BackendFigure | None = None
    """NNAPI against the CPU, where the sweep has both."""


def duration(seconds: float) -> str:
    """`40 s`, `3 min`, `2.5 h`: an estimate needs no more digits."""
    if seconds < 90:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 5400 else f"{seconds / 3600:.1f} h"
