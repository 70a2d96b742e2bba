"""The charts of a ranking. Pure: rows as `dashboard.rows` makes them in, an Altair chart out.

Only titles, field names and colours are written here. Text from the store reaches Vega as data, which it draws
literally. The colours are Okabe and Ito's (safe for common kinds of colour blindness), and shapes repeat them.
"""

import math
from dataclasses import dataclass
from typing import Any

import altair as alt
import pandas as pd

Chart = alt.LayerChart | alt.FacetChart
"""The declared return type of `alt.layer`; here a layer chart."""

STATUS = (
    "recommended",
    "equal to it",
    "not told apart",
    "ranked behind",
    "eliminated",
    "unresolved",
    "constraint missed",
    "disqualified",
)
"""The statuses of ranked variants, in the order of legends. `unresolved`: whether a constraint is kept."""

CHECKS = ("constraints kept", "unresolved", "constraint missed", "disqualified")
"""The statuses of variants that were only checked, in the order of legends."""

BACKENDS = ("CPU", "NNAPI")
"""The backends that `backends` compares, in the order of its bars."""

STEP_PX = 27
"""Height of one bar with its gap."""

TOO_CLOSE = (0.12, 0.05)
"""Shares of the chart's width and height. Two ranks closer than this would overlap."""

_COLOURS = ("#0072B2", "#56B4E9", "#7FB3D5", "#8A94A0", "#C3CAD1", "#E69F00", "#D55E00", "#CC79A7")
_SHAPES = ("diamond", "diamond", "circle", "circle", "triangle-down", "square", "triangle-up", "cross")
_SIZES = (420, 160, 120, 110, 110, 120, 120, 120)
_CHECK_COLOURS = ("#009E73", *_COLOURS[5:])
_CHECK_SHAPES = ("circle", *_SHAPES[5:])
_INK = "#6B7785"
"""Intervals, lines and small print: readable on the light and on the dark background."""
_TOOLTIP = [
    alt.Tooltip("label:N", title="Variant"),
    alt.Tooltip("latency_text:N", title="p50"),
    alt.Tooltip("interval_text:N", title="95 % interval"),
    alt.Tooltip("accuracy_text:N", title="Accuracy"),
    alt.Tooltip("drop_text:N", title="Accuracy drop"),
    alt.Tooltip("size_text:N", title="Size"),
    alt.Tooltip("verdict:N", title="Constraints"),
    alt.Tooltip("trust_text:N", title="Trust"),
]
_CHECK_TOOLTIP = [
    alt.Tooltip("variant:N", title="Variant"),
    alt.Tooltip("accuracy_text:N", title="Top-1"),
    alt.Tooltip("drop_text:N", title="Accuracy drop"),
    alt.Tooltip("drop_interval_text:N", title="95 % interval"),
    alt.Tooltip("sqnr_text:N", title="SQNR"),
    alt.Tooltip("status:N", title="Constraints"),
    alt.Tooltip("executor:N", title="Checked by"),
]


@dataclass(frozen=True, slots=True)
class AccuracyAxis:
    """The vertical axis of `tradeoff`: a title, and reference lines (percent)."""

    title: str
    eager_percent: float | None = None
    """The fp32 eager model's own accuracy."""
    least_percent: float | None = None
    """The lowest accuracy that the objective's constraint on the accuracy drop allows."""


def latency(rows: pd.DataFrame) -> Chart:
    """Bars of p50 latency in milliseconds with their 95 % intervals, best rank on top."""
    shown = rows[rows["latency_p50_ms"].notna()]
    base = alt.Chart(shown).encode(
        y=alt.Y(
            "label:N",
            sort=list(shown["label"]),
            title=None,
            axis=alt.Axis(labelLimit=330, labelPadding=8, ticks=False, domain=False),
        ),
        tooltip=_TOOLTIP,
    )
    bars = base.mark_bar(cornerRadiusEnd=3, height={"band": 0.62}).encode(
        x=alt.X("latency_p50_ms:Q", title="p50 latency (ms), whisker: 95 % interval", scale=alt.Scale(zero=True)),
        color=_colour(shown, STATUS, _COLOURS),
    )
    interval = base.encode(x=alt.X("latency_ci_low_ms:Q", title=""), x2="latency_ci_high_ms:Q")
    figures = base.mark_text(align="left", dx=7, color=_INK, fontSize=12).encode(
        x="latency_end_ms:Q", text="latency_short:N"
    )
    return alt.layer(bars, *_whiskers(interval), figures).properties(height=alt.Step(STEP_PX))


