"""The first view of the page Decide: what to ship on one device, why, and what else was tried."""

from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import pandas as pd
import streamlit as st

from dashboard import data, rows
from dashboard.charts.dots import latency
from dashboard.charts.drawing import Spec
from dashboard.charts.tradeoff_chart import AccuracyAxis, most_drop
from dashboard.charts.tradeoff_chart import tradeoff as tradeoff_chart
from dashboard.markdown_escape import NOTHING, inert, line, words
from dashboard.ranked_place import Ranked
from dashboard.source import KEYS, Source
from dashboard.style import Palette, palette
from dashboard.views import backends, device_class, recommendation, tradeoff, unranked
from dashboard.views.tables import draw_table, size_format, table_height, text_width
from dashboard.words import PAIRED, PAIRED_HELP, TRUST_WORDS, plain_words
from sweeps.command_hints import CommandHints
from sweeps.imported import NOTE
from sweeps.journal.result_place import Place
from sweeps.label_kinds import TRUST
from sweeps.launching.sweep_commands import command_hints
from sweeps.metrics import METRICS
from sweeps.ranking.eligibility import VERDICTS, reference_name, reference_text
from sweeps.ranking.values import Candidate, DeviceRanking
from sweeps.report.evaluation import images_settle
from sweeps.report.explanations import meaning
from sweeps.text import some
from sweeps.workspace import Workspace

TRADEOFF_PX = 400
MOST_DOTS = 20
"""Most variants in the chart of latencies; the table has all."""


def show(root: Path, now: Source, ranked: Ranked, objective: str | None, part: int) -> None:
    """Draw all results of one model on one device. `objective`: as in `data.place_ranking`. `part`: the index of the
    set of conditions."""
    place = ranked.place
    device, table, checked = data.ranking_tables(now, place, objective, part)
    waiting = next(
        (verdict.waiting for verdict in data.places(now, root, place.sweep).models[place.place_id][place.model]), 0
    )
    more_images = data.more_images(now, place.sweep) if images_settle(device) else ()
    recommendation.show(root, ranked, device, table, waiting, more_images)
    if not table.empty:
        metric = rows.accuracy_metric(device)
        _charts(table, _drawn(now, place, objective, part, palette()), place, device)
        if device.resolution is not None:
            st.caption(words(device.resolution.text))
        _table(table, metric, device)
        _reasons(device, table, more_images if device.winner else ())
    unranked.show_imported(device.imported, NOTE, "imported-table")
    if not checked.empty:
        unranked.show_checked(checked, most_drop(ranked.objective))
    device_class.show_all(now, root, place, device)
    if ranked.ranking.backends is not None:
        places = sorted(
            Place(place.sweep, unit, model)
            for unit, models in data.places(now, root, place.sweep).models.items()
            for model in models
        )
        figure = data.backends(now, tuple(places if len(places) <= data.MOST_COMPARED else [place]), objective)
        if figure is not None:
            backends.show(figure, place)
    unranked.show_imported(
        ranked.ranking.imported, f"{NOTE}; there is no ranking of these devices", "imported-apart-table"
    )
    for text in rows.partly_delegated(device, ranked.names):
        st.text(text)
    _explain_references((*device.ranking, *device.checked))
    _explain_trust(device, command_hints(Workspace(root), place.sweep))
    names = data.waiting(now, place) if waiting else ()
    unranked.show_not_ranked(ranked, names, unranked.why_waiting(root, now, place) if names else "")


class Drawn(NamedTuple):
    """Charts of a ranking; `None` for a chart without data."""

    latency: Spec | None
    tradeoff: Spec | None
    lines: str
    """Meaning of the second chart's reference lines, in words."""


@st.cache_resource(max_entries=256, show_spinner=False, hash_funcs=KEYS)
def _drawn(now: Source, place: Place, objective: str | None, part: int, look: Palette) -> Drawn:
    """Return the charts of a ranking. They are cached for all sessions: never change them."""
    device, table, _ = data.ranking_tables(now, place, objective, part)
    goal = data.ranked(now, place, objective).objective
    axis = AccuracyAxis.of(goal, table, rows.accuracy_metric(device))
    timed = table[table["latency_p50_ms"].notna()]
    return Drawn(
        latency(timed.head(MOST_DOTS), look) if not timed.empty else None,
        tradeoff_chart(table, axis, look, TRADEOFF_PX) if timed["accuracy"].notna().any() else None,
        axis.lines_in_words,
    )


def _charts(table: pd.DataFrame, drawn: Drawn, place: Place, device: DeviceRanking) -> None:
    # The charts are side by side if each gets the width of a phone, otherwise one below the other.
    with st.container(horizontal=True, gap="medium", key="charts"):
        with st.container(border=True, key="latency-chart", width="stretch", height="stretch"):
            _latency(drawn.latency, int(table["latency_p50_ms"].notna().sum()))
        with st.container(border=True, key="tradeoff-chart", width="stretch"):
            st.subheader("Speed against accuracy", anchor=False)
            if drawn.tradeoff is not None:
                tradeoff.show(drawn.tradeoff, table, place, device.winner.job_key if device.winner else "")
                st.caption(
                    f"Left and up is better. Crosses are 95 % intervals (accuracy: of the paired drop). {drawn.lines}"
                )
            else:
                st.caption("No accuracy is known for any measured variant.")


