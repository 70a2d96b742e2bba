"""The text of a waterfall for a terminal: a table with figures and gains of each step, and a bar for each latency."""

from collections.abc import Iterator, Sequence

from sweeps.label_kinds import TRUST
from sweeps.metrics import METRICS
from sweeps.ranking.gain import Gain
from sweeps.ranking.waterfall import Step, Waterfall
from sweeps.stats import Estimate
from sweeps.text import plain

_BAR = 44
_HEADS = ("step", "p50 ms", "gain over the previous step", "file", "size", "", "change (points)")
_GAINS = {
    "rounds": "paired by round (95 %); a p50 is over all rounds, so the gain need not be the quotient of two",
    "batches": "of the batches that decided the race (95 %)",
    "blocks": "not paired, of all blocks of separate runs, with the device's spread between sessions (95 %)",
    "": "without an interval: more rounds give one",
}
"""The text for each source of a gain (`MadeOf.source`); the empty source is that of a gain without an interval."""
_LEFT = {0, 2, 5}
_METRICS = {"top1_percent": "top-1 %", "agreement_percent": "agreement with eager %"}


def render(sweep: str, waterfall: Waterfall) -> str:
    """Return lines without control characters, about 130 characters wide. Intervals (95 %) are in brackets."""
    title = f"{sweep} · {waterfall.model} on {waterfall.device}"
    lines = [title, "", *_table(waterfall.steps), "", *_bars(waterfall.steps), ""]
    lines += [f"{step.name} {step.outcome}: {step.reason}" for step in waterfall.steps if step.outcome != "measured"]
    lines += _totals(waterfall)
    lines += [*_made_of(waterfall.steps), *_notes(waterfall.steps)]
    if waterfall.runtimes:
        lines += ["", "The best of each runtime, beside PyTorch Mobile's", ""]
        lines += _table(waterfall.runtimes, ("runtime", "p50 ms", "gain over PyTorch Mobile"))
        lines += ["", *_bars(waterfall.runtimes, over_first=True), ""]
        lines += [f"{step.name}: {step.variant or step.reason}" for step in waterfall.runtimes]
        lines += [*_made_of(waterfall.runtimes), *_notes(waterfall.runtimes)]
    return plain("\n".join(lines))


def _table(steps: Sequence[Step], first: Sequence[str] = _HEADS[:3]) -> Iterator[str]:
    """Yield the lines of the table. `first`: the headings of the first columns."""
    metrics = [step.accuracy_metric for step in steps if step.accuracy_metric]
    metric = _METRICS.get(metrics[0] if metrics else "", "accuracy")
    heads = [head or metric for head in (*first, *_HEADS[len(first) :])]
    rows = [heads, *(_row(step) for step in steps)]
    widths = [max(len(row[column]) for row in rows) for column in range(len(heads))]
    for number, row in enumerate(rows):
        cells = [
            cell.ljust(width) if column in _LEFT else cell.rjust(width)
            for column, (cell, width) in enumerate(zip(row, widths, strict=True))
        ]
        yield "  ".join(cells).rstrip()
        if number == 0:
            yield "─" * (sum(widths) + 2 * (len(widths) - 1))


def _row(step: Step) -> list[str]:
    if step.outcome != "measured":
        return [step.name, step.outcome, "", "", "", "", ""]
    gain = step.gain
    return [
        step.name,
        _estimate(step.latency, 3),
        _latency_gain(gain),
        METRICS["artifact_mb"].format(step.artifact_mb),
        "" if gain is None or gain.size_ratio is None else f"{gain.size_ratio:.2f}×",
        "–" if step.accuracy_percent is None else f"{step.accuracy_percent:.2f}",
        "" if gain is None else _estimate(gain.accuracy_change, 2, sign="+"),
    ]


def _latency_gain(gain: Gain | None) -> str:
    if gain is None or gain.speedup is None:
        return ""
    return f"{_estimate(gain.speedup, 2, '×')} {gain.latency}"


def _estimate(estimate: Estimate | None, digits: int, unit: str = "", sign: str = "") -> str:
    if estimate is None:
        return "–"
    text = f"{estimate.value:{sign}.{digits}f}{unit}"
    if estimate.low is None or estimate.high is None:
        return text
    return f"{text} ({estimate.low:{sign}.{digits}f} to {estimate.high:{sign}.{digits}f})"


def _bars(steps: Sequence[Step], *, over_first: bool = False) -> Iterator[str]:
    """Yield one bar per step, as long as its latency. If the difference to the previous step (or to the first one) is
    resolved, the saved time is dotted and the added time is dark."""
    names = max(len(step.name) for step in steps)
    longest = max((step.latency.value for step in steps if step.latency), default=0.0)
    before: float | None = None
    for step in steps:
        if step.latency is None:
            yield f"{step.name.ljust(names)}  {step.outcome}"
            continue
        now = step.latency.value
        resolved = step.gain is not None and step.gain.latency in ("faster", "slower")
        earlier = before if before and resolved else now
        solid, reach = (round(_BAR * ms / longest) for ms in (min(now, earlier), max(now, earlier)))
        bar = "█" * max(solid, 1) + ("░" if now < earlier else "▓") * (reach - solid)
        yield f"{step.name.ljust(names)}  {bar.ljust(_BAR)}  {now:.3f} ms"
        before = before if over_first and before else now


def _totals(waterfall: Waterfall) -> Iterator[str]:
    last = next((step for step in reversed(waterfall.steps) if step.outcome == "measured"), None)
    if last is None or last.total is None:
        return
    total = last.total
    parts = [f"{_estimate(total.speedup, 2, '×')} {total.latency}"] if total.speedup else []
    parts += [f"{total.size_ratio:.2f}× the size"] if total.size_ratio else []
    parts += [f"{_estimate(total.accuracy_change, 2, sign='+')} points"] if total.accuracy_change else []
    yield f"All steps: {last.name} over {total.over}: {', '.join(parts)}"


def _made_of(steps: Sequence[Step]) -> Iterator[str]:
    """Yield a line for each source of gains in speed, with the steps of that source if there are several sources."""
    with_gain = [step for step in steps if step.gain and step.gain.speedup]
    sources = {step.name: _source(step.gain) for step in with_gain if step.gain}
    for source, text in _GAINS.items():
        if names := [name for name, source_of_step in sources.items() if source_of_step == source]:
            of_steps = "" if len(names) == len(sources) else f" of {', '.join(names)}"
            yield f"gain in speed{of_steps}: {text}"


def _source(gain: Gain) -> str:
    """Return the source of the gain; empty without an interval."""
    has_interval = gain.speedup is not None and gain.speedup.low is not None
    return gain.made_of.source if gain.made_of is not None and has_interval else ""


def _notes(steps: Sequence[Step]) -> Iterator[str]:
    for name in sorted({label for step in steps for label in step.trust}):
        with_it = [step.name for step in steps if name in step.trust]
        marked = "all steps" if len(with_it) == len(steps) else ", ".join(with_it)
        advice = TRUST[name].text if name in TRUST else "not a label of this version"
        yield f"Trust: {name} ({marked}): {advice}"
