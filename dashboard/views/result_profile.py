"""Where the time of one build goes, operator by operator, and what captures recorded: what `edgesweep profile` kept."""

import shlex
from collections.abc import Sequence
from pathlib import Path

import pandas as pd
import streamlit as st

from dashboard.downloads import file_name
from dashboard.inert import line, words
from dashboard.views.tables import draw_table, table_height
from sweeps.journal.evidence import JobEvidence
from sweeps.kept_profiles import Kept, kept, kept_of
from sweeps.spec import places
from sweeps.workspace import Workspace

_SHOWN_PERCENT = 0.05
"""Of the time: what is less is summed up below the table."""


def show(root: Path, sweep: str, found: JobEvidence) -> None:
    """Draw the profile of this device, its trace and its captures, or the command that makes them."""
    st.subheader("Where its time goes", anchor=False)
    job, facts = found.planned.job, found.planned.facts
    if job.emulated:
        st.text("It is only checked by a reference implementation: no device has run it.")
        return
    if found.row is None or found.row.outcome != "measured":
        st.text("Not known: only what was measured can be profiled.")
        return
    of_build = kept(Workspace(root), job.build_key)
    here = kept_of(Workspace(root), job.build_key, job.device_id, job.run)
    profiles = [one for one in here if not one.profile.capture]
    captures = [one for one in here if one.profile.capture]
    if profiles:
        _profile(profiles[0])
    else:
        _none(of_build)
        command = ["edgesweep", "profile", job.name, "--device", facts.name, "--sweep", sweep]
        if host := places.host_of(facts.name):
            st.text(f"Its device is on the host {line(host)}: profile it from a workspace there.")
            return
        st.code(
            shlex.join([line(word) for word in [*command, "--workspace", str(root)]]), language=None, wrap_lines=True
        )
    if captures:
        _captures(captures)


def _none(of_build: Sequence[Kept]) -> None:
    others = sorted({line(one.profile.device) for one in of_build})
    there = f" It was profiled on {', '.join(others)}." if others else ""
    st.text(
        f"This build was not profiled on this device yet.{there} A sweep has to have built it; this command does it:"
    )


def _profile(one: Kept) -> None:
    profile = one.profile
    shown = [operator for operator in profile.operators if operator.percent >= _SHOWN_PERCENT]
    # Where operators have one place, a column of it says nothing.
    places = len({operator.where for operator in profile.operators}) > 1
    columns = {
        "Operator": [line(operator.name) for operator in shown],
        **({"Where": [line(operator.where) for operator in shown]} if places else {}),
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
        f"iterations with {_threads(one)}, told by {words(profile.runner)}.{rest} A profiled run is "
        "slower than others: no figure here is a latency, and none is ranked."
    )
    _offer(one, "Trace", "It opens in chrome://tracing and ui.perfetto.dev.")


def _captures(captures: Sequence[Kept]) -> None:
    st.markdown("**Captures**")
    for one in captures:
        st.text(
            f"{line(one.profile.capture)}, {one.profile.iterations} iterations with {_threads(one)}; labelled "
            "profiled, never ranked"
        )
        _offer(one, f"What {one.profile.capture} recorded", "")


def _threads(one: Kept) -> str:
    return f"{one.profile.threads} thread{'s' * (one.profile.threads != 1)}"


def _offer(one: Kept, title: str, help_: str) -> None:
    if not one.file.is_file() or one.file.is_symlink():
        st.text("Its file is gone: make it again.")
        return
    name = file_name(one.profile.job, one.profile.device_id, one.profile.suffix)
    st.download_button(
        words(title),
        one.file.read_bytes,
        file_name=name,
        on_click="ignore",
        key=f"profile-{one.profile.capture or 'trace'}-{one.file.name}",
        icon=":material/download:",
        help=help_ or None,
    )
