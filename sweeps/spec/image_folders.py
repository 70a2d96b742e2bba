"""The image files of folders: which files exist, and how many of them calibration and evaluation use. Only names are
read, no image."""

import os
import stat
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from sweeps.errors import DataError
from sweeps.spec.model_inputs import HELD_OUT_DIGITS, DataSpec, DigitsData, FolderData, TorchvisionData

IMAGE_SUFFIXES = frozenset({".jpg", ".jpeg", ".png", ".ppm", ".bmp", ".pgm", ".tif", ".tiff", ".webp"})
_READ = ", ".join(sorted(IMAGE_SUFFIXES))
_OF_SYSTEMS = frozenset({"thumbs.db", "desktop.ini"})
"""Files that Windows adds to folders of images, which are ignored without a message."""
_MOST_SUFFIXES = 5

SHARE_OF_ONE_FOLDER = 5
"""Calibration uses one image out of 5, if both sets come from one folder and the sweep file gives no number."""


CALIBRATION_IMAGES = 100
"""Most images that calibration uses, if the sweep file gives no number."""


@dataclass(frozen=True, slots=True, kw_only=True)
class EvaluationImages:
    """Labelled images on which accuracy is computed."""

    used: int
    """Number of images on which accuracy is computed; an upper bound if it is not known how many exist."""
    there: int | None
    """Number of images that exist, including those beyond `data.evaluation.images`; `None` before a download."""
    where: str
    """Source of the images, in words."""


def evaluation_images(data: DataSpec) -> EvaluationImages | None:
    """Count the evaluation images, used and existing. `None` if there are no labels, or if the number is unknown before
    a download. Raises `DataError`."""
    calibration, evaluation = data.calibration, data.evaluation
    match evaluation:
        case TorchvisionData() if evaluation.images is not None:
            return EvaluationImages(used=evaluation.images, there=None, where=evaluation.dataset)
        case DigitsData():
            existing, where = HELD_OUT_DIGITS, "the digits"
        case FolderData():
            existing, where = sum(map(len, listed(evaluation.path).values())), str(evaluation.path)
            if isinstance(calibration, FolderData) and of_one_folder(calibration, evaluation):
                existing -= calibrating(calibration, existing)
        case _:
            return None
    return EvaluationImages(used=min(existing, evaluation.images or existing), there=existing, where=where)


def of_one_folder(calibration: FolderData, evaluation: FolderData) -> bool:
    """Tell whether both sets come from one folder, whose images are split between them."""
    return calibration.path.resolve() == evaluation.path.resolve()


