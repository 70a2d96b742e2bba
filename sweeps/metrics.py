"""All figures, in the only list: name, unit, better direction, format, and meaning for people."""

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
    meaning: str = ""
    """The meaning for people, in a sentence of `edgesweep explain`; empty if the title says it."""
    why: str = ""
    """The reason why the figure has the value that it has."""
    todo: str = ""
    """What to do about the figure, with the field of the sweep file."""
    also: tuple[str, ...] = ()
    """Other names of the figure on pages and in tables."""
    timed: bool = False
    """Whether the figure exists only if a device ran the backend, and is computed from its blocks
    (`sweeps.protocol.blocks`)."""
    unrepeated: bool = False
    """Whether the figure varies from process to process, by an amount that its value does not show."""
    from_samples: int = 0
    """The smallest number of samples from which the figure is computed."""
    in_pool: Literal["same", "scaled", "own"] = "same"
    """How the figure of one unit converts to the first unit, if units share the work: it stays the same, scales like
    the latency, or does not convert."""

    def format(self, value: float | None) -> str:
        """Return the value as text with its unit, or `–` if it is unknown (also for NaN, which pandas uses for
        `None`)."""
        if value is None or value != value:
            return "–"
        shown, unit = self.scaled(value)
        return f"{shown:.{self.digits if unit == self.unit else 1}f} {unit}".rstrip()

    def scaled(self, value: float) -> tuple[float, str]:
        """Return the value in the unit in which people read it, and that unit: below 0.1 MB that is kB."""
        return (value * 1000, "kB") if self.unit == "MB" and 0 < abs(value) < 0.1 else (value, self.unit)


_EXTRA_NAME = re.compile(r"[a-z][a-z0-9_]{0,63}")
_MOST_EXTRA = 100
_TAKEN = {"block_median_ms", "edgesweep_published_s"}
"""The names that the store uses for its own metrics."""


def is_extra_name(name: str) -> bool:
    """Tell whether a runner may use this name for an extra metric: a plain word that is no built-in metric."""
    return bool(_EXTRA_NAME.fullmatch(name)) and name not in METRICS and name not in _TAKEN


def checked_extra(reported: Mapping[str, object]) -> dict[str, float]:
    """Return a runner's extra metrics as records store them (`extra_metrics`).

    Raises `ValueError`, with a message for people, if there are too many metrics, or a name or value is not allowed.
    """
    if len(reported) > _MOST_EXTRA:
        raise ValueError(f"{len(reported)} extra metrics, more than {_MOST_EXTRA}")
    extra: dict[str, float] = {}
    for name, value in reported.items():
        if not is_extra_name(name):
            raise ValueError(f"{name[:80]!r} cannot be the name of an extra metric")
        if isinstance(value, bool) or not isinstance(value, int | float) or not abs(value) <= sys.float_info.max:
            raise ValueError(f"the extra metric {name} is no finite number: {value!r:.40}")
        extra[name] = float(value)
    return extra


P90_FROM_SAMPLES = 64

P99_FROM_SAMPLES = 662

_IMAGES = "a narrower interval: raise data.evaluation.images"
_ROUNDS = "a narrower interval: raise protocol.rounds"
_SAMPLES = "more samples: raise protocol.min_seconds or protocol.rounds; fewer slow ones: lower protocol.gate.max_load"
_LABELLED = (
    "more images: raise data.evaluation.images; the training's own preparation: data.evaluation.mean, std and crop"
)

