"""The build on the page Result: figures, axes, log, identity, commands to repeat the measurement, and the MLflow
run."""

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pandas as pd
import streamlit as st

from dashboard import job_rows
from dashboard.markdown_escape import NOTHING, line, words
from dashboard.views.tables import draw_table, table_height, text_width
from sweeps.errors import EdgeSweepError
from sweeps.journal.job_history import JobEvidence
from sweeps.launching.start import log_of
from sweeps.manifest import Coverage, Manifest
from sweeps.metrics import METRICS
from sweeps.ranking.eligibility import reference_name
from sweeps.report.explanations import explained
from sweeps.results import ResultRow
from sweeps.spec import catalog
from sweeps.store.uri import redact
from sweeps.workspace import Workspace

SHORT = 20
"""Most lines of a log that is shown in full height."""
LOG_BYTES = 66_000
"""Bytes at the end of a log that the page shows."""
_KEY = re.compile(r"[0-9a-f]{8,64}")


def show(root: Path, row: ResultRow | None, job: JobEvidence) -> None:
    """Draw the build: its figures, log and identity, and the commands that repeat the measurement."""
    left, right = st.columns(2, gap="medium")
    with left:
        st.subheader("All figures", anchor=False)
        _pairs(_figures(row), "figures", "Nothing was measured: there are none.")
    with right:
        st.subheader("What is in the file", anchor=False)
        _operators(job.manifest)
        _coverage(job.manifest, job.planned.job.variant.backend)
    with st.container(gap="small"):
        st.subheader("The build", anchor=False)
        axes = {**job.planned.job.variant.axes(), "threads": job.planned.job.run.threads}
        axes |= {"cpus": job.planned.job.run.cpus, "reuse_input": job.planned.job.run.reuse_input}
        _pairs([(name, line(str(value)), _meaning(name)) for name, value in axes.items()], "axes", "")
    _log(Workspace(root), row.sweep if row else "", job.planned.job.build_key)
    with st.expander("Versions, hashes and keys"):
        _pairs(job_rows.identity(row, job.manifest, job.planned.facts), "identity", "")
    st.subheader("Measure it again", anchor=False)
    if row is not None:
        st.code(job_rows.repeat_command(row, job.planned.facts, str(root)), language=None, wrap_lines=True)
    else:
        st.text("It waits: the next `edgesweep run` of its sweep file goes on with it.")
    if row is not None:
        _mlflow(Workspace(root).tracking_uri, row)


def _figures(row: ResultRow | None) -> list[tuple[str, str]]:
    if row is None:
        return []
    figures = [
        (METRICS[name].title, METRICS[name].format(value)) for name, value in row.metrics.items() if name in METRICS
    ]
    figures += [
        (line(catalog.metric(name).title), catalog.metric(name).format(value))
        for name, value in sorted(row.metrics.items())
        if name not in METRICS
    ]
    seconds = {
        "Device time": row.device_seconds,
        "Its share of batches": row.batch_seconds,
        "Timed": row.timed_seconds,
        "Waited for a ready device": row.waited_seconds,
        "Sending files": row.push_seconds,
        "Accuracy pass": row.accuracy_seconds,
    }
    return figures + [(name, f"{value:.1f} s") for name, value in seconds.items() if value]


def _coverage(manifest: Manifest | None, backend: str) -> None:
    coverage = None if manifest is None else manifest.coverage
    if manifest is not None and manifest.providers:
        st.markdown("**Nodes by execution provider**, on the computer that built it")
        nodes = sorted(manifest.providers.items(), key=lambda item: (-item[1], item[0]))
        _pairs([(line(name), f"{count} nodes") for name, count in nodes], "provider", "")
        return
    if coverage is None and backend == "cpu":
        return
    st.markdown("**Covered by the accelerator**")
    if coverage is None:
        st.text("Not known: it is recorded of builds for NNAPI, and of ExecuTorch's delegates.")
        return
    share = [("Multiply-adds covered", f"{coverage.multiply_adds_covered_percent:.1f} %")]
    if coverage.delegates is not None:
        share += [("Delegates", str(coverage.delegates))]
        share += [("Operators delegated", f"{sum(coverage.operations.values())} of {coverage.operators}")]
    share += [("Multiply-adds of the model", f"{coverage.multiply_adds:,}")]
    if coverage.feature_level is not None:
        share += [("Lowest NNAPI feature level", str(coverage.feature_level))]
    operations = sorted(coverage.operations.items(), key=lambda item: (-item[1], item[0]))
    uncovered = sorted(coverage.left.items(), key=lambda item: (-item[1], item[0]))
    counted = [(line(name), f"{count} ×") for name, count in operations]
    counted += [(f"not covered: {line(name)}", f"{count} ×{_share(coverage, name)}") for name, count in uncovered]
    _pairs(share + counted, "coverage", "")


