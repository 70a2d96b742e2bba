"""Shared by the tables of all views."""

_ROW_PX, _TABLE_LIMIT_PX = 35, 600


def table_height(count: int) -> int:
    """The height in pixels of a table with `count` rows; a longer table scrolls."""
    return min(_TABLE_LIMIT_PX, _ROW_PX * (count + 1) + 3)