def calibrating(calibration: FolderData, images: int) -> int:
    """Return how many of a folder's `images` calibration uses, if evaluation uses the others."""
    return calibration.images or min(CALIBRATION_IMAGES, max(1, images // SHARE_OF_ONE_FOLDER))


@dataclass(frozen=True, slots=True, kw_only=True)
class LeftOut:
    """Files of a folder that are ignored because their suffix is not that of an image, or because they lie in no class.
    Hidden files are not counted."""

    root: Path
    by_suffix: tuple[tuple[str, int], ...]
    """Suffixes of ignored files in classes, each with its number of files, such as `(".heic", 20)`; the most frequent
    first. Files without a suffix have an empty one."""
    classes: int
    """Number of classes that have such files."""
    in_no_class: int
    """Number of images that lie beside the folders of the classes."""

    @property
    def text(self) -> str:
        """The ignored files, in one line of text; empty if there are none."""
        parts = []
        if self.by_suffix:
            count = sum(number for _, number in self.by_suffix)
            of = f"{count} file{'s' * (count > 1)} in {self.classes} class{'es' * (self.classes > 1)} of {self.root}"
            are = "are" if count > 1 else "is"
            parts.append(f"{of} {are} left out: {_suffixes_text(self.by_suffix)} (only {_READ} are read)")
        if self.in_no_class:
            are = "images lie" if self.in_no_class > 1 else "image lies"
            parts.append(f"{self.in_no_class} {are} in {self.root} itself, in no class, and nothing reads them")
        return "; ".join(parts)


def left_out(root: Path) -> LeftOut:
    """Count the files that `listed` ignores. Raises `OSError`."""
    other_files = {name: files_of(root / name)[1] for name in named_classes(root)}
    beside = sum(_is_image(path) and path.is_file() for path in root.iterdir())
    return LeftOut(
        root=root,
        by_suffix=_by_suffix(path for paths in other_files.values() for path in paths),
        classes=sum(map(bool, other_files.values())),
        in_no_class=beside,
    )


def listed(root: Path) -> dict[str, list[Path]]:
    """Return the images under `root` by class (the name of a sub-folder), both sorted, without hidden files and folders
    (whose names begin with a dot). Raises `DataError`."""
    try:
        if not root.is_dir():
            raise DataError(f"there is no folder {root}", "correct data: path: in the sweep file")
        home = root.resolve()
        classes = named_classes(root)
        images = {name: _images_of(root / name, home) for name in classes}
    except OSError as error:
        raise DataError(f"{error.filename} cannot be read: {error.strerror}", "give it read permission") from error
    if not classes:
        raise DataError(f"the folder {root} has no sub-folders", "put the images into one sub-folder per class")
    return images


def named_classes(root: Path) -> list[str]:
    """Return the names of the folders in `root`, sorted, without hidden ones. Raises `OSError`."""
    return sorted(entry.name for entry in root.iterdir() if entry.is_dir() and not entry.name.startswith("."))


def files_of(folder: Path) -> tuple[list[Path], list[Path]]:
    """Return the image files and the other files under a folder, each sorted, without hidden ones; the suffix decides.
    Raises `OSError`."""
    images: list[Path] = []
    other_files: list[Path] = []
    for home, folders, names in os.walk(folder, onerror=_raise):
        folders[:] = [name for name in folders if not name.startswith(".")]
        for name in names:
            if not name.startswith(".") and name.lower() not in _OF_SYSTEMS:
                path = Path(home, name)
                (images if _is_image(path) else other_files).append(path)
    return sorted(images), sorted(other_files)


def _raise(error: OSError) -> None:
    raise error


def _is_image(path: Path) -> bool:
    return path.suffix.lower() in IMAGE_SUFFIXES and not path.name.startswith(".")


def _images_of(folder: Path, home: Path) -> list[Path]:
    images, other_files = files_of(folder)
    for path in (folder, *images):
        if not path.resolve().is_relative_to(home):
            raise DataError(f"{path} is a link to a place outside {home}", "copy the image into the folder")
        if path is not folder and not stat.S_ISREG(path.stat().st_mode):
            # Reading a pipe would block until another program writes, and a device file may have no end.
            raise DataError(f"{path} is {_kind(path)}, not an image", "remove it from the folder")
    if not images and other_files:
        count, suffixes = len(other_files), _suffixes_text(_by_suffix(other_files))
        raise DataError(
            f"the class {folder.name} has {count} file{'s' * (count > 1)} in {folder} and none is read: {suffixes}",
            f"convert them to one of {_READ}",
        )
    if not images:
        raise DataError(f"the class {folder.name} has no images in {folder}", "add images, or remove the empty folder")
    return images


def _by_suffix(paths: Iterable[Path]) -> tuple[tuple[str, int], ...]:
    return tuple(Counter(path.suffix.lower() for path in paths).most_common())


def _suffixes_text(by_suffix: Sequence[tuple[str, int]]) -> str:
    words = [f"{number} {suffix or 'without a suffix'}" for suffix, number in by_suffix[:_MOST_SUFFIXES]]
    return ", ".join([*words, *(["others"] if len(by_suffix) > _MOST_SUFFIXES else [])])


def _kind(path: Path) -> str:
    mode = path.stat().st_mode
    return "a pipe" if stat.S_ISFIFO(mode) else "a socket" if stat.S_ISSOCK(mode) else "a device file"
