"""Images as arrays: decoding, torchvision's usual preprocessing, seeded synthetic images. No torch."""

import hashlib
import io
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from PIL import Image, UnidentifiedImageError

from sweeps.errors import DataError
from workers.models.package import Images

InputShape = tuple[int, int, int, int]
"""Batch, channels, height, width of a model's input."""

PREPARATION = "bilinear to 256/224 of (H, W) on the shorter side, centre crop, 0..1"
WITHOUT_CROP = "bilinear to (H, W), 0..1"
_RESIZE_OVER_CROP = 256 / 224
_ENDS = {"JPEG": b"\xff\xd9", "PNG": b"IEND"}
"""The last marker of a JPEG and the last chunk of a PNG."""
_TAIL_BYTES = 64


def decoded(content: bytes, name: str) -> Image.Image:
    """Raises `DataError` with the image's name if it is damaged, of an unknown format, or a decompression bomb."""
    with _named(name):
        image = Image.open(io.BytesIO(content))
        image.load()
    return image


def check_ends(path: Path) -> tuple[int, int]:
    """The image's width and height. Raises `DataError` as `decoded` does, for what the beginning and the end of a file
    show; `OSError`.

    One that does not end as its format does is decoded: it may be cut off, or have something behind its end.
    """
    with _named(str(path)), Image.open(path) as image:
        end, size = _ENDS.get(image.format or "", b""), image.size
    with path.open("rb") as file:
        file.seek(max(0, path.stat().st_size - _TAIL_BYTES))
        tail = file.read()
    if end not in tail:
        decoded(path.read_bytes(), str(path))
    return size


@contextmanager
def _named(name: str) -> Iterator[None]:
    try:
        with warnings.catch_warnings():
            # Pillow only warns up to twice its limit.
            warnings.simplefilter("error", Image.DecompressionBombWarning)
            yield
    except (Image.DecompressionBombError, Image.DecompressionBombWarning) as error:
        raise DataError(f"{name} has too many pixels: {error}", "scale the image down, or remove it") from error
    # Pillow's decoders raise nearly anything on damaged files: SyntaxError, struct.error, EOFError, ValueError.
    except Exception as error:
        # Pillow names the object that it read from.
        why = "no image format that is known" if isinstance(error, UnidentifiedImageError) else str(error)
        raise DataError(f"{name} is not a readable image: {why}", "replace or remove it") from error


def prepared(
    image: Image.Image, input_shape: InputShape, mean: Sequence[float], std: Sequence[float], *, crop: bool = True
) -> NDArray[np.float32]:
    """(C, H, W), preprocessed as by torchvision's `Resize`, `CenterCrop`, `ToTensor` and `Normalize`.

    Without `crop` the image is scaled to the input: one that has its size stays as it is. With one channel, the mean of
    `mean` and of `std` is used.
    """
    _, channels, height, width = input_shape
    image = image.convert("RGB" if channels == 3 else "L")
    wanted = _before_crop(image, height, width) if crop else (width, height)
    image = image.resize(wanted, Image.Resampling.BILINEAR)
    left, top = round((image.width - width) / 2.0), round((image.height - height) / 2.0)
    pixels = np.asarray(image.crop((left, top, left + width, top + height)), np.float32) / np.float32(255.0)
    planes = pixels.transpose(2, 0, 1) if channels == 3 else pixels[None]
    centre, scale = np.array(mean, np.float32), np.array(std, np.float32)
    if channels == 1:
        centre, scale = centre.mean(keepdims=True), scale.mean(keepdims=True)
    return np.ascontiguousarray((planes - centre[:, None, None]) / scale[:, None, None], dtype=np.float32)


def _before_crop(image: Image.Image, height: int, width: int) -> tuple[int, int]:
    """Width and height."""
    if image.width * height <= image.height * width:
        size = round(width * _RESIZE_OVER_CROP)
        return size, int(size * image.height / image.width)
    size = round(height * _RESIZE_OVER_CROP)
    return int(size * image.width / image.height), size


def enlarged(plane: NDArray[np.float32], height: int, width: int) -> NDArray[np.float32]:
    """A float image (h, w), resized bilinearly to (height, width)."""
    return np.asarray(Image.fromarray(plane, mode="F").resize((width, height), Image.Resampling.BILINEAR))


def smooth_images(count: int, input_shape: InputShape, seed: int, stream: int) -> Images:
    """Seeded low-frequency noise (count, C, H, W), with values in the range of normalised photographs.

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
    """Indices in an order in which each prefix has the class proportions of the whole set.

    Within a class, images are sorted by the sha256 of their names: deterministic, and as good as random.
    """
    shuffled = sorted(range(len(labels)), key=lambda i: hashlib.sha256(names[i].encode()).digest())
    members: dict[int, list[int]] = {}
    for i in shuffled:
        members.setdefault(labels[i], []).append(i)
    position = {i: (rank + 0.5) / len(group) for group in members.values() for rank, i in enumerate(group)}
    return sorted(shuffled, key=position.__getitem__)
