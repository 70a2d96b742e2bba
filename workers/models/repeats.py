"""Checks that a model gives the same outputs when it is run twice: otherwise nothing can be compared with it."""

import numpy as np
import torch

from sweeps.errors import ModelError
from workers.models.accuracy import sqnr_db
from workers.models.eager_model import eager_logits
from workers.models.images import InputShape, smooth_images
from workers.models.package import Images, Logits

LEAST_DB = 80.0
"""The least signal-to-noise ratio in dB between two outputs for one image. Rounding errors, from another order of
additions, leave 109 to 123 dB (settled MobileNetV2, ResNet-18 and GoogLeNet in two layouts)."""
_STREAM = 102
"""A stream of `smooth_images` that a sweep's data never uses."""


def probe_images(input_shape: InputShape) -> Images:
    """Return one batch of images (B, C, H, W), the same in every call."""
    return smooth_images(input_shape[0], input_shape, 0, _STREAM)


def agree(expected: Logits, answer: Logits, least_db: float) -> bool:
    """Tell whether two outputs (N, classes) are equal, or have a signal-to-noise ratio of `least_db` or more."""
    ratio_db = sqnr_db(expected, answer)
    return np.array_equal(expected, answer) or (ratio_db is not None and ratio_db >= least_db)


def check_repeats(module: torch.nn.Module, input_shape: InputShape, name: str) -> None:
    """Run a model twice on the same images. Raises `ModelError` if the outputs differ by more than rounding errors."""
    images = probe_images(input_shape)
    first, second = (eager_logits(module, images, input_shape[0]) for _ in range(2))
    if agree(first, second, LEAST_DB):
        return
    apart, reach = float(np.abs(first - second).max()), float(np.abs(first).max())
    raise ModelError(
        f"{name} answers otherwise each time it is asked with the same images (up to {apart:.3g} apart, where its "
        f"answers reach {reach:.3g}): as a rule, dropout or noise stays on",
        "write F.dropout(x, p, self.training), or nn.Dropout; take random numbers out of forward()",
    )
