"""A ranking in short: one verdict for each device and model, with which an overview does without the ranking. Pure."""

import json
from collections.abc import Iterable, Sequence
from typing import Literal, NamedTuple

from sweeps.advice import RUN
from sweeps.ranking.values import DeviceRanking
from sweeps.results import ResultRow
from sweeps.trust import disqualified

State = Literal["winner", "tied", "provisional", "waiting", "none"]
"""`tied`: others are not told apart from the winner. `provisional`: it leads, and jobs are still waiting. `waiting`:
nothing may win yet, and jobs are waiting. `none`: nothing may win."""


class PlaceVerdict(NamedTuple):
    """What a ranking says of one device and model, under one set of conditions."""

    sweep: str
    device_id: str
    model: str
    part: int
    """From 0 on: results under other conditions are not compared, and have a verdict of their own."""
    device: str
    fingerprint: str
    preset: str
    state: State
    winner: str
    """The job's name; empty without a winner, as are the next three."""
    variant: str
    job_key: str
    build_key: str
    metric: str
    """The metric that the objective minimizes or maximizes."""
    value: float | None
    """The winner's."""
    latency_p50_ms: float | None
    latency_ci_low_ms: float | None
    latency_ci_high_ms: float | None
    equal: int
    """How many are shown to be equal to the winner."""
    unresolved: int
    """How many are not told apart from it."""
    reason: str
    """Why nothing won; otherwise empty."""
    ranked: int
    not_ranked: int
    finished: int
    """Jobs of the place that have ended, under any conditions; skipped combinations do not count."""
    failed: int
    """Of these, the jobs that failed."""
    untrusted: int
    """Of these, the measured ones with a trust label that disqualifies."""
    waiting: int
    """Jobs of the place that have not."""
    provisional: str = ""
    """Where nothing won: the job to take until something does; empty if there is none."""
    settle: str = ""
    """What would settle it, or a run for jobs that wait; empty with a winner."""
    name_here: str = ""
    """As `sweeps.results.ResultRow.name_here`: of the winner, or of the job to take until something wins."""
    setup: str = ""
    """The winner's `ResultRow.setup` as JSON: which build it is, and how it is run; empty without one."""

    @property
    def place(self) -> tuple[str, str, str]:
        """Sweep, device (or pool) and model."""
        return self.sweep, self.device_id, self.model

    @property
    def has_nothing(self) -> bool:
        """Whether the place only waits: no job has ended, and no combination was skipped."""
        return not (self.finished or self.ranked or self.not_ranked)

    def among(self, jobs: int) -> "PlaceVerdict":
        """The verdict where the place has so many jobs in all."""
        waiting = max(0, jobs - self.finished)
        if waiting:
            settle = "" if self.winner else RUN
            return self._replace(waiting=waiting, state="provisional" if self.winner else "waiting", settle=settle)
        return self._replace(waiting=0, state=_settled(self.winner, self.unresolved))


def verdicts_of(sweep: str, entries: Sequence[DeviceRanking], rows: Sequence[ResultRow]) -> list[PlaceVerdict]:
    """The verdicts of the entries of one place, in their order. `rows`: all of the place."""
    return [_verdict(sweep, number, entry, rows) for number, entry in enumerate(entries)]


def waiting_place(sweep: str, device_id: str, model: str, device: str, jobs: int) -> PlaceVerdict:
    """The verdict of a place without any result."""
    reason = "nothing was measured yet"
    return PlaceVerdict(
        *(sweep, device_id, model, 0, device, "", "", "waiting", "", "", "", "", ""),
        *(None, None, None, None, 0, 0, reason, 0, 0, 0, 0, 0, jobs),
    )


def overview_document(verdicts: Iterable[PlaceVerdict]) -> list[dict[str, object]]:
    """`summary` of `edgesweep rank --json`."""
    return [one._asdict() for one in verdicts]


def _verdict(sweep: str, part: int, entry: DeviceRanking, rows: Sequence[ResultRow]) -> PlaceVerdict:
    winner, found = entry.winner, entry.provisional
    key = winner.job_key if winner else found.job_key if found else ""
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
        provisional=found.name if found else "",
        settle=found.settle.timed_text if found else "",
        name_here=next((one.name_here for one in entry.ranking if one.job_key == key), ""),
        setup=json.dumps(won.setup) if won is not None else "",
    )


def _settled(winner: str, unresolved: int) -> State:
    """Where no job waits."""
    if not winner:
        return "none"
    return "tied" if unresolved else "winner"
