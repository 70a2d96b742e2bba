"""The profile on the page Result: the time of each operator of a build, and downloads of captures, both from `edgesweep
profile`."""

import shlex
from collections.abc import Sequence
from pathlib import Path

import pandas as pd
import streamlit as st

from dashboard.downloads import file_name
from dashboard.markdown_escape import line, words
from dashboard.views.tables import draw_table, table_height
from sweeps.journal.job_history import JobEvidence
from sweeps.spec import lab_names
from sweeps.stored_profiles import ProfileFiles, profiles_of_build, profiles_of_run
from sweeps.workspace import Workspace

_SHOWN_PERCENT = 0.05
"""Least share of the time, in percent, for which an operator has a row; smaller ones are counted below the table."""


def show(root: Path, sweep: str, evidence: JobEvidence) -> None:
    """Draw the job's profile on its device, with the trace and captures, or the command that creates them."""
    st.subheader("Where its time goes", anchor=False)
    job, facts = evidence.planned.job, evidence.planned.facts
    if job.emulated:
        st.text("It is only checked by a reference implementation: no device has run it.")
        return
    if evidence.row is None or evidence.row.outcome != "measured":
        st.text("Not known: only what was measured can be profiled.")
        return
    of_build = profiles_of_build(Workspace(root), job.build_key)
    of_device = profiles_of_run(Workspace(root), job.build_key, job.device_id, job.run)
    profiles = [item for item in of_device if not item.profile.capture]
    captures = [item for item in of_device if item.profile.capture]
    if profiles:
        _profile(profiles[0])
    else:
        _none(of_build)
        command = ["edgesweep", "profile", job.name, "--device", facts.name, "--sweep", sweep]
        if host := lab_names.host_of(facts.name):
            st.text(f"Its device is on the host {line(host)}: profile it from a workspace there.")
            return
        st.code(
            shlex.join([line(word) for word in [*command, "--workspace", str(root)]]), language=None, wrap_lines=True
        )
    if captures:
        _captures(captures)


def _none(of_build: Sequence[ProfileFiles]) -> None:
    devices = sorted({line(item.profile.device) for item in of_build})
    elsewhere = f" It was profiled on {', '.join(devices)}." if devices else ""
    st.text(
        f"This build was not profiled on this device yet.{elsewhere} A sweep has to have built it; "
        "this command does it:"
    )


def _profile(stored: ProfileFiles) -> None:
    profile = stored.profile
    shown = [operator for operator in profile.operators if operator.percent >= _SHOWN_PERCENT]
    # The column `Where` is left out if all operators run in the same place.
    lab_names = len({operator.where for operator in profile.operators}) > 1
    columns = {
        "Operator": [line(operator.name) for operator in shown],
        **({"Where": [line(operator.where) for operator in shown]} if lab_names else {}),
        "Share": [operator.percent for operator in shown],
        "Time, µs": [operator.self_us_per_iteration for operator in shown],
        "Calls": [operator.calls_per_iteration for operator in shown],
    }
    draw_table(
        pd.DataFrame(columns),
        hide_index=True,
        key="result-profile",
        height=table_height(len(shown)),
        column_config={
            "Share": st.column_config.ProgressColumn(format="%.1f %%", min_value=0.0, max_value=100.0),
            "Time, µs": st.column_config.NumberColumn(format="%.1f"),
            "Calls": st.column_config.NumberColumn(format="%.4g"),
        },
    )
    less = len(profile.operators) - len(shown)
    rest = f" {less} more take less than {_SHOWN_PERCENT} % each." if less else ""
    st.caption(
        f"Own time of each operator per iteration, without what it calls: the median of {profile.iterations} "
        f"iterations with {_threads(stored)}, told by {words(profile.runner)}.{rest} A profiled run is "
        "slower than others: no figure here is a latency, and none is ranked."
    )
    _offer(stored, "Trace", "It opens in chrome://tracing and ui.perfetto.dev.")


def _captures(captures: Sequence[ProfileFiles]) -> None:
    st.markdown("**Captures**")
    for capture in captures:
        st.text(
            f"{line(capture.profile.capture)}, {capture.profile.iterations} iterations with {_threads(capture)}; "
            "labelled profiled, never ranked"
        )
        _offer(capture, f"What {capture.profile.capture} recorded", "")


def _threads(stored: ProfileFiles) -> str:
    return f"{stored.profile.threads} thread{'s' * (stored.profile.threads != 1)}"


def _offer(stored: ProfileFiles, title: str, help_: str) -> None:
    if not stored.file.is_file() or stored.file.is_symlink():
        st.text("Its file is gone: make it again.")
        return
    name = file_name(stored.profile.job, stored.profile.device_id, stored.profile.suffix)
    st.download_button(
        words(title),
        stored.file.read_bytes,
        file_name=name,
        on_click="ignore",
        key=f"profile-{stored.profile.capture or 'trace'}-{stored.file.name}",
        icon=":material/download:",
        help=help_ or None,
    )
