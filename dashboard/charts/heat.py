"""The heat map of a fleet: a row for each device, with the device's name above its cells, so that no name is cut at any
width. Pure.

A click on a cell gives the selection `cell`, with the cell's `device`, `model` and `job`.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field

from dashboard.charts.drawing import Spec
from dashboard.style import ORANGE, Palette, contrast
from dashboard.words import wrapped

_LINE_PX, _NAME_PX, _PAD_PX = 14, 22, 7
_PALEST = 1.6
"""Costs that exceed 1 by this much or more have the palest shade."""


TINTS = (
    ("#0B5CAD", "#FFFFFF"),
    ("#8CCBF0", "#10161E"),
    ("#007A5A", "#FFFFFF"),
    ("#F0C766", "#10161E"),
    ("#D99BBF", "#10161E"),
    ("#C9501B", "#FFFFFF"),
    ("#A9B2BC", "#10161E"),
)
"""Pairs of colours for a build's cells and for the text on them, the last pair for all further builds. The colours
differ in brightness too."""


@dataclass(frozen=True, slots=True)
class HeatCell:
    """Cell of the heat map: its text in lines, and its colours."""

    column: int
    device: str
    model: str
    job: str
    """Key of the job that a click on the cell opens."""
    lines: tuple[str, ...]
    """Lines of text; the first one is bold."""
    cost: float | None
    """Cost as a multiple of the best build's: 1 has the darkest shade; `None` has no shade."""
    tip: str
    has_ring: bool = False
    tint: int | None = None
    """Index into `TINTS`: a colour that identifies the build, in place of a shade."""


@dataclass(frozen=True, slots=True)
class HeatRow:
    """Row of the heat map: a device with its cells."""

    name: str
    cells: tuple[HeatCell, ...]
    notes: str = field(default="")
    """Notes at the right end of the name's line."""


def heat_map(heads: Sequence[str], rows: Sequence[HeatRow], look: Palette, *, characters: int = 18) -> Spec:
    """Return the heat map. `heads`: titles of the columns. `characters`: how many characters fit into a line of a
    cell."""
    columns = list(range(max(1, len(heads))))
    head_lines = ["\n".join(wrapped(head, characters)) for head in heads]
    top = _PAD_PX + _LINE_PX * max((text.count("\n") + 1 for text in head_lines), default=0)
    names: list[Spec] = []
    cells: list[Spec] = []
    texts: list[Spec] = []
    for row in rows:
        names.append({"y": top + 5, "name": row.name, "notes": row.notes})
        top += _NAME_PX
        shown = [
            (
                cell,
                [
                    (line, not number)
                    for number, content in enumerate(cell.lines)
                    for line in wrapped(content, characters)
                ],
            )
            for cell in row.cells
        ]
        height = max((len(lines) for _, lines in shown), default=1) * _LINE_PX + 2 * _PAD_PX
        for cell, lines in shown:
            fill, ink = _shade(cell.cost, look) if cell.tint is None else TINTS[min(cell.tint, len(TINTS) - 1)]
            cells.append(
                {
                    "column": cell.column,
                    "y": top,
                    "y2": top + height - 3,
                    "fill": fill,
                    "ring": ORANGE if cell.has_ring else fill,
                    "device": cell.device,
                    "model": cell.model,
                    "job": cell.job,
                    "tip": cell.tip,
                }
            )
            texts += [
                {"column": cell.column, "y": top + _PAD_PX + number * _LINE_PX, "text": text, "ink": ink, "bold": bold}
                for number, (text, bold) in enumerate(lines)
            ]
        top += height + 3
    x: Spec = {
        "field": "column",
        "type": "ordinal",
        "scale": {"domain": columns, "paddingInner": 0.03, "paddingOuter": 0},
        "axis": None,
    }
    picked = {"type": "point", "fields": ["device", "model", "job"], "on": "click"}
    text = {"type": "text", "baseline": "top", "limit": 0, "lineBreak": "\n"}
    write = {"y": _raw("y"), "color": {"field": "ink", "type": "nominal", "scale": None}, "text": {"field": "text"}}
    return {
        "height": max(40, top),
        "autosize": {"type": "fit-x", "contains": "padding"},
        "padding": {"left": 2, "right": 2, "top": 2, "bottom": 2},
        "config": {"view": {"stroke": None}},
        "params": [{"name": "cell", "select": picked, "views": ["cells"]}],
        "layer": [
            {
                "data": {"values": [{"column": number, "text": head} for number, head in enumerate(head_lines)]},
                "mark": {**text, "color": look.quiet, "fontSize": 12, "align": "center"},
                "encoding": {"x": x, "y": {"value": 0}, "text": {"field": "text"}},
            },
            {
                "data": {"values": names},
                "layer": [
                    {
                        "mark": {**text, "color": look.text, "fontSize": 13, "fontWeight": 600, "align": "left"},
                        "encoding": {"x": {"value": 0}, "y": _raw("y"), "text": {"field": "name"}},
                    },
                    {
                        "mark": {**text, "color": look.quiet, "fontSize": 12, "align": "right"},
                        "encoding": {"x": {"value": "width"}, "y": _raw("y"), "text": {"field": "notes"}},
                    },
                ],
            },
            {
                "name": "cells",
                "data": {"values": cells},
                "mark": {"type": "rect", "cornerRadius": 4, "cursor": "pointer", "strokeWidth": 2.5},
                "encoding": {
                    "x": x,
                    "y": _raw("y"),
                    "y2": {"field": "y2"},
                    "fill": {"field": "fill", "type": "nominal", "scale": None},
                    "stroke": {"field": "ring", "type": "nominal", "scale": None},
                    "tooltip": {"field": "tip", "type": "nominal"},
                },
            },
            {
                "data": {"values": texts},
                "layer": [
                    {
                        "transform": [{"filter": "datum.bold"}],
                        "mark": {**text, "fontSize": 12, "fontWeight": 600, "align": "center", "tooltip": False},
                        "encoding": {"x": x, **write},
                    },
                    {
                        "transform": [{"filter": "!datum.bold"}],
                        "mark": {**text, "fontSize": 11, "align": "center", "tooltip": False},
                        "encoding": {"x": x, **write},
                    },
                ],
            },
        ],
    }


def _raw(name: str) -> Spec:
    """Return the encoding of a field with pixels from the top."""
    return {"field": name, "type": "quantitative", "scale": None, "axis": None}


def _shade(cost: float | None, look: Palette) -> tuple[str, str]:
    """Return the colour of a cell, and the colour of the text on it."""
    if cost is None:
        return look.empty, look.quiet
    share = min(1.0, max(0.0, (cost - 1.0) / _PALEST))
    mixed = "#" + "".join(
        f"{round(int(look.best[at : at + 2], 16) * (1 - share) + int(look.worst[at : at + 2], 16) * share):02X}"
        for at in (1, 3, 5)
    )
    return mixed, max(look.on_best, look.on_worst, key=lambda ink: contrast(mixed, ink))
