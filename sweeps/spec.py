"""The sweep file: what a person writes, validated before anything runs."""

import json
from pathlib import Path
from typing import Annotated, Any, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, ValidationError, ValidationInfo, field_validator, model_validator
from pydantic.config import JsonDict

from sweeps.errors import SpecError
from sweeps.metrics import METRICS
from sweeps.spec_errors import did_you_mean, sentences
from sweeps.spec_fields import (
    Cpus,
    Deviation,
    DeviceName,
    FilePath,
    MetricName,
    Name,
    Size,
    Source,
    check_path_text,
    exists,
    from_file,
    wrong,
)
from sweeps.yaml_source import read_yaml

Scalar = str | int | float | bool

WEIGHTS = ("pretrained", "random", "demo")
"""What `weights` may say instead of a path."""


class _Part(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, strict=True, allow_inf_nan=False)


def _axis(default: tuple[Any, ...], description: str) -> Any:
    extra: JsonDict = {"uniqueItems": True}
    return Field(default=default, min_length=1, description=description, json_schema_extra=extra)


def _images() -> Any:
    return Field(
        default=None,
        ge=1,
        description="Use only so many; left out: all, but 100 of a folder or a torchvision set to calibrate with.",
    )


class ModelSpec(_Part):
    """One network: where its code comes from, its weights, the shape of its input."""

    source: Source = Field(description="torchvision's name (mobilenet_v2) or your own module:function.")
    name: Name = Field(
        default_factory=lambda given: str(given.get("source", "")).rpartition(":")[2],
        description="Name in results; the source's part behind the colon if left out.",
    )
    arguments: dict[str, Scalar] = Field(default_factory=dict, description="Keyword arguments of the constructor.")
    weights: str = Field(
        default="pretrained",
        description="pretrained (torchvision's), random (settled, seeded), demo (trained on digits by EdgeSweep), "
        "or the path of a checkpoint that holds a state_dict (relative to the sweep file).",
    )
    seed: int = Field(default=0, ge=0, description="For weights: random and demo.")
    input_shape: tuple[Size, Size, Size, Size] = Field(
        default=(1, 3, 224, 224), description="Batch, channels, height, width."
    )

    @field_validator("weights")
    @classmethod
    def _weights_exist(cls, weights: str, info: ValidationInfo) -> str:
        check_path_text(weights)
        if weights in WEIGHTS:
            return weights
        path = from_file(Path(weights), info)
        if info.context and not exists("file", path):
            near = did_you_mean(weights, WEIGHTS)
            raise wrong(f"there is no file {path} (allowed: {', '.join(WEIGHTS)}, or a checkpoint's path){near}")
        return str(path)

    @model_validator(mode="after")
    def _pretrained_is_torchvisions(self) -> Self:
        if self.weights == "pretrained" and ":" in self.source:
            raise wrong(
                "pretrained weights exist for torchvision's models only; give a checkpoint's path, or random", "weights"
            )
        return self


class DigitsData(_Part):
    """scikit-learn's handwritten digits: 1,200 images to train and calibrate with, 597 held out. No network."""

    source: Literal["digits"]
    images: int | None = _images()


class FolderData(_Part):
    """A folder with one sub-folder of images per class (torchvision's ImageFolder layout)."""

    source: Literal["folder"]
    path: FilePath = Field(description="The folder (relative to the sweep file).")
    images: int | None = _images()
    mean: tuple[float, float, float] = (0.485, 0.456, 0.406)
    std: tuple[Deviation, Deviation, Deviation] = (0.229, 0.224, 0.225)

    @field_validator("path")
    @classmethod
    def _path_exists(cls, path: Path, info: ValidationInfo) -> Path:
        if info.context and not exists("folder", path):
            raise wrong(f"there is no folder {path}")
        return path


def _download_folder() -> Any:
    # As text: pydantic takes a default for what the file says, and in a file a path is text.
    about = "Download folder (relative to the sweep file)."
    return Field(default="datasets", validate_default=True, description=about)


class TorchvisionData(_Part):
    """A data set of torchvision by its class name, for instance CIFAR10. Downloads where there is a network."""

    source: Literal["torchvision"]
    dataset: str = Field(description="Name of the class in torchvision.datasets.")
    root: FilePath = _download_folder()
    images: int | None = _images()
    mean: tuple[float, float, float] = (0.485, 0.456, 0.406)
    std: tuple[Deviation, Deviation, Deviation] = (0.229, 0.224, 0.225)

    @field_validator("dataset")
    @classmethod
    def _dataset_is_a_class_name(cls, dataset: str) -> str:
        if not dataset.isidentifier():
            raise wrong(f"{dataset[:80]!r} is no name of a class in torchvision.datasets, such as CIFAR10")
        return dataset


