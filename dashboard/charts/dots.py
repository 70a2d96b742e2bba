"""Charts of figures with their intervals: one dot a line, with the build's name above it. Pure."""

import pandas as pd

from dashboard.charts import drawing as draw
from dashboard.charts.drawing import Spec
from dashboard.style import GREEN, GREY, PINK, VERMILION, Palette
from sweeps.text import digits

CHECKS = ("constraints kept", "unresolved", "constraint missed", "disqualified")
"""Statuses of variants that were only checked, in the order of legends."""

BACKENDS = ("CPU", "NNAPI")
"""Backends that the chart `backends` compares, in the order of its dots."""


_DIRECT: Spec = {"field": "shade", "type": "nominal", "scale": None}


def latency(rows: pd.DataFrame, look: Palette) -> Spec:
    """Return a chart with a dot for each build's p50 latency (ms) and its 95 % interval, the best rank on top. `rows`:
    `dashboard.rows.ranked`."""
    shown = rows[rows["latency_p50_ms"].notna()]
    places, height = draw.lines_of(list(shown["variant"]))
    data = [
        {
            "name": text,
            "top": top,
            "dot": dot,
            "p50": row.latency_p50_ms,
            "low": draw.known(row.latency_ci_low_ms),
            "high": draw.known(row.latency_ci_high_ms),
            "figure": row.latency_short,
            "shade": draw.shade(str(row.status), look),
            **draw.tip(row),
        }
        for row, (text, top, dot) in zip(shown.itertuples(), places, strict=True)
    ]
    # A dot without an interval gets no line, because Vega would begin the line at 0.
    spread = {"filter": "isValid(datum.low) && isValid(datum.high)"}
    across = {
        "field": "p50",
        "type": "quantitative",
        "scale": {"zero": True, "nice": True},
        "axis": draw.axis("p50 latency (ms)", look),
    }
    dots = {
        "mark": {"type": "point", "filled": True, "opacity": 1},
        "encoding": {
            "x": across,
            "y": draw.pixel("dot"),
            **draw.looks(shown, look),
            "tooltip": draw.TOOLTIP,
        },
    }
    return draw.chart(
        data,
        [
            {"mark": {"type": "rule", "color": look.faint}, "encoding": {"y": draw.pixel("dot")}},
            draw.text("name", "top", look.text, {"x": {"value": 0}}, size=13),
            draw.text("figure", "top", look.quiet, {"x": {"value": "width"}}, align="right", size=12),
            {
                "transform": [spread],
                "mark": {"type": "rule", "strokeWidth": 5, "opacity": 0.45, "strokeCap": "round"},
                "encoding": {
                    "x": {"field": "low", "type": "quantitative"},
                    "x2": {"field": "high"},
                    "y": draw.pixel("dot"),
                    "stroke": _DIRECT,
                },
            },
            dots,
        ],
        height,
        look,
    )


