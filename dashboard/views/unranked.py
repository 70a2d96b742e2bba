"""Results outside the ranking of a device: checked, imported, failed, skipped and waiting ones."""

from collections import Counter
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

import pandas as pd
import streamlit as st

from dashboard import history_cache, rows
from dashboard.charts.dots import drops
from dashboard.markdown_escape import NOTHING, line
from dashboard.ranked_place import Ranked
from dashboard.source import Source
from dashboard.style import palette
from dashboard.views import explained
from dashboard.views.tables import draw_table, size_format, table_height, text_width
from dashboard.words import plain_words
from sweeps.errors import EdgeSweepError
from sweeps.imported import Imported
from sweeps.journal.result_place import Place
from sweeps.launching.away_devices import away_now
from sweeps.launching.driver import find
from sweeps.quarantine import QuarantineBook
from sweeps.report.explanations import Sort
from sweeps.results import ResultRow
from sweeps.workspace import Workspace

CHECKED = "Checked on this host, not timed"


def show_checked(checked: pd.DataFrame, most_drop: float | None) -> None:
    """Draw the builds that were only checked. `checked`: `dashboard.rows.checked`, not empty. `most_drop`: the largest
    accuracy drop that the objective allows, in percentage points."""
    st.subheader(CHECKED, anchor=False)
    if checked["drop_points"].notna().any():
        with st.container(border=True, key="checked-chart"):
            st.vega_lite_chart(spec=drops(checked, most_drop, palette()), key="checked")
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
    draw_table(
        shown,
        hide_index=True,
        height=table_height(len(shown)),
        key="checked-table",
        column_config={
            "Variant": st.column_config.TextColumn(width=text_width(shown["Variant"])),
            **{name: number(format="%.2f") for name in ("Top-1 (%)", "Drop (points)", "Agreement (%)")},
            "Size (MB)": number(format=size_format(checked["artifact_mb"])),
        },
    )


def show_imported(figures: tuple[Imported, ...], title: str, key: str) -> None:
    """Draw the figures of tools that were run by hand, if there are any."""
    if not figures:
        return
    table = rows.imported(figures)
    st.subheader(title, anchor=False)
    st.caption("Means of PyTorch's own benchmark tools: one run each, conditions unknown, so no interval and no rank.")
    draw_table(
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
            "Variant": st.column_config.TextColumn(width=text_width(table["variant"])),
            "Mean (ms)": st.column_config.NumberColumn(format="%.3f"),
        },
    )


def why_waiting(root: Path, now: Source, place: Place) -> str:
    """Return the reason why the jobs of a place have no result yet, and the next step."""
    units = {
        device.facts.device_id: device.facts.name
        for device in history_cache.devices(now)
        if place.place_id in device.place_ids
    }
    with suppress(EdgeSweepError):
        kept_out = [QuarantineBook().quarantine(unit) for unit in units]
        if kept_out and all(kept_out) and kept_out[0] is not None:
            return f"the device is quarantined, so sweeps leave it alone: {kept_out[0].way_out}"
    gone = away_now(Workspace(root))
    missed = [gone.text(name) for name in units.values() if name in gone.devices]
    if missed and len(missed) == len(units):
        return f"{missed[0][:1].lower()}{missed[0][1:]}; once it is back, edgesweep run measures them"
    driver = find(Workspace(root))
    if driver.state != "idle" and driver.sweep == place.sweep:
        return "not measured yet: the sweep runs now"
    return "not measured yet: edgesweep run goes on where it ended"


def show_not_ranked(ranked: Ranked, waiting: Sequence[str], why: str) -> None:
    """Draw failed, skipped and waiting jobs, with reasons. `waiting`: names of jobs without a result; `why`: the reason
    why all of them wait."""
    unmeasured = [row for row in ranked.rows if row.outcome in ("failed", "skipped")]
    unmeasured.sort(key=lambda row: (row.outcome, row.name))
    if not unmeasured and not waiting:
        st.caption("Nothing failed, nothing was skipped, and nothing waits.")
        return
    outcomes = [*(row.outcome for row in unmeasured), *("waiting" for _ in waiting)]
    counts = Counter(outcomes)
    st.subheader("Failed, skipped and waiting" if waiting else "Failed and skipped", anchor=False)
    st.text(", ".join(f"{count} {outcome}" for outcome, count in counts.items()))
    shown = pd.DataFrame(
        {
            "Outcome": outcomes,
            "Variant": [*(ranked.names[row.job_key] for row in unmeasured), *map(line, waiting)],
            "Reason": [*map(_reason, unmeasured), *(line(why) for _ in waiting)],
        }
    )
    draw_table(
        shown,
        hide_index=True,
        height=table_height(len(shown)),
        key="not-ranked-table",
        column_config={
            "Outcome": st.column_config.TextColumn(width=80),
            "Variant": st.column_config.TextColumn(width=text_width(shown["Variant"])),
        },
    )
    reasons: list[tuple[Sort, str]] = [
        ("failure" if row.outcome == "failed" else "skip", row.kind) for row in unmeasured
    ]
    explained.show([*reasons, ("verdict", "waiting")] if waiting else reasons)


def _reason(row: ResultRow) -> str:
    return plain_words(row.reason_in_full)
