"""Value types for a set of images and its manifest, and the limit on its size."""

import math
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass

import numpy as np
import psutil

from sweeps.device_facts import canonical_key
from sweeps.errors import DataError
from workers.models.images import InputShape
from workers.models.package import Images, Labels


@dataclass(frozen=True, slots=True, kw_only=True)
class DataManifest:
    """The contents of one image set: enough to decide whether two results were computed on the same images."""

    source: str
    """The origin of the images; if they are generated or downloaded, with everything that determines their content,
    e.g. the seed."""
    preprocessing: str
    count: int | None
    """The number of images; `None` if it is known only after a download."""
    images: tuple[str, ...]
    """sha256 of each image (in a folder: of the file) in order; empty if `source` determines the content."""
    labels: tuple[int, ...] | None
    classes: tuple[str, ...] | None
    removed: int = 0
    """Images left out of calibration because the evaluation set contains them too."""

    @property
    def id(self) -> str:
        """The sha256 of the manifest as canonical JSON."""
        return canonical_key(asdict(self))


@dataclass(frozen=True, slots=True, eq=False)
class Dataset:
    """Normalised images (N, C, H, W), with their labels and class names if known."""

    images: Images
    labels: Labels | None
    classes: tuple[str, ...] | None
    unusable: str = ""
    """The reason why there are no images; empty if there are some."""

    def __len__(self) -> int:
        return len(self.images)


@dataclass(frozen=True, slots=True)
class Selection:
    """A manifest, and functions to read its images."""

    manifest: DataManifest
    read: Callable[[InputShape], Dataset]
    keep: Callable[[Sequence[int]], "Selection"] | None
    """A function that returns the selection reduced to the images at the given indices; `None` if the manifest does not
    list its images."""


LARGEST_SHARE_OF_RAM = 0.5
"""The share of RAM that one image set may take: building and evaluating variants copies it."""


def check_memory(count: int, shape: InputShape) -> None:
    """Raises `DataError` before the arrays are allocated: too large an allocation gets the process killed."""
    ram_bytes = psutil.virtual_memory().total
    wanted_bytes = count * math.prod(shape[1:]) * np.dtype(np.float32).itemsize
    if wanted_bytes > LARGEST_SHARE_OF_RAM * ram_bytes:
        fitting = int(LARGEST_SHARE_OF_RAM * ram_bytes * count / wanted_bytes)
        raise DataError(
            f"{count} images of {list(shape[1:])} take {wanted_bytes / 2**30:.1f} GiB as float32, more than half of "
            f"this machine's memory ({ram_bytes / 2**30:.1f} GiB)",
            f"use fewer, at most images: {fitting}, under data: in the sweep file",
        )
