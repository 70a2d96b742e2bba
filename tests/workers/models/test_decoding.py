"""Images that are no ordinary photographs: bounded, scaled by their range, or refused by name."""

import io
import resource
import struct
import subprocess
import sys
import zlib
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray
from PIL import Image

from sweeps.errors import DataError
from workers.models.decoding import LARGEST_FILE_BYTES, check_ends, content_of, decoded
from workers.models.images import prepared

GREY = np.array([[0, 100], [128, 255]], np.uint8)
PLAIN = ((0.0, 0.0, 0.0), (1.0, 1.0, 1.0))
STRIP = 8
"""Where the pixels of a TIFF begin: behind its head."""


def tiff(
    pixels: NDArray[np.generic], *, bits: int, sample_format: int = 1, photometric: int = 1, width: int = 2
) -> bytes:
    """A grey TIFF without compression, as instruments write it."""
    order = ">" if pixels.dtype.byteorder == ">" else "<"
    height = len(pixels)
    content = pixels.tobytes()
    shorts = {256: width, 257: height, 258: bits, 259: 1, 262: photometric, 277: 1, 278: height, 339: sample_format}
    entries = {number: (3, value) for number, value in shorts.items()} | {273: (4, STRIP), 279: (4, len(content))}
    directory = struct.pack(f"{order}H", len(entries))
    for number, (kind, value) in sorted(entries.items()):
        directory += struct.pack(f"{order}HHI", number, kind, 1)
        directory += struct.pack(f"{order}HH", value, 0) if kind == 3 else struct.pack(f"{order}I", value)
    head = (b"MM\0*" if order == ">" else b"II*\0") + struct.pack(f"{order}I", STRIP + len(content))
    return head + content + directory + bytes(4)


def saved(image: Image.Image, kind: str) -> bytes:
    file = io.BytesIO()
    image.save(file, kind)
    return file.getvalue()


def png(width: int, height: int, depth: int, rows: bytes) -> bytes:
    """A grey PNG that is written without Pillow."""

    def chunk(name: bytes, content: bytes) -> bytes:
        return struct.pack(">I", len(content)) + name + content + struct.pack(">I", zlib.crc32(name + content))

    head = struct.pack(">IIBBBBB", width, height, depth, 0, 0, 0, 0)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", head) + chunk(b"IDAT", zlib.compress(rows)) + chunk(b"IEND", b"")


WIDE = GREY.astype(np.uint16) * 257


@pytest.mark.parametrize(
    ("kind", "content"),
    [
        ("PNG of 16 bits", png(2, 2, 16, b"".join(b"\0" + row.astype(">u2").tobytes() for row in WIDE))),
        ("TIFF of 16 bits", tiff(WIDE.astype("<u2"), bits=16)),
        ("TIFF of 16 bits, big-endian", tiff(WIDE.astype(">u2"), bits=16)),
        ("TIFF of 16 bits, white is zero", tiff((65535 - WIDE).astype("<u2"), bits=16, photometric=0)),
        ("TIFF of 8 bits, white is zero", tiff(255 - GREY, bits=8, photometric=0)),
        ("PGM of 16 bits", b"P5 2 2 65535\n" + WIDE.astype(">u2").tobytes()),
        ("grey", saved(Image.fromarray(GREY), "PNG")),
        ("grey with transparency", saved(Image.merge("LA", [Image.fromarray(GREY)] * 2), "PNG")),
        ("colour", saved(Image.merge("RGB", [Image.fromarray(GREY)] * 3), "BMP")),
        ("palette", saved(Image.fromarray(GREY).convert("P"), "GIF")),
        ("CMYK", saved(Image.merge("RGB", [Image.fromarray(GREY)] * 3).convert("CMYK"), "TIFF")),
    ],
)
def test_each_mode_keeps_the_range_of_its_pixels(kind: str, content: bytes) -> None:
    for channels in (1, 3):
        pixels = prepared(decoded(content, kind), (1, channels, 2, 2), *PLAIN, crop=False)
        np.testing.assert_allclose(pixels, np.broadcast_to(GREY / 255.0, (channels, 2, 2)), atol=1.01 / 255)


def test_pixels_of_12_bits_are_scaled_by_their_own_range() -> None:
    packed = np.array([[0x00, 0x08, 0x00], [0xFF, 0xFF, 0xFF]], np.uint8)  # 0, 2048; 4095, 4095
    content = tiff(packed, bits=12).replace(
        struct.pack("<HHIHH", 256, 3, 1, 3, 0), struct.pack("<HHIHH", 256, 3, 1, 2, 0)
    )
    np.testing.assert_array_equal(np.asarray(decoded(content, "a.tif")), [[0, 128], [255, 255]])


def test_one_bit_is_black_and_white() -> None:
    content = saved(Image.fromarray(np.array([[0, 255], [255, 0]], np.uint8)).convert("1"), "PNG")
    np.testing.assert_array_equal(
        prepared(decoded(content, "a"), (1, 1, 2, 2), *PLAIN, crop=False)[0], [[0, 1], [1, 0]]
    )


