"""The sidebar of Decide: what the winner is best at, and what it has to keep; ranked again at once."""

import streamlit as st

from dashboard import state
from dashboard.words import metric_title
from sweeps.metrics import METRICS
from sweeps.ranking.verdict import direction
from sweeps.spec import catalog
from sweeps.spec.objective import ConstraintSpec, ObjectiveSpec

GOALS = ("latency_p50_ms", "latency_p90_ms", "top1_percent", "artifact_mb", "model_rss_mb")
BOUNDS = {
    "drop": ("accuracy_drop_points", "Accuracy drop, at most (points)", 0.1),
    "ms": ("latency_p50_ms", "Latency p50, at most (ms)", 1.0),
    "mb": ("artifact_mb", "File, at most (MB)", 1.0),
}
"""The parameters of the URL, each with its metric, its label and a step."""
_PARAMETERS = ("goal", *BOUNDS)


def choose(asked: ObjectiveSpec) -> str | None:
    """Draw it. JSON of an `ObjectiveSpec`, or `None` if nothing is changed. `asked`: that of the sweep file."""
    own = direction(asked)[0]
    with st.sidebar:
        st.subheader("What counts", anchor=False)
        goal = state.chosen(
            "goal", "The best has the", (own, *(name for name in GOALS if name != own)), _goal, usual=own
        )
        given = {bound.metric: bound.at_most for bound in asked.constraints if bound.at_most is not None}
        kept = [bound for bound in asked.constraints if not _adjustable(bound)]
        wanted = {
            metric: state.number(name, label, given.get(metric), step=step)
            for name, (metric, label, step) in BOUNDS.items()
        }
        for bound in kept:
            limit = f"at most {bound.at_most:g}" if bound.at_most is not None else f"at least {bound.at_least:g}"
            st.text(f"{metric_title(bound.metric)}: {limit} {catalog.metric(bound.metric).unit}".rstrip())
        changed = goal != own or any(limit != given.get(metric) for metric, limit in wanted.items())
        st.caption("Changed here, and in the address of this page." if changed else "As the sweep file has it.")
        st.button(
            "As in the sweep file",
            icon=":material/undo:",
            disabled=not changed,
            on_click=state.forget,
            args=_PARAMETERS,
            key="objective-back",
        )
    if not changed:
        return None
    bounds = [ConstraintSpec(metric=metric, at_most=limit) for metric, limit in wanted.items() if limit is not None]
    smaller = direction(asked)[1] if goal == own else METRICS[goal].better == "lower"
    front = None if asked.front == goal else asked.front
    made = (
        ObjectiveSpec(minimize=goal, constraints=(*bounds, *kept), front=front)
        if smaller
        else ObjectiveSpec(maximize=goal, constraints=(*bounds, *kept), front=front)
    )
    return made.model_dump_json()


def in_words(objective: ObjectiveSpec) -> str:
    """`lowest latency (p50), with the accuracy drop at most 1 points`."""
    metric, smaller = direction(objective)
    found = f"{'lowest' if smaller else 'highest'} {metric_title(metric).removeprefix('the ')}"
    bounds = [
        f"{metric_title(bound.metric)} "
        + (f"at most {bound.at_most:g}" if bound.at_most is not None else f"at least {bound.at_least:g}")
        + f" {catalog.metric(bound.metric).unit}".rstrip()
        for bound in objective.constraints
    ]
    return f"{found}, with {' and '.join(bounds)}" if bounds else found


def _goal(metric: str) -> str:
    lower = metric not in METRICS or METRICS[metric].better == "lower"
    return f"{'lowest' if lower else 'highest'} {metric_title(metric).removeprefix('the ')}"


def _adjustable(bound: ConstraintSpec) -> bool:
    return bound.at_most is not None and any(bound.metric == metric for metric, _, _ in BOUNDS.values())
