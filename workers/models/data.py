"""Calibration and evaluation data: what they are (torch-free, for plans), and their images, ready for a model.

Every set has an order in which any first part of it is balanced over its classes: `images: 100` takes the first 100.
(The one exception: data sets of torchvision that keep no list of their labels, whose order is only shuffled.)
Without `images`, evaluation takes all; calibration on folders and torchvision's data sets takes 100 at most, as the
ranges that int8 needs are known by then.
"""

import hashlib
import math
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace
from functools import cache
from pathlib import Path

import numpy as np
import psutil
from numpy.typing import NDArray

from sweeps.errors import DataError
from sweeps.records import canonical_key
from sweeps.spec.sweep import DataSource, DataSpec, DigitsData, FolderData, SyntheticData, TorchvisionData
from workers.models.images import PREPARATION, InputShape, balanced_order, decoded, enlarged, prepared, smooth_images
from workers.models.package import Images, Labels

DIGITS_TRAINING = 1200
IMAGE_SUFFIXES = frozenset({".jpg", ".jpeg", ".png", ".ppm", ".bmp", ".pgm", ".tif", ".tiff", ".webp"})
SHARE_OF_ONE_FOLDER = 5
"""Where both sets come from one folder and calibration names no number, it takes one image in so many."""
CALIBRATION_IMAGES = 100
"""At most so many, where calibration names no number."""
LARGEST_SHARE_OF_RAM = 0.5
"""No set may take more: copies are made of it while variants are built and evaluated."""


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
class _Selection:
    """A manifest and the way to its images."""

    manifest: DataManifest
    read: Callable[[InputShape], Dataset]
    keep: Callable[[Sequence[int]], "_Selection"] | None
    """The same with only these images; `None` where the manifest does not list them."""


def manifests(data: DataSpec) -> tuple[DataManifest, DataManifest]:
    """(calibration, evaluation), without decoding an image.

    A calibration set that can not be used has a `count` of 0: most variants need none. Raises `DataError` where the
    evaluation set is missing, unreadable or empty.
    """
    calibration, evaluation = _select(data)
    return calibration.manifest, evaluation.manifest


def load(data: DataSpec, input_shape: InputShape) -> tuple[Dataset, Dataset]:
    """(calibration, evaluation) for a model that takes (B, C, H, W) = `input_shape`; no image is in both.

    Raises `DataError` where an image for evaluation can not be decoded, a download fails, or a set is too large for
    this machine's memory. Where it is calibration that fails, its set is empty and says why.
    """
    channels = input_shape[1]
    if channels not in (1, 3):
        raise DataError(f"images have 1 or 3 channels, the model takes {channels}", "correct the model's input_shape")
    first, second = _select(data)
    evaluation = second.read(input_shape)
    try:
        calibration = first.read(input_shape)
    except DataError as error:
        if isinstance(data.calibration, TorchvisionData):
            raise  # a download that fails says nothing of the images
        calibration = _without_images(error, input_shape)
    if calibration.images.size and _compared_when_loaded(data):
        known = {_pixels_sha256(image) for image in evaluation.images}
        kept = [i for i, image in enumerate(calibration.images) if _pixels_sha256(image) not in known]
        if not kept:
            return _without_images(_nothing_left(), input_shape), evaluation
        labels = None if calibration.labels is None else calibration.labels[kept]
        calibration = replace(calibration, images=calibration.images[kept], labels=labels)
    return calibration, evaluation


def as_loaded(source: DataSource, planned: DataManifest, loaded: Dataset) -> DataManifest:
    """The manifest to keep beside results: for torchvision's data sets, which a plan can not look into, with content.

    `images` are then the sha256 of the prepared images, and `source` names the manifest that the plan knows.
    """
    if not isinstance(source, TorchvisionData):
        return planned
    return replace(
        planned,
        source=f"{planned.source}; as loaded for {planned.id}",
        count=len(loaded),
        images=tuple(_pixels_sha256(image).hex() for image in loaded.images),
        labels=None if loaded.labels is None else tuple(map(int, loaded.labels)),
        classes=loaded.classes,
    )


def digits_for_training(input_shape: InputShape) -> tuple[Dataset, Dataset]:
    """scikit-learn's digits: the 1,200 to train with and the 597 held out."""
    training, held_out = (_digits(DigitsData(source="digits"), held_out=part) for part in (False, True))
    return training.read(input_shape), held_out.read(input_shape)


