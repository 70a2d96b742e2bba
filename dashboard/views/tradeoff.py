"""The chart of latency against accuracy, with the result of the picked point beside it."""

import pandas as pd
import streamlit as st

from dashboard import links, state
from dashboard.charts.drawing import Spec
from dashboard.markdown_escape import NOTHING, line, words
from dashboard.words import PAIRED
from sweeps.journal.result_place import Place


@st.fragment
def show(chart: Spec, table: pd.DataFrame, place: Place, winner: str) -> None:
    """Draw the chart and the picked result. `chart`: the chart of `table` (`dashboard.rows.ranked`). `winner`: the
    winner's job key, or empty."""
    event = st.vega_lite_chart(
        spec=chart, key=f"tradeoff-{place}", on_select="rerun", selection_mode="picked", theme="streamlit"
    )
    clicked = [str(point.get("job_key", "")) for point in event["selection"].get("picked", [])]
    picked_key = clicked[0] if clicked else state.url_value("job") or ""
    keys = list(table["job_key"])
    job_key = picked_key if picked_key in keys else winner if winner in keys else keys[0]
    if clicked and picked_key in keys:
        state.put("job", picked_key)
    _result(table[table["job_key"] == job_key].iloc[0], place, picked=job_key != winner)


def _result(row: pd.Series, place: Place, *, picked: bool) -> None:
    with st.container(gap="small", key="picked"):
        st.caption("Picked" if picked else "The winner. Click a point to see another.")
        st.markdown(f"**{words(row['variant'])}**")
        ratio = "" if not picked or row["ratio"] != row["ratio"] else f" · {row['ratio']:.2f}× the winner's p50"
        ratio += "" if row["paired_text"] == NOTHING else f" · {PAIRED.lower()} {row['paired_text']}"
        st.text(
            line(
                f"p50 {row['latency_text']} ({row['interval_text']}){ratio} · {row['accuracy_text']}"
                f" · drop {row['drop_text']} ({row['drop_interval_text']}) · {row['size_text']} · {row['status']}"
            )
        )
        if row["why"] != "–":
            st.text(row["why"])
        links.link(
            "result",
            "All about this result",
            icon=":material/lab_profile:",
            sweep=place.sweep,
            device=place.place_id,
            model=place.model,
            job=row["job_key"],
        )
