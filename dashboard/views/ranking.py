"""The first view: what to ship on one device, why, and what else was tried."""

from typing import Literal

import pandas as pd
import streamlit as st

from dashboard import charts, rows
from dashboard.data import Ranked
from dashboard.inert import NOTHING, inert, line
from dashboard.views import backends, details
from sweeps.imported import NOTE, Imported
from sweeps.metrics import METRICS
from sweeps.ranking.device_classes import ClassRanking
from sweeps.ranking.values import Candidate, DeviceRanking
from sweeps.ranking.verdict import reference_text
from sweeps.trust import TRUST

CHECKED = "Checked on this host, not timed"

_VERDICTS: dict[str, tuple[str, Literal["green", "orange", "red"], str]] = {
    "pass": ("constraints kept", "green", ":material/check_circle:"),
    "unresolved": ("constraints unresolved", "orange", ":material/help:"),
    "fail": ("constraint missed", "red", ":material/cancel:"),
    "disqualified": ("disqualified", "red", ":material/block:"),
}
_ROW_PX, _TABLE_LIMIT_PX = 35, 600
_AXES_PX = 60
"""Bars are counted without axis and legend, the other chart with them: so both end at about the same height."""


def show(ranked: Ranked, device: DeviceRanking) -> None:
    """Draw everything that is known of one model on one device."""
    frame = ranked.results.frame
    here = frame[(frame["device_id"] == device.device_id) & (frame["model"] == device.model) & ~frame["stale"]]
    table, checked = rows.ranked(device), rows.checked(device)

    _recommendation(device, ranked.ranking.objective, table)
    if not table.empty:
        metric = rows.accuracy_metric(device)
        _charts(table, metric, _bounds(ranked, table, metric))
        _table(table, metric)
        _reasons(device, table)
    _imported(device.imported, NOTE, "imported-table")
    if not checked.empty:
        _checked(checked, _most_drop(ranked))
    for number, pooled in enumerate(ranked.ranking.classes):
        if (pooled.model, pooled.fingerprint) == (device.model, device.fingerprint):
            _class(pooled, number)
    if ranked.ranking.backends is not None:
        backends.show(ranked.ranking.backends)
    _imported(ranked.ranking.imported, f"{NOTE}; there is no ranking of these devices", "imported-apart-table")
    _explain_references((*device.ranking, *device.checked))
    _explain_trust(device)
    _not_ranked(device)
    details.show(here, device.winner.name if device.winner else None)


def _recommendation(device: DeviceRanking, objective: str, table: pd.DataFrame) -> None:
    winner = device.winner
    with st.container(border=True, key="recommendation"):
        if winner is None:
            st.caption("NO RECOMMENDATION")
            st.subheader("No winner", anchor=False)
            st.text(line(device.no_winner_reason or "nothing has been measured yet"))
            st.caption(f"Objective: {inert(objective)}")
            return
        row = table[table["job_key"] == winner.job_key].iloc[0]
        verdict = "SHIP THIS ON" if winner.timed else "BEST BY ITS ANSWERS, ONLY CHECKED, NOT TIMED ON"
        st.caption(f"{verdict} {inert(device.device)}")
        st.subheader(inert(row["variant"]), anchor=False)
        _headline(device, winner, row)
        _badges(winner)
        if device.tied:
            _ties(device, table)
        st.caption(f"Objective: {inert(objective)}")


def _ties(device: DeviceRanking, table: pd.DataFrame) -> None:
    others = ", ".join(
        inert(name) + (f" ({tie.settling.text})" if tie.settling else "")
        for name, tie in zip(_names(device.tied, table), device.tied, strict=True)
    )
    st.markdown(
        f"**Tied with {_count(len(device.tied), 'other')}:** {others}. "
        "The difference is not resolved at 95 %, or is under 2 %; "
        "the more accurate goes first, then the smaller file (by 2 % or more)."
    )
    if device.settle_command:
        st.markdown("To measure just these until the tie is settled:")
        st.code(device.settle_command, language=None)


