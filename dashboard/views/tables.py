"""What the tables of all views have in common."""

_ROW_PX, _TABLE_LIMIT_PX = 35, 600


def table_height(count: int) -> int:
    """In pixels, for so many rows: a longer table scrolls."""
    return min(_TABLE_LIMIT_PX, _ROW_PX * (count + 1) + 3)
