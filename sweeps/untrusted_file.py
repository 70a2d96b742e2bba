"""Reads files that other programs wrote, or a model's code could have replaced: never more than asked, and never
waiting."""

import os
import stat
from io import BufferedReader
from pathlib import Path


def open_regular(path: Path) -> BufferedReader:
    """The file, opened for reading. Raises `OSError` if it is missing, a link, a pipe, a device or a folder."""
    # A pipe that nobody writes to would block.
    file = os.fdopen(os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_NOFOLLOW | os.O_CLOEXEC), "rb")
    if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
        file.close()
        raise OSError(f"{path} is no regular file")
    return file


def read_regular(path: Path, most_bytes: int) -> bytes:
    """The content of a file. Raises as `open_regular`, and `ValueError` if it has more than `most_bytes`."""
    with open_regular(path) as file:
        # By its size: a bound alone would be allocated whole.
        content = file.read(min(os.fstat(file.fileno()).st_size, most_bytes) + 1)
    if len(content) > most_bytes:
        raise ValueError(f"{path} has more than {most_bytes} bytes")
    return content
