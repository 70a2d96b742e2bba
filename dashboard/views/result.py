"""The page Result: everything about one job."""

from pathlib import Path

import streamlit as st

from dashboard import data, history_cache, job_rows, state
from dashboard.links import link
from dashboard.markdown_escape import inert, line, words
from dashboard.source import Source
from dashboard.views import empty, explained, page_head, result_build, result_measured, result_profile, tables, watch
from dashboard.words import build_names
from sweeps.command_hints import CommandHints
from sweeps.journal.job_history import JobEvidence
from sweeps.journal.result_place import Place
from sweeps.journal.result_row import row_of_waiting
from sweeps.label_kinds import TRUST
from sweeps.launching.sweep_commands import command_hints
from sweeps.metrics import METRICS
from sweeps.results import ResultRow
from sweeps.workspace import Workspace

_SHOWN_ABOVE = ("latency_p50_ms", "top1_percent", "accuracy_drop_points", "artifact_mb")
_TITLES = {"accuracy_drop_points": "Accuracy drop", "artifact_mb": "Size"}
"""Titles that are shorter than those in the table of all figures."""
_OUTCOMES = {"measured": "Measured on", "failed": "Failed on", "skipped": "Skipped on"}


def show(root: Path) -> None:
    """Draw the page."""
    page_head.head(
        "Result", "All that is known of one job: what was measured, how far it can be trusted, how it was made."
    )
    now = data.source(root)
    if now is None or not now.plans:
        empty.show(root)
        return
    place = page_head.choose_place(now, root)
    if place is None:
        return
    names = _jobs(now, place)
    if not names:
        st.info("Nothing of this model has ended on this device yet.", icon=":material/hourglass_empty:")
        st.text("The first one is shown here once it ends.")
        watch.awaited(root, now)
        return
    verdicts = data.places(now, root, place.sweep).models[place.place_id][place.model]
    best = next((verdict.job_key for verdict in verdicts if verdict.job_key in names), None)
    job_key = state.chosen("job", "Job", list(names), lambda key: names[key], default=best)
    with st.container(key=state.selected(place, job_key), gap="medium"):
        _draw(root, now, place, job_key, names[job_key])


def _draw(root: Path, now: Source, place: Place, job_key: str, name: str) -> None:
    job = history_cache.job(now, place.sweep, job_key)
    row = history_cache.row(now, history_cache.Side(place, job_key)) or (job.row if job else None)
    if job is None:
        _without_evidence(row, name)
        return
    _card(row, job, place, name)
    advice = command_hints(Workspace(root), place.sweep)
    if row is None:
        watch.awaited(root, now)
    if row is not None and row.outcome == "failed":
        _failed(row, job, advice)
    _trust(row, job, advice)
    result_measured.show(now, place.sweep, job_key, job)
    result_profile.show(root, place.sweep, job)
    result_build.show(root, row, job)


def _jobs(now: Source, place: Place) -> dict[str, str]:
    """Return the display names of a place's jobs that have ended, by job key; with the job in the URL, if it waits in
    this place."""
    rows = list(data.place_rows(now, place))
    job_key = state.url_value("job")
    if job_key and job_key not in [row.job_key for row in rows]:
        waiting = history_cache.job(now, place.sweep, job_key)
        job = waiting.planned.job if waiting is not None and waiting.row is None else None
        if job is not None and (job.device_id, job.model) == (place.place_id, place.model):
            rows.append(row_of_waiting(place.sweep, job))
    names = build_names(rows)
    outcomes = {row.job_key: "waits" if row.outcome == "waiting" else row.outcome for row in rows}
    return {
        key: name if outcomes[key] == "measured" else f"{name} ({line(outcomes[key])})" for key, name in names.items()
    }


def _card(row: ResultRow | None, evidence_of_job: JobEvidence, place: Place, name: str) -> None:
    facts, job = evidence_of_job.planned.facts, evidence_of_job.planned.job
    with st.container(border=True, key="result-card"):
        outcome = "Checked, not timed, on" if job.emulated else _OUTCOMES.get(row.outcome if row else "", "Waits on")
        st.caption(f"{outcome} {words(facts.device_class)}")
        st.header(words(name), anchor=False)
        st.text(line(row.name if row else job.name))
        if evidence_of_job.planned.stale:
            st.text("The sweep file no longer asks for this job: it is in no ranking.")
        if row is None:
            st.text(f"{len(evidence_of_job.blocks)} blocks are measured; its rounds, or its accuracy, have not ended.")
        elif row.outcome == "measured":
            _figures(row)
            _badges(row)
        with st.container(horizontal=True, gap="medium"):
            where = {"sweep": place.sweep, "device": place.place_id, "model": place.model}
            link("decide", "What wins here", icon=":material/verified:", **where)
            side = f"{place.sweep}:{job.key}"
            if row is not None and row.timed:
                link("compare", "Compare it", icon=":material/compare_arrows:", b=side, **where)
            link("devices", "The device", icon=":material/smartphone:", device=facts.device_id)


