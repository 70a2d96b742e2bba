"""What to ship on one device, how sure that is, and what it is tied with."""

from collections.abc import Sequence
from typing import Literal

import pandas as pd
import streamlit as st

from dashboard import rows
from dashboard.inert import inert, line
from sweeps.metrics import METRICS
from sweeps.ranking.values import Candidate, DeviceRanking
from sweeps.spec import catalog
from sweeps.trust import TRUST

_VERDICTS: dict[str, tuple[str, Literal["green", "orange", "red"], str]] = {
    "pass": ("constraints kept", "green", ":material/check_circle:"),
    "unresolved": ("constraints unresolved", "orange", ":material/help:"),
    "fail": ("constraint missed", "red", ":material/cancel:"),
    "disqualified": ("disqualified", "red", ":material/block:"),
}


def show(device: DeviceRanking, objective: str, table: pd.DataFrame) -> None:
    """`table`: `dashboard.rows.ranked` of the device."""
    winner = device.winner
    with st.container(border=True, key="recommendation"):
        if winner is None:
            st.caption("NO RECOMMENDATION")
            st.subheader("No winner", anchor=False)
            st.text(line(device.no_winner_reason or "nothing has been measured yet"))
            st.caption(f"Objective: {inert(objective)}")
            return
        row = table[table["job_key"] == winner.job_key].iloc[0]
        verdict = "SHIP THIS ON" if winner.timed else "BEST BY THE OBJECTIVE, ONLY CHECKED, NOT TIMED ON"
        st.caption(f"{verdict} {inert(device.device)}")
        st.subheader(inert(row["variant"]), anchor=False)
        _headline(device, winner, row)
        _badges(winner)
        if device.tied:
            _ties(device, table)
        if device.alarm:
            st.warning(f"Batches are contradicted: {inert(device.alarm)}")
        st.caption(f"Objective: {inert(objective)}")


def _ties(device: DeviceRanking, table: pd.DataFrame) -> None:
    if device.equal:
        st.markdown(
            f"**Equal to {_count(len(device.equal), 'other')}:** {_named(device.equal, table)}. "
            "Shown at 95 % to be within 2 % of the best; "
            "higher accuracy comes first, then the smaller file (by 2 % or more)."
        )
    if device.unresolved:
        st.markdown(
            f"**Not told apart from {_count(len(device.unresolved), 'other')}:** {_named(device.unresolved, table)}. "
            "Neither a difference nor equality within 2 % is shown at 95 %."
        )
    if device.settle_command:
        st.markdown("To measure just these until the tie is settled:")
        st.code(device.settle_command, language=None)


def _named(ties: Sequence[Candidate], table: pd.DataFrame) -> str:
    return ", ".join(
        inert(name) + (f" ({tie.settling.text})" if tie.settling and tie.tie == "unresolved" else "")
        for name, tie in zip(rows.names_in(table, ties), ties, strict=True)
    )


def _headline(device: DeviceRanking, winner: Candidate, row: pd.Series) -> None:
    """The recommended variant's figures, with the objective's metric if it is not among them."""
    accuracy = METRICS[rows.accuracy_metric(device)]
    source = f"emulated by {inert(row['emulated_by'])}" if row["emulated_by"] else "from the device's outputs"
    spread = f"95 % interval: {row['interval_text']}" if winner.timed else "only a phone can tell"
    against = "Against your own fp32 eager model, on the same images."
    figures = [
        ("Latency (p50)", row["latency_text"], spread, None),
        (accuracy.title, accuracy.format(row["accuracy"]), source, None),
        ("Accuracy drop", row["drop_text"], f"95 % interval: {row['drop_interval_text']}", against),
        ("Size", row["size_text"], "the file to ship", None),
    ]
    if device.metric not in ("latency_p50_ms", accuracy.name, "accuracy_drop_points", "artifact_mb"):
        metric = catalog.metric(device.metric)
        figures.insert(0, (metric.title, metric.format(winner.figures.get(metric.name)), "the objective", None))
    for column, (title, value, note, about) in zip(st.columns(len(figures), gap="large"), figures, strict=True):
        with column, st.container(gap=None):
            st.metric(title, value, help=about)
            st.caption(note)


def _badges(winner: Candidate) -> None:
    text, colour, icon = _VERDICTS[winner.verdict]
    with st.container(horizontal=True, gap="small"):
        st.badge(text, color=colour, icon=icon)
        for name in winner.trust:
            # A winner has only labels of the closed list, which are safe as Markdown.
            st.badge(name, color="gray", icon=":material/info:", help=TRUST[name].advice)


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"
