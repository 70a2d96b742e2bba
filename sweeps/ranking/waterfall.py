"""What each step of a recipe gained. The steps are the grids of one sweep. Pure: results in, `Waterfall`s out.

Latency: the ratio to the previous step, paired by rounds, compared as in the ranking. Size: the ratio of the file
sizes. Accuracy: top-1, or for images without labels, agreement with the fp32 eager model.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import groupby
from typing import Any, Literal

from sweeps.ranking.accuracy_change import change
from sweeps.ranking.alike import alike
from sweeps.ranking.rank import rank_rows
from sweeps.ranking.ties import latency_ratio, told_apart
from sweeps.results import ResultRow, SweepResults, read_rows
from sweeps.spec import catalog
from sweeps.stats import Estimate, drop_of

RUNTIME = "runtime-"
"""How the names of grids begin whose builds are those of another runtime, and no step."""
_BASE = "torchscript"

Resolved = Literal["faster", "slower", "more accurate", "less accurate", "no difference shown"]
_LATENCY: dict[Literal["slower", "faster"] | None, Resolved] = {
    "slower": "faster",
    "faster": "slower",
    None: "no difference shown",
}
"""The finding for a step, by the finding for the previous step compared with it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Gain:
    """What a step changed compared with an earlier one. `None`: unknown."""

    over: str
    speedup: Estimate | None
    """Latency of the earlier step divided by this step's."""
    latency: Resolved | None
    size_ratio: float | None
    """File size of this step divided by the earlier step's."""
    accuracy_change: Estimate | None
    """Percentage points; positive is more accurate."""
    accuracy: Resolved | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """One step as it was measured."""

    name: str
    outcome: str
    """`measured`, `failed`, `skipped` or `pending`."""
    reason: str
    """Empty if it was measured."""
    variant: str
    latency: Estimate | None
    """p50 in ms."""
    artifact_mb: float | None
    accuracy_metric: str
    """`top1_percent`, or without labels `agreement_percent`; empty if unknown."""
    accuracy_percent: float | None
    accuracy_drop: Estimate | None
    """Percentage points against the fp32 eager model, in the same metric."""
    images: int
    trust: tuple[str, ...]
    gain: Gain | None
    """Over the previous measured step; `None` for the first."""
    total: Gain | None
    """Over the recipe's first step; `None` for that step itself, or if it was not measured."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Waterfall:
    """The steps of one model on one device, in order."""

    model: str
    device: str
    device_id: str
    preset: str
    steps: tuple[Step, ...]
    runtimes: tuple[Step, ...] = ()
    """The best build of each runtime, where others than PyTorch Mobile were built too; its gain is over PyTorch
    Mobile's best."""


def waterfalls(results: SweepResults) -> tuple[Waterfall, ...]:
    """One for each device and model. The steps are the named grids of the sweep file, each of one combination; grids
    whose names begin with `RUNTIME` hold builds of other runtimes."""
    rows = sorted(read_rows(results.frame, results.name), key=lambda row: row.place)
    steps = [grid.name for grid in results.spec.grids if not grid.name.startswith(RUNTIME)]
    found = []
    for _, group in groupby(rows, key=lambda row: row.place):
        here = list(group)
        by_step = {row.grid: row for row in here if row.grid in steps}
        one = here[0]
        found.append(
            Waterfall(
                model=one.model,
                device=one.device,
                device_id=one.device_id,
                preset=one.preset,
                steps=tuple(_steps(steps, by_step)),
                runtimes=tuple(_bests(here, results)) if len(steps) < len(results.spec.grids) else (),
            )
        )
    return tuple(found)


def recipe_document(sweep: str, found: tuple[Waterfall, ...]) -> dict[str, Any]:
    """The document of `edgesweep recipe --json`: units in the keys, unknown is null."""
    return {
        "sweep": sweep,
        "recipes": [
            {
                "model": one.model,
                "device": one.device,
                "device_id": one.device_id,
                "preset": one.preset,
                "steps": [_step_document(step, "gain_over_step_before") for step in one.steps],
                "runtimes": [_step_document(step, "gain_over_pytorch_mobile") for step in one.runtimes],
            }
            for one in found
        ],
    }


def _bests(rows: Sequence[ResultRow], results: SweepResults) -> Iterator[Step]:
    """Of each runtime that can be shipped, the build that the objective prefers, PyTorch Mobile's first."""
    by_key = {row.job_key: row for row in rows}
    ranked = [one for entry in rank_rows(rows, results.spec.objective, results.name).devices for one in entry.ranking]
    best = {by_key[one.job_key].runtime: by_key[one.job_key] for one in reversed(ranked) if one.state == "pass"}
    may_not = {by_key[one.job_key].runtime: one for one in reversed(ranked) if one.state != "pass"}
    base = best.get(_BASE)
    runtimes = dict.fromkeys((_BASE, *(row.runtime for row in rows)))
    for runtime in (one for one in runtimes if not catalog.unshippable(one)):
        row = best.get(runtime)
        if row is None and (shown := may_not.get(runtime)) is not None:
            why = f"none of its builds may win; {shown.variant}: {shown.state}: {shown.why}"
            yield replace(_not_measured(runtime, None), outcome=shown.state, reason=why)
        elif row is None:
            others = [one for one in rows if one.runtime == runtime]
            # What failed says more than what cannot be combined.
            others.sort(key=lambda one: one.outcome != "failed")
            yield _not_measured(runtime, next((one for one in others if one.outcome != "measured"), None))
        else:
            yield _measured(runtime, row, (_BASE, base) if base is not None and base is not row else None, None)