def tradeoff(rows: pd.DataFrame, axis: AccuracyAxis, height: int = 340) -> Chart:
    """Latency against accuracy with both intervals, ranks beside the points, the best trade-offs joined by a line."""
    shown = rows[rows["latency_p50_ms"].notna() & rows["accuracy"].notna()]
    # Logarithmic: variants differ by factors, and the choice is among the fast ones.
    across = alt.X(
        "latency_p50_ms:Q", title="p50 latency (ms), logarithmic", scale=alt.Scale(type="log", nice=False, padding=24)
    )
    up = alt.Y(
        "accuracy:Q",
        title=axis.title,
        scale=alt.Scale(domain=_span(shown, axis), zero=False, nice=False, padding=14),
    )
    # An interval from the normal distribution may exceed an accuracy of 100 %.
    ends = {name: shown[name].clip(0.0, 100.0) for name in ("accuracy_low", "accuracy_high")}
    shown = shown.assign(**ends)
    # The recommended variant is drawn last, on top of the others.
    shown = shown.iloc[::-1].assign(places=places_beside(shown.iloc[::-1]))
    base = alt.Chart(shown)
    layers: list[Any] = list(_lines(axis))
    front = shown[shown["job_key"].isin(front_keys(shown))]
    if len(front) > 1:
        layers.append(
            alt.Chart(front)
            .mark_line(interpolate="step-after", color=_INK, strokeWidth=1.2, opacity=0.55)
            .encode(x=across, y=up, order="latency_p50_ms:Q")
        )
    layers += [
        base.mark_rule(color=_INK, opacity=0.4).encode(x="latency_ci_low_ms:Q", x2="latency_ci_high_ms:Q", y=up),
        base.mark_rule(color=_INK, opacity=0.4).encode(x=across, y="accuracy_low:Q", y2="accuracy_high:Q"),
        base.mark_point(filled=True, opacity=1, stroke="white", strokeWidth=1).encode(
            x=across,
            y=up,
            color=_colour(shown, STATUS, _COLOURS),
            shape=alt.Shape("status:N", scale=_scale(shown, STATUS, _SHAPES), legend=None),
            size=alt.Size(
                "status:N",
                scale=alt.Scale(domain=list(STATUS), range=list(_SIZES)),
                legend=None,
            ),
            tooltip=_TOOLTIP,
        ),
        base.mark_text(align="left", dx=9, dy=-9, color=_INK, fontSize=12, fontWeight=600).encode(
            x=across, y=up, text="places:N"
        ),
    ]
    return alt.layer(*layers).properties(height=height)


def drops(rows: pd.DataFrame, most_points: float | None) -> Chart:
    """The accuracy drop of each checked variant in percentage points, with its 95 % interval. `most_points`: draws a
    line at the largest drop that the objective allows."""
    shown = rows[rows["drop_points"].notna()]
    base = alt.Chart(shown).encode(
        y=alt.Y(
            "variant:N",
            sort=list(shown["variant"]),
            title=None,
            axis=alt.Axis(labelLimit=330, labelPadding=8, ticks=False, domain=False),
        ),
        tooltip=_CHECK_TOOLTIP,
    )
    layers: list[Any] = [] if most_points is None else [_most_allowed(most_points)]
    layers += [
        base.mark_rule(color=_INK, strokeWidth=1.5).encode(x="drop_low_points:Q", x2="drop_high_points:Q"),
        base.mark_point(filled=True, opacity=1, size=110).encode(
            x=alt.X("drop_points:Q", title="Accuracy drop (points of top-1), line: 95 % interval"),
            color=_colour(shown, CHECKS, _CHECK_COLOURS),
            shape=alt.Shape("status:N", scale=_scale(shown, CHECKS, _CHECK_SHAPES), legend=None),
        ),
    ]
    return alt.layer(*layers).properties(height=alt.Step(STEP_PX))


def backends(rows: pd.DataFrame) -> Chart:
    """Bars of p50 latency in milliseconds with their 95 % intervals: for each label, NNAPI's bar below the CPU's."""
    side = alt.YOffset("backend:N", sort=list(BACKENDS))
    base = alt.Chart(rows).encode(
        y=alt.Y(
            "label:N",
            sort=list(dict.fromkeys(rows["label"])),
            title=None,
            axis=alt.Axis(labelLimit=330, labelPadding=8, ticks=False, domain=False),
        ),
        yOffset=side,
        tooltip=[
            alt.Tooltip("backend:N", title="Backend"),
            alt.Tooltip("variant:N", title="Variant"),
            alt.Tooltip("p50_ms:Q", title="p50 (ms)", format=".3f"),
        ],
    )
    bars = base.mark_bar(cornerRadiusEnd=3).encode(
        x=alt.X("p50_ms:Q", title="p50 latency (ms), whisker: 95 % interval", scale=alt.Scale(zero=True)),
        color=alt.Color(
            "backend:N",
            scale=alt.Scale(domain=list(BACKENDS), range=[_COLOURS[3], _COLOURS[0]]),
            legend=alt.Legend(title=None, orient="top", direction="horizontal", symbolSize=110, offset=6),
        ),
    )
    return alt.layer(bars, *_whiskers(base.encode(x="low_ms:Q", x2="high_ms:Q"))).properties(height=alt.Step(STEP_PX))


