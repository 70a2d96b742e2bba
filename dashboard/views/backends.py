"""NNAPI against the CPU, for every device of a sweep that has both."""

import pandas as pd
import streamlit as st

from dashboard import rows
from dashboard.charts import dots
from dashboard.inert import NOTHING
from dashboard.style import palette
from sweeps.ranking.backends import TITLE, BackendFigure


def show(figure: BackendFigure) -> None:
    """Draw the table, and a chart if anything was timed on NNAPI."""
    st.subheader(TITLE, anchor=False)
    if figure.headline:
        st.text(f"{figure.headline[0].upper()}{figure.headline[1:]}.")
    else:
        with st.container(border=True, key="backends-chart"):
            st.vega_lite_chart(spec=dots.backends(rows.backend_bars(figure), palette()), key="backends")
        st.caption("The fastest build of each, paired by rounds. Below 1×, NNAPI is faster.")
    table = rows.backends(figure)
    shown = pd.DataFrame(
        {
            "Device": table["device"],
            "Model": table["model"],
            "Numbers": table["precision"],
            "CPU p50 (ms)": table["cpu_ms"],
            "NNAPI p50 (ms)": table["nnapi_ms"],
            "NNAPI / CPU": table["ratio"],
            "95 % interval": table["interval_text"],
            "Finding": table["finding"],
            "Best on the CPU": table["cpu_variant"],
            "Best on NNAPI": table["nnapi_variant"],
        }
    )
    if (table["note"] != NOTHING).any():
        shown["Why not"] = table["note"]
    number = st.column_config.NumberColumn
    st.dataframe(
        shown,
        hide_index=True,
        key="backends-table",
        column_config={
            "CPU p50 (ms)": number(format="%.3f"),
            "NNAPI p50 (ms)": number(format="%.3f"),
            "NNAPI / CPU": number(format="%.2f×"),
        },
    )
