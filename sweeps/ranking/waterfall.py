"""The gain of each step of a recipe. Each step is a grid of one sweep. Pure: results in, `Waterfall`s out."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from itertools import groupby
from typing import Any

from sweeps.ranking.gain import Gain, accuracy_metric, drop, gain, spread_of
from sweeps.ranking.rank import rank_rows
from sweeps.ranking.session_ratio import Spread
from sweeps.results import ResultRow, SweepResults, read_rows
from sweeps.spec import catalog
from sweeps.stats import Estimate

RUNTIME = "runtime-"
"""The prefix of the names of grids that hold builds of another runtime, and are no step."""
_BASE = "torchscript"


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """One step of a recipe as it was measured."""

    name: str
    outcome: str
    """`measured`, `failed`, `skipped` or `pending`."""
    reason: str
    """The reason why the step was not measured; empty if it was."""
    variant: str
    latency: Estimate | None
    """The p50 in ms."""
    artifact_mb: float | None
    accuracy_metric: str
    """`top1_percent`, or without labels `agreement_percent`; empty if unknown."""
    accuracy_percent: float | None
    accuracy_drop: Estimate | None
    """The drop in percentage points against the fp32 eager model, in the same metric."""
    images: int
    trust: tuple[str, ...]
    gain: Gain | None
    """The gain over the previous measured step; `None` for the first."""
    total: Gain | None
    """The gain over the recipe's first step; `None` for that step itself, or if it was not measured."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Waterfall:
    """The steps of one model on one device, in order."""

    model: str
    device: str
    device_id: str
    preset: str
    steps: tuple[Step, ...]
    runtimes: tuple[Step, ...] = ()
    """The best build of each runtime, if other runtimes than PyTorch Mobile were built too; the gain of each is over
    PyTorch Mobile's best build."""


def waterfalls(results: SweepResults) -> tuple[Waterfall, ...]:
    """Return one waterfall for each device and model. The steps are the named grids of the sweep file, each of one
    combination; grids whose names begin with `RUNTIME` hold builds of other runtimes."""
    rows = sorted(read_rows(results.frame, results.name), key=lambda row: row.place)
    steps = [grid.name for grid in results.spec.grids if not grid.name.startswith(RUNTIME)]
    waterfalls = []
    for _, group in groupby(rows, key=lambda row: row.place):
        of_place = list(group)
        by_step = {row.grid: row for row in of_place if row.grid in steps}
        first, spread = of_place[0], spread_of(of_place)
        waterfalls.append(
            Waterfall(
                model=first.model,
                device=first.device,
                device_id=first.device_id,
                preset=first.preset,
                steps=tuple(_steps(steps, by_step, spread)),
                runtimes=tuple(_bests(of_place, results, spread)) if len(steps) < len(results.spec.grids) else (),
            )
        )
    return tuple(waterfalls)


def recipe_document(sweep: str, waterfalls: tuple[Waterfall, ...]) -> dict[str, Any]:
    """Return the document of `edgesweep recipe --json`: units in the keys, unknown is null."""
    return {
        "sweep": sweep,
        "recipes": [
            {
                "model": waterfall.model,
                "device": waterfall.device,
                "device_id": waterfall.device_id,
                "preset": waterfall.preset,
                "steps": [_step_document(step, "gain_over_step_before") for step in waterfall.steps],
                "runtimes": [_step_document(step, "gain_over_pytorch_mobile") for step in waterfall.runtimes],
            }
            for waterfall in waterfalls
        ],
    }


