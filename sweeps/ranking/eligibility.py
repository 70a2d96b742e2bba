"""The verdict whether a measured variant may win, from its trust labels and the objective's constraints, with reasons
as text."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal

from sweeps.label_kinds import TRUST, disqualified, original_doubted
from sweeps.ranking.accuracy_bound import ImagesNeeded, images_needed, side
from sweeps.ranking.accuracy_change import lost_and_gained
from sweeps.ranking.amounts import DROP, INTERVALS, in_words, interval
from sweeps.results import ResultRow
from sweeps.spec import catalog
from sweeps.spec.objective import ConstraintSpec, ObjectiveSpec
from sweeps.stats import Estimate
from sweeps.text import digits

BoundResult = Literal["pass", "fail", "unresolved"]
Verdict = Literal["pass", "unresolved", "fail", "disqualified"]
VERDICTS: tuple[Verdict, ...] = ("pass", "unresolved", "fail", "disqualified")
"""All verdicts, in the order of a ranking."""

LABELLED = frozenset({"top1_percent", "top5_percent", DROP, *INTERVALS[DROP]})
"""The metrics that need labelled images."""
ON_ACCURACY = LABELLED | {"agreement_percent"}
"""The metrics of which no bound counts as kept while the original itself is in doubt."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ConstraintResult:
    """One constraint of the objective, checked for one variant."""

    metric: str
    bound: str
    """The bound for people: `at most 1 points`."""
    value: float | None
    result: BoundResult
    why: str
    """The reason; empty if the variant keeps the bound."""
    images_needed: ImagesNeeded | None = None
    """The number of further evaluation images that would settle the constraint; `None` unless it is unresolved, and
    images can settle it."""
    doubts: tuple[str, ...] = ()
    """The labels that put the original in doubt (`sweeps.label_kinds.TrustLabel.doubts_original`), so that the bound
    does not count as kept."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Judgement:
    verdict: Verdict
    why: str
    """The reason; empty if the variant passes."""
    constraints: tuple[ConstraintResult, ...]


def direction(objective: ObjectiveSpec) -> tuple[str, bool]:
    """Return the objective's metric, and whether its smallest value is best. The sweep file names exactly one
    metric."""
    if objective.maximize is not None:
        return objective.maximize, False
    assert objective.minimize is not None
    return objective.minimize, True


def objective_text(objective: ObjectiveSpec) -> str:
    metric, smaller = direction(objective)
    bounds = " and ".join(f"{constraint.metric} {bound_text(constraint)}" for constraint in objective.constraints)
    return f"{'smallest' if smaller else 'largest'} {metric}" + (f" with {bounds}" if bounds else "")


def needs_time(objective: ObjectiveSpec) -> bool:
    """Tell whether the objective, or one of its constraints, needs a metric that only a timed variant has."""
    return any(map(catalog.is_timed, (direction(objective)[0], *(bound.metric for bound in objective.constraints))))


def in_batches_only(row: ResultRow) -> bool:
    """Tell whether a race measured the row only in batches, not in a separate process, so that it has no latency."""
    return not row.timed and row.settled is not None and row.settled.batches > 0


def left_untimed(row: ResultRow) -> bool:
    """Tell whether a race ended the row before it was timed: in batches, or because another build is the same
    program."""
    is_same_program = row.settled is not None and row.settled.reason == "same_program"
    return in_batches_only(row) or (is_same_program and not row.timed)


def beside_leader(row: ResultRow) -> bool:
    """Tell whether the batches that decided the race gave a ratio of the row's latency to the leader's."""
    return row.settled is not None and row.settled.ratio_high is not None


def put_aside(row: ResultRow) -> bool:
    """Tell whether the row left the batches that decided a race because none of its blocks counts, and was not measured
    again."""
    return in_batches_only(row) and row.settled is not None and row.settled.reason == "disqualified"


def judge_all(group: Sequence[ResultRow], objective: ObjectiveSpec) -> dict[str, Judgement]:
    """Return the verdicts by job key. `group`: rows with the same conditions.

    A row of which only the ratio to a race's leader is known passes only if that leader passes.
    """
    judgements = {row.job_key: judge(row, objective) for row in group}
    leaders = {
        row.job_key
        for row in group
        if row.timed and row.settled is not None and row.settled.leads and judgements[row.job_key].verdict == "pass"
    }
    for row in group:
        judgement, ended = judgements[row.job_key], row.settled
        if ended is None or not in_batches_only(row) or not needs_time(objective) or ended.by_key in leaders:
            continue
        if judgement.verdict == "pass" and not ended.eliminated:
            leader = next((other.name_here for other in group if other.job_key == ended.by_key), ended.by)
            why = f"only its ratio to {leader} is known, which has no time with which it may win"
            judgements[row.job_key] = replace(judgement, verdict="unresolved", why=why)
    return judgements


def judge(row: ResultRow, objective: ObjectiveSpec) -> Judgement:
    """Return the verdict on one row. A disqualifying label outweighs a failed constraint, which outweighs an unresolved
    one. An unknown value does not pass.

    If the objective needs latency and the row has none, the row does not compete: only the constraints are checked.
    """
    metric, _ = direction(objective)
    open_in_batches = in_batches_only(row) and row.settled is not None and not row.settled.eliminated
    competes = row.timed or open_in_batches or not needs_time(objective)
    constraints = tuple(_check(row, constraint) for constraint in objective.constraints)
    distrusted = disqualified(row.trust)
    failed = [check.why for check in constraints if check.result == "fail"]
    unresolved = [check.why for check in constraints if check.result == "unresolved"]
    if competes and metric in ON_ACCURACY and (doubted := _doubts_in_words(row)):
        unresolved.insert(0, f"{metric} decides nothing: {doubted}")
    known = row.figure(metric) is not None or (metric == "latency_p50_ms" and beside_leader(row))
    if competes and not known:
        unresolved.insert(0, f"{metric} is not known: {_why_unknown(row, metric)}")
    verdict: Verdict = "pass"
    why: list[str] = []
    if unshippable := catalog.unshippable(row.runtime):
        verdict, why = "disqualified", [unshippable]
    elif put_aside(row) and needs_time(objective):
        assert row.settled is not None
        count = row.settled.batches
        verdict = "disqualified"
        why = [f"none of its blocks counts, in {count} batches: edgesweep run SWEEP.yaml --retry-failed measures it"]
    elif distrusted:
        verdict = "disqualified"
        why = [f"{name}: {TRUST[name].text if name in TRUST else 'not a known label'}" for name in distrusted]
    elif failed:
        verdict, why = "fail", failed
    elif unresolved:
        verdict, why = "unresolved", unresolved
    return Judgement(verdict=verdict, why="; ".join(dict.fromkeys(why)), constraints=constraints)


def evidence(row: ResultRow, judgement: Judgement, objective: ObjectiveSpec) -> str:
    """Return why a race eliminated the row, as text. Empty if no race did, or if the reason does not hold under this
    objective: the row now passes the constraint, or the objective does not use latency."""
    settled = row.settled
    if settled is None or not settled.eliminated:
        return ""
    by = settled.by.removeprefix(f"{row.model} · ").removesuffix(row.name_suffix) or "another"
    if settled.reason == "same_program":
        return f"the same program as {by}, which was measured for both" if not row.timed else ""
    left = f"left after {settled.rounds} round{'s' * (settled.rounds != 1)}"
    if settled.batches:
        left = f"left after {settled.batches} batch{'es' * (settled.batches != 1)}"
    if settled.reason == "constraint":
        return f"{left}: it cannot win at any latency, and {by} can" if judgement.verdict != "pass" else ""
    if "latency_p50_ms" not in (direction(objective)[0], objective.front):
        return ""
    if settled.ratio_low is None:
        return f"{left}: slower than {by}"
    # The ratio is rounded down, because it is a lower bound.
    digits = 2 if settled.ratio_low >= 1.01 else 4
    least = math.floor(settled.ratio_low * 10**digits) / 10**digits
    return f"{left}: at least {least:.{digits}f} times as slow as {by}"


def reference_name(executor: str) -> str:
    """Return the name of an executor for people: `NNAPI reference` for `reference:nnapi@<version>`, whose version is a
    hash."""
    is_reference = executor.startswith("reference:")
    return f"{_backend_of(executor)} reference" if is_reference else executor


def evaluated_by(executor: str, fingerprint: str) -> str:
    """Return for people who computed the accuracy on a device with this fingerprint: `the device itself`, with the name
    of the tool if a tool on the device did, or a reference's name."""
    own = executor == fingerprint or executor.startswith(f"{fingerprint} ")
    return f"the device itself{executor.removeprefix(fingerprint)}" if own else reference_name(executor)


