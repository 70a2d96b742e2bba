"""A view of the dashboard: how many multiplications each variant takes."""

import streamlit as st

from dashboard.markdown_escape import line
from dashboard.ranked_place import Ranked
from sweeps.ranking.values import DeviceRanking


def show(ranked: Ranked, device: DeviceRanking) -> None:
    st.subheader("Toys", anchor=False)
    for candidate in device.ranking:
        st.text(line(f"{candidate.name}: {candidate.figures['toy_multiplications']:.0f} multiplications"))
