"""The reader of files that other programs wrote, or a model's code could have replaced: it reads never more than asked,
and never waits."""

import errno
import os
import stat
from io import BufferedReader
from pathlib import Path

_BLOCK_BYTES = 2**20


def open_regular(path: Path, *, links: bool = False) -> BufferedReader:
    """Return the file, opened for reading. Raises `OSError` if it is missing, a pipe, a device or a folder; or, but for
    `links`, a symbolic link."""
    # A pipe that nobody writes to would block.
    flags = os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC | (0 if links else os.O_NOFOLLOW)
    file = os.fdopen(os.open(path, flags), "rb")
    if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
        file.close()
        raise OSError(errno.EINVAL, "it is no regular file", str(path))
    return file


def read_regular(path: Path, most_bytes: int, *, links: bool = False) -> bytes:
    """Return the content of a file. Raises as `open_regular`, and `ValueError` if it has more than `most_bytes`."""
    with open_regular(path, links=links) as file:
        size = os.fstat(file.fileno()).st_size
        # The read is limited by the file's size: the bound alone would be allocated whole. The second read takes the
        # rest: a file may grow, and some have no size.
        content = file.read(size + 1) if size <= most_bytes else b""
        while size <= most_bytes and len(content) <= most_bytes and (more := file.read(_BLOCK_BYTES)):
            content += more
    if max(size, len(content)) > most_bytes:
        raise ValueError(f"{path} has more than {most_bytes} bytes")
    return content
