"""The chart of latency against accuracy, and the Pareto front of the best trade-offs. Pure."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import pandas as pd

from dashboard.charts import drawing as draw
from dashboard.charts import labels
from dashboard.charts.drawing import Spec
from dashboard.style import Palette
from sweeps.metrics import METRICS
from sweeps.spec.objective import ObjectiveSpec

_PAD_X, _PAD_Y = 24, 14
"""Pixels between the chart's edges and its points."""


@dataclass(frozen=True, slots=True)
class AccuracyAxis:
    """Vertical axis of the chart `tradeoff`: a title, and reference lines (percent)."""

    title: str
    eager_percent: float | None = None
    """Accuracy of the fp32 eager model."""
    least_percent: float | None = None
    """Lowest accuracy that the objective's constraint on the accuracy drop allows."""

    @classmethod
    def of(cls, objective: ObjectiveSpec, rows: pd.DataFrame, metric: str) -> "AccuracyAxis":
        """Return the axis for `rows` (`dashboard.rows.ranked`), with the two reference lines if `metric` is top-1."""
        title = f"{METRICS[metric].title} (%)"
        rated = rows[rows["accuracy"].notna() & rows["drop_points"].notna()]
        if metric != "top1_percent" or rated.empty:
            return cls(title)
        eager = float(rated["accuracy"].iloc[0] + rated["drop_points"].iloc[0])
        most = most_drop(objective)
        # Every build keeps a limit below zero, so the limit gets no line.
        return cls(title, eager, None if most is None or most > eager else eager - most)

    @property
    def lines_in_words(self) -> str:
        """The meaning of the reference lines, in words; empty without lines."""
        lines = [] if self.eager_percent is None else [f"Line: fp32 eager, {self.eager_percent:.2f} %."]
        lines += [] if self.least_percent is None else [f"Dashed: the least allowed, {self.least_percent:.2f} %."]
        return " ".join(lines)


def most_drop(objective: ObjectiveSpec) -> float | None:
    """Return the largest accuracy drop that the objective allows, in percentage points; `None` without such a
    constraint."""
    allowed = [
        bound.at_most
        for bound in objective.constraints
        if bound.metric == "accuracy_drop_points" and bound.at_most is not None
    ]
    return min(allowed, default=None)


def tradeoff(rows: pd.DataFrame, axis: AccuracyAxis, look: Palette, height: int = 380) -> Spec:
    """Return the chart of latency against accuracy with both intervals, the Pareto front joined by a line. `rows`:
    `dashboard.rows.ranked`. A click on a point gives the selection `picked` with its `job_key`."""
    shown = rows[rows["latency_p50_ms"].notna() & rows["accuracy"].notna()].iloc[::-1]
    # An interval from the normal distribution may exceed an accuracy of 100 %.
    ends = {name: shown[name].clip(0.0, 100.0) for name in ("accuracy_low", "accuracy_high")}
    shown = shown.assign(**ends)
    front = front_keys(shown)
    span = _span(shown, axis)
    names = names_beside(shown, front, span, height)
    data = [
        {
            "job_key": row.job_key,
            "p50": row.latency_p50_ms,
            "low": draw.known(row.latency_ci_low_ms),
            "high": draw.known(row.latency_ci_high_ms),
            "accuracy": row.accuracy,
            "least": draw.known(row.accuracy_low),
            "most": draw.known(row.accuracy_high),
            "status": row.status,
            "front": row.job_key in front,
            **beside,
            **draw.tip(row),
        }
        for row, beside in zip(shown.itertuples(), names, strict=True)
    ]
    # The axis is logarithmic, because variants differ by factors, and the choice is among the fast ones.
    log = {"type": "log", "nice": False, "padding": _PAD_X}
    x = {
        "field": "p50",
        "type": "quantitative",
        "scale": log,
        "axis": draw.axis("p50 latency (ms), logarithmic", look, 6),
    }
    y = {
        "field": "accuracy",
        "type": "quantitative",
        "scale": {"domain": span, "zero": False, "nice": False, "padding": _PAD_Y},
        "axis": draw.axis(axis.title, look, 6),
    }
    rule = {"type": "rule", "color": look.quiet, "opacity": 0.45}
    layers: list[Spec] = [*_lines(axis, look)]
    marks: list[Spec] = [
        {
            "transform": [{"filter": "datum.front"}],
            "mark": {"type": "line", "interpolate": "step-after", "color": look.quiet, "strokeWidth": 1.2},
            "encoding": {"x": x, "y": y, "order": {"field": "p50", "type": "quantitative"}},
        },
        {
            "transform": [{"filter": "isValid(datum.low) && isValid(datum.high)"}],
            "mark": rule,
            "encoding": {"x": {"field": "low", "type": "quantitative"}, "x2": {"field": "high"}, "y": y},
        },
        {
            "transform": [{"filter": "isValid(datum.least) && isValid(datum.most)"}],
            "mark": rule,
            "encoding": {"x": x, "y": {"field": "least", "type": "quantitative"}, "y2": {"field": "most"}},
        },
        {
            "name": "points",
            "mark": {"type": "point", "filled": True, "opacity": 1, "cursor": "pointer"},
            "encoding": {
                "x": x,
                "y": y,
                **draw.looks(shown, look),
                "stroke": {
                    "condition": {"param": "picked", "empty": False, "value": look.text},
                    "value": "transparent",
                },
                "strokeWidth": {"value": 2.5},
                "tooltip": draw.TOOLTIP,
            },
        },
        {
            "transform": [{"filter": "datum.text0 + datum.text1 + datum.text2 != ''"}],
            "mark": {
                "type": "text",
                "text": {"expr": _by_width("text")},
                "align": {"expr": _by_width("align")},
                "dx": {"expr": f"({_by_width('align')}) === 'left' ? {labels.BESIDE_PX} : {-labels.BESIDE_PX}"},
                "dy": {"expr": _by_width("dy")},
                "color": look.text,
                "fontSize": labels.FONT_PX,
                "fontWeight": 600,
                "lineHeight": labels.LINE_PX,
                "limit": 0,
                "lineBreak": "\n",
                "baseline": "top",
            },
            "encoding": {"x": x, "y": y},
        },
    ]
    spec = draw.chart(data, marks, height, look)
    spec["layer"] = [*layers, *spec["layer"]]
    picked = {"type": "point", "fields": ["job_key"], "on": "click", "nearest": False}
    spec["params"] = [{"name": "picked", "select": picked, "views": ["points"]}]
    return spec


