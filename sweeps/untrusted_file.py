"""Reads files that other programs wrote, or that a model's code could have replaced: never reads more than requested,
and never blocks."""

import errno
import os
import stat
from io import BufferedReader
from pathlib import Path

_BLOCK_BYTES = 2**20


def open_regular(path: Path, *, links: bool = False) -> BufferedReader:
    """Return the file, opened for reading. Raises `OSError` if it is missing, a pipe, a device or a folder; also for a
    symbolic link, unless `links`."""
    # Opening a pipe without a writer would block.
    flags = os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC | (0 if links else os.O_NOFOLLOW)
    file = os.fdopen(os.open(path, flags), "rb")
    if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
        file.close()
        raise OSError(errno.EINVAL, "it is no regular file", str(path))
    return file


def read_regular(path: Path, most_bytes: int, *, links: bool = False) -> bytes:
    """Return the content of a file. Raises errors as `open_regular`, and `ValueError` if it has more than
    `most_bytes`."""
    with open_regular(path, links=links) as file:
        size = os.fstat(file.fileno()).st_size
        # The first read is limited by the file's size, because a read of `most_bytes` would allocate that much memory.
        # Further reads get the rest: a file may grow, and some have no size.
        content = file.read(size + 1) if size <= most_bytes else b""
        while size <= most_bytes and len(content) <= most_bytes and (more := file.read(_BLOCK_BYTES)):
            content += more
    if max(size, len(content)) > most_bytes:
        raise ValueError(f"{path} has more than {most_bytes} bytes")
    return content
