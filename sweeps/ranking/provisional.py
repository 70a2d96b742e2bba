"""The best choice for now where nothing may win, and the one thing to do that would settle it. Pure: rows in."""

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

from sweeps.ranking.accuracy_bound import side
from sweeps.ranking.verdict import DROP, LABELLED, ConstraintResult, Judgement, counts_behind, interval, put_aside
from sweeps.results import ResultRow
from sweeps.spec import catalog
from sweeps.spec.objective import ObjectiveSpec
from sweeps.text import duration
from sweeps.trust import disqualified

RUN = "edgesweep run SWEEP.yaml"
_PASSING = frozenset({"throttled", "gate_timeout", "device_changed"})
"""Disqualifying labels of a moment: measured again, a build may be without them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Settle:
    """The one thing to do: a line of the sweep file to change, if `field` is not empty, and then a command."""

    command: str
    field: str = ""
    """A path in the sweep file: `data.evaluation.images`."""
    value: str = ""
    """What to write there."""
    seconds: float | None = None
    """How long the command takes at least, from what such work took so far; `None` if that is not known."""
    note: str = ""
    """What to see to before."""

    @property
    def text(self) -> str:
        """For people, without the time."""
        first = f"{self.note}, then " if self.note else ""
        return first + (f"write {self.field}: {self.value}, and run {self.command}" if self.field else self.command)

    @property
    def timed_text(self) -> str:
        """With the time, where that is known."""
        if self.seconds is None:
            return self.text
        return f"{self.text} ({f'about {duration(self.seconds)}' if self.seconds else 'it measures nothing again'})"


@dataclass(frozen=True, slots=True, kw_only=True)
class Provisional:
    """What to take until something wins."""

    name: str
    """Empty if every build is shown to break a constraint, or can never win."""
    job_key: str
    why: str
    """Why it is not the winner."""
    settle: Settle


def provisional(
    rows: Sequence[ResultRow],
    judgements: Mapping[str, Judgement],
    eliminated: Mapping[str, str],
    objective: ObjectiveSpec,
) -> Provisional | None:
    """`rows`: with the same conditions, none of which may win; best first. `eliminated`: by job key, why, or empty.
    `None` without rows.

    First come builds that lost a race to one that may not win; then those of which a constraint is open; then those
    whose time was disqualified for the state that the device had. Among these, estimates that keep all bounds go first.
    """
    classes: tuple[Callable[[ResultRow], bool], ...] = (
        lambda row: judgements[row.job_key].verdict == "pass",
        lambda row: judgements[row.job_key].verdict == "unresolved",
        lambda row: _may_be_sound(row) and not _shown_to_break(judgements[row.job_key]),
    )
    for belongs in classes:
        if found := [row for row in rows if belongs(row)]:
            best = min(found, key=lambda row: not _keeps(row, objective))  # the first of the best
            judgement = judgements[best.job_key]
            return Provisional(
                name=best.name,
                job_key=best.job_key,
                why=judgement.why or eliminated[best.job_key],
                settle=_settle(best, judgement, rows),
            )
    return _none_possible(rows, judgements)


def _may_be_sound(row: ResultRow) -> bool:
    labels = disqualified(row.trust)
    return not catalog.unshippable(row.runtime) and set(labels) <= _PASSING and bool(labels or put_aside(row))


def _shown_to_break(judgement: Judgement) -> bool:
    return any(check.result == "fail" for check in judgement.constraints)


def _keeps(row: ResultRow, objective: ObjectiveSpec) -> bool:
    """Whether its estimates keep all bounds."""
    for bound in objective.constraints:
        value = row.figure(bound.metric)
        least = -math.inf if bound.at_least is None else bound.at_least
        most = math.inf if bound.at_most is None else bound.at_most
        if value is None or not least <= value <= most:
            return False
    return True


def _settle(row: ResultRow, judgement: Judgement, rows: Sequence[ResultRow]) -> Settle:
    if judgement.verdict == "pass":
        return Settle(command=RUN)
    if judgement.verdict == "disqualified":
        again = [one for one in rows if _may_be_sound(one)]
        seconds = _sum(one.device_seconds + one.batch_seconds for one in again)
        return Settle(command=f"{RUN} --retry-failed", seconds=seconds, note="remove the cause")
    for check in judgement.constraints:
        if check.result == "unresolved":
            return _settle_constraint(row, check, rows)
    return Settle(command=f"{RUN} --retry-failed")


def _settle_constraint(row: ResultRow, check: ConstraintResult, rows: Sequence[ResultRow]) -> Settle:
    needed = check.images_needed
    if needed is not None and needed.more is not None:
        images = row.images + needed.more
        passes = {one.build_key: one.accuracy_seconds for one in rows}
        seconds = _sum(passes.values())
        return Settle(
            command=RUN,
            field="data.evaluation.images",
            value=str(images),
            seconds=seconds and seconds * images / row.images,
            note=f"have {images:,} images to evaluate with",
        )
    if check.metric in LABELLED and row.figure(check.metric) is None:
        return Settle(command=RUN, field="data.evaluation", value="{source: folder, path: A_FOLDER_OF_CLASSES}")
    if check.metric in ("latency_p50_ms", "latency_p90_ms", "latency_p99_ms"):
        rounds = max(2 * row.rounds, 3)
        seconds = _sum(one.device_seconds / one.rounds for one in rows if one.rounds)
        more = seconds and seconds * (rounds - row.rounds)
        return Settle(command=RUN, field="protocol.rounds", value=str(rounds), seconds=more)
    return _loosened(row, check)


def _none_possible(rows: Sequence[ResultRow], judgements: Mapping[str, Judgement]) -> Provisional | None:
    """Every build is shown to break a constraint, or can never win: the bound that the nearest one would keep."""
    for row in rows:
        judgement = judgements[row.job_key]
        broken = [check for check in judgement.constraints if check.result == "fail"]
        if judgement.verdict == "fail" and broken:
            return Provisional(name="", job_key="", why=judgement.why, settle=_loosened(row, broken[0]))
    if not rows:
        return None
    settle = Settle(command=RUN, note="vary more axes under grids")
    return Provisional(name="", job_key="", why=judgements[rows[0].job_key].why, settle=settle)


def _loosened(row: ResultRow, check: ConstraintResult) -> Settle:
    """A bound that the row would keep. Nothing is measured again."""
    at = "at_most" if check.bound.startswith("at most") else "at_least"
    value = _kept_bound(row, check.metric, at)
    return Settle(command=RUN, field=f"objective.constraints, {check.metric}: {at}", value=f"{value:g}", seconds=0.0)


def _kept_bound(row: ResultRow, metric: str, at: str) -> float:
    """To three digits; of an accuracy drop in tenths of a point, as people write it."""
    value = row.figure(metric) or 0.0
    low, high = interval(row.figures, metric) or (value, value)
    counts = counts_behind(row) if metric == DROP and at == "at_most" else None
    if counts is not None:
        tenths = range(1, 1000)
        return next((step / 10 for step in tenths if side(*counts, row.images, step / 10) == "below"), 100.0)
    limit = high if at == "at_most" else low
    unit = 10.0 ** (math.floor(math.log10(abs(limit))) - 2) if limit and math.isfinite(limit) else 1.0
    return (math.ceil if at == "at_most" else math.floor)(limit / unit) * unit if math.isfinite(limit) else limit


def _sum(seconds: Iterable[float]) -> float | None:
    """`None` where nothing was recorded."""
    return sum(seconds) or None