def _whiskers(interval: alt.Chart) -> tuple[alt.Chart, alt.Chart]:
    """Dark with a light edge: visible on the bars, and on the light and the dark background."""
    return interval.mark_rule(color="white", strokeWidth=4), interval.mark_rule(color="#17212E", strokeWidth=1.5)


def places_beside(rows: pd.DataFrame) -> list[str]:
    """The text beside each point. Ranks that would overlap are joined, beside one of the points."""
    points = list(zip(map(math.log, rows["latency_p50_ms"]), rows["accuracy"], strict=True))
    spans = [max(max(axis) - min(axis), 1e-9) for axis in zip(*points, strict=True)]
    clusters: list[tuple[int, list[str]]] = []
    for index, place in enumerate(rows["place"]):
        if not place:
            continue
        for first, found in clusters:
            distances = [abs(a - b) / span for a, b, span in zip(points[index], points[first], spans, strict=True)]
            if distances[0] < TOO_CLOSE[0] and distances[1] < TOO_CLOSE[1]:
                found.append(place)
                break
        else:
            clusters.append((index, [place]))
    texts = {first: ", ".join(dict.fromkeys(sorted(found, key=_rank_order))) for first, found in clusters}
    return [texts.get(index, "") for index in range(len(rows))]


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


def _rank_order(place: str) -> tuple[int, str]:
    """Sort key of places: `1` before `1=` before `1?` before `2`."""
    return int(place.rstrip("=?")), place


def _scale(rows: pd.DataFrame, statuses: tuple[str, ...], values: tuple[str, ...]) -> alt.Scale:
    """A scale on which each status always has the same value."""
    found = set(rows["status"])
    present = [(status, value) for status, value in zip(statuses, values, strict=True) if status in found]
    return alt.Scale(domain=[status for status, _ in present], range=[value for _, value in present])


def _colour(rows: pd.DataFrame, statuses: tuple[str, ...], colours: tuple[str, ...]) -> alt.Color:
    return alt.Color(
        "status:N",
        scale=_scale(rows, statuses, colours),
        # Beside long names a page of 1280 pixels has no room for more than two columns.
        legend=alt.Legend(title=None, orient="top", direction="horizontal", symbolSize=110, offset=6, columns=2),
    )


def _span(rows: pd.DataFrame, axis: AccuracyAxis) -> list[float]:
    """Range of the accuracy axis (percent): all points, intervals and lines, with room, never above 100."""
    ends = [rows["accuracy"], rows["accuracy_low"], rows["accuracy_high"]]
    values = [float(value) for column in ends for value in column.dropna()]
    values += [line for line in (axis.eager_percent, axis.least_percent) if line is not None]
    low, high = min(values), max(values)
    room = max(0.08 * (high - low), 0.1)
    return [max(0.0, low - room), min(100.0, high + room)]


def _lines(axis: AccuracyAxis) -> list[Chart]:
    """Horizontal lines with their names at the right end."""
    found = []
    for value, name, dash in (
        (axis.eager_percent, "fp32 eager", [1, 0]),
        (axis.least_percent, "least allowed", [5, 4]),
    ):
        if value is None:
            continue
        line = alt.Chart(pd.DataFrame({"accuracy": [value], "text": [f"{name}|{value:.2f} %"]}))
        found.append(
            alt.layer(
                line.mark_rule(color=_INK, strokeDash=dash, opacity=0.5).encode(y="accuracy:Q"),
                line.mark_text(align="left", dx=5, color=_INK, fontSize=11, lineBreak="|").encode(
                    y="accuracy:Q", x=alt.value("width"), text="text:N"
                ),
            )
        )
    return found


def _most_allowed(points: float) -> Chart:
    """A dashed line across all variants, with its name at the upper end."""
    line = alt.Chart(pd.DataFrame({"drop_points": [points], "text": ["most allowed"]})).encode(x="drop_points:Q")
    return alt.layer(
        line.mark_rule(color=_INK, strokeDash=[5, 4], opacity=0.5),
        line.mark_text(align="left", dx=4, color=_INK, fontSize=11).encode(y=alt.value(6), text="text:N"),
    )
