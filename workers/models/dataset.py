"""A set of images and what is known of it: values, and how large one may be."""

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
    """What is in one set: enough to tell whether two results were computed on the same images."""

    source: str
    """With everything that decides the content of generated and downloaded images, e.g. their seed."""
    preprocessing: str
    count: int | None
    """`None` where only a download can tell."""
    images: tuple[str, ...]
    """sha256 of each image (a folder: of the file) in order; empty where `source` decides the content."""
    labels: tuple[int, ...] | None
    classes: tuple[str, ...] | None
    removed: int = 0
    """Images left out of calibration because the evaluation set holds equal ones."""

    @property
    def id(self) -> str:
        """sha256 of the manifest as canonical JSON."""
        return canonical_key(asdict(self))


@dataclass(frozen=True, slots=True, eq=False)
class Dataset:
    """Images (N, C, H, W), normalised, and what is known of their classes."""

    images: Images
    labels: Labels | None
    classes: tuple[str, ...] | None
    unusable: str = ""
    """Why there are no images."""

    def __len__(self) -> int:
        return len(self.images)


@dataclass(frozen=True, slots=True)
class Selection:
    """A manifest and the way to its images."""

    manifest: DataManifest
    read: Callable[[InputShape], Dataset]
    keep: Callable[[Sequence[int]], "Selection"] | None
    """The same with only these images; `None` where the manifest does not list them."""


LARGEST_SHARE_OF_RAM = 0.5
"""No set may take more: copies are made of it while variants are built and evaluated."""


def check_memory(count: int, shape: InputShape) -> None:
    """Raises `DataError` before the arrays are made: an allocation that is too large gets the process killed."""
    ram_bytes = psutil.virtual_memory().total
    wanted_bytes = count * math.prod(shape[1:]) * np.dtype(np.float32).itemsize
    if wanted_bytes > LARGEST_SHARE_OF_RAM * ram_bytes:
        fitting = int(LARGEST_SHARE_OF_RAM * ram_bytes * count / wanted_bytes)
        raise DataError(
            f"{count} images of {list(shape[1:])} take {wanted_bytes / 2**30:.1f} GiB as float32, more than half of "
            f"this machine's memory ({ram_bytes / 2**30:.1f} GiB)",
            f"use fewer, at most images: {fitting}, under data: in the sweep file",
        )
