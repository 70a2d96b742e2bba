"""Images as arrays: torchvision's usual preprocessing, seeded synthetic images. No torch."""

import hashlib
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from workers.models.package import Images

InputShape = tuple[int, int, int, int]
"""Batch, channels, height, width of a model's input."""

PREPARATION = "bilinear to 256/224 of (H, W) on the shorter side, centre crop, 0..1"
WITHOUT_CROP = "bilinear to (H, W), 0..1"
_RESIZE_OVER_CROP = 256 / 224
_EXTREME = 16
"""If an image, scaled to the input, would be longer than so many times the input, only its centre is scaled: 1 x 20,000
pixels would become 5 million columns, of which most are cut off."""


def prepared(
    image: Image.Image, input_shape: InputShape, mean: Sequence[float], std: Sequence[float], *, crop: bool = True
) -> NDArray[np.float32]:
    """Return the image as (C, H, W), preprocessed as by torchvision's `Resize`, `CenterCrop`, `ToTensor` and
    `Normalize`.

    Without `crop` the image is scaled to the input's size; an image of that size stays as it is. With one channel, the
    average of `mean` and of `std` is used.
    """
    _, channels, height, width = input_shape
    image = image.convert("RGB" if channels == 3 else "L")
    image = _centre(image, height, width) if crop else image.resize((width, height), Image.Resampling.BILINEAR)
    pixels = np.asarray(image, np.float32) / np.float32(255.0)
    planes = pixels.transpose(2, 0, 1) if channels == 3 else pixels[None]
    centre, scale = np.array(mean, np.float32), np.array(std, np.float32)
    if channels == 1:
        centre, scale = centre.mean(keepdims=True), scale.mean(keepdims=True)
    return np.ascontiguousarray((planes - centre[:, None, None]) / scale[:, None, None], dtype=np.float32)


def _centre(image: Image.Image, height: int, width: int) -> Image.Image:
    """Return the image scaled so that its shorter side is 256/224 of the input's, and cropped to the input."""
    scaled_width, scaled_height = _before_crop(image, height, width)
    left, top = round((scaled_width - width) / 2.0), round((scaled_height - height) / 2.0)
    box = (left, top, left + width, top + height)
    if max(scaled_width / width, scaled_height / height) <= _EXTREME:
        return image.resize((scaled_width, scaled_height), Image.Resampling.BILINEAR).crop(box)
    across, down = image.width / scaled_width, image.height / scaled_height
    of_image = (box[0] * across, box[1] * down, box[2] * across, box[3] * down)
    return image.resize((width, height), Image.Resampling.BILINEAR, box=of_image)


def _before_crop(image: Image.Image, height: int, width: int) -> tuple[int, int]:
    """Return the width and height to which the image is scaled before it is cropped."""
    if image.width * height <= image.height * width:
        size = round(width * _RESIZE_OVER_CROP)
        return size, int(size * image.height / image.width)
    size = round(height * _RESIZE_OVER_CROP)
    return int(size * image.width / image.height), size


def enlarged(plane: NDArray[np.float32], height: int, width: int) -> NDArray[np.float32]:
    """Return a float image (h, w), resized bilinearly to (height, width)."""
    return np.asarray(Image.fromarray(plane, mode="F").resize((width, height), Image.Resampling.BILINEAR))


def smooth_images(count: int, input_shape: InputShape, seed: int, stream: int) -> Images:
    """Return seeded low-frequency noise (count, C, H, W), with values in the range of normalised photographs.

    Image i depends only on `seed`, `stream` and i.
    """
    _, channels, height, width = input_shape
    images = np.empty((count, channels, height, width), np.float32)
    for i in range(count):
        random = np.random.default_rng([seed, stream, i])
        contrast = random.uniform(0.5, 2.0)
        for channel in range(channels):
            # Each channel has its own offset: without it, the pooled features of noise are equal for all images.
            coarse = random.normal(random.normal(0.0, 0.5), contrast, (8, 8))
            images[i, channel] = enlarged(coarse.astype(np.float32), height, width)
    return images


def balanced_order(labels: Sequence[int], names: Sequence[str]) -> list[int]:
    """Return the indices in an order in which each prefix has the class proportions of the whole set.

    Within a class, images are sorted by the sha256 of their names: deterministic, and as good as random.
    """
    shuffled = sorted(range(len(labels)), key=lambda i: hashlib.sha256(names[i].encode()).digest())
    members: dict[int, list[int]] = {}
    for i in shuffled:
        members.setdefault(labels[i], []).append(i)
    position = {i: (rank + 0.5) / len(group) for group in members.values() for rank, i in enumerate(group)}
    return sorted(shuffled, key=position.__getitem__)