def _steps(names: list[str], by_step: Mapping[str, ResultRow]) -> Iterator[Step]:
    first = by_step.get(names[0])
    before: tuple[str, ResultRow] | None = None
    for name in names:
        row = by_step.get(name)
        if row is None or row.outcome != "measured":
            yield _not_measured(name, row)
            continue
        total = (names[0], first) if first and first.outcome == "measured" and first is not row else None
        yield _measured(name, row, before, total)
        before = name, row


def _measured(
    name: str, row: ResultRow, before: tuple[str, ResultRow] | None, first: tuple[str, ResultRow] | None
) -> Step:
    metric = _accuracy_metric(row)
    return Step(
        name=name,
        outcome="measured",
        reason="",
        variant=row.variant,
        latency=_latency(row),
        artifact_mb=row.figures["artifact_mb"],
        accuracy_metric=metric,
        accuracy_percent=row.figures[metric] if metric else None,
        accuracy_drop=_drop(row),
        images=row.images,
        trust=row.trust,
        gain=_gain(*before, row) if before else None,
        total=_gain(*first, row) if first else None,
    )


def _not_measured(name: str, row: ResultRow | None) -> Step:
    reason = "not measured yet"
    if row is not None:
        found = ", ".join(filter(None, (row.stage, row.kind)))
        reason = ": ".join(filter(None, (found, row.reason)))
    return Step(
        name=name,
        outcome="pending" if row is None else row.outcome,
        reason=reason,
        variant="" if row is None else row.variant,
        latency=None,
        artifact_mb=None,
        accuracy_metric="",
        accuracy_percent=None,
        accuracy_drop=None,
        images=0,
        trust=(),
        gain=None,
        total=None,
    )


def _gain(over: str, earlier: ResultRow, now: ResultRow) -> Gain:
    # The earlier step's latency divided by this step's is the speedup.
    speedup = latency_ratio(earlier, now) if len(alike([earlier, now])) == 1 else None
    changed = _accuracy_change(earlier, now)
    sizes = earlier.figures["artifact_mb"], now.figures["artifact_mb"]
    return Gain(
        over=over,
        speedup=speedup,
        latency=None if speedup is None else _LATENCY[told_apart(speedup)],
        size_ratio=sizes[1] / sizes[0] if sizes[0] and sizes[1] else None,
        accuracy_change=changed,
        accuracy=None if changed is None else _more_or_less(changed),
    )


def _more_or_less(changed: Estimate) -> Resolved:
    if changed.low is not None and changed.low > 0.0:
        return "more accurate"
    if changed.high is not None and changed.high < 0.0:
        return "less accurate"
    return "no difference shown"


def _accuracy_change(earlier: ResultRow, now: ResultRow) -> Estimate | None:
    before, after = _drop(earlier), _drop(now)
    if before is None or after is None or _accuracy_metric(earlier) != _accuracy_metric(now):
        return None
    if earlier.build_key == now.build_key:
        return Estimate(0.0, 0.0, 0.0)  # the same file
    return change(before, after, now.images) if earlier.images == now.images else None


def _drop(row: ResultRow) -> Estimate | None:
    figures, metric = row.figures, _accuracy_metric(row)
    if metric == "top1_percent":
        ends = figures["accuracy_drop_low_points"], figures["accuracy_drop_high_points"]
        value = figures["accuracy_drop_points"]
        return None if value is None else Estimate(value, *ends)
    agreement = figures["agreement_percent"]
    if agreement is None or not row.images:
        return None
    # An image on which the build disagrees with eager counts as lost.
    return drop_of(round((100.0 - agreement) * row.images / 100), 0, row.images)


def _accuracy_metric(row: ResultRow) -> str:
    for metric in ("top1_percent", "agreement_percent"):
        if row.figures[metric] is not None:
            return metric
    return ""


def _latency(row: ResultRow) -> Estimate | None:
    value = row.figures["latency_p50_ms"]
    ends = row.figures["latency_ci_low_ms"], row.figures["latency_ci_high_ms"]
    return None if value is None else Estimate(value, *ends)


def _step_document(step: Step, gain: str) -> dict[str, Any]:
    """`gain`: the key of the step's gain."""
    return {
        "step": step.name,
        "outcome": step.outcome,
        "reason": step.reason,
        "variant": step.variant,
        **_estimate_document("latency_p50", step.latency, "ms"),
        "artifact_mb": step.artifact_mb,
        "accuracy_metric": step.accuracy_metric or None,
        "accuracy_percent": step.accuracy_percent,
        **_estimate_document("accuracy_drop", step.accuracy_drop, "points"),
        "images": step.images,
        "trust": list(step.trust),
        gain: None if step.gain is None else _gain_document(step.gain),
        "gain_over_first_step": None if step.total is None else _gain_document(step.total),
    }


def _gain_document(gain: Gain) -> dict[str, Any]:
    return {
        "over": gain.over,
        **_estimate_document("speedup", gain.speedup, "ratio"),
        "latency": gain.latency,
        "size_ratio": gain.size_ratio,
        **_estimate_document("accuracy_change", gain.accuracy_change, "points"),
        "accuracy": gain.accuracy,
    }


def _estimate_document(name: str, estimate: Estimate | None, unit: str) -> dict[str, float | None]:
    return {
        f"{name}_{unit}": None if estimate is None else estimate.value,
        f"{name}_low_{unit}": None if estimate is None else estimate.low,
        f"{name}_high_{unit}": None if estimate is None else estimate.high,
    }
