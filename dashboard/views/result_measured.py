"""The measurements on the page Result: the job's blocks, and the blocks of its device's sentinel."""

from datetime import timedelta

import pandas as pd
import streamlit as st

from dashboard import history_cache, job_rows
from dashboard.charts import job_charts as drawing
from dashboard.charts.drawing import Spec
from dashboard.markdown_escape import NOTHING
from dashboard.source import Source
from dashboard.style import Palette, palette
from dashboard.views.tables import draw_table, table_height
from sweeps.journal.job_history import JobEvidence


def show(now: Source, sweep: str, job_key: str, job: JobEvidence) -> None:
    """Draw the samples, warm-ups, blocks and temperatures of a job and the sentinel's blocks, or say which of them are
    missing."""
    drawn = _charts(now, sweep, job_key, palette())
    st.subheader("Samples over time", anchor=False)
    if not job.blocks:
        st.text(
            "It is only checked by a reference implementation: it has no samples."
            if job.planned.job.emulated
            else "No block of it was accepted: it has no samples."
        )
    else:
        samples = sum(len(stored.block.samples_ns) for stored in job.blocks)
        with st.container(border=True, key="samples-chart"):
            st.vega_lite_chart(drawn["samples"], key="samples", width="stretch")
            st.caption(
                f"Blue: {samples:,} samples, each column from its lowest to its highest. Orange: the figure of each "
                "block, which is a process of its own."
            )
        _warmups_and_heat(drawn)
        _blocks(job)
    st.subheader("The device meanwhile", anchor=False)
    if "sentinel" in drawn:
        with st.container(border=True, key="sentinel-chart"):
            st.vega_lite_chart(drawn["sentinel"], key="sentinel", width="stretch")
            st.caption(
                "A small model of EdgeSweep's own, timed at intervals. Green: while this job was measured. Pink: while "
                "the device changed its speed for good. Dashed: the median."
            )
    else:
        st.text("The sentinel has not looked at this device: whether its speed changed is not known.")


def _warmups_and_heat(drawn: dict[str, Spec]) -> None:
    left, right = st.columns(2, gap="medium")
    with left, st.container(border=True, height="stretch", key="warmup-chart"):
        st.markdown("**Warm-ups, which are in no figure**")
        if "warmups" in drawn:
            st.vega_lite_chart(drawn["warmups"], key="warmups", width="stretch")
        else:
            st.text("The runner reported no warm-ups.")
    with right, st.container(border=True, height="stretch", key="heat-chart"):
        st.markdown("**Temperature before and after each block**")
        if "temperatures" in drawn:
            st.vega_lite_chart(drawn["temperatures"], key="temperatures", width="stretch")
        else:
            st.text("The device has no sensor that can be read: whether it was cool is not known.")


def _blocks(job: JobEvidence) -> None:
    st.subheader("Blocks and their conditions", anchor=False)
    table = pd.DataFrame(job_rows.block_table(job.blocks, job.changed))
    columns = [name for name in table if not (table[name].isna() | (table[name] == NOTHING)).all()]
    number = st.column_config.NumberColumn
    draw_table(
        table[columns],
        hide_index=True,
        key="blocks-table",
        height=table_height(len(table)),
        placeholder=NOTHING,
        column_config={
            "Block": st.column_config.NumberColumn(width=55),
            "Figure (ms)": number(
                format="%.3f", help="The median of its samples, or with a coarse clock their mean without spikes."
            ),
            "First inference (ms)": number(format="%.2f"),
            "Load (ms)": number(format="%.1f"),
            "Waited (s)": number(format="%.0f"),
        },
    )
    if hidden := [str(name) for name in table if name not in columns]:
        st.caption(f"Not known of any block: {', '.join(hidden)}.")


@st.cache_resource(max_entries=64, show_spinner=False)
def _charts(now: Source, sweep: str, job_key: str, look: Palette) -> dict[str, Spec]:
    """Return the charts of a job's measurements, by name. They are cached for all sessions: never change them."""
    job = history_cache.job(now, sweep, job_key)
    if job is None:
        return {}
    blocks = [stored.block for stored in job.blocks]
    charts: dict[str, Spec] = {}
    if blocks:
        charts["samples"] = drawing.samples(job_rows.sample_columns(blocks), job_rows.block_spans(blocks), look)
    if warm := job_rows.warmup_rows(blocks):
        charts["warmups"] = drawing.warmups(warm, look)
    if heat := job_rows.temperature_rows(job.blocks):
        charts["temperatures"] = drawing.temperatures(heat, look)
    if job.sentinel.looks:
        looks, changed = job_rows.sentinel_rows(job.sentinel)
        charts["sentinel"] = drawing.sentinel(looks, changed, look, job_rows.measured_spans(job.blocks, _BRIEF))
    return charts


_BRIEF = timedelta(seconds=1)
"""Shortest span that is drawn for a block."""
