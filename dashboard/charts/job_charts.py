"""Charts of one job, of a comparison, and of a device's sentinel. Pure: rows in, a Vega-Lite specification out.

The specifications contain only constant titles, field names and colours. Text from the journal is passed to Vega as
data.
"""

from collections.abc import Sequence
from typing import Any

from dashboard.charts.drawing import LEGEND, PADDING, Spec
from dashboard.style import GREEN, PINK, Palette

Rows = Sequence[dict[str, Any]]

HEIGHT_PX = 260


def samples(columns: Rows, spans: Rows, look: Palette) -> Spec:
    """Return the chart of a job's samples over time. `columns`: `job_rows.sample_columns`; `spans`:
    `job_rows.block_spans`."""
    across = _x("at_s", "Seconds of timed iterations; blocks side by side")
    tips = _tips(block="Block", low_ms="Lowest (ms)", high_ms="Highest (ms)", samples="Samples")
    ends = [
        {
            "mark": {"type": "point", "filled": True, "color": look.ships, "size": 9, "opacity": 0.8},
            "encoding": {"x": across, "y": _y(end, "Latency (ms)"), "tooltip": tips},
        }
        for end in ("low_ms", "high_ms")
    ]
    between = {
        "mark": {"type": "rule", "color": look.ships, "strokeWidth": 1.5, "opacity": 0.6},
        "encoding": {"x": across, "y": _y("low_ms", "Latency (ms)"), "y2": {"field": "high_ms"}, "tooltip": tips},
    }
    figures = {
        "data": {"values": list(spans)},
        "mark": {"type": "rule", "color": look.side_a, "strokeWidth": 3},
        "encoding": {
            "x": {**across, "field": "from_s"},
            "x2": {"field": "to_s"},
            "y": _y("figure_ms", "Latency (ms)"),
            "tooltip": _tips(block="Block", figure_ms="Its figure (ms)"),
        },
    }
    return _layers([{"data": {"values": list(columns)}, "layer": [between, *ends]}, figures], look)


def warmups(rows: Rows, look: Palette) -> Spec:
    """Return the chart of the blocks' first inferences and warm-ups. `rows`: `job_rows.warmup_rows`."""
    encoding = {
        "x": {**_x("iteration", "Iteration of the process; 0 is the first inference"), "axis": _whole_axis(rows)},
        "y": {**_y("ms", "Latency (ms), logarithmic"), "scale": {"type": "log", "nice": False, "padding": 10}},
        "detail": {"field": "block", "type": "nominal"},
        "tooltip": _tips(block="Block", iteration="Iteration", ms="ms"),
    }
    return _layers(
        [
            {"mark": {"type": "line", "color": look.ships, "opacity": 0.8}, "encoding": encoding},
            {
                "mark": {"type": "point", "filled": True, "color": look.ships, "size": 45, "opacity": 1},
                "encoding": encoding,
            },
        ],
        look,
        rows,
        height=180,
    )


def temperatures(rows: Rows, look: Palette) -> Spec:
    """Return the chart of temperatures before and after each block. `rows`: `job_rows.temperature_rows`."""
    colour = {
        "field": "when",
        "type": "nominal",
        "scale": {"domain": ["before", "after"], "range": [look.side_b, look.side_a]},
        "legend": LEGEND,
    }
    encoding = {
        "x": {**_x("block", "Block"), "axis": {"tickMinStep": 1, "format": "d", "grid": False}},
        "y": {**_y("temp_c", "Temperature (°C)"), "axis": {"format": "~g", "tickMinStep": 0.5}},
        "color": colour,
        "shape": {"field": "when", "type": "nominal", "scale": {"domain": ["before", "after"]}, "legend": None},
        "tooltip": [*_tips(block="Block", temp_c="°C"), {"field": "when", "title": "When"}],
    }
    return _layers(
        [{"mark": {"type": "point", "filled": True, "size": 70}, "encoding": encoding}], look, rows, height=180
    )


