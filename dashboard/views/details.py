"""All data of one job in the store: axes, figures with units, conditions."""

from dataclasses import fields

import pandas as pd
import streamlit as st

from dashboard.inert import line
from sweeps.manifest import Coverage
from sweeps.metrics import METRICS
from sweeps.results import ComparisonConditions
from sweeps.settled import Settled
from sweeps.spec import catalog
from sweeps.variant import RunAxes, Variant

_AXES = ("model", "grid", *(field.name for field in fields(Variant)), *(field.name for field in fields(RunAxes)))
_CONDITIONS = (
    *("device", "device_id", "fingerprint", *(field.name for field in fields(ComparisonConditions)), "runner"),
    *("backend_ran", "engine_ran", "executor", "emulated", "trust", "rounds", "samples", "images"),
    *("device_seconds", "batch_seconds", "timed_seconds", "waited_seconds", "push_seconds", "accuracy_seconds"),
    *("job_key", "build_key", "run_id"),
)


def show(here: pd.DataFrame, first: str | None) -> None:
    """`here`: the store's rows of one model on one device. `first`: the job that is selected at first."""
    names = list(here["name"])
    with st.expander("Details of one variant"):
        name = st.selectbox("Variant", names, index=names.index(first) if first in names else 0, format_func=line)
        if name is None:
            return
        job = here[here["name"] == name].iloc[0]
        if job["outcome"] != "measured":
            st.text(line(f"{job['outcome']}: {_text(job['reason'])}"))
        axes, figures, conditions = st.columns(3, gap="medium")
        with axes:
            st.markdown("**Axes**")
            _pairs([(axis, _text(job[axis])) for axis in _AXES], "details-axes")
        with figures:
            st.markdown("**Figures**")
            known = [(METRICS[metric], job[metric]) for metric in METRICS if not pd.isna(job[metric])]
            known += [(catalog.metric(name), value) for name, value in sorted(dict(job["extra_metrics"]).items())]
            _pairs([(line(metric.title), metric.format(float(value))) for metric, value in known], "details-figures")
            _coverage(_text(job["coverage"]))
        with conditions:
            st.markdown("**Conditions**")
            _pairs([(column, _text(job[column])) for column in _CONDITIONS], "details-conditions")
        if isinstance(job["settled"], Settled):
            st.text(line(f"Why its rounds ended: {job['settled'].text_after(len(job['block_medians_ms']))}"))
        if job["block_medians_ms"]:
            rounds = ", ".join(
                f"round {round_}: {ms:.3f} ms" for round_, (_, ms) in enumerate(job["block_medians_ms"], 1)
            )
            st.caption(f"Median of each block (a process of its own): {rounds}")
        if job["confirmed_medians_ms"]:
            confirmed = ", ".join(f"{ms:.3f} ms" for _, ms in job["confirmed_medians_ms"])
            st.caption(f"Measured again after it had won, which makes its p50 and interval: {confirmed}")


def _coverage(text: str) -> None:
    """`text`: JSON of a manifest's `Coverage`, or empty."""
    try:
        coverage = Coverage.model_validate_json(text)
    except ValueError:
        return
    st.markdown("**Covered by the accelerator**")
    share = [("Multiply-adds covered", f"{coverage.multiply_adds_covered_percent:.1f} %")]
    share += [("Multiply-adds of the model", f"{coverage.multiply_adds:,}")]
    operations = sorted(coverage.operations.items(), key=lambda item: (-item[1], item[0]))
    _pairs(share + [(line(name), f"{count} ×") for name, count in operations], "details-coverage")


def _pairs(pairs: list[tuple[str, str]], key: str) -> None:
    if not pairs:
        st.caption("None: it was not measured.")
        return
    st.dataframe(pd.DataFrame(pairs, columns=["What", "Value"]), hide_index=True, key=key, height="content")


def _text(value: object) -> str:
    """A stored value, for people."""
    if isinstance(value, tuple):
        return line(", ".join(str(item) for item in value))
    if value is None or value != value or value == "":
        return "–"
    return line(str(value))
