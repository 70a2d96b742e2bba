"""The only list of metrics: name, unit, better direction, format."""

import re
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

Better = Literal["lower", "higher", "neither"]


@dataclass(frozen=True, slots=True)
class Metric:
    """One figure of a finished job. Its name is the same in records, MLflow, tables and sweep files."""

    name: str
    title: str
    unit: str
    better: Better
    digits: int

    def format(self, value: float | None) -> str:
        """The value with its unit, or `–` if it is unknown (also for NaN, which pandas uses for `None`)."""
        if value is None or value != value:
            return "–"
        shown, unit = self.scaled(value)
        return f"{shown:.{self.digits if unit == self.unit else 1}f} {unit}".rstrip()

    def scaled(self, value: float) -> tuple[float, str]:
        """The value and the unit in which people read it: below 0.1 MB that is kB."""
        return (value * 1000, "kB") if self.unit == "MB" and 0 < abs(value) < 0.1 else (value, self.unit)


_EXTRA_NAME = re.compile(r"[a-z][a-z0-9_]{0,63}")
_MOST_EXTRA = 100
_TAKEN = {"block_median_ms", "edgesweep_published_s"}
"""Names that the store uses for metrics of its own."""


def is_extra_name(name: str) -> bool:
    """Whether a runner may use this name for an extra metric: a plain word that is not a built-in metric."""
    return bool(_EXTRA_NAME.fullmatch(name)) and name not in METRICS and name not in _TAKEN


def checked_extra(found: Mapping[str, object]) -> dict[str, float]:
    """A runner's extra metrics as records store them (`extra_metrics`).

    Raises `ValueError`, with a message for people, if there are too many, or a name or value is not allowed.
    """
    if len(found) > _MOST_EXTRA:
        raise ValueError(f"{len(found)} extra metrics, more than {_MOST_EXTRA}")
    extra: dict[str, float] = {}
    for name, value in found.items():
        if not is_extra_name(name):
            raise ValueError(f"{name[:80]!r} cannot be the name of an extra metric")
        if isinstance(value, bool) or not isinstance(value, int | float) or not abs(value) <= sys.float_info.max:
            raise ValueError(f"the extra metric {name} is no finite number: {value!r:.40}")
        extra[name] = float(value)
    return extra


METRICS: dict[str, Metric] = {
    metric.name: metric
    for metric in (
        Metric("latency_p50_ms", "Latency (p50)", "ms", "lower", 3),
        Metric("latency_ci_low_ms", "Latency, low end of the 95 % interval", "ms", "neither", 3),
        Metric("latency_ci_high_ms", "Latency, high end of the 95 % interval", "ms", "neither", 3),
        Metric("latency_p90_ms", "Latency (p90)", "ms", "lower", 3),
        Metric("latency_p99_ms", "Latency (p99)", "ms", "lower", 3),
        Metric("spread_within", "Spread inside a block (MAD / median)", "", "lower", 4),
        Metric("spread_between", "Spread between rounds ((max - min) / median)", "", "lower", 4),
        Metric("first_inference_ms", "First inference", "ms", "lower", 2),
        Metric("load_ms", "Load time", "ms", "lower", 1),
        Metric("model_rss_mb", "Memory (peak less before load)", "MB", "lower", 1),
        Metric("artifact_mb", "Artifact size", "MB", "lower", 2),
        Metric("top1_percent", "Top-1", "%", "higher", 2),
        Metric("top5_percent", "Top-5", "%", "higher", 2),
        Metric("agreement_percent", "Agreement with fp32 eager", "%", "higher", 2),
        Metric("sqnr_db", "SQNR against fp32 eager", "dB", "higher", 1),
        Metric("accuracy_drop_points", "Accuracy drop against fp32 eager", "points", "lower", 2),
        Metric("accuracy_drop_low_points", "Accuracy drop, low end of the 95 % interval", "points", "neither", 2),
        Metric(
            "accuracy_drop_high_points",
            "Accuracy drop, high end of the 95 % interval",
            "points",
            "neither",
            2,
        ),
        Metric("temp_start_c", "Temperature at start", "°C", "lower", 1),
        Metric("temp_end_c", "Temperature at end", "°C", "lower", 1),
    )
}
