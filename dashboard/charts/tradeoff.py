"""Latency against accuracy, and who is on the front of the best trade-offs. Pure."""

import math
from dataclasses import dataclass

import pandas as pd

from dashboard.charts import drawing as draw
from dashboard.charts.drawing import Spec
from dashboard.style import Palette
from dashboard.words import wrapped
from sweeps.metrics import METRICS
from sweeps.spec.objective import ObjectiveSpec

TOO_CLOSE = (0.35, 0.05)
"""Shares of the chart's width and height. Two names closer than this would overlap: one is up to a third as wide."""


@dataclass(frozen=True, slots=True)
class AccuracyAxis:
    """The vertical axis of `tradeoff`: a title, and reference lines (percent)."""

    title: str
    eager_percent: float | None = None
    """The fp32 eager model's own accuracy."""
    least_percent: float | None = None
    """The lowest accuracy that the objective's constraint on the accuracy drop allows."""

    @classmethod
    def of(cls, objective: ObjectiveSpec, rows: pd.DataFrame, metric: str) -> "AccuracyAxis":
        """That of `dashboard.rows.ranked`: with the two lines if accuracy is top-1."""
        title = f"{METRICS[metric].title} (%)"
        known = rows[rows["accuracy"].notna() & rows["drop_points"].notna()]
        if metric != "top1_percent" or known.empty:
            return cls(title)
        eager = float(known["accuracy"].iloc[0] + known["drop_points"].iloc[0])
        most = most_drop(objective)
        # One below zero is kept by every build, and has no place on the axis.
        return cls(title, eager, None if most is None or most > eager else eager - most)

    @property
    def lines_in_words(self) -> str:
        """What the reference lines are; empty without any."""
        found = [] if self.eager_percent is None else [f"Line: fp32 eager, {self.eager_percent:.2f} %."]
        found += [] if self.least_percent is None else [f"Dashed: the least allowed, {self.least_percent:.2f} %."]
        return " ".join(found)


def most_drop(objective: ObjectiveSpec) -> float | None:
    """The largest accuracy drop that the objective allows (points)."""
    allowed = [
        bound.at_most
        for bound in objective.constraints
        if bound.metric == "accuracy_drop_points" and bound.at_most is not None
    ]
    return min(allowed, default=None)


def tradeoff(rows: pd.DataFrame, axis: AccuracyAxis, look: Palette, height: int = 380) -> Spec:
    """Latency against accuracy with both intervals, the best trade-offs joined by a line. The points can be picked: the
    selection `picked` has their `job_key`."""
    shown = rows[rows["latency_p50_ms"].notna() & rows["accuracy"].notna()].iloc[::-1]
    # An interval from the normal distribution may exceed an accuracy of 100 %.
    ends = {name: shown[name].clip(0.0, 100.0) for name in ("accuracy_low", "accuracy_high")}
    shown = shown.assign(**ends)
    front = front_keys(shown)
    names = names_beside(shown)
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
            "beside": beside,
            **draw.tip(row),
        }
        for row, beside in zip(shown.itertuples(), names, strict=True)
    ]
    # Logarithmic: variants differ by factors, and the choice is among the fast ones.
    log = {"type": "log", "nice": False, "padding": 24}
    x = {
        "field": "p50",
        "type": "quantitative",
        "scale": log,
        "axis": draw.axis("p50 latency (ms), logarithmic", look, 6),
    }
    y = {
        "field": "accuracy",
        "type": "quantitative",
        "scale": {"domain": _span(shown, axis), "zero": False, "nice": False, "padding": 14},
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
            "transform": [{"filter": "datum.beside != ''"}],
            "mark": {
                "type": "text",
                "align": {"expr": "scale('x', datum.p50) < width / 2 ? 'left' : 'right'"},
                "dy": -14,
                "color": look.text,
                "fontSize": 12,
                "fontWeight": 600,
                "limit": 0,
                "lineBreak": "\n",
                "baseline": "bottom",
            },
            "encoding": {"x": x, "y": y, "text": {"field": "beside"}},
        },
    ]
    spec = draw.chart(data, marks, height, look)
    spec["layer"] = [*layers, *spec["layer"]]
    picked = {"type": "point", "fields": ["job_key"], "on": "click", "nearest": False}
    spec["params"] = [{"name": "picked", "select": picked, "views": ["points"]}]
    return spec


_LATENCIES = ("latency_p50_ms", "latency_ci_low_ms", "latency_ci_high_ms")
_ACCURACIES = ("accuracy", "accuracy_low", "accuracy_high")


def names_beside(rows: pd.DataFrame) -> list[str]:
    """The text beside each point: the names of the winner and of what is tied with it, where there is room."""
    if rows.empty:
        return []
    points = list(zip(map(math.log, rows["latency_p50_ms"]), rows["accuracy"], strict=True))
    # Intervals widen the axes.
    drawn = (
        [math.log(ms) for name in _LATENCIES for ms in rows[name].dropna()],
        [percent for name in _ACCURACIES for percent in rows[name].dropna()],
    )
    spans = [max(max(axis) - min(axis), 1e-9) for axis in drawn]
    found = [""] * len(rows)
    taken: list[tuple[float, float]] = []
    statuses, variants = list(rows["status"]), list(rows["variant"])
    for index in sorted(range(len(rows)), key=lambda index: draw.STATUS.index(statuses[index])):
        if statuses[index] not in draw.STATUS[:2]:
            break
        near = (
            all(
                abs(a - b) / span < close
                for a, b, span, close in zip(points[index], other, spans, TOO_CLOSE, strict=True)
            )
            for other in taken
        )
        if not any(near):
            taken.append(points[index])
            found[index] = "\n".join(wrapped(variants[index], 30))
    return found


def front_keys(rows: pd.DataFrame) -> frozenset[str]:
    """Job keys of the rows on the Pareto front: they may win, and no other such row is faster without less accuracy."""
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
    """Range of the accuracy axis (percent): all points, intervals and lines, with room, never above 100."""
    ends = [rows["accuracy"], rows["accuracy_low"], rows["accuracy_high"]]
    values = [float(value) for column in ends for value in column.dropna()]
    values += [line for line in (axis.eager_percent, axis.least_percent) if line is not None]
    low, high = min(values), max(values)
    room = max(0.08 * (high - low), 0.1)
    return [max(0.0, low - room), min(100.0, high + room)]


def _lines(axis: AccuracyAxis, look: Palette) -> list[Spec]:
    """Horizontal lines. Their names stand below the chart: in it, points would lie on them."""
    return [
        {
            "data": {"values": [{"accuracy": value}]},
            "mark": {"type": "rule", "color": look.quiet, "strokeDash": dash, "opacity": 0.8},
            "encoding": {"y": {"field": "accuracy", "type": "quantitative"}},
        }
        for value, dash in ((axis.eager_percent, [1, 0]), (axis.least_percent, [5, 4]))
        if value is not None
    ]
