"""The placement of names beside points, so that no name covers another one or a point, for charts of any width.
Pure."""

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from dashboard.words import wrapped

FROM_PX = (0, 400, 640)
"""Widths in pixels of a chart's plot area for which names are placed. A placement also fits all wider charts up to the
next width: there the points lie further apart, and the names keep their size."""
NARROWEST_PX = 230
"""Width of the plot area on a screen of 420 pixels."""
FONT_PX, LINE_PX = 12, 14
_CHARACTER_PX = 6.9
"""Width of a character in the widest of the usual fonts, so that no name is wider than assumed."""
BESIDE_PX = 5
_POINT_PX, _GAP_PX = 9, 3
Point = tuple[float, float]


@dataclass(frozen=True, slots=True)
class Label:
    """Name beside its point."""

    text: str
    """Name, wrapped into lines."""
    align: str
    """Alignment: with `left` the name begins at the point, beside the vertical line of its interval; with `right` it
    ends there."""
    dy: int
    """Pixels from the point down to the name's top."""


@dataclass(frozen=True, slots=True)
class _Box:
    left: float
    top: float
    right: float
    bottom: float

    def meets(self, other: "_Box") -> bool:
        return (
            self.left < other.right and other.left < self.right and self.top < other.bottom and other.top < self.bottom
        )


def placed(
    points: Sequence[Point], names: Sequence[str], order: Sequence[int], width: float, height: float
) -> list[Label | None]:
    """Return the label of each point, `None` without room for it. `points`: pixels from the left and from the top of a
    chart of this `width` and `height`. `order`: the indices of points that may have a name, the most important first;
    the first one gets its name whenever it fits into the chart."""
    labels: list[Label | None] = [None] * len(points)
    dots = [_Box(x - _POINT_PX, y - _POINT_PX, x + _POINT_PX, y + _POINT_PX) for x, y in points]
    boxes: list[_Box] = []
    for number in order:
        obstacles = [*boxes, *(dot for at, dot in enumerate(dots) if at != number)]
        ways = list(_ways(points[number], names[number], width, height))
        free = [(label, box) for label, box in ways if not any(map(box.meets, obstacles))]
        if not free and not boxes:
            free = ways[:1]
        for label, box in free[:1]:
            labels[number] = label
            boxes.append(box)
    return labels


def _ways(point: Point, name: str, width: float, height: float) -> Iterator[tuple[Label, _Box]]:
    """Yield the places where the name of a point fits into the chart: first above the point, and first to the side with
    more room."""
    x, y = point
    most = min(30, int((width / 2 - BESIDE_PX) / _CHARACTER_PX))
    lines = wrapped(name, most)
    wide, high = _CHARACTER_PX * max(map(len, lines)), LINE_PX * len(lines)
    sides = ("left", "right") if x < width / 2 else ("right", "left")
    for dy, align in itertools.product((-high - _POINT_PX - _GAP_PX, _POINT_PX + _GAP_PX), sides):
        left = x + BESIDE_PX if align == "left" else x - BESIDE_PX - wide
        box = _Box(left, y + dy, left + wide, y + dy + high)
        if left >= 0 and box.right <= width and box.top >= 0 and box.bottom <= height:
            yield Label("\n".join(lines), align, dy), box