def digits_training_id() -> str:
    """Of the manifest of the 1,200 images that demo models are trained on."""
    return _digits(DigitsData(source="digits"), held_out=False).manifest.id


def _select(data: DataSpec) -> tuple[_Selection, _Selection]:
    calibration, evaluation = data.calibration, data.evaluation
    match calibration, evaluation:
        case FolderData(), FolderData() if calibration.path.resolve() == evaluation.path.resolve():
            first, second = _one_folder(calibration, evaluation)
        case _:
            if isinstance(calibration, FolderData | TorchvisionData) and calibration.images is None:
                calibration = calibration.model_copy(update={"images": CALIBRATION_IMAGES})
            first, second = _calibration(calibration), _selection(evaluation, held_out=True)
    if _compared_when_loaded(data):
        source = f"{first.manifest.source}, without images of {second.manifest.id}"
        return replace(first, manifest=replace(first.manifest, source=source)), second
    known = set(second.manifest.images)
    kept = [i for i, digest in enumerate(first.manifest.images) if digest not in known]
    if first.keep is not None and len(kept) < len(first.manifest.images):
        first = first.keep(kept) if kept else _unusable(_nothing_left())
    return first, second


def _calibration(source: DataSource) -> _Selection:
    try:
        return _selection(source, held_out=False)
    except DataError as error:
        return _unusable(error)


def _unusable(error: DataError) -> _Selection:
    manifest = DataManifest(
        source=f"unusable: {error.message}", preprocessing="none", count=0, images=(), labels=None, classes=None
    )
    return _Selection(manifest, lambda shape: _without_images(error, shape), None)


def _without_images(error: DataError, shape: InputShape) -> Dataset:
    return Dataset(np.empty((0, *shape[1:]), np.float32), None, None, unusable=error.one_line)


def _compared_when_loaded(data: DataSpec) -> bool:
    """A plan downloads nothing, so what torchvision brings is compared by its pixels once it is there."""
    return any(isinstance(source, TorchvisionData) for source in (data.calibration, data.evaluation))


def _check_memory(count: int, shape: InputShape) -> None:
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


def _pixels_sha256(image: NDArray[np.float32]) -> bytes:
    return hashlib.sha256(image.tobytes()).digest()


def _nothing_left() -> DataError:
    return DataError(
        "every calibration image is in the evaluation set too",
        "give another folder for calibration, or fewer images for evaluation",
    )


def _selection(source: DataSource, *, held_out: bool) -> _Selection:
    match source:
        case DigitsData():
            return _digits(source, held_out=held_out)
        case FolderData():
            files, classes = _files(source.path)
            return _folder(source, files[: source.images], classes)
        case TorchvisionData():
            return _torchvision(source, held_out=held_out)
        case SyntheticData():
            return _synthetic(source, held_out=held_out)


# digits


@cache
def _split_digits() -> tuple[NDArray[np.float32], NDArray[np.int64], tuple[list[int], list[int]]]:
    from sklearn.datasets import load_digits  # a second of imports, which other sources do without

    bunch = load_digits()
    pixels, labels = bunch.images.astype(np.float32), bunch.target.astype(np.int64)
    order = balanced_order([int(label) for label in labels], [f"digit {i}" for i in range(len(labels))])
    return pixels, labels, (order[:DIGITS_TRAINING], order[DIGITS_TRAINING:])


def _digits(source: DigitsData, *, held_out: bool) -> _Selection:
    pixels, labels, split = _split_digits()

    def select(chosen: Sequence[int], removed: int) -> _Selection:
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
            _check_memory(len(chosen), shape)
            _, channels, height, width = shape
            planes = np.stack([enlarged(pixels[i] / 8.0 - 1.0, height, width) for i in chosen])
            images = np.ascontiguousarray(np.repeat(planes[:, None], channels, axis=1))
            return Dataset(images, labels[list(chosen)], manifest.classes)

        def keep(kept: Sequence[int]) -> _Selection:
            return select([chosen[i] for i in kept], len(chosen) - len(kept))

        return _Selection(manifest, read, keep)

    return select(split[held_out][: source.images], 0)