def reference_text(executor: str) -> str:
    """Return one line about figures computed by `executor` (`reference:<backend>@<version>`)."""
    in_python = catalog.checked_in_python(_backend_in(executor))
    how = "in PyTorch, as the graph that is lowered to it" if in_python else "by EdgeSweep's reference implementation"
    return f"{_backend_of(executor)} model run on this host {how}; its time says nothing about a phone"


def _backend_of(executor: str) -> str:
    return catalog.backend_title(_backend_in(executor))


def _backend_in(executor: str) -> str:
    return executor.removeprefix("reference:").partition("@")[0]


def bound_text(constraint: ConstraintSpec) -> str:
    """Return a bound as text like `at most 1 points`, with all digits."""
    unit = catalog.metric(constraint.metric).unit
    if constraint.at_most is not None:
        return f"at most {digits(constraint.at_most)} {unit}".rstrip()
    assert constraint.at_least is not None
    return f"at least {digits(constraint.at_least)} {unit}".rstrip()


def _check(row: ResultRow, constraint: ConstraintSpec) -> ConstraintResult:
    metric, value = constraint.metric, row.figure(constraint.metric)
    result: BoundResult = "unresolved"
    needed = None
    if value is None:
        why = f"{metric} is not known: {_why_unknown(row, metric)}"
    else:
        why = ""
        counts = counts_behind(row) if metric == DROP else None
        result = _bound_result(row, constraint) if counts is None else _kept_by_counts(*counts, row.images, constraint)
        if result != "fail" and metric in ON_ACCURACY and (doubted := _doubts_in_words(row)):
            return ConstraintResult(
                metric=metric,
                bound=bound_text(constraint),
                value=row.metrics.get(metric),
                result="unresolved",
                why=f"{metric} is {in_words(row.metrics, metric)}: {doubted}",
                doubts=tuple(label.name for label in original_doubted(row.trust)),
            )
        if result == "fail":
            why = f"{metric} is {in_words(row.metrics, metric)}, not {bound_text(constraint)}"
        elif result == "unresolved":
            more = "more rounds" if metric == "latency_p50_ms" else "more evaluation images"
            settled = f"{more} would decide it"
            bound = constraint.at_least if constraint.at_most is None else constraint.at_most
            if counts is not None and bound is not None:
                lost, gained = counts
                needed = images_needed(lost, gained, row.images, bound)
                settled = f"{lost} lost and {gained} gained of {row.images} images"
                settled += f"; {needed.text}" if needed else ""
            is_kept = f"whether it is {bound_text(constraint)} is not resolved"
            why = f"{metric} is {in_words(row.metrics, metric)}: {is_kept}; {settled}"
    shown = row.metrics.get(metric)
    return ConstraintResult(
        metric=metric, bound=bound_text(constraint), value=shown, result=result, why=why, images_needed=needed
    )