def _share(coverage: Coverage, operator: str) -> str:
    percent = coverage.left_percent.get(operator)
    return "" if percent is None else f", {percent:.1f} % of the multiply-adds"


def _operators(manifest: Manifest | None) -> None:
    if manifest is None:
        st.text("No build is recorded: operators, file and versions are not known.")
        return
    many, fused = len(manifest.operators), len(manifest.fused)
    with st.expander(f"{many} operator{'s' * (many != 1)}, {fused} fused sequence{'s' * (fused != 1)}"):
        st.text("\n".join(line(name) for name in manifest.operators) or NOTHING)
        if manifest.fused:
            st.text("Fused:\n" + "\n".join(line(name) for name in manifest.fused))
    check = manifest.verification
    sqnr = "bit-identical" if check.sqnr_db is None else f"SQNR {check.sqnr_db:.1f} dB"
    st.text(
        line(
            f"Verified after the build on {check.images} images against {check.against}: {sqnr}"
            + (f", by {reference_name(check.executor)}" if check.executor else "")
        )
    )


def _log(workspace: Workspace, sweep: str, build_key: str) -> None:
    """Draw the build's output, and the log of the sweep if it was started from the browser."""
    log = workspace.build_log(build_key) if _KEY.fullmatch(build_key) else None
    with st.expander("Build log"):
        text = "" if log is None else _end_of(log)
        if text:
            st.code(text, language=None, wrap_lines=True, height="content" if text.count("\n") < SHORT else 400)
        else:
            st.text("Not kept: it was built elsewhere, or not yet." if log is None else "The build printed nothing.")
    whole = log_of(workspace, sweep)
    if sweep and whole.is_file() and not whole.is_symlink():
        with st.expander(f"Log of the sweep: {words(whole.name)}"):
            st.code(_end_of(whole), language=None, wrap_lines=True, height=400)


def _end_of(path: Path) -> str:
    try:
        with path.open("rb") as file:
            size = file.seek(0, 2)
            file.seek(max(0, size - LOG_BYTES))
            text = file.read(LOG_BYTES).decode("utf-8", "replace")
    except OSError as error:
        return f"it cannot be read: {error.strerror}"
    lines = [line(printed) if printed.strip() else "" for printed in text.splitlines()]
    return "\n".join(["…", *lines] if size > LOG_BYTES else lines)


def _mlflow(uri: str, row: ResultRow) -> None:
    st.subheader("In MLflow", anchor=False)
    if not st.button(
        "Find its run", key="find-run", icon=":material/search:", help="Asks MLflow, which takes seconds."
    ):
        st.text(f"Experiment: {line(row.sweep)}. Its run has the tag edgesweep.job_key = {line(row.job_key)}.")
        return
    try:
        run = _run_of(uri, row.sweep, row.job_key)
    except EdgeSweepError as error:
        st.text(f"MLflow was not reached: {line(error.message)}\nNext step: {line(error.next_step)}")
        return
    if run is None:
        st.text("MLflow has no run of this job yet: the next `edgesweep run` sends what is missing.")
        return
    experiment_id, run_id = run
    st.text(f"Experiment {line(experiment_id)}, run {line(run_id)}, at {line(redact(uri, uri))}")
    if (url := job_rows.run_url(uri, experiment_id, run_id)) is not None:
        st.link_button("Open it in MLflow", url, icon=":material/open_in_new:")


@st.cache_data(ttl=60, max_entries=64, show_spinner="Asking MLflow")
def _run_of(uri: str, sweep: str, job_key: str) -> tuple[str, str] | None:
    from sweeps.store.run_finder import find_run  # with MLflow, which is slow to import

    return find_run(uri, sweep, job_key)


def _meaning(axis: str) -> str:
    return next((line(entry.meaning) for entry in explained("axis", axis)), NOTHING)


def _whole(pairs: Sequence[tuple[str, ...]], at: int) -> Any:
    """Return the configuration of a table column that is wide enough for its texts."""
    return st.column_config.TextColumn(width=text_width(pair[at] for pair in pairs))


def _pairs(pairs: Sequence[tuple[str, ...]], key: str, without: str) -> None:
    if not pairs:
        st.text(without)
        return
    draw_table(
        pd.DataFrame(pairs, columns=["What", "Value", "Meaning"][: len(pairs[0])]),
        hide_index=True,
        column_config=None
        if len(pairs[0]) < 3
        else {name: _whole(pairs, at) for at, name in enumerate(("What", "Value"))},
        key=f"result-{key}",
        height=table_height(len(pairs), most=None),
    )