_LATENCIES = ("latency_p50_ms", "latency_ci_low_ms", "latency_ci_high_ms")


def names_beside(
    rows: pd.DataFrame, front: frozenset[str], span: Sequence[float], height: int
) -> list[dict[str, str | int]]:
    """Return for each point the fields `text0`, `align0`, `dy0`, and so on for each width in `labels.FROM_PX`. The
    winner, its ties and the other builds of the `front` get names, as far as there is room; the text of the others is
    empty. `span`: as of `_span`."""
    if rows.empty:
        return []
    logs = [math.log(ms) for name in _LATENCIES for ms in rows[name].dropna()]
    first, across = min(logs), max(max(logs) - min(logs), 1e-9)
    keys, statuses, variants = list(rows["job_key"]), list(rows["status"]), list(rows["variant"])
    named = [index for index, key in enumerate(keys) if key in front or statuses[index] in draw.STATUS[:2]]
    order = sorted(named, key=lambda index: draw.STATUS.index(statuses[index]))
    positions: list[dict[str, str | int]] = [{} for _ in keys]
    for number, from_px in enumerate(labels.FROM_PX):
        width = max(from_px, labels.NARROWEST_PX)
        points = [
            (
                _PAD_X + (math.log(ms) - first) / across * (width - 2 * _PAD_X),
                height - _PAD_Y - (accuracy - span[0]) / (span[1] - span[0]) * (height - 2 * _PAD_Y),
            )
            for ms, accuracy in zip(rows["latency_p50_ms"], rows["accuracy"], strict=True)
        ]
        for fields, label in zip(positions, labels.placed(points, variants, order, width, height), strict=True):
            text, align, dy = (label.text, label.align, label.dy) if label else ("", "left", 0)
            fields |= {f"text{number}": text, f"align{number}": align, f"dy{number}": dy}
    return positions


def _by_width(field: str) -> str:
    """Return a Vega expression that selects the field for the chart's present width."""
    expression = f"datum.{field}0"
    for number, from_px in list(enumerate(labels.FROM_PX))[1:]:
        expression = f"width < {from_px} ? {expression} : datum.{field}{number}"
    return expression


def front_keys(rows: pd.DataFrame) -> frozenset[str]:
    """Return the job keys of the rows on the Pareto front: those that may win, unless a faster row that may win is at
    least as accurate."""
    best = float("-inf")
    keys: list[str] = []
    may_win = rows[rows["verdict"] == "pass"]
    ordered = may_win.sort_values(["latency_p50_ms", "accuracy"], ascending=[True, False], kind="stable")
    for key, accuracy in zip(ordered["job_key"], ordered["accuracy"], strict=True):
        if accuracy > best:
            best = accuracy
            keys.append(key)
    return frozenset(keys)


def _span(rows: pd.DataFrame, axis: AccuracyAxis) -> list[float]:
    """Return the range of the accuracy axis in percent: it contains all points, intervals and lines, with some room,
    and ends at 100."""
    ends = [rows["accuracy"], rows["accuracy_low"], rows["accuracy_high"]]
    values = [float(value) for column in ends for value in column.dropna()]
    values += [line for line in (axis.eager_percent, axis.least_percent) if line is not None]
    low, high = min(values), max(values)
    room = max(0.08 * (high - low), 0.1)
    return [max(0.0, low - room), min(100.0, high + room)]


def _lines(axis: AccuracyAxis, look: Palette) -> list[Spec]:
    """Return the horizontal reference lines. They are explained below the chart, because labels inside would be covered
    by points."""
    return [
        {
            "data": {"values": [{"accuracy": value}]},
            "mark": {"type": "rule", "color": look.quiet, "strokeDash": dash, "opacity": 0.8},
            "encoding": {"y": {"field": "accuracy", "type": "quantitative"}},
        }
        for value, dash in ((axis.eager_percent, [1, 0]), (axis.least_percent, [5, 4]))
        if value is not None
    ]
