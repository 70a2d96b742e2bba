"""Sources of images: scikit-learn's digits, generated images, folders, torchvision's data sets."""

import gzip
import hashlib
import importlib.util
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from types import ModuleType

import numpy as np
from numpy.typing import NDArray

from sweeps.errors import DataError
from sweeps.extras import install_line
from sweeps.spec.image_folders import calibrating, listed, of_one_folder
from sweeps.spec.model_inputs import DataSource, DigitsData, FolderData, SyntheticData, TorchvisionData
from workers.models.dataset import DataManifest, Dataset, Selection, check_memory
from workers.models.decoding import content_of, decoded
from workers.models.images import (
    PREPARATION,
    WITHOUT_CROP,
    InputShape,
    balanced_order,
    enlarged,
    prepared,
    smooth_images,
)

DIGITS_TRAINING = 1200


def _digits_table() -> NDArray[np.float64]:
    """Return scikit-learn's digits, one image in each row: 64 pixels from 0 to 16, then the digit. Raises `DataError`
    without scikit-learn.

    Read from scikit-learn's file, because importing scikit-learn takes over a second, and a plan needs the digits too.
    """
    spec = importlib.util.find_spec("sklearn")
    if spec is None or spec.origin is None:
        raise DataError("scikit-learn, which has the digits, is not installed", install_line("workers"))
    file = Path(spec.origin).with_name("datasets") / "data" / "digits.csv.gz"
    if file.is_file():
        with gzip.open(file, "rt", encoding="ascii") as lines:
            return np.loadtxt(lines, delimiter=",")
    from sklearn.datasets import load_digits

    bunch = load_digits()
    return np.column_stack([bunch.data, bunch.target])


@cache
def _split_digits() -> tuple[NDArray[np.float32], NDArray[np.int64], tuple[list[int], list[int]]]:
    table = _digits_table()
    pixels = np.ascontiguousarray(table[:, :-1].reshape(-1, 8, 8), np.float32)
    labels = table[:, -1].astype(np.int64)
    order = balanced_order([int(label) for label in labels], [f"digit {i}" for i in range(len(labels))])
    return pixels, labels, (order[:DIGITS_TRAINING], order[DIGITS_TRAINING:])


def digits(source: DigitsData, *, held_out: bool) -> Selection:
    pixels, labels, split = _split_digits()

    def select(chosen: Sequence[int], removed: int) -> Selection:
        manifest = DataManifest(
            source="scikit-learn digits, " + ("held out" if held_out else "training part"),
            preprocessing="bilinear to (H, W), the same in every channel, 0..16 to -1..1",
            count=len(chosen),
            images=tuple(hashlib.sha256(pixels[i].tobytes()).hexdigest() for i in chosen),
            labels=tuple(int(labels[i]) for i in chosen),
            classes=tuple("0123456789"),
            removed=removed,
        )

        def read(shape: InputShape) -> Dataset:
            check_memory(len(chosen), shape)
            _, channels, height, width = shape
            planes = np.stack([enlarged(pixels[i] / 8.0 - 1.0, height, width) for i in chosen])
            images = np.ascontiguousarray(np.repeat(planes[:, None], channels, axis=1))
            return Dataset(images, labels[list(chosen)], manifest.classes)

        def keep(indices: Sequence[int]) -> Selection:
            return select([chosen[i] for i in indices], len(chosen) - len(indices))

        return Selection(manifest, read, keep)

    return select(split[held_out][: source.images], 0)


def _synthetic(source: SyntheticData, *, held_out: bool) -> Selection:
    stream = int(held_out)
    manifest = DataManifest(
        source=f"synthetic, seed {source.seed}, stream {stream}",
        preprocessing="none",
        count=source.images,
        images=(),
        labels=None,
        classes=None,
    )

    def read(shape: InputShape) -> Dataset:
        check_memory(source.images, shape)
        return Dataset(smooth_images(source.images, shape, source.seed, stream), None, None)

    return Selection(manifest, read, None)


@dataclass(frozen=True, slots=True)
class ImageFile:
    """An image file of a folder, and the index of its class."""

    path: Path
    label: int


def _files(root: Path) -> tuple[list[ImageFile], tuple[str, ...]]:
    """Return all images under `root` in balanced order, and the classes: the sorted names of their folders."""
    classes = listed(root)
    files = [ImageFile(path, label) for label, paths in enumerate(classes.values()) for path in paths]
    names = [file.path.relative_to(root).as_posix() for file in files]
    return [files[i] for i in balanced_order([file.label for file in files], names)], tuple(classes)


def one_folder(calibration: FolderData, evaluation: FolderData) -> tuple[Selection, Selection]:
    first, rest, classes = _parted(calibration, evaluation)
    return _folder(calibration, first, classes), _folder(evaluation, rest, classes)


