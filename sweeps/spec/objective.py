"""The objective in a sweep file: the metric to optimize, and its constraints."""

from typing import Any, Self

from pydantic import ConfigDict, Field, model_validator

from sweeps.spec import catalog
from sweeps.spec.fields import MetricName, Part, wrong


def _one_of(first: str, second: str) -> Any:
    """Return the JSON Schema condition that two keys exclude each other (null counts as left out)."""
    branches = [{"required": [key], "properties": {key: {"not": {"type": "null"}}}} for key in (first, second)]
    return {"not": {"allOf": branches}}


class ConstraintSpec(Part):
    """A bound on one metric. Where the metric has an interval that straddles the bound: unresolved."""

    model_config = ConfigDict(json_schema_extra=_one_of("at_most", "at_least"))

    metric: MetricName
    at_most: float | None = None
    at_least: float | None = None

    @model_validator(mode="after")
    def _one_bound(self) -> Self:
        if (self.at_most is None) == (self.at_least is None):
            have = "neither" if self.at_most is None else "both"
            raise wrong(f"give one of at_most and at_least, not {have}")
        return self


class ObjectiveSpec(Part):
    """What the winner is best at, and what it has to keep."""

    model_config = ConfigDict(json_schema_extra=_one_of("minimize", "maximize"))

    maximize: MetricName | None = Field(default=None, description="The metric that is to be as large as possible.")
    minimize: MetricName | None = Field(
        default_factory=lambda data: None if data.get("maximize") else "latency_p50_ms",
        description="The metric that is to be as small as possible; latency_p50_ms if nothing is maximized.",
    )
    constraints: tuple[ConstraintSpec, ...] = (ConstraintSpec(metric="accuracy_drop_points", at_most=1.0),)
    front: MetricName | None = Field(
        default=None,
        description="Also mark, and in a race keep, what no other beats in both the objective and this metric.",
    )

    @model_validator(mode="after")
    def _one_direction(self) -> Self:
        if (self.minimize is None) == (self.maximize is None):
            have = "neither" if self.minimize is None else "both"
            raise wrong(f"give one of minimize and maximize, not {have}")
        for key, metric, worse in (("minimize", self.minimize, "higher"), ("maximize", self.maximize, "lower")):
            if metric is not None and catalog.metric(metric).better == worse:
                raise wrong(f"{metric} is better when {worse}; {key} would find the worst", key)
        if self.front is not None and self.front in (self.minimize, self.maximize):
            raise wrong(f"{self.front} is the objective already; a front needs another metric", "front")
        return self
