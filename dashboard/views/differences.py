"""The table of differences between two results besides their latency."""

import pandas as pd
import streamlit as st

from dashboard import compare_rows
from dashboard.views.tables import draw_table, table_height
from sweeps.results import ResultRow


def show(a: ResultRow, b: ResultRow, *, one_session: bool) -> None:
    """Draw the axes and conditions in which the results differ, and their other figures. `one_session`: whether only
    one session of a result is compared."""
    with st.container(border=True, key="differences"):
        st.subheader("What else differs", anchor=False)
        table = pd.DataFrame(compare_rows.differences(a, b), columns=["What", "A", "B", "B against A"])
        draw_table(
            table,
            hide_index=True,
            key="differences-table",
            height=table_height(len(table), most=None),
        )
        dates = " They are of all dates." if one_session else ""
        st.caption(f"Axes that are alike are left out. Figures without an interval show no difference alone.{dates}")
