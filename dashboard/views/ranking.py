"""The first view: what to ship on one device, why, and what else was tried."""

import pandas as pd
import streamlit as st

from dashboard import charts, rows
from dashboard.data import Ranked
from dashboard.inert import NOTHING, inert, line
from dashboard.views import backends, details, device_class, recommendation, unranked
from dashboard.views.tables import table_height
from sweeps.device_facts import pool_id
from sweeps.imported import NOTE
from sweeps.metrics import METRICS
from sweeps.ranking.values import Candidate, DeviceRanking
from sweeps.ranking.verdict import reference_text
from sweeps.trust import TRUST

_AXES_PX = 60
"""Extra height for axis and legend, so that both charts have about the same height."""


def show(ranked: Ranked, device: DeviceRanking) -> None:
    """Draw all results of one model on one device."""
    frame = ranked.results.frame
    place = frame["device_id"] == device.device_id
    if device.device_id == pool_id(device.fingerprint):
        place = (frame["link"] != "") & (frame["fingerprint"] == device.fingerprint)
    here = frame[place & (frame["model"] == device.model) & ~frame["stale"]]
    table, checked = rows.ranked(device), rows.checked(device)

    recommendation.show(device, ranked.ranking.objective, table)
    if not table.empty:
        metric = rows.accuracy_metric(device)
        _charts(table, metric, _bounds(ranked, table, metric))
        _table(table, metric)
        _reasons(device, table)
    unranked.show_imported(device.imported, NOTE, "imported-table")
    if not checked.empty:
        unranked.show_checked(checked, _most_drop(ranked))
    for number, pooled in enumerate(ranked.ranking.classes):
        if (pooled.model, pooled.fingerprint) == (device.model, device.fingerprint):
            device_class.show(pooled, number)
    if ranked.ranking.backends is not None:
        backends.show(ranked.ranking.backends)
    unranked.show_imported(
        ranked.ranking.imported, f"{NOTE}; there is no ranking of these devices", "imported-apart-table"
    )
    _explain_references((*device.ranking, *device.checked))
    _explain_trust(device)
    unranked.show_not_ranked(device)
    details.show(here, device.winner.name if device.winner else None)


def _bounds(ranked: Ranked, table: pd.DataFrame, metric: str) -> charts.AccuracyAxis:
    """The eager model's accuracy and the lowest that the objective allows, if accuracy is top-1."""
    title = f"{METRICS[metric].title} (%)"
    known = table[table["accuracy"].notna() & table["drop_points"].notna()]
    if metric != "top1_percent" or known.empty:
        return charts.AccuracyAxis(title)
    eager = float(known["accuracy"].iloc[0] + known["drop_points"].iloc[0])
    most = _most_drop(ranked)
    return charts.AccuracyAxis(title, eager, None if most is None else eager - most)


def _most_drop(ranked: Ranked) -> float | None:
    """The largest accuracy drop that the objective allows (points)."""
    bounds = ranked.results.spec.objective.constraints
    allowed = [
        bound.at_most for bound in bounds if bound.metric == "accuracy_drop_points" and bound.at_most is not None
    ]
    return min(allowed, default=None)


def _charts(table: pd.DataFrame, metric: str, axis: charts.AccuracyAxis) -> None:
    left, right = st.columns([11, 9], gap="medium")
    timed = table[table["latency_p50_ms"].notna()]
    with left, st.container(border=True, height="stretch", key="latency-chart"):
        st.subheader("Latency", anchor=False)
        if timed.empty:
            st.caption("No latency was measured on this device.")
        else:
            st.altair_chart(charts.latency(table), key="latency")
    with right, st.container(border=True, height="stretch", key="tradeoff-chart"):
        st.subheader("Latency against accuracy", anchor=False)
        if timed["accuracy"].notna().any():
            height = max(340, charts.STEP_PX * len(timed) + _AXES_PX)
            st.altair_chart(charts.tradeoff(table, axis, height=height), key="tradeoff")
            st.caption(
                "Left and up is better. Numbers are ranks; crosses are 95 % intervals (accuracy: of the paired drop)."
            )
        else:
            st.caption(f"{METRICS[metric].title} is not known for any measured variant.")


def _table(table: pd.DataFrame, metric: str) -> None:
    st.subheader("Ranking", anchor=False)
    shown = pd.DataFrame(
        {
            "Rank": table["place"].replace("", "–"),
            "Variant": table["variant"],
            "p50 (ms)": table["latency_p50_ms"],
            "p50, 95 % interval": table["interval_text"],
            "× best": table["ratio"],
            f"{METRICS[metric].title} (%)": table["accuracy"],
            "Drop (points)": table["drop_points"],
            "Drop, 95 % interval": table["drop_interval_text"],
            "Size (MB)": table["artifact_mb"],
            "Verdict": table["verdict"],
            "Trust": table["trust_text"],
        }
    )
    for column, title in (("front", "Front"), ("settling", "To settle the tie"), ("why", "Why")):
        if (table[column] != NOTHING).any():
            shown[title] = table[column]
    if (table["emulated_by"] != "").any():
        shown.insert(6, "Accuracy from", table["emulated_by"].map(lambda by: f"emulated: {by}" if by else "the device"))
    configure = st.column_config
    st.dataframe(
        shown,
        hide_index=True,
        height=table_height(len(shown)),
        key="ranking-table",
        placeholder=NOTHING,
        column_config={
            "Rank": configure.TextColumn(width=50),
            "Variant": configure.TextColumn(width=290),
            "p50 (ms)": configure.NumberColumn(format="%.3f"),
            "× best": configure.NumberColumn(format="%.2f×", help="p50 as a multiple of the recommended one's"),
            f"{METRICS[metric].title} (%)": configure.NumberColumn(format="%.2f"),
            "Drop (points)": configure.NumberColumn(format="%.2f"),
            "Verdict": configure.TextColumn(width=90),
            "Size (MB)": configure.NumberColumn(format="%.2f"),
        },
    )


def _reasons(device: DeviceRanking, table: pd.DataFrame) -> None:
    """Show the cost of measuring, why the others cannot win, and why a race was not decided."""
    if device.cost_text:
        st.caption(device.cost_text)
    if device.reasons:
        with st.expander("Why not the others", expanded=True):
            for reason, candidates in device.reasons.items():
                st.text(line(f"{', '.join(rows.names_in(table, candidates))}: {reason}"))


def _explain_references(shown: tuple[Candidate, ...]) -> None:
    for executor in sorted({candidate.executor for candidate in shown if candidate.emulated}):
        st.text(line(f"{executor}: {reference_text(executor)}"))


def _explain_trust(device: DeviceRanking) -> None:
    labels = {label for candidate in (*device.ranking, *device.checked) for label in candidate.trust}
    if labels:
        with st.expander("What the trust labels mean"):
            for name, label in TRUST.items():
                if name in labels:
                    kind = "disqualifying" if label.disqualifying else "advisory"
                    st.markdown(f"**{name}** ({kind}): {label.advice}")
            for name in sorted(labels - TRUST.keys()):
                st.markdown(f"{inert(name)}: not a label of this version")
