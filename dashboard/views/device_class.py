"""One winner for all units of a device class."""

import pandas as pd
import streamlit as st

from dashboard import rows
from dashboard.inert import NOTHING, inert
from dashboard.views.tables import table_height
from sweeps.ranking.device_classes import ClassRanking


def show(pooled: ClassRanking, number: int) -> None:
    """`number` distinguishes the classes on one page."""
    st.subheader("All units of this class", anchor=False)
    st.caption(
        f"{len(pooled.units)} units of {inert(pooled.device)}, each a replicate: p50 divided by the class "
        "winner's, paired by round on each unit; the median over units."
    )
    if not pooled.winner:
        st.text("No variant may win on every unit.")
        return
    st.markdown(f"**Ship on all of them:** {inert(pooled.winner)}")
    table = rows.pooled(pooled)
    st.dataframe(
        pd.DataFrame(
            {
                "Rank": table["place"].replace("", NOTHING),
                "Variant": table["variant"],
                "Units": table["units"],
                "May win on": table["passes_on"],
                "× best of class": table["ratio"],
                "Between units": table["between_units"],
                "95 % interval": table["interval_text"],
            }
        ),
        hide_index=True,
        height=table_height(len(table)),
        key=f"class-table-{number}",
        column_config={"× best of class": st.column_config.NumberColumn(format="%.2f×")},
    )
    for text in pooled.in_batches:
        st.caption(inert(text))