def _headline(device: DeviceRanking, winner: Candidate, row: pd.Series) -> None:
    """The recommended one's figures; the objective's own metric too where it is none of the four."""
    accuracy = METRICS[rows.accuracy_metric(device)]
    source = f"emulated by {inert(row['emulated_by'])}" if row["emulated_by"] else "as answered by the device"
    spread = f"95 % interval: {row['interval_text']}" if winner.timed else "only a phone can tell"
    against = "Against your own fp32 eager model, on the same images."
    figures = [
        ("Latency (p50)", row["latency_text"], spread, None),
        (accuracy.title, accuracy.format(row["accuracy"]), source, None),
        ("Accuracy drop", row["drop_text"], f"95 % interval: {row['drop_interval_text']}", against),
        ("Size", row["size_text"], "the file to ship", None),
    ]
    if device.metric not in ("latency_p50_ms", accuracy.name, "accuracy_drop_points", "artifact_mb"):
        metric = METRICS[device.metric]
        figures.insert(0, (metric.title, metric.format(winner.figures[metric.name]), "the objective", None))
    for column, (title, value, note, about) in zip(st.columns(len(figures), gap="large"), figures, strict=True):
        with column, st.container(gap=None):
            st.metric(title, value, help=about)
            st.caption(note)


def _badges(winner: Candidate) -> None:
    text, colour, icon = _VERDICTS[winner.verdict]
    with st.container(horizontal=True, gap="small"):
        st.badge(text, color=colour, icon=icon)
        for name in winner.trust:
            # Only names of the closed list may win, and only they become Markdown.
            st.badge(name, color="gray", icon=":material/info:", help=TRUST[name].advice)


def _names(candidates: tuple[Candidate, ...], table: pd.DataFrame) -> list[str]:
    names = dict(zip(table["job_key"], table["variant"], strict=True))
    return [names.get(candidate.job_key, candidate.name) for candidate in candidates]


def _bounds(ranked: Ranked, table: pd.DataFrame, metric: str) -> charts.AccuracyAxis:
    """The eager model's accuracy and the least that the objective allows, where accuracy is top-1."""
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
        height=_height(len(shown)),
        key="ranking-table",
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
    """What measuring cost; why the others can not win, or why a race was not decided."""
    if device.cost_text:
        st.caption(device.cost_text)
    if device.reasons:
        with st.expander("Why not the others", expanded=True):
            for reason, candidates in device.reasons.items():
                st.text(line(f"{', '.join(_names(tuple(candidates), table))}: {reason}"))


def _class(pooled: ClassRanking, number: int) -> None:
    st.subheader("All units of this class", anchor=False)
    st.caption(
        f"{len(pooled.units)} units of {inert(pooled.device)}, each a replicate: p50 as a multiple of the class "
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
        height=_height(len(table)),
        key=f"class-table-{number}",
        column_config={"× best of class": st.column_config.NumberColumn(format="%.2f×")},
    )


def _imported(figures: tuple[Imported, ...], title: str, key: str) -> None:
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
        height=_height(len(table)),
        key=key,
        column_config={
            "Variant": st.column_config.TextColumn(width=290),
            "Mean (ms)": st.column_config.NumberColumn(format="%.3f"),
        },
    )


def _checked(checked: pd.DataFrame, most_drop: float | None) -> None:
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
        height=_height(len(shown)),
        key="checked-table",
        column_config={
            "Variant": st.column_config.TextColumn(width=290),
            **{name: number(format="%.2f") for name in ("Top-1 (%)", "Drop (points)", "Agreement (%)", "Size (MB)")},
        },
    )


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


def _not_ranked(device: DeviceRanking) -> None:
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
        height=_height(len(shown)),
        key="not-ranked-table",
        column_config={
            "Outcome": st.column_config.TextColumn(width=80),
            "Variant": st.column_config.TextColumn(width=340),
        },
    )


def _height(count: int) -> int:
    return min(_TABLE_LIMIT_PX, _ROW_PX * (count + 1) + 3)


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"
