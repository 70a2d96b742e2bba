"""A ranking in short: one verdict for each device and model, so that an overview needs no full ranking. Pure."""

import json
from collections.abc import Iterable, Sequence
from typing import Literal, NamedTuple

from sweeps.command_hints import RUN
from sweeps.label_kinds import disqualified
from sweeps.ranking.values import DeviceRanking
from sweeps.results import ResultRow

State = Literal["winner", "tied", "provisional", "waiting", "none"]
"""`tied` if others are not told apart from the winner; `provisional` if there is a winner while jobs are still waiting;
`waiting` if nothing may win yet and jobs are waiting; `none` if nothing may win."""


class PlaceVerdict(NamedTuple):
    """The verdict of a ranking on one device and model, under one set of conditions."""

    sweep: str
    device_id: str
    model: str
    part: int
    """The number of the part, from 0 on: results under other conditions are not compared, and have a separate
    verdict."""
    device: str
    fingerprint: str
    preset: str
    state: State
    winner: str
    """The name of the winning job; empty without a winner, as are the next three fields."""
    variant: str
    job_key: str
    build_key: str
    metric: str
    """The metric that the objective minimizes or maximizes."""
    value: float | None
    """The winner's value of the metric."""
    latency_p50_ms: float | None
    latency_ci_low_ms: float | None
    latency_ci_high_ms: float | None
    equal: int
    """The number of variants shown to be equal to the winner."""
    unresolved: int
    """The number of variants not told apart from the winner."""
    reason: str
    """The reason why nothing won; otherwise empty."""
    ranked: int
    not_ranked: int
    finished: int
    """The number of the place's jobs that have ended, under any conditions; skipped combinations do not count."""
    failed: int
    """The number of jobs of `finished` that failed."""
    untrusted: int
    """The number of jobs of `finished` that were measured with a disqualifying trust label."""
    waiting: int
    """The number of the place's jobs that have not ended."""
    provisional: str = ""
    """The job to use until a job wins; empty if there is none, or a winner."""
    settle: str = ""
    """The step that would settle the place, or a run if jobs are waiting; empty with a winner."""
    name_here: str = ""
    """The name, as `sweeps.results.ResultRow.name_here`, of the winner, or of the job to use until a job wins."""
    setup: str = ""
    """The winner's `ResultRow.setup` as JSON: the build and how it is run; empty without a winner."""

    @property
    def place(self) -> tuple[str, str, str]:
        """The sweep, device (or pool) and model."""
        return self.sweep, self.device_id, self.model

    @property
    def has_nothing(self) -> bool:
        """Tell whether the place only waits: no job has ended, and no combination was skipped."""
        return not (self.finished or self.ranked or self.not_ranked)

    def among(self, jobs: int) -> "PlaceVerdict":
        """Return the verdict of the place if it has `jobs` jobs in all."""
        waiting = max(0, jobs - self.finished)
        if waiting:
            settle = "" if self.winner else RUN
            return self._replace(waiting=waiting, state="provisional" if self.winner else "waiting", settle=settle)
        return self._replace(waiting=0, state=_settled(self.winner, self.unresolved))


def verdicts_of(sweep: str, entries: Sequence[DeviceRanking], rows: Sequence[ResultRow]) -> list[PlaceVerdict]:
    """Return the verdicts of the entries of one place, in their order. `rows`: all rows of the place."""
    return [_verdict(sweep, number, entry, rows) for number, entry in enumerate(entries)]


def waiting_place(sweep: str, device_id: str, model: str, device: str, jobs: int) -> PlaceVerdict:
    """Return the verdict of a place without any result."""
    reason = "nothing was measured yet"
    return PlaceVerdict(
        *(sweep, device_id, model, 0, device, "", "", "waiting", "", "", "", "", ""),
        *(None, None, None, None, 0, 0, reason, 0, 0, 0, 0, 0, jobs),
    )


def overview_document(verdicts: Iterable[PlaceVerdict]) -> list[dict[str, object]]:
    """Return the entry `summary` of `edgesweep rank --json`."""
    return [verdict._asdict() for verdict in verdicts]


def _verdict(sweep: str, part: int, entry: DeviceRanking, rows: Sequence[ResultRow]) -> PlaceVerdict:
    winner, choice = entry.winner, entry.provisional
    key = winner.job_key if winner else choice.job_key if choice else ""
    figures = winner.figures if winner else {}
    won = next((row for row in rows if winner is not None and row.job_key == winner.job_key), None)
    return PlaceVerdict(
        sweep=sweep,
        device_id=entry.device_id,
        model=entry.model,
        part=part,
        device=entry.device,
        fingerprint=entry.fingerprint,
        preset=entry.conditions.preset,
        state=_settled(winner.name if winner else "", len(entry.unresolved)),
        winner=winner.name if winner else "",
        variant=winner.variant if winner else "",
        job_key=winner.job_key if winner else "",
        build_key=winner.build_key if winner else "",
        metric=entry.metric,
        value=figures.get(entry.metric),
        latency_p50_ms=figures.get("latency_p50_ms"),
        latency_ci_low_ms=figures.get("latency_ci_low_ms"),
        latency_ci_high_ms=figures.get("latency_ci_high_ms"),
        equal=len(entry.equal),
        unresolved=len(entry.unresolved),
        reason=entry.no_winner_reason,
        ranked=len(entry.ranking),
        not_ranked=len(entry.not_ranked),
        finished=sum(row.outcome != "skipped" for row in rows),
        failed=sum(row.outcome == "failed" for row in rows),
        untrusted=sum(row.outcome == "measured" and bool(disqualified(row.trust)) for row in rows),
        waiting=0,
        provisional=choice.name if choice else "",
        settle=choice.settle.timed_text if choice else "",
        name_here=next((candidate.name_here for candidate in entry.ranking if candidate.job_key == key), ""),
        setup=json.dumps(won.setup) if won is not None else "",
    )


def _settled(winner: str, unresolved: int) -> State:
    """Return the state of a place in which no job is waiting."""
    if not winner:
        return "none"
    return "tied" if unresolved else "winner"