def drops(rows: pd.DataFrame, most_points: float | None, look: Palette) -> Spec:
    """Return a chart of the accuracy drop of each checked variant in percentage points, with its 95 % interval. `rows`:
    `dashboard.rows.checked`. `most_points`: the largest drop that the objective allows, drawn as a line; `None` for no
    line."""
    shown = rows[rows["drop_points"].notna()]
    places, height = draw.lines_of(list(shown["variant"]))
    data = [
        {
            "name": text,
            "top": top,
            "dot": dot,
            "drop": row.drop_points,
            "low": draw.known(row.drop_low_points),
            "high": draw.known(row.drop_high_points),
            "status": row.status,
        }
        for row, (text, top, dot) in zip(shown.itertuples(), places, strict=True)
    ]
    colours = draw.present(shown, CHECKS, (GREEN, look.unresolved, VERMILION, PINK))
    shapes = draw.present(shown, CHECKS, ("circle", "square", "triangle-up", "cross"))
    across = {"field": "drop", "type": "quantitative", "axis": draw.axis("accuracy drop (points of top-1)", look)}
    spec = draw.chart(
        data,
        [
            draw.text("name", "top", look.text, {"x": {"value": 0}}, size=13),
            {
                "transform": [{"filter": "isValid(datum.low) && isValid(datum.high)"}],
                "mark": {"type": "rule", "color": look.quiet, "strokeWidth": 1.5},
                "encoding": {
                    "x": {"field": "low", "type": "quantitative"},
                    "x2": {"field": "high"},
                    "y": draw.pixel("dot"),
                },
            },
            {
                "mark": {"type": "point", "filled": True, "opacity": 1, "size": 110},
                "encoding": {
                    "x": across,
                    "y": draw.pixel("dot"),
                    "color": {"field": "status", "type": "nominal", "scale": colours, "legend": draw.LEGEND},
                    "shape": {"field": "status", "type": "nominal", "scale": shapes, "legend": None},
                },
            },
        ],
        height,
        look,
    )
    if most_points is not None:
        line = {"type": "rule", "color": look.quiet, "strokeDash": [5, 4]}
        at = {"drop": most_points, "text": f"most allowed: {digits(most_points)} points"}
        words = {"type": "text", "align": "right", "dx": -4, "dy": 6, "baseline": "top", "color": look.quiet}
        x = {"field": "drop", "type": "quantitative"}
        layers = [
            {"mark": line, "encoding": {"x": x}},
            {"mark": words, "encoding": {"x": x, "y": {"value": height - 18}, "text": {"field": "text"}}},
        ]
        spec["layer"].insert(0, {"data": {"values": [at]}, "layer": layers})
    return spec


def backends(rows: pd.DataFrame, look: Palette) -> Spec:
    """Return a chart of p50 latencies (ms) with 95 % intervals: for each label, NNAPI's dot beside the CPU's. `rows`:
    `dashboard.rows.backend_bars`."""
    labels = list(dict.fromkeys(rows["label"]))
    places, height = draw.lines_of(labels)
    where = dict(zip(labels, places, strict=True))
    firsts = ~rows["label"].duplicated()
    data = [
        {
            "name": where[row.label][0] if is_first else "",
            "ratio": row.ratio_text if is_first else "",
            "top": where[row.label][1],
            "dot": where[row.label][2],
            "backend": row.backend,
            "shade": GREY if row.backend == BACKENDS[0] else look.winner,
            "variant": row.variant,
            "p50": row.p50_ms,
            "low": draw.known(row.low_ms),
            "high": draw.known(row.high_ms),
        }
        for row, is_first in zip(rows.itertuples(), firsts, strict=True)
    ]
    colour = {
        "field": "backend",
        "type": "nominal",
        "scale": {"domain": list(BACKENDS), "range": [GREY, look.winner]},
        "legend": draw.LEGEND,
    }
    x = {"field": "p50", "type": "quantitative", "scale": {"zero": True}, "axis": draw.axis("p50 latency (ms)", look)}
    tips = [
        {"field": "backend", "type": "nominal", "title": "Backend"},
        {"field": "variant", "type": "nominal", "title": "Build"},
        {"field": "p50", "type": "quantitative", "title": "p50 (ms)", "format": ".3f"},
    ]
    return draw.chart(
        data,
        [
            draw.text("name", "top", look.text, {"x": {"value": 0}}, size=13),
            draw.text("ratio", "top", look.quiet, {"x": {"value": "width"}}, align="right", size=12),
            {
                "transform": [{"filter": "isValid(datum.low) && isValid(datum.high)"}],
                "mark": {"type": "rule", "strokeWidth": 5, "opacity": 0.45},
                "encoding": {
                    "x": {"field": "low", "type": "quantitative"},
                    "x2": {"field": "high"},
                    "y": draw.pixel("dot"),
                    "stroke": _DIRECT,
                },
            },
            {
                "mark": {"type": "point", "filled": True, "size": 110, "opacity": 1},
                "encoding": {"x": x, "y": draw.pixel("dot"), "color": colour, "tooltip": tips},
            },
        ],
        height,
        look,
    )
