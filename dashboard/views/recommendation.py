"""The recommendation of the build to ship on one device, how sure it is, and the build's ties."""

from collections.abc import Sequence
from pathlib import Path
from typing import Literal

import pandas as pd
import streamlit as st

from dashboard import compare_rows, downloads, links, rows
from dashboard.margin_sentences import beats
from dashboard.markdown_escape import inert, line, words
from dashboard.ranked_place import Ranked
from dashboard.views import objective_sidebar, settle, tables
from dashboard.words import TRUST_WORDS, metric_title, plain_words
from sweeps.command_hints import CommandHints
from sweeps.label_kinds import TRUST
from sweeps.launching.sweep_commands import command_hints
from sweeps.metrics import METRICS
from sweeps.ranking.interval_scope import with_scope
from sweeps.ranking.values import Candidate, DeviceRanking
from sweeps.report.table_files import results_table
from sweeps.spec import catalog
from sweeps.text import some
from sweeps.workspace import Workspace

_VERDICTS: dict[str, tuple[str, Literal["green", "orange", "red"], str]] = {
    "pass": ("constraints kept", "green", ":material/check_circle:"),
    "unresolved": ("constraints unresolved", "orange", ":material/help:"),
    "fail": ("constraint missed", "red", ":material/cancel:"),
    "disqualified": ("disqualified", "red", ":material/block:"),
}


def show(
    root: Path,
    ranked: Ranked,
    device: DeviceRanking,
    table: pd.DataFrame,
    waiting: int,
    more_images: Sequence[str] = (),
) -> None:
    """Draw the recommendation. `table`: `dashboard.rows.ranked` of the device. `waiting`: the number of the place's
    jobs without a result. `more_images`: sentences about unused evaluation images, if these would settle a
    constraint."""
    winner = device.winner
    with st.container(border=True, key="recommendation"):
        if winner is None:
            st.caption(f"No build may ship on {words(device.device)} yet")
            st.header("No winner", anchor=False)
            st.text(plain_words(device.no_winner_reason or "nothing has been measured yet"))
            if waiting:
                st.caption(f":material/hourglass_empty: {_count(waiting, 'job')} still to come.")
            _provisional(root, ranked, device, table)
            for text in more_images:
                st.caption(words(text))
            st.caption(f"Asked for: {words(objective_sidebar.in_words(ranked.objective))}.")
            leads = device.provisional.job_key if device.provisional is not None else ""
            _take_along(
                root,
                ranked,
                device,
                next((candidate for candidate in device.ranking if candidate.job_key == leads), None),
            )
            return
        row = table[table["job_key"] == winner.job_key].iloc[0]
        lead = "Ship this on" if winner.timed else "The best, but only checked and not timed, on"
        with st.container(key="eyebrow"):
            st.caption(f"{lead} {words(device.device)}")
        st.header(words(row["variant"]), anchor=False)
        for sentence in beats(ranked, winner, row, table, words):
            st.markdown(f"**{sentence.strong}**{sentence.rest}" if sentence.strong else sentence.rest)
        _figures(device, winner, row)
        _badges(winner, waiting)
        _ties(device, table)
        settle.show(root, ranked, device)
        if device.alarm:
            st.warning(f"Batches are contradicted: {inert(device.alarm)}")
        _trust(winner, command_hints(Workspace(root), ranked.place.sweep))
        st.caption(f"Asked for: {words(objective_sidebar.in_words(ranked.objective))}.")
        _take_along(root, ranked, device, winner)


def _provisional(root: Path, ranked: Ranked, device: DeviceRanking, table: pd.DataFrame) -> None:
    """Draw the provisional choice, and the one next step."""
    provisional = device.provisional
    if provisional is None:
        return
    if provisional.name:
        row = table[table["job_key"] == provisional.job_key].iloc[0]
        st.badge("provisional choice", color="orange", icon=":material/help:")
        st.subheader(words(row["variant"]), anchor=False)
        st.text(plain_words(f"It is not the winner: {provisional.why}"))
    st.markdown("**To settle it:**" if provisional.name else "**To go on:**")
    settle.show_provisional(root, ranked, provisional.settle)


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


