"""Marks, axes and colours that all charts of rankings share, as parts of Vega-Lite specifications."""

from collections.abc import Sequence
from typing import Any

import pandas as pd

from dashboard.style import GREEN, GREY, Palette
from dashboard.words import wrapped

Spec = dict[str, Any]

STATUS = ("winner", "tied with it", "may ship", "unresolved", "may not ship")
"""Statuses of a ranked build, which colours and shapes show, in the order of legends."""

PADDING = {"left": 0, "right": 2, "top": 2, "bottom": 2}
"""Padding around a chart, in pixels. Without it, Streamlit leaves 20 below a chart."""

NAME_WIDTH = 40
"""Most characters in one line of a build's name; they fit into 300 pixels."""

_SHAPES = ("diamond", "diamond", "circle", "square", "triangle-up")
_SIZES = (260, 150, 110, 110, 100)
_LINE_PX, _DOT_PX = 16, 24

LEGEND: Spec = {
    "title": None,
    "orient": "top",
    "direction": "horizontal",
    "symbolSize": 100,
    "offset": 8,
    "columns": 3,
    "labelLimit": 0,
}
_TIPS = {
    "variant": "Build",
    "latency_text": "p50",
    "interval_text": "95 % interval",
    "accuracy_text": "Accuracy",
    "drop_text": "Accuracy drop",
    "size_text": "Size",
    "status": "Verdict",
}
TOOLTIP: list[Spec] = [{"field": name, "type": "nominal", "title": title} for name, title in _TIPS.items()]


def tip(row: Any) -> dict[str, str]:
    return {name: getattr(row, name) for name in _TIPS}


def chart(data: Sequence[Spec], layers: list[Spec], height: int, look: Palette) -> Spec:
    """Return a Vega-Lite chart of these layers. The data are inside a layer, because Streamlit converts data at the top
    level to an Arrow table, which takes longer than everything else."""
    return {
        "height": height,
        "autosize": {"type": "fit-x", "contains": "padding"},
        "padding": PADDING,
        "layer": [{"data": {"values": list(data)}, "layer": layers}],
        "config": {"view": {"stroke": None}, "legend": {"labelColor": look.text}},
    }


def lines_of(names: Sequence[str]) -> tuple[list[tuple[str, int, int]], int]:
    """Return for each name its wrapped text and the pixels from the chart's top to the text and to the dot; and the
    chart's height in pixels."""
    texts, top = [], 4
    for name in names:
        lines = wrapped(name, NAME_WIDTH)
        dot = top + _LINE_PX * len(lines) + _DOT_PX // 2 - 3
        texts.append(("\n".join(lines), top, dot))
        top = dot + _DOT_PX // 2 + 3
    return texts, top + 6


def pixel(field: str) -> Spec:
    return {"field": field, "type": "quantitative", "scale": None, "axis": None}


def text(field: str, at: str, colour: str, where: Spec, *, align: str = "left", size: int = 12) -> Spec:
    mark = {
        "type": "text",
        "align": align,
        "baseline": "top",
        "color": colour,
        "fontSize": size,
        "limit": 0,
        "lineBreak": "\n",
    }
    return {"mark": mark, "encoding": {**where, "y": pixel(at), "text": {"field": field}}}


def axis(title: str, look: Palette, ticks: int = 5) -> Spec:
    plain = {"title": title, "tickCount": ticks, "grid": True, "gridColor": look.faint, "domain": False, "ticks": False}
    return {**plain, "labelColor": look.quiet, "titleColor": look.quiet, "titleFontWeight": "normal"}


def looks(rows: pd.DataFrame, look: Palette) -> Spec:
    """Return the encoding of colour, shape and size by the status of a build."""
    sizes = {"domain": list(STATUS), "range": list(_SIZES)}
    return {
        "color": colour(rows, look),
        "shape": {"field": "status", "type": "nominal", "scale": present(rows, STATUS, _SHAPES), "legend": None},
        "size": {"field": "status", "type": "nominal", "scale": sizes, "legend": None},
    }


def colour(rows: pd.DataFrame, look: Palette) -> Spec:
    scale = present(rows, STATUS, _colours(look))
    return {"field": "status", "type": "nominal", "scale": scale, "legend": LEGEND}


def present(rows: pd.DataFrame, statuses: tuple[str, ...], values: tuple[str, ...]) -> Spec:
    """Return a scale of the statuses that occur, in which each status has the same value in every chart."""
    occurring = set(rows["status"])
    present = [(status, value) for status, value in zip(statuses, values, strict=True) if status in occurring]
    return {"domain": [status for status, _ in present], "range": [value for _, value in present]}


def shade(status: str, look: Palette) -> str:
    """Return the colour of a status."""
    return dict(zip(STATUS, _colours(look), strict=True))[status]


def _colours(look: Palette) -> tuple[str, ...]:
    return look.winner, GREEN, look.ships, look.unresolved, GREY


def known(value: Any) -> float | None:
    return None if value != value else float(value)
