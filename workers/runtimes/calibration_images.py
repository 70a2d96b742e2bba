"""The images that static int8 is calibrated with, for all runtimes."""

import numpy as np

from sweeps.errors import BuildError
from sweeps.variant import Variant
from workers.models.package import BuildInputs, Images


def calibration_images(variant: Variant, inputs: BuildInputs) -> Images:
    """Return the images with which the variant is calibrated. Raises `BuildError`: `bad_calibration` or
    `too_few_calibration_images`."""
    count, images = variant.calibration_images, inputs.calibration
    if inputs.no_calibration:
        raise BuildError("bad_calibration", f"data.calibration cannot be used: {inputs.no_calibration}")
    if count > len(images):
        raise BuildError(
            "too_few_calibration_images",
            f"calibration_images is {count}, but data.calibration has only {len(images)}",
            "reduce calibration_images, or give more data",
        )
    return images[:count] if count else images


def check_images(images: Images, shape: tuple[int, ...]) -> None:
    """Raises `BuildError("bad_calibration")` if `images` cannot calibrate a model of this input shape."""
    sizes = shape[1:]
    if images.ndim != len(shape) or images.shape[1:] != sizes:
        raise BuildError(
            "bad_calibration",
            f"the calibration images have the shape {images.shape}, the model takes (N, {', '.join(map(str, sizes))})",
            "give calibration data of the model's input_shape",
        )
    if len(images) == 0:
        raise BuildError("bad_calibration", "there is no calibration image", "give data.calibration at least one image")
    broken = np.flatnonzero(~np.isfinite(images).reshape(len(images), -1).all(axis=1))
    if len(broken):
        raise BuildError(
            "bad_calibration",
            f"{len(broken)} of {len(images)} calibration images hold NaN or infinity, the first is number {broken[0]}",
            "remove them, or correct mean and std of data.calibration",
        )