class SyntheticData(_Part):
    """Seeded smooth images without labels: for random weights, where no real image means anything."""

    source: Literal["synthetic"]
    images: int = Field(default=32, ge=1, le=10_000)
    seed: int = Field(default=0, ge=0)


DataSource = Annotated[DigitsData | FolderData | TorchvisionData | SyntheticData, Field(discriminator="source")]


class DataSpec(_Part):
    """What int8 is calibrated with, and what accuracy is computed on. No image is ever in both."""

    calibration: DataSource = DigitsData(source="digits", images=100)
    evaluation: DataSource = DigitsData(source="digits")


class GridSpec(_Part):
    """Every axis is a list; all combinations are taken, over all grids."""

    name: Literal[""] | Name = Field(
        default="", description="Named grids keep their jobs apart, even of one and the same variant."
    )
    runtime: tuple[Literal["torchscript", "eager"], ...] = _axis(
        ("torchscript",), "Toolchain; eager: PyTorch in Python, to compare with and never to ship."
    )
    backend: tuple[Literal["cpu", "nnapi", "metal"], ...] = _axis(("cpu",), "Where the operators run.")
    precision: tuple[Literal["fp32", "int8"], ...] = _axis(("fp32", "int8"), "Numbers.")
    quantization: tuple[Literal["static_fx", "static_eager", "dynamic", "qat"], ...] = _axis(
        ("static_fx",),
        "How int8 is made: static in FX graph mode or in eager mode, dynamic (linear layers only), or static after a "
        "short quantization-aware training; fp32 ignores it.",
    )
    qengine: tuple[Literal["auto", "qnnpack", "x86", "onednn"], ...] = _axis(
        ("auto",),
        "Kernels of int8 on the CPU, and the qconfig that fits them; auto: qnnpack on Arm, x86 on x86. onednn on an "
        "x86 CPU without VNNI, where its sums would saturate, gets static int8 in a reduced range (weights of 7 bits).",
    )
    granularity: tuple[Literal["auto", "per_tensor", "per_channel"], ...] = _axis(
        ("auto",), "int8 only: one scale for all weights of a layer, or one per channel; auto: the engine's default."
    )
    calibration_images: tuple[Literal["all"] | Annotated[int, Field(ge=1, le=1_000_000)], ...] = _axis(
        ("all",), "int8 only: calibrate with the first so many images of data.calibration."
    )
    interface: tuple[Literal["core", "full", "inside"], ...] = _axis(
        ("core",), "int8 only: core: float in and out; full: int8 in and out; inside: NNAPI quantizes as well."
    )
    layout: tuple[Literal["nchw", "nhwc"], ...] = _axis(("nchw", "nhwc"), "Memory layout of the artifact.")
    capture: tuple[Literal["script", "trace", "mixed"], ...] = _axis(
        ("script",), "How TorchScript is made; mixed: traced parts in a scripted whole, as nnapi always is."
    )
    format: tuple[Literal["pt", "ptl"], ...] = _axis(
        ("pt",), "For the full interpreter, or ptl for the lite one, as metal always is."
    )
    fuse: tuple[bool, ...] = _axis((True,), "cpu only: fuse Conv+BN, Conv+BN+ReLU, Conv+ReLU, Linear+ReLU.")
    optimize: tuple[bool, ...] = _axis((True,), "cpu only: apply optimize_for_mobile.")
    preference: tuple[Literal["sustained_speed", "fast_single_answer", "low_power"], ...] = _axis(
        ("sustained_speed",), "nnapi only: what the phone's driver compiles for."
    )
    relaxed_fp16: tuple[bool, ...] = _axis((False,), "nnapi in fp32 only: the driver may compute in fp16.")
    flexible_batch: tuple[bool, ...] = _axis((False,), "nnapi only: one model for any batch, not for one.")
    threads: tuple[Annotated[int, Field(ge=1, le=1024)], ...] = _axis((1,), "Threads of the runner.")
    cpus: tuple[Cpus, ...] = _axis(
        ("all",), "CPUs that the runner may use: all, big, little, or a list such as 0,1 or 0-3."
    )
    reuse_input: tuple[bool, ...] = _axis((True,), "Give every iteration the same input tensor.")

    @field_validator("*")
    @classmethod
    def _values_are_unique(cls, values: Any) -> Any:
        if isinstance(values, tuple):
            _check_unique([str(value) for value in values], "the value {} is in this list twice")
        return values


