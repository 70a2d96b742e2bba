"""All charts of rankings share these marks, axes and looks, as parts of Vega-Lite specifications."""

from collections.abc import Sequence
from typing import Any

import pandas as pd

from dashboard.style import GREEN, GREY, Palette
from dashboard.words import wrapped

Spec = dict[str, Any]

STATUS = ("winner", "tied with it", "may ship", "unresolved", "may not ship")
"""Colours and shapes show these states of a ranked build, in the order of legends."""

PADDING = {"left": 0, "right": 2, "top": 2, "bottom": 2}
"""Around a chart, in pixels. Streamlit leaves 20 below one that says nothing of it."""

NAME_WIDTH = 40
"""A line of a name has this many characters, which 300 pixels hold."""

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
    """Data inside a layer stays in the specification: to make an Arrow table of it takes longer than all the rest."""
    return {
        "height": height,
        "autosize": {"type": "fit-x", "contains": "padding"},
        "padding": PADDING,
        "layer": [{"data": {"values": list(data)}, "layer": layers}],
        "config": {"view": {"stroke": None}, "legend": {"labelColor": look.text}},
    }


def lines_of(names: Sequence[str]) -> tuple[list[tuple[str, int, int]], int]:
    """The text of each name in lines, and the pixels from the top to the text and to the dot; and the height."""
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
    """Colour, shape and size by status."""
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
    """A scale on which each status always has the same value."""
    occurring = set(rows["status"])
    present = [(status, value) for status, value in zip(statuses, values, strict=True) if status in occurring]
    return {"domain": [status for status, _ in present], "range": [value for _, value in present]}


def shade(status: str, look: Palette) -> str:
    """The colour of a status."""
    return dict(zip(STATUS, _colours(look), strict=True))[status]


def _colours(look: Palette) -> tuple[str, ...]:
    return look.winner, GREEN, look.ships, look.unresolved, GREY


def known(value: Any) -> float | None:
    return None if value != value else float(value)