_VERDICTS = "; ".join(f"{word}: {meaning(word)}" for word in (*VERDICTS, "eliminated"))


def _latency(chart: Spec | None, timed: int) -> None:
    """Draw the chart of latencies. `timed`: the number of timed variants."""
    st.subheader("Latency", anchor=False)
    if chart is None:
        st.caption("No latency was measured on this device.")
        return
    st.vega_lite_chart(spec=chart, key="latency")
    st.caption("p50, with the 95 % interval as a bar behind the dot.")
    if timed > MOST_DOTS:
        st.caption(f"The first {MOST_DOTS} of {timed}; the table below has all.")


def _table(table: pd.DataFrame, metric: str, device: DeviceRanking) -> None:
    st.subheader("Ranking", anchor=False)
    shown = pd.DataFrame(
        {
            "Rank": table["place"].replace("", NOTHING),
            "Variant": table["variant"],
            "p50 (ms)": table["latency_p50_ms"],
            "p50, 95 % interval": table["interval_text"],
            "p50, × best": table["ratio"],
            f"{METRICS[metric].title} (%)": table["accuracy"],
            "Drop (points)": table["drop_points"],
            "Drop, 95 % interval": table["drop_interval_text"],
            "Size (MB)": table["artifact_mb"],
            "Verdict": table["verdict"],
            "Doubts": ["; ".join(TRUST_WORDS.get(name, line(name)) for name in trust) for trust in table["trust"]],
        }
    )
    if (table["paired_text"] != NOTHING).any():
        shown.insert(5, PAIRED, table["paired_text"])
    for column, title in (("front", "Front"), ("settling", "To settle the tie"), ("why", "Why")):
        if (table[column] != NOTHING).any():
            shown[title] = table[column]
    if device.libraries_differ:
        shown.insert(list(shown.columns).index("Verdict"), "Library (MB)", table["runtime_mb"])
    if (table["emulated_by"] != "").any():
        by = table["emulated_by"].map(lambda by: f"emulated: {by}" if by else "the device")
        shown.insert(list(shown.columns).index("Drop (points)"), "Accuracy from", by)
    configure = st.column_config
    draw_table(
        shown,
        hide_index=True,
        height=table_height(len(shown)),
        key="ranking-table",
        placeholder=NOTHING,
        column_config={
            "Rank": configure.TextColumn(width=50),
            "Variant": configure.TextColumn(width=text_width(table["variant"])),
            "p50 (ms)": configure.NumberColumn(format="%.3f", help=meaning("latency_p50_ms")),
            "p50, × best": configure.NumberColumn(format="%.2f×", help="This p50 divided by the recommended build's"),
            PAIRED: configure.TextColumn(help=PAIRED_HELP),
            f"{METRICS[metric].title} (%)": configure.NumberColumn(format="%.2f", help=meaning(metric)),
            "Drop (points)": configure.NumberColumn(format="%.2f", help=meaning("accuracy_drop_points")),
            "Verdict": configure.TextColumn(width=90, help=_VERDICTS),
            "Size (MB)": configure.NumberColumn(format=size_format(table["artifact_mb"]), help=meaning("artifact_mb")),
            "Library (MB)": configure.NumberColumn(format=size_format(table["runtime_mb"]), help=meaning("runtime_mb")),
        },
    )


def _reasons(device: DeviceRanking, table: pd.DataFrame, more_images: Sequence[str]) -> None:
    """Draw the cost of measuring, the reasons why other builds cannot win, and notes about images that the sweep does
    not use."""
    if device.cost_text:
        st.caption(device.cost_text)
    if device.reasons:
        with st.expander("Why not the others", expanded=True):
            for reason, candidates in device.reasons.items():
                st.text(line(f"{some(rows.names_in(table, candidates))}: {plain_words(reason)}"))
    for text in more_images:
        st.caption(words(text))


def _explain_references(shown: tuple[Candidate, ...]) -> None:
    for executor in sorted({candidate.executor for candidate in shown if candidate.emulated}):
        st.text(line(f"{reference_name(executor)}: {reference_text(executor)}"))


def _explain_trust(device: DeviceRanking, advice: CommandHints) -> None:
    labels = {label for candidate in (*device.ranking, *device.checked) for label in candidate.trust}
    if labels:
        with st.expander("What the doubts mean, and what to do"):
            for name, label in TRUST.items():
                if name in labels:
                    kind = "it cannot win" if label.disqualifying else "it can win"
                    st.text(line(f"{TRUST_WORDS[name]} ({kind}): {advice.typed(label.text)}"))
            for name in sorted(labels - TRUST.keys()):
                st.markdown(f"{inert(name)}: not a label of this version")