def _check_unique(names: list[str], message: str, *at: str) -> None:
    seen: set[str] = set()
    for position, name in enumerate(names):
        if name and name in seen:
            raise wrong(message.format(repr(name)), position, *at)
        seen.add(name)


def _limit(default: float, description: str, **bounds: Any) -> Any:
    # No value of its own: what a file leaves out is the preset's. The schema shows what that is, unless described.
    return Field(default=None, description=description, json_schema_extra={"default": default}, **bounds)


class GateSpec(_Part):
    """What a device waits for before a block. What it has no sensor for is not waited for."""

    max_battery_temp_c: float | None = _limit(37.0, "Of a phone's battery, °C.", ge=0, le=60)
    max_cpu_temp_c: float | None = _limit(70.0, "Of the hottest zone of a host, °C.", ge=0, le=110)
    max_thermal_status: int | None = _limit(0, "Android's: 0 none, 1 light, 2 moderate, ...", ge=0, le=6)
    min_battery_percent: float | None = _limit(30.0, "Where there is a battery.", ge=0, le=100)
    max_load: float | None = _limit(0.15, "Share of the CPU time that other programs may take (0 to 1).", gt=0, le=1)
    wait_seconds: float | None = _limit(1200.0, "Wait so long before one block; quick: 60.", ge=0, le=86_400)
    load_wait_seconds: float | None = _limit(
        60.0, "Of it, wait so long for other programs, in a whole run; quick: 10.", ge=0, le=86_400
    )

    @field_validator("load_wait_seconds")
    @classmethod
    def _waits_agree(cls, part: float | None, info: ValidationInfo) -> float | None:
        whole = info.data.get("wait_seconds")
        # What was stored before this was refused can still be read.
        if info.context and whole is not None and part is not None and part > whole:
            raise wrong(f"load_wait_seconds ({part:g}) is more than wait_seconds ({whole:g}), of which it is a part")
        return part


class ProtocolSpec(_Part):
    """A preset of the measurement protocol; every figure can be overridden."""

    preset: Literal["quick", "full", "race", "recipe"] | None = Field(
        default=None, description="race where the budget races, else quick, if left out."
    )
    rounds: int | None = Field(
        default=None, ge=1, le=100, description="Blocks of each job at least, each its own process."
    )
    max_rounds: int | None = Field(
        default=None,
        ge=1,
        le=1_000,
        description="And at most, for jobs that are not stable or not decided by then; a race has none after its last "
        "look.",
    )
    warmup_iterations: int | None = Field(default=None, ge=0, le=1_000_000, description="At least so many, untimed.")
    warmup_seconds: float | None = Field(default=None, ge=0, le=3600, description="At least so long, untimed.")
    iterations: int | None = Field(default=None, ge=1, le=10_000_000, description="A block times at least so many.")
    min_seconds: float | None = Field(default=None, ge=0, le=3600, description="A block takes at least so long.")
    max_seconds: float | None = Field(default=None, gt=0, le=3600, description="A block is ended after so long.")
    seed: int = Field(default=0, ge=0, description="Shuffles the order of jobs within each round.")
    gate: GateSpec | Literal["none"] | None = Field(
        default=None, description="What the device has to be like before a block; none: measure as it is."
    )
    on_not_ready: Literal["fail", "mark"] | None = Field(
        default=None,
        description="A device that is not ready in time: fail the job, or measure and mark it so that it can not win.",
    )
    fixed_performance: bool | None = Field(
        default=None, description="Ask Android for its fixed-performance mode while a block runs."
    )
    sentinel_every: int | None = Field(
        default=None,
        ge=0,
        le=10_000,
        description="Time a small built-in model at the start, after every so many blocks, and at the end; 0: never.",
    )

    @model_validator(mode="after")
    def _limits_agree(self, info: ValidationInfo) -> Self:
        if self.rounds is not None and self.max_rounds is not None and self.rounds > self.max_rounds:
            raise wrong(f"rounds ({self.rounds}) is more than max_rounds ({self.max_rounds})", "rounds")
        if self.min_seconds is not None and self.max_seconds is not None and self.min_seconds > self.max_seconds:
            raise wrong(
                f"min_seconds ({self.min_seconds:g}) is more than max_seconds ({self.max_seconds:g})", "min_seconds"
            )
        gateless = self.gate == "none" or (self.gate is None and self.preset == "recipe")
        # What was stored before this was refused can still be read.
        if info.context and gateless and self.on_not_ready == "fail":
            given = "gate: none" if self.gate == "none" else "the preset recipe, which has no gate,"
            message = f"with {given} no device is ever not ready; leave on_not_ready out, or set a gate"
            raise wrong(message, "on_not_ready")
        return self


