"""Calibration and evaluation data: their manifests (torch-free, for plans), and their images, ready for a model.

Every set has an order in which each prefix is balanced over the classes: `images: 100` takes the first 100. (The only
exception: torchvision data sets without a list of labels, which are only shuffled.) Without `images`, evaluation takes
all images; calibration on folders and torchvision data sets takes at most 100, which is enough for int8 ranges.
"""

import hashlib
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from sweeps.errors import DataError
from sweeps.spec.image_folders import CALIBRATION_IMAGES, of_one_folder
from sweeps.spec.model_inputs import DataSource, DataSpec, DigitsData, FolderData, TorchvisionData
from workers.models.data_sources import digits, one_folder, selection
from workers.models.dataset import DataManifest, Dataset, Selection
from workers.models.images import InputShape


def manifests(data: DataSpec) -> tuple[DataManifest, DataManifest]:
    """Return the manifests of the calibration and of the evaluation set, without decoding an image.

    An unusable calibration set has a `count` of 0, because most variants do not need it. Raises `DataError` if the
    evaluation set is missing, unreadable or empty.
    """
    calibration, evaluation = _select(data)
    return calibration.manifest, evaluation.manifest


def load(data: DataSpec, input_shape: InputShape) -> tuple[Dataset, Dataset]:
    """Return the calibration and the evaluation set for a model that takes (B, C, H, W) = `input_shape`; no image is in
    both sets.

    Raises `DataError` if an evaluation image cannot be decoded, a download fails, or the evaluation set is too large
    for this machine's memory. If only calibration fails, its set is empty and contains the reason.
    """
    check_channels(data, input_shape[1])
    first, second = _select(data)
    evaluation = second.read(input_shape)
    try:
        calibration = first.read(input_shape)
    except DataError as error:
        if isinstance(data.calibration, TorchvisionData):
            raise  # a failed download does not mean that the images are unusable
        calibration = _without_images(error, input_shape)
    if calibration.images.size and _compared_when_loaded(data):
        known = {_pixels_sha256(image) for image in evaluation.images}
        indices = [i for i, image in enumerate(calibration.images) if _pixels_sha256(image) not in known]
        if not indices:
            return _without_images(_nothing_left(), input_shape), evaluation
        labels = None if calibration.labels is None else calibration.labels[indices]
        calibration = replace(calibration, images=calibration.images[indices], labels=labels)
    return calibration, evaluation


def check_channels(data: DataSpec, channels: int) -> None:
    """Raises `DataError` if a model with so many input channels cannot be given these images: image files have 1 or
    3."""
    read = any(isinstance(source, FolderData | TorchvisionData) for source in (data.calibration, data.evaluation))
    if read and channels not in (1, 3):
        raise DataError(
            f"images have 1 or 3 channels, the model takes {channels}",
            "correct the model's input_shape, or write source: synthetic for calibration and evaluation: its images "
            "have as many channels as the model takes",
        )


def as_loaded(source: DataSource, planned: DataManifest, loaded: Dataset) -> DataManifest:
    """Return the manifest to store with results: `planned`, completed for torchvision data sets, whose images a plan
    cannot read.

    In a completed manifest, `images` are the sha256 of the prepared images, and `source` names the manifest of the
    plan.
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
    """Return scikit-learn's digits: 1,200 for training and 597 held out."""
    training, held_out = (digits(DigitsData(source="digits"), held_out=part) for part in (False, True))
    return training.read(input_shape), held_out.read(input_shape)


def digits_training_id() -> str:
    """Return the manifest id of the 1,200 images that demo models are trained on."""
    return digits(DigitsData(source="digits"), held_out=False).manifest.id


def _select(data: DataSpec) -> tuple[Selection, Selection]:
    calibration, evaluation = data.calibration, data.evaluation
    match calibration, evaluation:
        case FolderData(), FolderData() if of_one_folder(calibration, evaluation):
            first, second = one_folder(calibration, evaluation)
        case _:
            if isinstance(calibration, FolderData | TorchvisionData) and calibration.images is None:
                calibration = calibration.model_copy(update={"images": CALIBRATION_IMAGES})
            first, second = _calibration(calibration), selection(evaluation, held_out=True)
    if _compared_when_loaded(data):
        source = f"{first.manifest.source}, without images of {second.manifest.id}"
        return replace(first, manifest=replace(first.manifest, source=source)), second
    known = set(second.manifest.images)
    indices = [i for i, digest in enumerate(first.manifest.images) if digest not in known]
    if first.keep is not None and len(indices) < len(first.manifest.images):
        first = first.keep(indices) if indices else _unusable(_nothing_left())
    return first, second


def _calibration(source: DataSource) -> Selection:
    try:
        return selection(source, held_out=False)
    except DataError as error:
        return _unusable(error)


def _unusable(error: DataError) -> Selection:
    manifest = DataManifest(
        source=f"unusable: {error.message}", preprocessing="none", count=0, images=(), labels=None, classes=None
    )
    return Selection(manifest, lambda shape: _without_images(error, shape), None)


def _without_images(error: DataError, shape: InputShape) -> Dataset:
    return Dataset(np.empty((0, *shape[1:]), np.float32), None, None, unusable=error.one_line)


def _compared_when_loaded(data: DataSpec) -> bool:
    """Tell whether duplicates are found by pixels after loading: a plan does not download torchvision's images."""
    return any(isinstance(source, TorchvisionData) for source in (data.calibration, data.evaluation))


def _pixels_sha256(image: NDArray[np.float32]) -> bytes:
    return hashlib.sha256(image.tobytes()).digest()


def _nothing_left() -> DataError:
    return DataError(
        "every calibration image is in the evaluation set too",
        "give another folder for calibration, or fewer images for evaluation",
    )
