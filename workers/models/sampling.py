"""Computes the original's answers to some labelled images, before anything is built, in the process that tries its
code."""

import math
import time
from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np
import torch

from sweeps.errors import DataError
from sweeps.ranking.accuracy_bound import side
from sweeps.ranking.reference_causes import Answers, Inputs
from sweeps.ranking.reference_doubts import doubts
from sweeps.spec.model_inputs import DataSpec, DigitsData, FolderData, TorchvisionData
from workers.models.data_sources import digits, evaluated_files, torchvision_sets
from workers.models.dataset import Dataset
from workers.models.decoding import content_of, decoded
from workers.models.eager_model import eager_logits
from workers.models.images import InputShape, balanced_order, prepared
from workers.models.package import Images
from workers.models.sample_answers import Sampled

MOST_IMAGES = 256
LEAST_IMAGES = 16
"""The number of images that are prepared and evaluated even when there is no time left."""
_LARGEST_BYTES = 256 * 2**20
"""The most bytes of a sample, as float32: inputs twice as large halve the number of images."""
_RETRIED_IMAGES = 64

_IMAGENET = ((0.485, 0.456, 0.406), (0.229, 0.224, 0.225))
_USUAL = (
    _IMAGENET,
    ((0.5, 0.5, 0.5), (0.5, 0.5, 0.5)),
    ((0.0, 0.0, 0.0), (1.0, 1.0, 1.0)),
    ((0.0, 0.0, 0.0), (1 / 255, 1 / 255, 1 / 255)),
)
"""Usual pairs of mean and std: those of ImageNet, and those that give -1 to 1, 0 to 1, and 0 to 255."""


def labelled_sample(data: DataSpec, input_shape: InputShape, seconds: float) -> Dataset | None:
    """Return the first of the evaluation images, in a balanced order; `None` if they have no labels, are not on this
    disk, or cannot be used, which other checks report."""
    if input_shape[1] not in (1, 3):
        return None
    try:
        match data.evaluation:
            case DigitsData() as source:
                count = min(source.images or MOST_IMAGES, _most(input_shape))
                return digits(source.model_copy(update={"images": count}), held_out=True).read(input_shape)
            case FolderData() as source:
                return _of_folder(data, source, input_shape, seconds)
            case TorchvisionData() as source:
                return _of_torchvision(source, input_shape, seconds)
    except DataError:
        return None
    return None


def _most(input_shape: InputShape) -> int:
    image_bytes = math.prod(input_shape[1:]) * np.dtype(np.float32).itemsize
    return max(1, min(MOST_IMAGES, _LARGEST_BYTES // image_bytes))


def _of_folder(data: DataSpec, source: FolderData, input_shape: InputShape, seconds: float) -> Dataset | None:
    files, classes = evaluated_files(data.calibration, source)

    def read(index: int) -> tuple[Images, int]:
        path = files[index].path
        image = decoded(content_of(path), str(path))
        return prepared(image, input_shape, source.mean, source.std, crop=source.crop), files[index].label

    return _read_some(min(len(files), _most(input_shape)), read, classes, seconds)


def _of_torchvision(source: TorchvisionData, input_shape: InputShape, seconds: float) -> Dataset | None:
    torchvision_data = torchvision_sets()
    dataset = torchvision_data.opened(source.dataset, source.root, held_out=True, download=False)
    listed = torchvision_data.listed_labels(dataset) or [0] * len(dataset)
    chosen = balanced_order(listed, [str(i) for i in range(len(dataset))])[: source.images]

    def read(index: int) -> tuple[Images, int]:
        image, label = torchvision_data.item(dataset, chosen[index], source.dataset)
        return prepared(image, input_shape, source.mean, source.std, crop=source.crop), label

    names = getattr(dataset, "classes", None)
    count = min(len(chosen), _most(input_shape))
    return _read_some(count, read, tuple(map(str, names)) if names else None, seconds)


def _read_some(
    count: int, read: Callable[[int], tuple[Images, int]], classes: tuple[str, ...] | None, seconds: float
) -> Dataset | None:
    until_s = time.monotonic() + seconds
    pairs: list[tuple[Images, int]] = []
    for index in range(count):
        if index >= LEAST_IMAGES and time.monotonic() > until_s:
            break
        pairs.append(read(index))
    if not pairs:
        return None
    return Dataset(np.stack([image for image, _ in pairs]), np.array([label for _, label in pairs], np.int64), classes)


def answered(
    network: torch.nn.Module,
    sample: Dataset,
    batch: int,
    seconds: float,
    normalized: tuple[Sequence[float], Sequence[float]] | None,
    tell: Callable[[], object],
) -> Sampled:
    """Return the answers of the fp32 eager model to as many images as there is time for. `normalized`: the mean and std
    with which the images were prepared; `None` if the sweep file gives none. `tell` is called now and then, to report
    progress."""
    assert sample.labels is not None
    until_s = time.monotonic() + seconds
    predicted: list[int] = []
    outputs = 0
    step = max(batch, LEAST_IMAGES)
    for start in range(0, len(sample), step):
        if start and time.monotonic() > until_s:
            break
        logits = eager_logits(network, sample.images[start : start + step], batch)
        predicted += logits.argmax(axis=1).tolist()
        outputs = logits.shape[1]
        tell()
    images = sample.images[: len(predicted)]
    answers = Answers(
        labels=sample.labels[: len(predicted)].tolist(),
        predicted=predicted,
        outputs=outputs,
        classes=sample.classes or (),
    )
    better, percent = "", None
    if normalized is not None and doubts(answers):
        better, percent = _better(network, images[:_RETRIED_IMAGES], answers, batch, normalized, tell)
    pixels = Inputs(low=float(images.min()), high=float(images.max()), better=better, better_percent=percent)
    return Sampled(answers, pixels)


def _better(
    network: torch.nn.Module,
    images: Images,
    answers: Answers,
    batch: int,
    normalized: tuple[Sequence[float], Sequence[float]],
    tell: Callable[[], object],
) -> tuple[str, float | None]:
    """Return the usual normalization with which most `images` are classified correctly, and their share in percent;
    empty and `None` if none is shown to be better than the present one, or all leave a doubt."""
    labels = np.array(answers.labels[: len(images)])
    before = labels == answers.predicted[: len(images)]
    most = 0
    better: tuple[str, float | None] = "", None
    plain = images * _planes(normalized[1], images) + _planes(normalized[0], images)
    for mean, std in _USUAL:
        normalised = np.asarray((plain - _planes(mean, images)) / _planes(std, images), np.float32)
        predicted = eager_logits(network, normalised, batch).argmax(axis=1)
        right = labels == predicted
        lost, gained = int((before & ~right).sum()), int((right & ~before).sum())
        retried = replace(answers, labels=labels.tolist(), predicted=predicted.tolist())
        if right.sum() > most and side(lost, gained, len(images), 0.0) == "below" and not doubts(retried):
            most = int(right.sum())
            better = f"mean: {_listed(mean)}, std: {_listed(std)}", 100 * most / len(images)
        tell()
    return better


def _planes(values: Sequence[float], images: Images) -> Images:
    """Return the values of the channels as (C, 1, 1), as `workers.models.images.prepared` uses them."""
    planes = np.array(values, np.float32)
    return (planes.mean(keepdims=True) if images.shape[1] == 1 else planes)[:, None, None]


def _listed(values: Sequence[float]) -> str:
    return f"[{', '.join(f'{value:.6g}' for value in values)}]"
