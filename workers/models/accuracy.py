"""Accuracy from the logits that a runner wrote, computed on the host, by the same function for every device."""

import math
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from sweeps.errors import RunnerError
from sweeps.records import Accuracy
from sweeps.stats import accuracy_drop
from workers.models.package import Labels, Logits

TOP5_FROM_CLASSES = 6
"""With 5 classes, every prediction is among the best 5."""


def evaluate(
    build_key: str,
    evaluation_id: str,
    engine: str,
    executor: str,
    logits: Logits,
    reference_logits: Logits,
    labels: Labels | None,
) -> Accuracy:
    """Compare a build's `logits` (N, classes) with the fp32 eager model's logits and the labels (N,).

    If there are logits only for the first images, only these are compared, and the result is labelled `part_of_images`.
    An image with a logit that is not finite counts as wrong. Raises `RunnerError` (`output_shape`) if the shapes do not
    match.
    """
    count = len(logits)
    part = 0 < count < len(reference_logits)
    if part:
        reference_logits, labels = reference_logits[:count], None if labels is None else labels[:count]
    if logits.shape != reference_logits.shape:
        raise RunnerError(
            "output_shape",
            f"the build's output has the shape {logits.shape}, the eager model's {reference_logits.shape}",
        )
    finite = np.isfinite(logits).all(axis=1)
    accuracy = Accuracy(
        build_key=build_key,
        evaluation_id=evaluation_id,
        engine=engine,
        executor=executor,
        images=count,
        top1_percent=None,
        top5_percent=None,
        reference_top1_percent=None,
        agreement_percent=_percent(finite & (logits.argmax(axis=1) == reference_logits.argmax(axis=1))),
        sqnr_db=sqnr_db(reference_logits, logits),
        accuracy_drop_points=None,
        accuracy_drop_low_points=None,
        accuracy_drop_high_points=None,
        labels=("invalid_output",) * (not finite.all()) + ("part_of_images",) * part,
    )
    if labels is None:
        return accuracy
    rank = np.where(finite, _rank(logits, labels), logits.shape[1])
    reference_correct = _rank(reference_logits, labels) == 0
    drop = accuracy_drop(reference_correct, rank == 0)
    return replace(
        accuracy,
        top1_percent=_percent(rank == 0),
        top5_percent=_percent(rank < 5) if logits.shape[1] >= TOP5_FROM_CLASSES else None,
        reference_top1_percent=_percent(reference_correct),
        accuracy_drop_points=drop.value,
        accuracy_drop_low_points=drop.low,
        accuracy_drop_high_points=drop.high,
    )


def sqnr_db(reference: Logits, answer: Logits) -> float | None:
    """Return the signal-to-quantization-noise ratio of `answer` against `reference`, both (N, classes), in dB.

    `None` if both are bit-identical, and if the ratio is not finite (a zero reference, NaN or infinity in `answer`).
    """
    if np.array_equal(reference, answer):
        return None
    if not np.isfinite(answer).all():
        return None
    signal = np.sum(np.square(reference, dtype=np.float64))
    noise = np.sum(np.square(np.subtract(reference, answer, dtype=np.float64)))
    if not (np.isfinite(noise) and signal > 0.0 and noise > 0.0):
        return None
    return 10.0 * math.log10(signal / noise)


def _rank(logits: Logits, labels: Labels) -> NDArray[np.int64]:
    """Return each label's rank among the classes by logit, (N,), 0 for the best; ties are in the order of classes, as
    in argmax."""
    own = np.take_along_axis(logits, labels[:, None], axis=1)
    earlier = np.arange(logits.shape[1])[None, :] < labels[:, None]
    better: NDArray[np.bool_] = (logits > own) | ((logits == own) & earlier)
    rank: NDArray[np.int64] = np.count_nonzero(better, axis=1)
    return rank


def _percent(hits: NDArray[np.bool_]) -> float:
    return float(hits.mean() * 100.0)
