"""The sweep file: what a person writes, validated before anything runs."""

from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field

Scalar = str | int | float | bool


class _Part(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)


def _axis(default: list[Any], description: str) -> Any:
    return Field(default_factory=lambda: tuple(default), min_length=1, description=description)


class ModelSpec(_Part):
    """One network: where its code comes from, its weights, the shape of its input."""

    name: str = Field(default="", description="Name in results; the source's name if left out.")
    source: str = Field(description="torchvision's name (mobilenet_v2) or your own module:function.")
    arguments: dict[str, Scalar] = Field(default_factory=dict, description="Keyword arguments of the constructor.")
    weights: str = Field(
        default="pretrained",
        description="pretrained (torchvision's), random (settled, seeded), demo (trained on digits by EdgeSweep), "
        "or the path of a checkpoint that holds a state_dict (relative to the sweep file).",
    )
    seed: int = Field(default=0, ge=0, description="For weights: random and demo.")
    input_shape: tuple[int, int, int, int] = Field(
        default=(1, 3, 224, 224), description="Batch, channels, height, width."
    )


class DigitsData(_Part):
    """scikit-learn's handwritten digits: 1,200 images to train and calibrate with, 597 held out. No network."""

    source: Literal["digits"]
    images: int | None = Field(default=None, ge=1, description="Use only so many; all if left out.")


class FolderData(_Part):
    """A folder with one sub-folder of images per class (torchvision's ImageFolder layout)."""

    source: Literal["folder"]
    path: Path = Field(description="The folder (relative to the sweep file).")
    images: int | None = Field(default=None, ge=1, description="Use only so many; all if left out.")
    mean: tuple[float, float, float] = (0.485, 0.456, 0.406)
    std: tuple[float, float, float] = (0.229, 0.224, 0.225)


class TorchvisionData(_Part):
    """A data set of torchvision by its class name, for instance CIFAR10. Downloads where there is a network."""

    source: Literal["torchvision"]
    dataset: str
    root: Path = Field(default=Path("datasets"), description="Download folder (relative to the sweep file).")
    images: int | None = Field(default=None, ge=1, description="Use only so many; all if left out.")
    mean: tuple[float, float, float] = (0.485, 0.456, 0.406)
    std: tuple[float, float, float] = (0.229, 0.224, 0.225)


class SyntheticData(_Part):
    """Seeded smooth images without labels: for random weights, where no real image means anything."""

    source: Literal["synthetic"]
    images: int = Field(default=32, ge=1, le=10_000)
    seed: int = Field(default=0, ge=0)


DataSource = Annotated[DigitsData | FolderData | TorchvisionData | SyntheticData, Field(discriminator="source")]


class DataSpec(_Part):
    """What int8 is calibrated with, and what accuracy is computed on. No image is ever in both."""

    calibration: DataSource = Field(default_factory=lambda: DigitsData(source="digits", images=100))
    evaluation: DataSource = Field(default_factory=lambda: DigitsData(source="digits"))


class GridSpec(_Part):
    """Every axis is a list; all combinations are taken, over all grids."""

    name: str = Field(default="", description="Named grids keep their jobs apart, even of one and the same variant.")
    runtime: tuple[Literal["torchscript"], ...] = _axis(["torchscript"], "Toolchain.")
    backend: tuple[Literal["cpu"], ...] = _axis(["cpu"], "Where the operators run.")
    precision: tuple[Literal["fp32", "int8"], ...] = _axis(["fp32", "int8"], "Numbers.")
    quantization: tuple[Literal["static_fx"], ...] = _axis(["static_fx"], "How int8 is made; fp32 ignores it.")
    qengine: tuple[Literal["auto", "qnnpack", "x86", "onednn"], ...] = _axis(
        ["auto"], "Kernels of int8 on the CPU; auto: qnnpack on Arm, x86 on x86."
    )
    interface: tuple[Literal["core"], ...] = _axis(["core"], "int8 only: float in and out.")
    layout: tuple[Literal["nchw", "nhwc"], ...] = _axis(["nchw", "nhwc"], "Memory layout of the artifact.")
    capture: tuple[Literal["script", "trace"], ...] = _axis(["script"], "How TorchScript is made.")
    format: tuple[Literal["pt"], ...] = _axis(["pt"], "File format.")
    fuse: tuple[bool, ...] = _axis([True], "Fuse Conv+BN, Conv+BN+ReLU, Conv+ReLU, Linear+ReLU before capture.")
    optimize: tuple[bool, ...] = _axis([True], "Apply optimize_for_mobile.")
    threads: tuple[int, ...] = _axis([1], "Threads of the runner.")
    cpus: tuple[str, ...] = _axis(["all"], "CPUs that the runner may use: all, or a list such as 0,1.")
    reuse_input: tuple[bool, ...] = _axis([True], "Give every iteration the same input tensor.")


class ProtocolSpec(_Part):
    """A preset of the measurement protocol; every figure can be overridden."""

    preset: Literal["quick", "recipe"] = "quick"
    rounds: int | None = Field(default=None, ge=1, le=100)
    warmup_iterations: int | None = Field(default=None, ge=0, le=1_000_000)
    warmup_seconds: float | None = Field(default=None, ge=0, le=3600)
    iterations: int | None = Field(default=None, ge=1, le=10_000_000)
    min_seconds: float | None = Field(default=None, ge=0, le=3600)
    max_seconds: float | None = Field(default=None, gt=0, le=3600)
    seed: int = Field(default=0, ge=0, description="Shuffles the order of jobs within each round.")


class ConstraintSpec(_Part):
    """A bound on one metric. Where the metric has an interval that straddles the bound: unresolved."""

    metric: str
    at_most: float | None = None
    at_least: float | None = None


class ObjectiveSpec(_Part):
    """What the winner is best at, and what it has to keep."""

    minimize: str | None = "latency_p50_ms"
    maximize: str | None = None
    constraints: tuple[ConstraintSpec, ...] = (ConstraintSpec(metric="accuracy_drop_points", at_most=1.0),)


class SweepSpec(_Part):
    """One sweep file."""

    name: str = Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$", description="Name of the sweep in the store.")
    models: tuple[ModelSpec, ...] = Field(min_length=1)
    data: DataSpec = Field(default_factory=DataSpec)
    grids: tuple[GridSpec, ...] = Field(min_length=1)
    devices: tuple[str, ...] = Field(default=("local",), min_length=1)
    protocol: ProtocolSpec = Field(default_factory=ProtocolSpec)
    objective: ObjectiveSpec = Field(default_factory=ObjectiveSpec)
    budget: Literal["full"] = "full"


def load(path: Path) -> SweepSpec:
    """Read and validate a sweep file. Relative paths in it become absolute (relative to the file).

    Raises `SpecError` with file, line, what is wrong and what is allowed.
    """
    raise SystemExit(f"{path}: not written yet")
