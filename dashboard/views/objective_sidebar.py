"""The sidebar of Decide, in which the objective and its constraints can be changed; the results are ranked again at
once."""

from typing import NamedTuple

import streamlit as st

from dashboard import state
from dashboard.markdown_escape import line
from dashboard.words import metric_title
from sweeps.metrics import METRICS
from sweeps.ranking.eligibility import bound_text, direction
from sweeps.spec import catalog
from sweeps.spec.objective import ConstraintSpec, ObjectiveSpec

GOALS = ("latency_p50_ms", "latency_p90_ms", "top1_percent", "artifact_mb", "model_rss_mb")


class Bound(NamedTuple):
    """Constraint that has a field in the sidebar."""

    metric: str
    is_most: bool
    """Whether it is `at_most`, otherwise `at_least`."""
    label: str

    def of(self, objective: ObjectiveSpec) -> float | None:
        """Return the limit that an objective sets for this constraint; `None` without one."""
        bounds = (bound for bound in objective.constraints if _key(bound) == (self.metric, self.is_most))
        return next((_limit(bound) for bound in bounds), None)

    def spec(self, limit: float) -> ConstraintSpec:
        return ConstraintSpec(metric=self.metric, **{"at_most" if self.is_most else "at_least": limit})


BOUNDS = {
    "drop": Bound("accuracy_drop_points", True, "Accuracy drop, at most (points)"),
    "ms": Bound("latency_p50_ms", True, "Latency p50, at most (ms)"),
    "mb": Bound("artifact_mb", True, "File, at most (MB)"),
    "rss": Bound("model_rss_mb", True, "Memory of the model, at most (MB)"),
    "top1": Bound("top1_percent", False, "Top-1, at least (%)"),
}
"""Constraints that always have a field, by their URL parameters. Other constraints of a sweep file get further
fields."""


def choose(objective: ObjectiveSpec) -> str | None:
    """Draw the sidebar and return the chosen objective as JSON of an `ObjectiveSpec`; `None` if nothing is changed.
    `objective`: the sweep file's objective."""
    own = direction(objective)[0]
    with st.sidebar:
        st.subheader("What counts", anchor=False)
        goal = state.chosen(
            "goal", "The best has the", (own, *(name for name in GOALS if name != own)), _goal, usual=own
        )
        fields = BOUNDS | _own_bounds(objective)
        defaults = {name: field.of(objective) for name, field in fields.items()}
        limits = {name: state.number(name, field.label, defaults[name]) for name, field in fields.items()}
        with_field = {(field.metric, field.is_most) for field in fields.values()}
        without_field = [bound for bound in objective.constraints if _key(bound) not in with_field]
        for bound in without_field:
            st.text(f"{metric_title(bound.metric)}: {bound_text(bound)}")
        changed = goal != own or limits != defaults
        st.caption("Changed here, and in the address of this page." if changed else "As the sweep file has it.")
        st.button(
            "As in the sweep file",
            icon=":material/undo:",
            disabled=not changed,
            on_click=state.forget,
            args=("goal", *fields),
            key="objective-back",
        )
    if not changed:
        return None
    bounds = [fields[name].spec(limit) for name, limit in limits.items() if limit is not None]
    smaller = direction(objective)[1] if goal == own else METRICS[goal].better == "lower"
    front = None if objective.front == goal else objective.front
    chosen = (
        ObjectiveSpec(minimize=goal, constraints=(*bounds, *without_field), front=front)
        if smaller
        else ObjectiveSpec(maximize=goal, constraints=(*bounds, *without_field), front=front)
    )
    return chosen.model_dump_json()


def in_words(objective: ObjectiveSpec) -> str:
    """Return the objective in words, such as `lowest latency (p50), with the accuracy drop at most 1 points`."""
    metric, smaller = direction(objective)
    goal = f"{'lowest' if smaller else 'highest'} {metric_title(metric).removeprefix('the ')}"
    bounds = [f"{metric_title(bound.metric)} {bound_text(bound)}" for bound in objective.constraints]
    return f"{goal}, with {' and '.join(bounds)}" if bounds else goal


def _goal(metric: str) -> str:
    lower = metric not in METRICS or METRICS[metric].better == "lower"
    return f"{'lowest' if lower else 'highest'} {metric_title(metric).removeprefix('the ')}"


def _own_bounds(objective: ObjectiveSpec) -> dict[str, Bound]:
    """Return the constraints of the sweep file that `BOUNDS` lacks and whose limit a field can hold, by new URL
    parameters."""
    always = {(field.metric, field.is_most) for field in BOUNDS.values()}
    fields = {}
    for bound in objective.constraints:
        metric, is_most = _key(bound)
        if (metric, is_most) in always or not 0 <= _limit(bound) <= state.MOST_NUMBER:
            continue
        title, unit = metric_title(metric).removeprefix("the "), catalog.metric(metric).unit
        label = f"{title[:1].upper()}{title[1:]}, at {'most' if is_most else 'least'}{f' ({unit})' if unit else ''}"
        fields[f"{'most' if is_most else 'least'}-{metric}"] = Bound(metric, is_most, line(label))
    return fields


def _key(bound: ConstraintSpec) -> tuple[str, bool]:
    return bound.metric, bound.at_most is not None


def _limit(bound: ConstraintSpec) -> float:
    limit = bound.at_most if bound.at_most is not None else bound.at_least
    return 0.0 if limit is None else limit
