"""Results outside the ranking of a device: checked, imported, failed and skipped ones."""

import pandas as pd
import streamlit as st

from dashboard import charts, rows
from dashboard.inert import NOTHING, line
from dashboard.views.tables import table_height
from sweeps.imported import Imported
from sweeps.ranking.values import DeviceRanking

CHECKED = "Checked on this host, not timed"


def show_checked(checked: pd.DataFrame, most_drop: float | None) -> None:
    """`checked`: `dashboard.rows.checked`, not empty. `most_drop`: largest drop that the objective allows (points)."""
    st.subheader(CHECKED, anchor=False)
    if checked["drop_points"].notna().any():
        with st.container(border=True, key="checked-chart"):
            st.altair_chart(charts.drops(checked, most_drop), key="checked")
    shown = pd.DataFrame(
        {
            "Variant": checked["variant"],
            "Top-1 (%)": checked["accuracy"],
            "Drop (points)": checked["drop_points"],
            "Drop, 95 % interval": checked["drop_interval_text"],
            "Agreement (%)": checked["agreement"],
            "SQNR": checked["sqnr_text"],
            "Size (MB)": checked["artifact_mb"],
            "Constraints": checked["status"],
            "Checked by": checked["executor"],
            "Trust": checked["trust_text"],
        }
    )
    if (checked["why"] != NOTHING).any():
        shown["Why"] = checked["why"]
    number = st.column_config.NumberColumn
    st.dataframe(
        shown,
        hide_index=True,
        height=table_height(len(shown)),
        key="checked-table",
        column_config={
            "Variant": st.column_config.TextColumn(width=290),
            **{name: number(format="%.2f") for name in ("Top-1 (%)", "Drop (points)", "Agreement (%)", "Size (MB)")},
        },
    )


def show_imported(figures: tuple[Imported, ...], title: str, key: str) -> None:
    """Show figures of tools that were run by hand, if there are any."""
    if not figures:
        return
    table = rows.imported(figures)
    st.subheader(title, anchor=False)
    st.caption("Means of PyTorch's own benchmark tools: one run each, conditions unknown, so no interval and no rank.")
    st.dataframe(
        pd.DataFrame(
            {
                "Device": table["device"],
                "Model": table["model"],
                "Variant": table["variant"],
                "Mean (ms)": table["mean_ms"],
                "Iterations": table["iterations"],
                "p50 of them (ms)": table["p50_text"],
                "From": table["source"],
            }
        ),
        hide_index=True,
        height=table_height(len(table)),
        key=key,
        column_config={
            "Variant": st.column_config.TextColumn(width=290),
            "Mean (ms)": st.column_config.NumberColumn(format="%.3f"),
        },
    )


def show_not_ranked(device: DeviceRanking) -> None:
    """Show failed and skipped jobs, with reasons."""
    if not device.not_ranked:
        st.caption("Nothing failed and nothing was skipped.")
        return
    counts = pd.Series([row.outcome for row in device.not_ranked]).value_counts()
    summary = ", ".join(f"{count} {line(str(outcome))}" for outcome, count in counts.items())
    st.subheader("Failed and skipped", anchor=False)
    st.text(summary)
    shown = pd.DataFrame(
        {
            "Outcome": [line(row.outcome) for row in device.not_ranked],
            "Variant": rows.shown_names(device.not_ranked),
            "Reason": [line(row.reason) for row in device.not_ranked],
        }
    )
    st.dataframe(
        shown,
        hide_index=True,
        height=table_height(len(shown)),
        key="not-ranked-table",
        column_config={
            "Outcome": st.column_config.TextColumn(width=80),
            "Variant": st.column_config.TextColumn(width=340),
        },
    )
