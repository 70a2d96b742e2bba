"""Names stand beside points, so that none lies on another one or on a point: for charts of any width. Pure."""

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from dashboard.words import wrapped

FROM_PX = (0, 400, 640)
"""Names are placed for each of these widths of the part where points are, or more. Where there is more room, the same
places do: points lie further apart, and names stay as wide as they are."""
NARROWEST_PX = 230
"""A screen of 420 pixels leaves this width."""
FONT_PX, LINE_PX = 12, 14
_CHARACTER_PX = 6.9
"""The widest fonts that browsers take have this width: a name is not wider than it is assumed to be."""
BESIDE_PX = 5
_POINT_PX, _GAP_PX = 9, 3
Point = tuple[float, float]


@dataclass(frozen=True, slots=True)
class Label:
    """A name beside its point."""

    text: str
    """The lines of the name."""
    align: str
    """`left`: it begins at the point, beside the vertical line of its interval; `right`: it ends there."""
    dy: int
    """Pixels from the point down to its top."""


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
    """The label of each point, if there is room for it. `points`: pixels from the left and from the top, of a chart of
    this `width` and `height`; those in `order` may have a name. The first of them has one if any fits into the
    chart."""
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
    """The places where the name of a point may stand: above the point first, and to the side with more room first."""
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