def sentinel(looks: Rows, changed: Rows, look: Palette, measured: Rows = ()) -> Spec:
    """Return the chart of a sentinel's latency over time. `looks`: one row for each block of the sentinel, with `at`
    (ISO 8601, UTC) and `ms`. `changed` and `measured`: spans with `from` and `to`, in which the device's own speed had
    changed, and in which a job was measured."""
    when = {"field": "at", "type": "temporal", "title": "UTC", "scale": {"type": "utc", "padding": 12}}
    layers = [
        {
            "data": {"values": list(spans)},
            "mark": {"type": "rect", "color": colour, "opacity": 0.22},
            "encoding": {
                "x": {**when, "field": "from"},
                "x2": {"field": "to"},
                "tooltip": [{"field": "what", "title": "What"}],
            },
        }
        for spans, colour in ((measured, GREEN), (changed, PINK))
        if spans
    ]
    middle = sorted(sample["ms"] for sample in looks)[len(looks) // 2] if looks else 0.0
    layers += [
        {
            "data": {"values": [{"ms": middle}]},
            "mark": {"type": "rule", "color": look.quiet, "strokeDash": [5, 4]},
            "encoding": {"y": _y("ms", "The sentinel's latency (ms)")},
        },
        {
            "data": {"values": list(looks)},
            "mark": {"type": "point", "filled": True, "color": look.winner, "size": 55, "opacity": 0.8},
            "encoding": {
                "x": when,
                "y": _y("ms", "The sentinel's latency (ms)"),
                "tooltip": [{"field": "at", "title": "UTC"}, *_tips(ms="ms")],
            },
        },
    ]
    return _layers(layers, look, height=220)


def distributions(bins: Rows, medians: Rows, look: Palette) -> Spec:
    """Return the chart of the samples and block figures of the two sides of a comparison, A above B. `bins`:
    `compare_rows.histograms`; `medians`: `compare_rows.block_points`."""
    across = _x("low_ms", "Latency (ms)")
    up = {"field": "base", "type": "quantitative", "axis": None, "scale": {"domain": [-0.3, 2.4]}}
    colour = {
        "field": "side",
        "type": "nominal",
        "scale": {"domain": ["A", "B"], "range": [look.side_a, look.side_b]},
        "legend": {**LEGEND, "symbolType": "square"},
    }
    return _layers(
        [
            {
                "data": {"values": list(bins)},
                "mark": {"type": "rect", "opacity": 0.55},
                "encoding": {
                    "x": across,
                    "x2": {"field": "high_ms"},
                    "y": up,
                    "y2": {"field": "top"},
                    "color": colour,
                    "tooltip": _tips(low_ms="From (ms)", high_ms="To (ms)", samples="Samples"),
                },
            },
            {
                "data": {"values": list(medians)},
                "mark": {"type": "tick", "orient": "vertical", "thickness": 2.5, "size": 16, "opacity": 1},
                "encoding": {
                    "x": {**across, "field": "ms"},
                    "y": up,
                    "color": colour,
                    "tooltip": _tips(block="Block", ms="Its figure (ms)"),
                },
            },
        ],
        look,
        height=230,
    )


def ratios(rows: Rows, estimate: dict[str, float], look: Palette) -> Spec:
    """Return the chart of the ratio of B to A in each round. `rows`: `compare_rows.paired`. `estimate`: `value`, and
    `low` and `high` if it has an interval."""
    up = {**_y("ratio", "B as a multiple of A"), "scale": {"zero": False, "padding": 14}}
    layers: list[Spec] = []
    if "low" in estimate:
        layers.append(
            {
                "data": {"values": [estimate]},
                "mark": {"type": "rect", "color": look.side_b, "opacity": 0.15},
                "encoding": {"y": {**up, "field": "low"}, "y2": {"field": "high"}},
            }
        )
    layers += [
        {
            "data": {"values": [{"ratio": 1.0}]},
            "mark": {"type": "rule", "color": look.quiet, "strokeDash": [5, 4]},
            "encoding": {"y": up},
        },
        {
            "data": {"values": [estimate]},
            "mark": {"type": "rule", "color": look.side_b, "strokeWidth": 2},
            "encoding": {"y": {**up, "field": "value"}},
        },
        {
            "data": {"values": list(rows)},
            "mark": {"type": "point", "filled": True, "color": look.side_b, "size": 70, "opacity": 1},
            "encoding": {
                "x": {**_x("number", "Round"), "axis": {"tickMinStep": 1, "format": "d", "grid": False}},
                "y": up,
                "tooltip": _tips(number="Round", a_ms="A (ms)", b_ms="B (ms)", ratio="B / A"),
            },
        },
    ]
    return _layers(layers, look, height=230)


_TICKS: Spec = {"expr": "max(2, ceil(width / 90))"}
"""Number of ticks by the chart's width: Vega's default is so many that their labels touch on a wide screen."""


def _layers(layers: list[Spec], look: Palette, rows: Rows = (), height: int = HEIGHT_PX) -> Spec:
    """Return a Vega-Lite chart of these layers. `rows` are put inside a layer, because Streamlit converts data at the
    top level to an Arrow table, which takes longer than everything else."""
    return {
        "height": height,
        "autosize": {"type": "fit-x", "contains": "padding"},
        "padding": PADDING,
        "layer": [{"data": {"values": list(rows)}, "layer": layers}] if rows else layers,
        "config": {
            "view": {"stroke": None},
            "legend": {"labelColor": look.text},
            "axis": {"labelColor": look.quiet, "titleColor": look.quiet, "gridColor": look.faint},
        },
    }


def _x(field: str, title: str) -> Spec:
    return {
        "field": field,
        "type": "quantitative",
        "title": title,
        "scale": {"zero": False, "nice": False, "padding": 8},
        "axis": {"grid": False, "labelOverlap": True, "tickCount": _TICKS},
    }


def _y(field: str, title: str) -> Spec:
    return {"field": field, "type": "quantitative", "title": title, "scale": {"zero": False, "padding": 8}}


def _whole_axis(rows: Rows) -> Spec:
    most = max((int(row["iteration"]) for row in rows), default=0)
    return {"tickMinStep": 1, "format": "d", "grid": False, "tickCount": min(10, most + 1)}


def _tips(**titles: str) -> list[Spec]:
    return [
        {"field": field, "type": "quantitative", "title": title, "format": ".4~f" if field.endswith("ms") else "~g"}
        for field, title in titles.items()
    ]