METRICS: dict[str, Metric] = {
    metric.name: metric
    for metric in (
        Metric(
            *("latency_p50_ms", "Latency (p50)", "ms", "lower", 3),
            timed=True,
            unrepeated=True,
            meaning="the typical time of one inference: the median of the blocks' medians",
            why="the operators' work, the kernels of the backend, and the speed that the device had",
            todo=f"faster: vary grids: precision, layout, backend, threads; {_ROUNDS}",
            also=("p50", "p50 ms", "p50, × best"),
        ),
        Metric(
            *("latency_ci_low_ms", "Latency, low end of the 95 % interval", "ms", "neither", 3),
            timed=True,
            meaning="the lower end of the 95 % interval of latency_p50_ms",
            why="processes of one build differ, and there were few of them",
            todo=_ROUNDS,
            also=("latency_own_ci_low_ms",),
        ),
        Metric(
            *("latency_ci_high_ms", "Latency, high end of the 95 % interval", "ms", "neither", 3),
            timed=True,
            meaning="the upper end of the 95 % interval of latency_p50_ms",
            why="processes of one build differ, and there were few of them",
            todo=_ROUNDS,
            also=("latency_own_ci_high_ms",),
        ),
        Metric(
            *("latency_p90_ms", "Latency (p90)", "ms", "lower", 3),
            timed=True,
            unrepeated=True,
            from_samples=P90_FROM_SAMPLES,
            in_pool="scaled",
            meaning="the time that 9 of 10 inferences stay below; from 64 samples on",
            why="other programs, heat and the scheduler slow some inferences",
            todo=_SAMPLES,
            also=("p90",),
        ),
        Metric(
            *("latency_p99_ms", "Latency (p99)", "ms", "lower", 3),
            timed=True,
            unrepeated=True,
            from_samples=P99_FROM_SAMPLES,
            in_pool="scaled",
            meaning="the time that 99 of 100 inferences stay below; from 662 samples on",
            why="other programs, heat and the scheduler slow a few inferences much",
            todo=_SAMPLES,
            also=("p99",),
        ),
        Metric(
            *("p99_over_p50", "Tail (p99 / p50)", "", "lower", 2),
            timed=True,
            unrepeated=True,
            from_samples=P99_FROM_SAMPLES,
            meaning="how far the slowest inferences are from the typical one: the p99 of all samples divided by their "
            "median; 1 is no tail, and it is known from 662 samples on",
            why="other programs, heat and the scheduler slow a few inferences much",
            todo=_SAMPLES,
            also=("tail",),
        ),
        Metric(
            *("spread_within", "Spread inside a block (MAD / median)", "", "lower", 4),
            timed=True,
            meaning="how far samples of one block differ: their MAD divided by their median",
            why="load in bursts, a clock speed that changes, or a coarse clock",
            todo="stop other programs; wait for a calm device: protocol.gate; "
            "a steady speed: protocol.fixed_performance",
        ),
        Metric(
            *("spread_between", "Spread between rounds ((max - min) / median)", "", "lower", 4),
            timed=True,
            meaning="how far rounds differ: largest less smallest block median, divided by their median",
            why="each process lies elsewhere in memory, and the device may warm up from round to round",
            todo="more rounds: raise protocol.rounds; wait for a cool device: protocol.gate",
        ),
        Metric(
            *("first_inference_ms", "First inference", "ms", "lower", 2),
            timed=True,
            unrepeated=True,
            in_pool="own",
            meaning="the first inference of a new process, which NNAPI compiles in",
            why="the first one reserves memory and packs weights, and NNAPI compiles in it",
            todo="vary grids: preference, backend",
        ),
        Metric(
            *("load_ms", "Load time", "ms", "lower", 1),
            timed=True,
            unrepeated=True,
            in_pool="own",
            meaning="the time that a new process takes to load the file",
            why="the file is read, and some runtimes change its graph while they load it",
            todo="a smaller file: vary grids: precision; less work at load: vary grids: graph_optimization, format",
        ),
        Metric(
            *("model_rss_mb", "Memory (peak less before load)", "MB", "lower", 1),
            timed=True,
            meaning="memory at its peak, less that before the model was loaded",
            why="weights, copies of them that are packed for kernels, and what is between operators",
            todo="vary grids: precision, runtime",
            also=("memory",),
        ),
        Metric(
            *("artifact_mb", "Artifact size", "MB", "lower", 2),
            meaning="the size of the file to ship",
            why="most of it are weights: 4 bytes each in fp32, 2 in fp16, 1 in int8",
            todo="smaller: vary grids: precision, quantization",
            also=("size", "mb", "size (mb)"),
        ),
        Metric(
            *("top1_percent", "Top-1", "%", "higher", 2),
            meaning="the share of images whose best answer is right",
            why="what the model has learned, less what a build's rounding costs",
            todo=_LABELLED,
            also=("top-1", "top1"),
        ),
        Metric(
            *("top5_percent", "Top-5", "%", "higher", 2),
            meaning="the share of images with the right answer among the best 5",
            why="what the model has learned, less what a build's rounding costs",
            todo=_LABELLED,
            also=("top-5", "top5"),
        ),
        Metric(
            *("agreement_percent", "Agreement with fp32 eager", "%", "higher", 2),
            meaning="the share of images on which the build answers as your fp32 eager model does",
            why="rounding turns answers that were nearly equal; it needs no labels",
            todo="a narrower figure, or labels to count right answers with: data.evaluation; "
            "closer answers: data.calibration, grids: granularity, quantization",
            also=("agreement",),
        ),
        Metric(
            *("sqnr_db", "SQNR against fp32 eager", "dB", "higher", 1),
            meaning="how far the answers stand above the noise of quantization; of equal answers it is infinite",
            why="numbers of 8 or 16 bits are rounded in each layer",
            todo="more: give images as in use to data.calibration, "
            "vary grids: granularity, quantization, calibration_images",
            also=("sqnr",),
        ),
        Metric(
            *("accuracy_drop_points", "Accuracy drop against fp32 eager", "points", "lower", 2),
            meaning="top-1 lost against your own fp32 eager model on the same images, in percentage points",
            why="rounding turns some answers that were right, and a few that were wrong",
            todo=f"{_IMAGES}; a smaller drop: vary grids: quantization, granularity, calibration_images",
            also=("drop", "drop (points)", "accuracy drop"),
        ),
        Metric(
            *("accuracy_drop_low_points", "Accuracy drop, low end of the 95 % interval", "points", "neither", 2),
            meaning="the lower end of the 95 % interval of accuracy_drop_points",
            why="the images are a sample: with others, another share would be lost",
            todo=_IMAGES,
        ),
        Metric(
            *("accuracy_drop_high_points", "Accuracy drop, high end of the 95 % interval", "points", "neither", 2),
            meaning="the upper end of the 95 % interval of accuracy_drop_points",
            why="the images are a sample: with others, another share would be lost",
            todo=_IMAGES,
        ),
        Metric(
            *("temp_start_c", "Temperature at start", "°C", "lower", 1),
            timed=True,
            meaning="the device's temperature before a block",
            why="blocks before it, a charger, the sun",
            todo="cooler: let blocks wait, with protocol.gate.max_battery_temp_c or max_cpu_temp_c",
        ),
        Metric(
            *("temp_end_c", "Temperature at end", "°C", "lower", 1),
            timed=True,
            meaning="the device's temperature after a block",
            why="the block itself warms the device",
            todo="cooler: lower protocol.min_seconds, or set protocol.gate",
        ),
    )
}
"""All built-in figures, by name. The journal's columns, MLflow's names, data frames, tables, pages and documents follow
from this table: a new figure needs an entry here, and code that computes it (`sweeps.protocol.blocks.summarize`)."""
