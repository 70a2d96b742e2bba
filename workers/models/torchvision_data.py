"""Data sets of torchvision by class name. Imports torch, so it is imported only if a sweep file names a data set."""

import difflib
import inspect
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torchvision.datasets
from PIL import Image

from sweeps.errors import DataError
from workers.models.decoding import eight_bits, named_image

_SPLITS = {False: ("train", "trainval"), True: ("test", "val", "valid")}


def constructor(name: str) -> Any:
    """Return torchvision's class of that name. Raises `DataError` if the name is unknown or the class has no train and
    test split."""
    if name not in torchvision.datasets.__all__:
        close = difflib.get_close_matches(name, torchvision.datasets.__all__, n=3)
        raise DataError(
            f"torchvision has no data set {name}",
            f"did you mean {' or '.join(close)}?" if close else "CIFAR10 and Imagenette are two that it has",
        )
    dataset_class = getattr(torchvision.datasets, name)
    if not {"train", "split"} & set(inspect.signature(dataset_class).parameters):
        raise DataError(
            f"torchvision's {name} has no train and test split",
            "download it yourself and give it as a folder (source: folder)",
        )
    return dataset_class


def downloads(name: str) -> bool:
    """Tell whether torchvision can download the data set."""
    return bool({"download", "kwargs"} & set(inspect.signature(constructor(name)).parameters))


def opened(name: str, root: Path, *, held_out: bool, download: bool = True) -> Any:
    """Return the data set's train or test split. `download`: download it if it is missing; else a missing data set is a
    `DataError`, as other failures are."""
    dataset_class = constructor(name)
    parameters = inspect.signature(dataset_class).parameters
    arguments: dict[str, object] = {"root": str(root)}
    if downloads(name):
        arguments["download"] = download
    splits: Sequence[object] = [not held_out] if "train" in parameters else _SPLITS[held_out]
    wrong_split: Exception | None = None
    for split in splits:
        try:
            if download:
                root.mkdir(parents=True, exist_ok=True)
            return dataset_class(**arguments, **{"train" if "train" in parameters else "split": split})
        except (ValueError, TypeError) as error:
            wrong_split = error
        except (OSError, RuntimeError, ImportError) as error:
            raise DataError(*_why(name, root, error)) from error
    raise DataError(
        f"torchvision's {name} does not take the split {splits[0]}: {wrong_split}",
        "download it yourself and give it as a folder (source: folder)",
    )


def listed_labels(dataset: Any) -> list[int] | None:
    """Return the class of every image, without decoding images; `None` if the data set has no list of labels."""
    for name in ("targets", "labels", "_labels"):
        listed = getattr(dataset, name, None)
        try:
            labels = [int(label) for label in listed] if listed is not None else []
        except (TypeError, ValueError):
            continue
        if labels and len(labels) == len(dataset):
            return labels
    return None


def classes_of(dataset: Any) -> int | None:
    """Return the number of classes, 1 more than the highest label; `None` if neither labels nor classes are listed."""
    if labels := listed_labels(dataset):
        return 1 + max(labels)
    return len(named) if (named := getattr(dataset, "classes", None)) else None


def item(dataset: Any, index: int, name: str) -> tuple[Image.Image, int]:
    """Return an image and its class. Raises `DataError` if the data set does not consist of images with one label each,
    or if this image cannot be read."""
    with named_image(f"image {index} of torchvision's {name}"):
        entry = dataset[index]
        if isinstance(entry, tuple) and entry and isinstance(entry[0], Image.Image):
            entry = (eight_bits(entry[0]), *entry[1:])
    if not (isinstance(entry, tuple) and len(entry) == 2 and isinstance(entry[0], Image.Image)):
        raise DataError(f"torchvision's {name} is not a data set of labelled images", "use one for classification")
    try:
        return entry[0], int(entry[1])
    except (TypeError, ValueError) as error:
        raise DataError(f"torchvision's {name} has no single class per image", "use one for classification") from error


def _why(name: str, root: Path, error: Exception) -> tuple[str, str]:
    by_hand = f"download it where there is a network, and copy it into {root}"
    # urllib's URLError is an OSError; torchvision wraps a failed download from all mirrors in RuntimeError.
    if "urlopen" in str(error) or "downloading" in str(error).lower():
        return f"no network: {name} cannot be downloaded ({error})", by_hand
    return f"{name} cannot be read from {root}: {error}", by_hand
