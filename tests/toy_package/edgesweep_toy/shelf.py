"""Finds the boxes that stand on the shelf: folders of `TOY_SHELF`, in which lies what EdgeSweep left there."""

import os
import shutil
from pathlib import Path

from sweeps.errors import DeviceError

NEXT_STEP = "put a box on the shelf"


def attached() -> tuple[list[str], list[DeviceError]]:
    found = sorted(box.name for box in _shelf().iterdir())
    return [f"toybox:{name}" for name in found if name != "grey"], [
        DeviceError("no_colour", "toybox:grey has no colour", "paint it") for name in found if name == "grey"
    ]


def are_one(name: str, other: str, folder: Path) -> bool:
    return name == other


def clean(name: str) -> None:
    box = _shelf() / name.partition(":")[2]
    shutil.rmtree(box)
    box.mkdir()


def _shelf() -> Path:
    return Path(os.environ["TOY_SHELF"])
