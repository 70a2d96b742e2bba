"""Drawing of tables and figures, shared by all views."""

from collections.abc import Iterable, Sequence
from typing import Any

import pandas as pd
import streamlit as st

from dashboard.markdown_escape import cell, words

_FIGURE_PX = 190
_LETTER_PX, _CELL_PX = 7, 20
"""Average width of a letter in a table, and the padding around a cell's text, in pixels."""
_ROW_PX, _TABLE_LIMIT_PX = 35, 600


def draw_table(table: pd.DataFrame, **options: Any) -> None:
    """Draw a table, as `st.dataframe` does with these `options`. All tables are drawn by this function: it makes every
    text one line and no formula for a spreadsheet, because Streamlit's button downloads the cells as they are."""
    texts = table.select_dtypes(include=["object", "string"])
    st.dataframe(table.assign(**{str(name): column.map(cell) for name, column in texts.items()}), **options)


def table_height(count: int, *, most: int | None = _TABLE_LIMIT_PX) -> int:
    """Return the height in pixels of a table with `count` rows, at most `most`; a higher table scrolls."""
    whole = _ROW_PX * (count + 1) + 3
    return whole if most is None else min(most, whole)


def text_width(texts: Iterable[str]) -> int:
    """Return the width in pixels of a column that cuts none of these texts."""
    return _CELL_PX + _LETTER_PX * max(map(len, texts), default=0)


def size_format(sizes: pd.Series) -> str:
    """Return the number format of a column of megabytes, with all digits that `Metric.format` shows. The values stay
    numbers, so that the table can be sorted."""
    return "%.4f" if (sizes < 0.1).any() else "%.2f"  # below 0.1 MB that is tenths of a kB


def figures(shown: Sequence[tuple[str, str, str]]) -> None:
    """Draw figures (title, value, note), as many side by side as there is room for. Call it once on a page."""
    with st.container(horizontal=True, gap="medium", key="figures"):
        for title, value, note in shown:
            with st.container(gap=None, width=_FIGURE_PX):
                st.metric(words(title), value)
                st.caption(note)