# synthetic


def _synthetic(source: SyntheticData, *, held_out: bool) -> _Selection:
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
        _check_memory(source.images, shape)
        return Dataset(smooth_images(source.images, shape, source.seed, stream), None, None)

    return _Selection(manifest, read, None)


# image folders


@dataclass(frozen=True, slots=True)
class _File:
    path: Path
    label: int


def _files(root: Path) -> tuple[list[_File], tuple[str, ...]]:
    """All images under `root` in balanced order, and the classes by their folders' sorted names."""
    if not root.is_dir():
        raise DataError(f"there is no folder {root}", "correct data: path: in the sweep file")
    home = root.resolve()
    try:
        classes = sorted(entry.name for entry in root.iterdir() if entry.is_dir() and not entry.name.startswith("."))
        files = [_File(path, label) for label, name in enumerate(classes) for path in _images_of(root / name, home)]
    except OSError as error:
        raise DataError(f"{error.filename} can not be read: {error.strerror}", "give it read permission") from error
    if not classes:
        raise DataError(f"the folder {root} has no sub-folders", "put the images into one sub-folder per class")
    names = [file.path.relative_to(root).as_posix() for file in files]
    return [files[i] for i in balanced_order([file.label for file in files], names)], tuple(classes)


def _images_of(folder: Path, home: Path) -> list[Path]:
    found = sorted(path for path in folder.rglob("*") if path.suffix.lower() in IMAGE_SUFFIXES and not path.is_dir())
    for path in (folder, *found):
        if not path.resolve().is_relative_to(home):
            raise DataError(f"{path} is a link to a place outside {home}", "copy the image into the folder")
    if not found:
        raise DataError(f"the class {folder.name} has no images in {folder}", "add images, or remove the empty folder")
    return found


def _one_folder(calibration: FolderData, evaluation: FolderData) -> tuple[_Selection, _Selection]:
    files, classes = _files(calibration.path)
    share = calibration.images or min(CALIBRATION_IMAGES, max(1, len(files) // SHARE_OF_ONE_FOLDER))
    rest = files[share:][: evaluation.images]
    if not rest:
        raise DataError(
            f"{calibration.path} has {len(files)} images, calibration takes {share}: none is left to evaluate",
            "give a smaller number of images for calibration",
        )
    return _folder(calibration, files[:share], classes), _folder(evaluation, rest, classes)


def _folder(source: FolderData, files: Sequence[_File], classes: tuple[str, ...], removed: int = 0) -> _Selection:
    digests = tuple(hashlib.sha256(_bytes(file.path)).hexdigest() for file in files)
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
        _check_memory(len(files), shape)
        images = np.empty((len(files), *shape[1:]), np.float32)
        for i, (file, digest) in enumerate(zip(files, digests, strict=True)):
            content = _bytes(file.path)
            if hashlib.sha256(content).hexdigest() != digest:
                raise DataError(f"{file.path} was changed while it was used", "run the command again")
            images[i] = prepared(decoded(content, str(file.path)), shape, source.mean, source.std)
        return Dataset(images, np.array(manifest.labels, np.int64), classes)

    def keep(kept: Sequence[int]) -> _Selection:
        return _folder(source, [files[i] for i in kept], classes, len(files) - len(kept))

    return _Selection(manifest, read, keep)


def _bytes(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise DataError(f"{path} can not be read: {error.strerror}", "give it read permission, or remove it") from error


# torchvision's data sets


def _torchvision(source: TorchvisionData, *, held_out: bool) -> _Selection:
    from workers.models import torchvision_data  # imports torch

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
        _check_memory(len(chosen), shape)
        images = np.empty((len(chosen), *shape[1:]), np.float32)
        labels = np.empty(len(chosen), np.int64)
        for i, index in enumerate(chosen):
            image, labels[i] = torchvision_data.item(dataset, index, source.dataset)
            images[i] = prepared(image, shape, source.mean, source.std)
        classes = getattr(dataset, "classes", None)
        return Dataset(images, labels, tuple(map(str, classes)) if classes else None)

    return _Selection(manifest, read, None)


def _preprocessing(source: FolderData | TorchvisionData) -> str:
    return f"{PREPARATION}, mean {list(source.mean)}, std {list(source.std)}"