def _named(ties: Sequence[Candidate], table: pd.DataFrame) -> str:
    return some(
        [
            words(name) + (f" ({words(tie.settling.text)})" if tie.settling and tie.tie == "unresolved" else "")
            for name, tie in zip(rows.names_in(table, ties), ties, strict=True)
        ]
    )


def _figures(device: DeviceRanking, winner: Candidate, row: pd.Series) -> None:
    """Draw the recommended build's figures, with the objective's metric if it is not among the usual ones."""
    accuracy = METRICS[rows.accuracy_metric(device)]
    source = f"emulated by {words(row['emulated_by'])}" if row["emulated_by"] else "from the device's outputs"
    interval = with_scope(f"95 %: {row['interval_text']}", winner.interval_of)
    spread = interval if winner.timed else "only a phone can tell"
    allowed = next((bound.bound for bound in winner.constraints if bound.metric == "accuracy_drop_points"), "")
    bound = f"; allowed: {allowed}" if allowed else ""
    figures = [
        ("Latency (p50)", row["latency_text"], spread),
        (accuracy.title, accuracy.format(row["accuracy"]), source),
        ("Accuracy drop", row["drop_text"], f"95 %: {row['drop_interval_text']}{bound}"),
        ("Size", row["size_text"], "the file to ship"),
    ]
    if device.metric not in ("latency_p50_ms", accuracy.name, "accuracy_drop_points", "artifact_mb"):
        metric = catalog.metric(device.metric)
        title = metric_title(metric.name)
        figures.insert(0, (title[0].upper() + title[1:], metric.format(winner.figures.get(metric.name)), "asked for"))
    tables.figures(figures)


def _badges(winner: Candidate, waiting: int) -> None:
    text, colour, icon = _VERDICTS[winner.verdict]
    with st.container(horizontal=True, gap="small"):
        st.badge(text, color=colour, icon=icon)
        if waiting:
            st.badge(
                f"provisional: {_count(waiting, 'job')} to come", color="orange", icon=":material/hourglass_empty:"
            )


def _trust(winner: Candidate, advice: CommandHints) -> None:
    """Draw the winner's trust labels in words, with the remedies. A winner has only labels that this version knows."""
    if winner.trust:
        with st.expander(f"{_count(len(winner.trust), 'doubt')} about this measurement", icon=":material/info:"):
            for name in winner.trust:
                st.text(line(f"{TRUST_WORDS[name]}: {advice.typed(TRUST[name].text)}"))


def _take_along(root: Path, ranked: Ranked, device: DeviceRanking, build: Candidate | None) -> None:
    """Draw downloads and links. `build`: the winner or the provisional choice; `None` if there is neither."""
    with st.container(horizontal=True, gap="small", vertical_alignment="center", key="take-along"):
        if build is not None:
            _download(root, ranked, device, build)
        downloads.offer_tables(
            lambda: results_table(ranked.rows), f"{ranked.place.sweep}-{ranked.place.model}", "place"
        )
        if build is None:
            return
        place = {"sweep": ranked.place.sweep, "device": ranked.place.place_id, "model": ranked.place.model}
        links.link("result", "All about this result", icon=":material/lab_profile:", **place, job=build.job_key)
        if build.timed:
            links.link(
                "compare",
                "Compare it",
                icon=":material/compare_arrows:",
                **place,
                a=compare_rows.side_text(ranked.place.sweep, build.job_key),
            )


def _download(root: Path, ranked: Ranked, device: DeviceRanking, build: Candidate) -> None:
    problem = downloads.problem(root, build.build_key)
    if problem is not None:
        st.text(line(f"No download: {problem.message}. Next step: {problem.next_step}"))
        return
    st.download_button(
        "Download this build",
        lambda: downloads.build_zip(root, ranked, device, build),
        file_name=f"{downloads.file_name(ranked.place.model, build.variant)}.zip",
        mime="application/zip",
        on_click="ignore",
        type="primary",
        icon=":material/download:",
        key="download-build",
        help="The file to ship, and its manifest with the figures to expect of it.",
    )


def _count(number: int, noun: str) -> str:
    return line(f"{number} {noun}" if number == 1 else f"{number} {noun}s")