def _figures(row: ResultRow) -> None:
    shown = [name for name in _SHOWN_ABOVE if row.metrics.get(name) is not None]
    if not shown:
        st.text("It has no figure of its own: it was measured in batches only, which give a ratio to the winner.")
        return
    tables.figures(
        [
            (_TITLES.get(name, METRICS[name].title), METRICS[name].format(row.metrics[name]), _interval(row, name))
            for name in shown
        ]
    )


def _interval(row: ResultRow, name: str) -> str:
    low_name, high_name = {
        "latency_p50_ms": ("latency_ci_low_ms", "latency_ci_high_ms"),
        "accuracy_drop_points": ("accuracy_drop_low_points", "accuracy_drop_high_points"),
    }.get(name, ("", ""))
    low, high = row.metrics.get(low_name), row.metrics.get(high_name)
    if low is not None and high is not None:
        digits = METRICS[name].digits
        # A ranking's interval of the same latency differs, because it uses the noise of all builds.
        of = " by its own rounds alone" if name == "latency_p50_ms" else ""
        return f"95 %{of}: {low:.{digits}f} to {high:.{digits}f}"
    if name == "latency_p50_ms":
        return "no interval: one block only"
    if name == "top1_percent":
        return "emulated" if row.emulated else f"of {row.images:,} images"
    return "the file to ship" if name == "artifact_mb" else "no interval"


def _badges(row: ResultRow) -> None:
    if not row.trust:
        return
    with st.container(horizontal=True, gap="small"):
        for name in row.trust:
            if (label := TRUST.get(name)) is None:
                st.badge(inert(name), color="red", icon=":material/block:")
            elif label.disqualifying:
                st.badge(name, color="red", icon=":material/block:")
            else:
                st.badge(name, color="gray", icon=":material/info:")


def _failed(row: ResultRow, job: JobEvidence, advice: CommandHints) -> None:
    st.error("This job failed.", icon=":material/error:")
    st.text(
        f"Stage: {line(row.stage)}\nKind: {line(row.kind)}\nMessage: {line(row.reason)}",
        help=explained.tip("failure", row.kind),
    )
    st.text(f"Next step: {line(advice.typed(job_rows.next_step(row.stage, row.kind, row.precision)))}")
    if len(job.failures) > 1:
        with st.expander(f"All {len(job.failures)} failures"):
            for number, failure in enumerate(job.failures, 1):
                st.text(line(f"{number}. {failure.stage}, {failure.kind}: {failure.text}"))


def _without_evidence(row: ResultRow | None, name: str) -> None:
    """Draw a skipped combination, or a result of another workspace, of which only the figures are known here."""
    with st.container(border=True, key="result-card"):
        skipped = row is None or row.outcome == "skipped"
        st.caption("Skipped: nothing was built or measured" if skipped else "From the copy of an MLflow server")
        st.header(words(name), anchor=False)
        if row is not None and row.outcome == "measured":
            _figures(row)
            _badges(row)
        elif row is not None:
            st.text(f"Reason: {line(row.reason)}", help=explained.tip("skip", row.kind))
        if not skipped:
            st.text("Its blocks, conditions and build are in the journal of the workspace that measured it, not here.")


def _trust(row: ResultRow | None, job: JobEvidence, advice: CommandHints) -> None:
    st.subheader("How far it can be trusted", anchor=False)
    labels = tuple(
        dict.fromkeys((*(row.trust if row else ()), *(label for stored in job.blocks for label in stored.block.labels)))
    )
    ended = job.settled.text_after(len(job.blocks)) if job.settled else ""
    fixed = "The number of its rounds was fixed." if job.blocks else "It had no rounds."
    with st.container(gap="small"):
        if not labels:
            st.text("Nothing speaks against it." if row and row.outcome == "measured" else "Nothing was measured.")
        for name in labels:
            label = TRUST.get(name)
            if label is None:
                st.markdown(f"{inert(name)}: not a label of this version; it cannot win")
            else:
                kind = "disqualifying: it cannot win" if label.disqualifying else "advisory"
                st.text(line(f"{name} ({kind}): {advice.typed(label.text)}"))
        st.text(f"Why its rounds ended: {line(ended)}" if ended else fixed)
