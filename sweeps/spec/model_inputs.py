"""The models in a sweep file, and the images for their calibration and evaluation."""

import sys
from math import isfinite
from pathlib import Path
from typing import Annotated, Any, Literal, Self

from pydantic import Field, ValidationInfo, field_validator, model_validator
from pydantic.config import JsonDict

from sweeps.errors import did_you_mean
from sweeps.spec.fields import Deviation, FilePath, Name, Part, Size, Source, check_path_text, exists, from_file, wrong
from sweeps.spec.messages import show

Scalar = str | int | float | bool
_SCALARS: JsonDict = {"type": ["string", "number", "boolean"]}
_ITEMS: JsonDict = {"items": {"anyOf": [_SCALARS, {"type": "array", "items": _SCALARS}]}}
Argument = Scalar | Annotated[list[Any], Field(json_schema_extra=_ITEMS)]
"""Argument of a model's constructor. A list has scalars or lists of scalars, such as `[[32, 1], [64, 2]]`."""

TAKEN_MODULES = sys.stdlib_module_names | {
    "sweeps",
    "workers",
    "dashboard",
    "torch",
    "torchvision",
    "numpy",
    "safetensors",
}
"""Names of modules that a user's file of the same name never replaces."""

WEIGHTS = ("pretrained", "random", "demo")
"""Allowed values of `weights` besides a path."""


def _images() -> Any:
    return Field(
        default=None,
        ge=1,
        description="Use only so many; left out: all, but 100 of a folder or a torchvision set to calibrate with.",
    )


class ModelSpec(Part):
    """One network: where its code comes from, its weights, the shape of its input."""

    source: Source = Field(description="torchvision's name (mobilenet_v2) or your own module:function.")
    name: Name = Field(
        default_factory=lambda data: str(data.get("source", "")).rpartition(":")[2],
        description="Name in results; the source's part behind the colon if left out.",
    )
    arguments: dict[str, Argument] = Field(default_factory=dict, description="Keyword arguments of the constructor.")
    weights: str = Field(
        default="pretrained",
        description="pretrained (torchvision's), random (settled, seeded), demo (trained on digits by EdgeSweep), "
        "or the path of a checkpoint: a state_dict of torch or a file of safetensors (relative to the sweep file).",
    )
    weights_key: str | None = Field(
        default=None,
        min_length=1,
        max_length=200,
        description="Where in the checkpoint the weights are, if several fit: its keys with dots between, such as "
        "model_ema; a dot alone is its top level.",
    )
    seed: int = Field(default=0, ge=0, description="For weights: random and demo.")
    input_shape: tuple[Size, Size, Size, Size] = Field(
        default=(1, 3, 224, 224), description="Batch, channels, height, width."
    )

    @field_validator("arguments")
    @classmethod
    def _lists_have_scalars(cls, arguments: dict[str, Argument]) -> dict[str, Argument]:
        for name, argument in arguments.items():
            for place, item in enumerate(argument if isinstance(argument, list) else ()):
                for inner in item if isinstance(item, list) else (item,):
                    if not isinstance(inner, Scalar) or (isinstance(inner, float) and not isfinite(inner)):
                        allowed = "text, a number, true or false, or a list of these"
                        raise wrong(f"must be {allowed}, not {show(inner)}", name, place)
        return arguments

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

    @model_validator(mode="after")
    def _key_is_a_checkpoints(self) -> Self:
        if self.weights_key is not None and self.weights in WEIGHTS:
            raise wrong(f"weights: {self.weights} is no checkpoint, so leave the key out", "weights_key")
        return self


def _crop() -> Any:
    about = "Scale to 256/224 of the input and cut out the centre, as torchvision does; false: only scale to the input."
    return Field(default=True, description=about)


HELD_OUT_DIGITS = 597
"""Number of the digits' images on which accuracy is computed."""


class DigitsData(Part):
    """scikit-learn's handwritten digits: 1,200 images to train and calibrate with, 597 held out. No network."""

    source: Literal["digits"]
    images: int | None = _images()


class FolderData(Part):
    """A folder with one sub-folder of images per class (torchvision's ImageFolder layout)."""

    source: Literal["folder"]
    path: FilePath = Field(description="The folder (relative to the sweep file).")
    images: int | None = _images()
    mean: tuple[float, float, float] = (0.485, 0.456, 0.406)
    std: tuple[Deviation, Deviation, Deviation] = (0.229, 0.224, 0.225)
    crop: bool = _crop()

    @field_validator("path")
    @classmethod
    def _path_exists(cls, path: Path, info: ValidationInfo) -> Path:
        if info.context and not exists("folder", path):
            raise wrong(f"there is no folder {path}")
        return path


def _download_folder() -> Any:
    # The default is text, because pydantic validates it like a value from the file, and paths in the file are text.
    about = "Download folder (relative to the sweep file)."
    return Field(default="datasets", validate_default=True, description=about)


class TorchvisionData(Part):
    """A data set of torchvision by its class name, for instance CIFAR10. Downloads where there is a network."""

    source: Literal["torchvision"]
    dataset: str = Field(description="Name of the class in torchvision.datasets.")
    root: FilePath = _download_folder()
    images: int | None = _images()
    mean: tuple[float, float, float] = (0.485, 0.456, 0.406)
    std: tuple[Deviation, Deviation, Deviation] = (0.229, 0.224, 0.225)
    crop: bool = _crop()

    @field_validator("dataset")
    @classmethod
    def _dataset_is_a_class_name(cls, dataset: str) -> str:
        if not dataset.isidentifier():
            raise wrong(f"{dataset[:80]!r} is no name of a class in torchvision.datasets, such as CIFAR10")
        return dataset


class SyntheticData(Part):
    """Seeded smooth images without labels: for random weights, where no real image means anything."""

    source: Literal["synthetic"]
    images: int = Field(default=32, ge=1, le=10_000)
    seed: int = Field(default=0, ge=0)


DataSource = Annotated[DigitsData | FolderData | TorchvisionData | SyntheticData, Field(discriminator="source")]


class DataSpec(Part):
    """What int8 is calibrated with, and what accuracy is computed on. No image is ever in both."""

    calibration: DataSource = DigitsData(source="digits", images=100)
    evaluation: DataSource = DigitsData(source="digits")


def most_images(data: DataSpec) -> int | None:
    """Return the number of evaluation images that exist, if it is fixed; `None` otherwise, because folders may grow."""
    return HELD_OUT_DIGITS if isinstance(data.evaluation, DigitsData) else None
