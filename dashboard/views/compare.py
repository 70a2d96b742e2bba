"""The page Compare, which compares two variants, devices, sweeps or dates."""

from pathlib import Path
from typing import Any

import pandas as pd
import streamlit as st

from dashboard import compare_rows, data, history_cache, state
from dashboard.charts import job_charts as drawing
from dashboard.charts.drawing import Spec
from dashboard.history_cache import Side
from dashboard.links import link
from dashboard.markdown_escape import line, words
from dashboard.source import Source
from dashboard.style import Palette, palette
from dashboard.views import compare_sides, differences, empty, page_head, tables
from dashboard.views.tables import draw_table, table_height
from dashboard.words import build_names
from sweeps.ranking.comparison import Compared, Finding
from sweeps.records import Block
from sweeps.results import ResultRow
from sweeps.stats import Estimate

_WORDS: dict[Finding, str] = {
    "slower": "B is slower than A",
    "slower (one session)": "B was slower in one session",
    "unresolved": "Whether B is slower is not resolved",
    "faster": "B is faster than A",
    "the same": "B is as fast as A",
    "not slower": "B is not slower than A",
    "not comparable": "A and B cannot be compared",
}
_ICONS: dict[Finding, str] = {
    "slower": ":material/trending_down:",
    "slower (one session)": ":material/help:",
    "unresolved": ":material/help:",
    "faster": ":material/bolt:",
    "the same": ":material/equal:",
    "not slower": ":material/check:",
    "not comparable": ":material/block:",
}


def show(root: Path) -> None:
    """Draw the page."""
    page_head.head("Compare", "Is B slower than A? Two variants, two devices, two sweeps, or one build on two dates.")
    now = data.source(root)
    if now is None or not now.plans:
        empty.show(root)
        return
    suggested, is_back = compare_sides.suggested(now, root), not len(st.query_params)
    left, right = st.columns(2, gap="medium")
    with left, st.container(border=True, key="side-a"):
        a = compare_sides.choose("a", now, root, suggested[0], is_back=is_back)
    with right, st.container(border=True, key="side-b"):
        b = compare_sides.choose("b", now, root, suggested[1], is_back=is_back)
    if a is None or b is None:
        st.info("There is nothing timed to compare on one of the sides.", icon=":material/inbox:")
        return
    if a == b:
        st.info("A and B are one and the same result: choose another on one of the sides.", icon=":material/equal:")
        return
    if a[:2] == b[:2] and not (a.session and b.session):
        st.info("All dates have those of one date among them: choose a date on both sides.", icon=":material/equal:")
        return
    rows = [history_cache.row(now, side) for side in (a, b)]
    if rows[0] is not None and rows[1] is not None:
        with st.container(key=state.selected(a, b), gap="medium"):
            _compared(now, (a, b), (rows[0], rows[1]))


def _compared(now: Source, sides: tuple[Side, Side], rows: tuple[ResultRow, ResultRow]) -> None:
    a, b = rows
    [verdict] = history_cache.comparison(now, *sides).results
    pairs = compare_rows.paired(a, b)
    ratio = compare_rows.paired_ratio(a, b)
    with st.container(border=True, key="verdict"):
        st.header(f"{_ICONS[verdict.finding]} {_WORDS[verdict.finding]}", anchor=False)
        with st.container(gap=None):
            for letter, side, row in (("A", sides[0], a), ("B", sides[1], b)):
                name = build_names(data.place_rows(now, side.place))[row.job_key]
                when = f", measured {dates}" if (dates := compare_rows.dates_text(row)) else ""
                st.markdown(f"**{letter}** {words(name)}, on {words(row.device)}, in {words(row.sweep)}{when}")
        _figures(verdict)
        _ratio(verdict, ratio, len(pairs))
        if verdict.why:
            st.text(f"Why: {line(verdict.why)}")
        st.caption(_sessions(verdict))
        with st.container(horizontal=True, gap="medium"):
            for letter, side, row in (("A", sides[0], a), ("B", sides[1], b)):
                where = {"sweep": side.place.sweep, "device": side.place.place_id, "model": side.place.model}
                link("result", f"All of {letter}", icon=":material/science:", **where, job=row.job_key)
    differences.show(a, b, one_session=any(side.session for side in sides))
    with st.container(border=True, key="distributions"):
        st.subheader("Samples and blocks", anchor=False)
        drawn, beyond = _distributions(now, sides, palette())
        if drawn is None:
            st.text("The blocks are not in this workspace's journal.")
        else:
            st.vega_lite_chart(drawn, key="distributions-chart", width="stretch")
            more = f" {beyond:,} slower samples lie beyond the right end." if beyond else ""
            st.caption(
                f"Areas: samples, the most frequent as high as the other side's. Ticks: figures of blocks.{more}"
            )
    with st.container(border=True, key="pairs"):
        st.subheader("Round by round", anchor=False)
        _rounds(pairs, ratio, a, b)