class MinutesBudget(_Part):
    """So much time on each device, and no more: what can not win any more leaves the rounds, as in a race."""

    device_minutes: float = Field(gt=0, le=100_000, description="With starts, warm-ups and waiting counted.")


def _one_of(first: str, second: str) -> Any:
    """JSON Schema's way to say that two keys exclude each other (null counts as left out)."""
    given = [{"required": [key], "properties": {key: {"not": {"type": "null"}}}} for key in (first, second)]
    return {"not": {"allOf": given}}


class ConstraintSpec(_Part):
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


class ObjectiveSpec(_Part):
    """What the winner is best at, and what it has to keep."""

    model_config = ConfigDict(json_schema_extra=_one_of("minimize", "maximize"))

    maximize: MetricName | None = Field(default=None, description="The metric that is to be as large as possible.")
    minimize: MetricName | None = Field(
        default_factory=lambda given: None if given.get("maximize") else "latency_p50_ms",
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
            if metric is not None and METRICS[metric].better == worse:
                raise wrong(f"{metric} is better when {worse}; {key} would look for the worst", key)
        if self.front is not None and self.front in (self.minimize, self.maximize):
            raise wrong(f"{self.front} is the objective already; a front needs another metric", "front")
        return self


def _budget_of(protocol: ProtocolSpec | None) -> Literal["full", "race"]:
    return "race" if protocol is not None and protocol.preset == "race" else "full"


class SweepSpec(_Part):
    """One sweep file."""

    name: Name = Field(description="Name of the sweep in the store.")
    models: tuple[ModelSpec, ...] = Field(min_length=1)
    data: DataSpec = DataSpec()
    grids: tuple[GridSpec, ...] = Field(min_length=1)
    devices: tuple[DeviceName, ...] = Field(default=("local",), min_length=1, json_schema_extra={"uniqueItems": True})
    protocol: ProtocolSpec = ProtocolSpec()
    objective: ObjectiveSpec = ObjectiveSpec()
    budget: Literal["full", "race"] | MinutesBudget = Field(
        default_factory=lambda given: _budget_of(given.get("protocol")),
        description="full: measure everything to the end; race: only until it is clear what can not win; "
        "race for protocol: {preset: race}, else full, if left out.",
    )

    @field_validator("models")
    @classmethod
    def _model_names_are_unique(cls, models: tuple[ModelSpec, ...]) -> tuple[ModelSpec, ...]:
        message = "a second model is called {}; give each its own name"
        _check_unique([model.name for model in models], message, "name")
        return models

    @field_validator("grids")
    @classmethod
    def _grid_names_are_unique(cls, grids: tuple[GridSpec, ...]) -> tuple[GridSpec, ...]:
        _check_unique([grid.name for grid in grids], "a second grid is called {}; give each its own name", "name")
        return grids

    @field_validator("devices")
    @classmethod
    def _devices_are_unique(cls, devices: tuple[str, ...]) -> tuple[str, ...]:
        _check_unique(list(devices), "the device {} is in this list twice")
        return devices


def load(path: Path) -> SweepSpec:
    """Read and validate a sweep file. Relative paths in it become absolute (relative to the file).

    Raises `SpecError` with every problem of the file on a line of its own: file, line, what is wrong, what is allowed.
    """
    document = read_yaml(path)
    error = None
    try:
        # As JSON, because there a strict tuple may be written as a list and a path as text.
        text = json.dumps(document.data)
        sweep = SweepSpec.model_validate_json(text, context={"folder": path.absolute().parent})
    except ValidationError as caught:
        error = caught
    problems = sentences(document, error, json_schema())
    if problems:
        raise SpecError("\n".join(problems), "correct the sweep file; `edgesweep schema` prints all that it may hold")
    return sweep


def json_schema() -> dict[str, Any]:
    """JSON Schema of a sweep file, for editors to check and complete it."""
    schema = SweepSpec.model_json_schema()
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", **schema, "title": "EdgeSweep sweep file"}