def _doubts_in_words(row: ResultRow) -> str:
    """Return the doubts as text like `the original itself is at chance`; empty if no label puts the original in
    doubt."""
    titles = [label.title for label in original_doubted(row.trust)]
    return " and ".join(title[0].lower() + title[1:] for title in titles)


def _bound_result(row: ResultRow, constraint: ConstraintSpec) -> BoundResult:
    """Return the result of the bound from the metric's 95 % interval; without an interval, from its value, which is
    known."""
    value = row.figure(constraint.metric)
    assert value is not None
    low, high = interval(row.metrics, constraint.metric) or (value, value)
    at_most = math.inf if constraint.at_most is None else constraint.at_most
    at_least = -math.inf if constraint.at_least is None else constraint.at_least
    if at_least <= low and high <= at_most:
        return "pass"
    return "fail" if low > at_most or high < at_least else "unresolved"


def _kept_by_counts(lost: int, gained: int, images: int, constraint: ConstraintSpec) -> BoundResult:
    bound = constraint.at_least if constraint.at_most is None else constraint.at_most
    assert bound is not None
    shown = side(lost, gained, images, bound)
    if shown is None:
        return "unresolved"
    return "pass" if (shown == "below") == (constraint.at_most is not None) else "fail"


def counts_behind(row: ResultRow) -> tuple[int, int] | None:
    """Return the numbers of images lost and gained behind a row's accuracy drop; `None` if the row's figures do not
    give them."""
    value, ends = row.metrics.get(DROP), interval(row.metrics, DROP)
    if value is None or ends is None or not ends[0] <= value <= ends[1]:
        return None
    return lost_and_gained(Estimate(value, *ends), row.images)


def _why_unknown(row: ResultRow, metric: str) -> str:
    if metric in LABELLED and "agreement_percent" in row.metrics:
        return "the evaluation data has no labels"
    if catalog.is_timed(metric) and in_batches_only(row):
        ended = row.settled
        late = f"; {ended.message}" if ended is not None and ended.reason == "out_of_time" and not ended.by_key else ""
        return f"it was measured in batches only, which give ratios{late}"
    if catalog.is_timed(metric) and left_untimed(row):
        return "another build is the same program, and was measured for both"
    if catalog.is_timed(metric) and not row.timed:
        return "it was only checked, not timed"
    if catalog.metric(metric).from_samples:
        return "there are too few samples for it"
    return "it was not measured"