def _figures(verdict: Compared) -> None:
    """Draw the figures of the verdict."""
    sides = (("A", verdict.a_mean_ms, verdict.a_p50_ms), ("B", verdict.b_mean_ms, verdict.b_p50_ms))
    figures = [
        (f"{letter}: latency", f"{mean:.3f} ms", f"mean of its blocks (geometric); their median is {p50:.3f} ms")
        if mean is not None
        else (f"{letter}: latency", f"{p50:.3f} ms", "its only block")
        for letter, mean, p50 in sides
        if p50 is not None
    ]
    if verdict.ratio is not None:
        ratio = Estimate(verdict.ratio, verdict.ratio_low, verdict.ratio_high)
        value, _, interval = compare_rows.ratio_text(ratio).partition(" (")
        figures.append(("B / A", value, f"95 %: {interval.rstrip(')')}" if interval else "no interval"))
    tables.figures(figures)


def _ratio(verdict: Compared, ratio: Estimate | None, rounds: int) -> None:
    """Draw the ratio over common rounds, and a note about the ratio of the verdict."""
    if ratio is not None:
        st.markdown(
            f"B / A **paired by round {compare_rows.ratio_text(ratio)}**: the median of the ratios of {rounds} common "
            f"round{'s' * (rounds != 1)}, which are in the table below."
        )
    if verdict.ratio is None:
        st.text("There is no ratio with an interval: a side has fewer than two blocks.")
        return
    st.caption("The verdict is that of `edgesweep compare`; its B / A is the quotient of these two means.")


def _sessions(verdict: Compared) -> str:
    if verdict.session_spread_percent is None:
        return "Measured in the same runs: what a session does to A, it does to B."
    return (
        f"Sessions: {verdict.a_sessions} of A, {verdict.b_sessions} of B. The interval contains a spread between "
        f"sessions of {verdict.session_spread_percent:.1f} %. The same: shown to differ by less than "
        f"{history_cache.MARGIN_PERCENT:g} %; not slower: to be slower by less than that, if at all."
    )


def _rounds(pairs: list[dict[str, Any]], ratio: Estimate | None, a: ResultRow, b: ResultRow) -> None:
    if not pairs or ratio is None:
        st.text(
            "They were measured on two devices: there are no common rounds."
            if a.device_id != b.device_id
            else "They were never measured in the same round: there are no pairs."
        )
        return
    estimate = {"value": ratio.value}
    if ratio.low is not None and ratio.high is not None:
        estimate |= {"low": ratio.low, "high": ratio.high}
    left, right = st.columns([3, 2], gap="medium")
    with left:
        st.vega_lite_chart(drawing.ratios(pairs, estimate, palette()), key="pairs-chart", width="stretch")
        st.caption("Points: the ratio in each round. Line and band: the median and its 95 % interval. Dashed: equal.")
    with right:
        table = pd.DataFrame(pairs, columns=["number", "a_ms", "b_ms", "ratio"])
        table.columns = pd.Index(["Round", "A (ms)", "B (ms)", "B / A"])
        number = st.column_config.NumberColumn
        draw_table(
            table,
            hide_index=True,
            key="pairs-table",
            height=table_height(len(table)),
            column_config={
                "A (ms)": number(format="%.3f"),
                "B (ms)": number(format="%.3f"),
                "B / A": number(format="%.3f"),
            },
        )


@st.cache_resource(max_entries=64, show_spinner=False)
def _distributions(now: Source, sides: tuple[Side, Side], look: Palette) -> tuple[Spec | None, int]:
    """Return the chart, and the number of samples beyond its end. It is cached for all sessions: never change it."""
    a, b = (_blocks(now, side) for side in sides)
    bins, beyond = compare_rows.histograms(a, b)
    if not bins:
        return None, 0
    return drawing.distributions(bins, compare_rows.block_points(a, b), look), beyond


def _blocks(now: Source, side: Side) -> list[Block]:
    job, row = history_cache.job(now, side.place.sweep, side.job_key), history_cache.row(now, side)
    if job is None or row is None:
        return []
    return [stored.block for stored in job.blocks if compare_rows.in_session(row, stored.block.session, side.session)]
