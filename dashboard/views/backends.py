"""The table and chart of NNAPI against the CPU, for every device of a sweep that has both."""

from dataclasses import replace

import pandas as pd
import streamlit as st

from dashboard import rows
from dashboard.charts import dots
from dashboard.markdown_escape import NOTHING
from dashboard.style import palette
from dashboard.views.tables import draw_table, text_width
from sweeps.journal.result_place import Place
from sweeps.ranking.nnapi_gain import TITLE, BackendFigure

RATIO = "NNAPI / CPU, paired by round"
_HELP = (
    "NNAPI's latency divided by the CPU's in the same rounds: the median of these ratios. Below 1, NNAPI is faster. A "
    "p50 is over all rounds, so the ratio need not be the quotient of two"
)
MOST_DEVICES = 8
"""Most devices in the chart; the table has all."""


def show(figure: BackendFigure, place: Place) -> None:
    """Draw the table, and, if anything was timed on NNAPI, a chart of the place's model, with the place's device
    first."""
    st.subheader(TITLE, anchor=False)
    pairs = sorted(
        (pair for pair in figure.pairs if pair.model == place.model), key=lambda pair: pair.device_id != place.place_id
    )
    shown = list(dict.fromkeys(pair.device_id for pair in pairs))[:MOST_DEVICES]
    drawn = replace(figure, pairs=tuple(pair for pair in pairs if pair.device_id in shown))
    if figure.headline:
        st.text(f"{figure.headline[0].upper()}{figure.headline[1:]}.")
    else:
        with st.container(border=True, key="backends-chart"):
            st.vega_lite_chart(spec=dots.backends(rows.backend_bars(drawn), palette()), key="backends")
            st.caption(
                "The fastest build of each; right: NNAPI / CPU, paired by round. Below 1×, NNAPI is faster. Dots are "
                "over all rounds, so the ratio need not be their quotient."
            )
    table = rows.backends(figure)
    shown_table = pd.DataFrame(
        {
            "Device": table["device"],
            "Model": table["model"],
            "Numbers": table["precision"],
            "CPU p50 (ms)": table["cpu_ms"],
            "NNAPI p50 (ms)": table["nnapi_ms"],
            RATIO: table["ratio"],
            "95 % interval": table["interval_text"],
            "Finding": table["finding"],
            "Best on the CPU": table["cpu_variant"],
            "Best on NNAPI": table["nnapi_variant"],
        }
    )
    if (table["note"] != NOTHING).any():
        shown_table["Why not"] = table["note"]
    number = st.column_config.NumberColumn
    draw_table(
        shown_table,
        hide_index=True,
        key="backends-table",
        column_config={
            "CPU p50 (ms)": number(format="%.3f"),
            "NNAPI p50 (ms)": number(format="%.3f"),
            **{
                name: st.column_config.TextColumn(width=text_width(shown_table[name]))
                for name in ("Best on the CPU", "Best on NNAPI")
            },
            RATIO: number(format="%.2f×", help=_HELP),
        },
    )