def _bests(rows: Sequence[ResultRow], results: SweepResults, spread: Spread) -> Iterator[Step]:
    """Yield for each runtime that can be shipped the build that the objective prefers, PyTorch Mobile's first."""
    by_key = {row.job_key: row for row in rows}
    ranked = [
        candidate
        for entry in rank_rows(rows, results.spec.objective, results.name).devices
        for candidate in entry.ranking
    ]
    best = {
        by_key[candidate.job_key].runtime: by_key[candidate.job_key]
        for candidate in reversed(ranked)
        if candidate.state == "pass"
    }
    may_not = {
        by_key[candidate.job_key].runtime: candidate for candidate in reversed(ranked) if candidate.state != "pass"
    }
    base = best.get(_BASE)
    runtimes = dict.fromkeys((_BASE, *(row.runtime for row in rows)))
    for runtime in (name for name in runtimes if not catalog.unshippable(name)):
        row = best.get(runtime)
        if row is None and (shown := may_not.get(runtime)) is not None:
            why = f"none of its builds may win; {shown.variant}: {shown.state}: {shown.why}"
            yield replace(_not_measured(runtime, None), outcome=shown.state, reason=why)
        elif row is None:
            of_runtime = [other for other in rows if other.runtime == runtime]
            # The reason of a failure is more useful than that of a skipped combination.
            of_runtime.sort(key=lambda other: other.outcome != "failed")
            yield _not_measured(runtime, next((other for other in of_runtime if other.outcome != "measured"), None))
        else:
            over = gain(_BASE, base, row, spread) if base is not None and base is not row else None
            yield _measured(runtime, row, over, None)


def _steps(names: list[str], by_step: Mapping[str, ResultRow], spread: Spread) -> Iterator[Step]:
    first = by_step.get(names[0])
    before: tuple[str, ResultRow] | None = None
    for name in names:
        row = by_step.get(name)
        if row is None or row.outcome != "measured":
            yield _not_measured(name, row)
            continue
        total = None
        if first and first.outcome == "measured" and first is not row:
            total = gain(names[0], first, row, spread)
        yield _measured(name, row, gain(*before, row, spread) if before else None, total)
        before = name, row


def _measured(name: str, row: ResultRow, over: Gain | None, total: Gain | None) -> Step:
    metric = accuracy_metric(row)
    return Step(
        name=name,
        outcome="measured",
        reason="",
        variant=row.variant,
        latency=_latency(row),
        artifact_mb=row.figures["artifact_mb"],
        accuracy_metric=metric,
        accuracy_percent=row.figures[metric] if metric else None,
        accuracy_drop=drop(row),
        images=row.images,
        trust=row.trust,
        gain=over,
        total=total,
    )


def _not_measured(name: str, row: ResultRow | None) -> Step:
    return Step(
        name=name,
        outcome="pending" if row is None else row.outcome,
        reason="not measured yet" if row is None else row.reason_in_full,
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


def _latency(row: ResultRow) -> Estimate | None:
    value = row.figures["latency_p50_ms"]
    ends = row.figures["latency_ci_low_ms"], row.figures["latency_ci_high_ms"]
    return None if value is None else Estimate(value, *ends)


def _step_document(step: Step, key: str) -> dict[str, Any]:
    """Return the document of a step. `key`: the name of the entry for the step's gain."""
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
        key: None if step.gain is None else _gain_document(step.gain),
        "gain_over_first_step": None if step.total is None else _gain_document(step.total),
    }


def _gain_document(step_gain: Gain) -> dict[str, Any]:
    return {
        "over": step_gain.over,
        **_estimate_document("speedup", step_gain.speedup, "ratio"),
        "speedup_made_of": None if step_gain.made_of is None else asdict(step_gain.made_of),
        "latency": step_gain.latency,
        "size_ratio": step_gain.size_ratio,
        **_estimate_document("accuracy_change", step_gain.accuracy_change, "points"),
        "accuracy": step_gain.accuracy,
    }


def _estimate_document(name: str, estimate: Estimate | None, unit: str) -> dict[str, float | None]:
    return {
        f"{name}_{unit}": None if estimate is None else estimate.value,
        f"{name}_low_{unit}": None if estimate is None else estimate.low,
        f"{name}_high_{unit}": None if estimate is None else estimate.high,
    }