def _parted(
    calibration: FolderData, evaluation: FolderData
) -> tuple[list[ImageFile], list[ImageFile], tuple[str, ...]]:
    """Return the files for calibration, the files for evaluation, and the classes, all of one folder."""
    files, classes = _files(calibration.path)
    share = calibrating(calibration, len(files))
    rest = files[share:][: evaluation.images]
    if not rest:
        raise DataError(
            f"{calibration.path} has {len(files)} images, calibration takes {share}: none is left to evaluate",
            "give a smaller number of images for calibration",
        )
    return files[:share], rest, classes


def evaluated_files(calibration: DataSource, evaluation: FolderData) -> tuple[list[ImageFile], tuple[str, ...]]:
    """Return the images that accuracy is computed on, in order, and the classes of their folder. Raises `DataError`."""
    if isinstance(calibration, FolderData) and of_one_folder(calibration, evaluation):
        return _parted(calibration, evaluation)[1:]
    files, classes = _files(evaluation.path)
    return files[: evaluation.images], classes


def evaluation_files(calibration: DataSource, evaluation: FolderData) -> tuple[list[Path], int]:
    """Return the files of `evaluated_files`, and the number of classes: 1 more than the highest label among them."""
    files, _ = evaluated_files(calibration, evaluation)
    return [file.path for file in files], 1 + max(file.label for file in files)


def files_in(root: Path) -> tuple[list[Path], tuple[str, ...]]:
    """Return the images in a folder, in balanced order, and its classes. Raises `DataError`."""
    files, classes = _files(root)
    return [file.path for file in files], classes


def _folder(source: FolderData, files: Sequence[ImageFile], classes: tuple[str, ...], removed: int = 0) -> Selection:
    digests = tuple(hashlib.sha256(content_of(file.path)).hexdigest() for file in files)
    manifest = DataManifest(
        source="image folder",
        preprocessing=_preprocessing(source),
        count=len(files),
        images=digests,
        labels=tuple(file.label for file in files),
        classes=classes,
        removed=removed,
    )

    def read(shape: InputShape) -> Dataset:
        check_memory(len(files), shape)
        images = np.empty((len(files), *shape[1:]), np.float32)
        for i, (file, digest) in enumerate(zip(files, digests, strict=True)):
            content = content_of(file.path)
            if hashlib.sha256(content).hexdigest() != digest:
                raise DataError(f"{file.path} was changed while it was used", "run the command again")
            images[i] = prepared(decoded(content, str(file.path)), shape, source.mean, source.std, crop=source.crop)
        return Dataset(images, np.array(manifest.labels, np.int64), classes)

    def keep(indices: Sequence[int]) -> Selection:
        return _folder(source, [files[i] for i in indices], classes, len(files) - len(indices))

    return Selection(manifest, read, keep)


def torchvision_sets() -> ModuleType:
    """Import and return `workers.models.torchvision_data`; the import takes seconds."""
    from workers.models import torchvision_data  # imports torch

    return torchvision_data


def _torchvision(source: TorchvisionData, *, held_out: bool) -> Selection:
    torchvision_data = torchvision_sets()
    torchvision_data.constructor(source.dataset)
    manifest = DataManifest(
        source=f"torchvision {source.dataset}, {'test' if held_out else 'train'}, balanced",
        preprocessing=_preprocessing(source),
        count=source.images,
        images=(),
        labels=None,
        classes=None,
    )

    def read(shape: InputShape) -> Dataset:
        dataset = torchvision_data.opened(source.dataset, source.root, held_out=held_out)
        count = len(dataset)
        listed = torchvision_data.listed_labels(dataset) or [0] * count
        chosen = balanced_order(listed, [str(i) for i in range(count)])[: source.images]
        check_memory(len(chosen), shape)
        images = np.empty((len(chosen), *shape[1:]), np.float32)
        labels = np.empty(len(chosen), np.int64)
        for i, index in enumerate(chosen):
            image, labels[i] = torchvision_data.item(dataset, index, source.dataset)
            images[i] = prepared(image, shape, source.mean, source.std, crop=source.crop)
        classes = getattr(dataset, "classes", None)
        return Dataset(images, labels, tuple(map(str, classes)) if classes else None)

    return Selection(manifest, read, None)


def _preprocessing(source: FolderData | TorchvisionData) -> str:
    return f"{PREPARATION if source.crop else WITHOUT_CROP}, mean {list(source.mean)}, std {list(source.std)}"


def selection(source: DataSource, *, held_out: bool) -> Selection:
    match source:
        case DigitsData():
            return digits(source, held_out=held_out)
        case FolderData():
            files, classes = _files(source.path)
            return _folder(source, files[: source.images], classes)
        case TorchvisionData():
            return _torchvision(source, held_out=held_out)
        case SyntheticData():
            return _synthetic(source, held_out=held_out)
