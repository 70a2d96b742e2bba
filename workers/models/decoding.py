"""Opens image files: size, format, number of pixels and mode of each are checked before it is decoded. No torch."""

import io
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
from PIL import EpsImagePlugin, Image, UnidentifiedImageError

from sweeps.errors import DataError
from sweeps.untrusted_file import read_regular

FORMATS = ("JPEG", "PNG", "WEBP", "TIFF", "BMP", "PPM", "GIF")
"""Pillow's names of the formats that are read, whatever a file's suffix. Pillow starts no other program for them."""

LARGEST_FILE_BYTES = 256 * 2**20
"""More than any photograph has, and the size of an uncompressed image with as many pixels as Pillow allows."""

# Pillow opens PostScript with Ghostscript. This process opens none: torchvision's own loaders accept any format.
EpsImagePlugin.gs_binary = False

_CONVERTIBLE = frozenset({"1", "L", "LA", "P", "PA", "RGB", "RGBA", "RGBa", "RGBX", "CMYK", "YCbCr", "HSV", "LAB"})
"""Modes with 8 bits per channel, which Pillow converts to greyscale or colour without a loss of range."""
_SIXTEEN_BITS = frozenset({"I;16", "I;16B", "I;16L", "I;16N"})
_RANGE_UNKNOWN = {
    "I": "32-bit or signed integers, whose range is not known",
    "F": "floating-point numbers, whose range is not known",
}
_BITS_TAG, _PHOTOMETRIC_TAG, _SAMPLE_FORMAT_TAG = 258, 262, 339
_WHITE_IS_ZERO, _SIGNED = 0, 2
_ENDS = {"JPEG": b"\xff\xd9", "PNG": b"IEND"}
"""The last marker of a JPEG and the last chunk of a PNG."""
_TAIL_BYTES = 64


def content_of(path: Path) -> bytes:
    """Return the bytes of an image file. Raises `DataError` if it cannot be read, or has more than
    `LARGEST_FILE_BYTES`."""
    try:
        return read_regular(path, LARGEST_FILE_BYTES, links=True)
    except OSError as error:
        raise DataError(f"{path} cannot be read: {error.strerror}", "give it read permission, or remove it") from error
    except ValueError as error:
        raise DataError(
            f"{path} has more than {LARGEST_FILE_BYTES / 2**20:.0f} MiB, which is more than an image may have",
            "scale the image down, or remove it",
        ) from error


def decoded(content: bytes, name: str) -> Image.Image:
    """Return the decoded image, with 8 bits per channel. Raises `DataError` with `name` if the image is damaged, of a
    format that is not in `FORMATS`, of a mode whose range is not known, or a decompression bomb."""
    with named_image(name), Image.open(io.BytesIO(content), formats=FORMATS) as image:
        image.load()
        return eight_bits(image)


def check_ends(path: Path) -> tuple[int, int]:
    """Return the image's width and height. Raises `DataError` as `decoded` does, as far as the beginning and the end of
    the file show the reason, and `OSError`.

    A file that does not end as its format requires is decoded: it may be cut off, or have something after its end.
    """
    with named_image(str(path)), Image.open(path, formats=FORMATS) as image:
        _check_mode(image)
        end, size = _ENDS.get(image.format or "", b""), image.size
    with path.open("rb") as file:
        file.seek(max(0, path.stat().st_size - _TAIL_BYTES))
        tail = file.read(_TAIL_BYTES)
    if end not in tail:
        decoded(content_of(path), str(path))
    return size


@contextmanager
def named_image(name: str) -> Iterator[None]:
    """Turn Pillow's exceptions in the block into a `DataError` with the image's name."""
    try:
        with warnings.catch_warnings():
            # Pillow only warns up to twice its limit.
            warnings.simplefilter("error", Image.DecompressionBombWarning)
            yield
    except DataError as error:
        raise DataError(f"{name} {error.message}", error.next_step) from error
    except (Image.DecompressionBombError, Image.DecompressionBombWarning) as error:
        raise DataError(f"{name} has too many pixels: {error}", "scale the image down, or remove it") from error
    # Pillow's decoders raise nearly anything on damaged files: SyntaxError, struct.error, EOFError, ValueError.
    except Exception as error:
        # Pillow names the object that it read from.
        why = str(error)
        if isinstance(error, UnidentifiedImageError):
            why = f"no image format that is known ({', '.join(FORMATS)})"
        raise DataError(f"{name} is not a readable image: {why}", "replace or remove it") from error


def eight_bits(image: Image.Image) -> Image.Image:
    """Return a decoded image in a mode with 8 bits per channel. A greyscale image with more bits keeps the 8 highest
    bits of its range, as Pillow does for coloured images. Raises `DataError`, without the image's name."""
    bits = _check_mode(image)
    if bits == 8:
        return image if image.mode != "LAB" else image.convert("RGB")
    pixels = np.asarray(image).astype(np.int32)
    if _tag(image, _PHOTOMETRIC_TAG) == _WHITE_IS_ZERO:
        pixels = (1 << bits) - 1 - pixels  # Pillow inverts only pixels of 8 bits
    return Image.fromarray((pixels.clip(0, (1 << bits) - 1) >> (bits - 8)).astype(np.uint8))


def _check_mode(image: Image.Image) -> int:
    """Return the bits per channel of an opened image. Raises `DataError`, without the image's name."""
    signed = _tag(image, _SAMPLE_FORMAT_TAG) == _SIGNED
    if image.mode in _CONVERTIBLE and not signed:
        return 8
    if image.mode in _SIXTEEN_BITS and not signed:
        return _tag(image, _BITS_TAG) or 16
    if image.mode == "I" and image.format in ("PPM", "PNG"):
        return 16  # Pillow scales them to it, whatever the largest value of the file is
    kind = _RANGE_UNKNOWN.get(image.mode, "signed integers" if signed else "not grey or colour of 8 or 16 bits")
    raise DataError(f"has pixels of Pillow's mode {image.mode}: {kind}", "save it with 8 or 16 bits per channel")


def _tag(image: Image.Image, number: int) -> int | None:
    """Return an integer from the header of a TIFF, that of the first channel; `None` if there is none."""
    value = getattr(image, "tag_v2", {}).get(number)
    first = value[0] if isinstance(value, tuple) and value else value
    return first if isinstance(first, int) else None
