"""The images of folders, by their names: which there are, and how many of them accuracy is computed on."""

import stat
from dataclasses import dataclass
from pathlib import Path

from sweeps.errors import DataError
from sweeps.spec.inputs import HELD_OUT_DIGITS, DataSpec, DigitsData, FolderData, TorchvisionData

IMAGE_SUFFIXES = frozenset({".jpg", ".jpeg", ".png", ".ppm", ".bmp", ".pgm", ".tif", ".tiff", ".webp"})


SHARE_OF_ONE_FOLDER = 5
"""If both sets come from one folder and calibration gives no number, it takes one image out of 5."""


CALIBRATION_IMAGES = 100
"""The maximum, if calibration gives no number."""


@dataclass(frozen=True, slots=True, kw_only=True)
class EvaluationImages:
    """The labelled images that accuracy is computed on."""

    used: int
    """At most, where it is not known how many there are."""
    there: int | None
    """With those that `data.evaluation.images` leaves out; `None` before a download."""
    where: str
    """For people."""


def evaluation_images(data: DataSpec) -> EvaluationImages | None:
    """Also those that the sweep file leaves out. `None` if there are no labels, or nothing is known of the number
    before a download. Raises `DataError`."""
    calibration, evaluation = data.calibration, data.evaluation
    match evaluation:
        case TorchvisionData() if evaluation.images is not None:
            return EvaluationImages(used=evaluation.images, there=None, where=evaluation.dataset)
        case DigitsData():
            there, where = HELD_OUT_DIGITS, "the digits"
        case FolderData():
            there, where = sum(map(len, listed(evaluation.path).values())), str(evaluation.path)
            if isinstance(calibration, FolderData) and of_one_folder(calibration, evaluation):
                there -= calibrating(calibration, there)
        case _:
            return None
    return EvaluationImages(used=min(there, evaluation.images or there), there=there, where=where)


def of_one_folder(calibration: FolderData, evaluation: FolderData) -> bool:
    """Whether both sets come from one folder, and share its images."""
    return calibration.path.resolve() == evaluation.path.resolve()


def calibrating(calibration: FolderData, images: int) -> int:
    """How many `images` of one folder calibration takes, if evaluation has the others."""
    return calibration.images or min(CALIBRATION_IMAGES, max(1, images // SHARE_OF_ONE_FOLDER))


def listed(root: Path) -> dict[str, list[Path]]:
    """The images under `root` by class (the name of a sub-folder), both sorted. Raises `DataError`."""
    try:
        if not root.is_dir():
            raise DataError(f"there is no folder {root}", "correct data: path: in the sweep file")
        home = root.resolve()
        classes = sorted(entry.name for entry in root.iterdir() if entry.is_dir() and not entry.name.startswith("."))
        found = {name: _images_of(root / name, home) for name in classes}
    except OSError as error:
        raise DataError(f"{error.filename} cannot be read: {error.strerror}", "give it read permission") from error
    if not classes:
        raise DataError(f"the folder {root} has no sub-folders", "put the images into one sub-folder per class")
    return found


def _images_of(folder: Path, home: Path) -> list[Path]:
    found = sorted(path for path in folder.rglob("*") if path.suffix.lower() in IMAGE_SUFFIXES and not path.is_dir())
    for path in (folder, *found):
        if not path.resolve().is_relative_to(home):
            raise DataError(f"{path} is a link to a place outside {home}", "copy the image into the folder")
        if path is not folder and not stat.S_ISREG(path.stat().st_mode):
            # Whoever reads a pipe waits for a writer, and a device may have no end.
            raise DataError(f"{path} is {_kind(path)}, not an image", "remove it from the folder")
    if not found:
        raise DataError(f"the class {folder.name} has no images in {folder}", "add images, or remove the empty folder")
    return found


def _kind(path: Path) -> str:
    mode = path.stat().st_mode
    return "a pipe" if stat.S_ISFIFO(mode) else "a socket" if stat.S_ISSOCK(mode) else "a device file"