@pytest.mark.parametrize(
    ("name", "content", "why"),
    [
        ("depth.tif", tiff(np.zeros((2, 2), "<f4"), bits=32, sample_format=3), "mode F: floating-point numbers"),
        ("depth.pgm", b"Pf\n2 2\n-1.0\n" + bytes(16), "mode F: floating-point numbers"),
        ("count.tif", tiff(np.zeros((2, 2), "<u4"), bits=32), "mode I: 32-bit or signed integers"),
        ("signed.tif", tiff(np.zeros((2, 2), "<i2"), bits=16, sample_format=2), "mode I: 32-bit or signed integers"),
        ("byte.tif", tiff(np.zeros((2, 2), "i1"), bits=8, sample_format=2), "mode L: signed integers"),
    ],
)
def test_a_mode_whose_range_is_not_known_is_refused_by_name(
    tmp_path: Path, name: str, content: bytes, why: str
) -> None:
    (tmp_path / name).write_bytes(content)
    for read in (lambda: decoded(content, str(tmp_path / name)), lambda: check_ends(tmp_path / name)):
        with pytest.raises(DataError, match=why) as caught:
            read()
        assert caught.value.message.startswith(str(tmp_path / name))
        assert caught.value.next_step == "save it with 8 or 16 bits per channel"


POSTSCRIPT = b"%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 9 9\n%%EndComments\nshowpage\n"
READING = """
import sys
from workers.models.decoding import check_ends, decoded, named_image
from PIL import Image
from pathlib import Path
path = sys.argv[1]
def as_torchvision():
    with named_image(path):
        Image.open(path).convert("RGB")
for read in (lambda: decoded(Path(path).read_bytes(), path), lambda: check_ends(Path(path)), as_torchvision):
    try:
        read()
    except Exception as error:
        print(type(error).__name__)
"""


def test_postscript_called_png_starts_no_program(tmp_path: Path) -> None:
    (tmp_path / "photo.png").write_bytes(POSTSCRIPT)
    ghost = tmp_path / "bin" / "gs"
    ghost.parent.mkdir()
    ghost.write_text(f"#!/bin/sh\ntouch '{tmp_path}/started'\n")
    ghost.chmod(0o755)
    argv = [sys.executable, "-c", READING, str(tmp_path / "photo.png")]
    done = subprocess.run(argv, env={"PATH": str(ghost.parent)}, capture_output=True, text=True, check=True, timeout=60)
    assert done.stdout.split() == ["DataError"] * 3
    assert not (tmp_path / "started").exists()


STRIPED = """
import resource, sys
from pathlib import Path
from workers.models.decoding import decoded
from workers.models.images import prepared
image = decoded(Path(sys.argv[1]).read_bytes(), "stripe")
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
planes = prepared(image, (1, 3, 224, 224), (0, 0, 0), (1, 1, 1))
print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before, planes.shape, round(float(planes.mean()), 2))
"""


@pytest.mark.parametrize(("width", "height"), [(1, 20_000), (20_000, 1), (3, 60_000)])
def test_a_stripe_takes_no_more_than_its_crop(tmp_path: Path, width: int, height: int) -> None:
    # 157 bytes took 4.3 GB: 256 columns of 5 million rows.
    (tmp_path / "stripe.png").write_bytes(png(width, height, 8, (b"\0" + b"\x80" * width) * height))
    argv = [sys.executable, "-c", STRIPED, str(tmp_path / "stripe.png")]
    done = subprocess.run(argv, capture_output=True, text=True, check=True, timeout=60)
    kilobytes, shape_and_mean = done.stdout.split(maxsplit=1)
    assert int(kilobytes) < 50_000
    assert shape_and_mean.strip() == "(3, 224, 224) 0.5"


@pytest.mark.parametrize("size", [(20, 330), (330, 20), (40, 500)])
def test_the_crop_of_a_stripe_is_that_of_the_whole_image_scaled(size: tuple[int, int]) -> None:
    # Just beyond the ratio where only the crop is scaled: within the rounding of one grey level.
    pixels = np.random.default_rng(1).integers(0, 256, (size[1], size[0], 3), dtype=np.uint8)
    image = Image.fromarray(pixels)
    side, shorter = 28, min(size)
    sizes = tuple(int(32 * length / shorter) for length in size)
    left, top = ((length - side) // 2 for length in sizes)
    whole = image.resize(sizes, Image.Resampling.BILINEAR).crop((left, top, left + side, top + side))
    expected = np.asarray(whole, np.float32).transpose(2, 0, 1) / 255
    cropped = prepared(image, (1, 3, side, side), *PLAIN)
    assert np.abs(cropped - expected).max() < 1.01 / 255


def test_a_file_that_is_too_large_is_refused_before_it_is_read(tmp_path: Path) -> None:
    with (tmp_path / "large.png").open("wb") as file:
        file.truncate(LARGEST_FILE_BYTES + 1)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    with pytest.raises(DataError, match=r"large\.png has more than 256 MiB"):
        content_of(tmp_path / "large.png")
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 50_000
