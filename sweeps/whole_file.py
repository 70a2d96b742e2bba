"""The files that are there with all of their content or not at all: written beside their place, then renamed into
it."""

import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path


@contextmanager
def whole_file(path: Path, *, durable: bool = False) -> Iterator[Path]:
    """Give a new hidden file beside `path`, to be written in the `with` block: it replaces `path` at the end, and is
    deleted if the block fails. `durable`: it is on the disk before that, so that a loss of power leaves the old or the
    new one.

    Raises `OSError`.
    """
    part = path.with_name(f".{os.urandom(8).hex()}.part")
    try:
        yield part
        if durable:
            _sync(part)
        part.replace(path)
        if durable:
            # Some file systems refuse it for a folder; the file is in its place all the same.
            with suppress(OSError):
                _sync(path.parent)
    finally:
        # The hidden file is deleted after `replace`, too: it leaves a second link to the file that `path` is already.
        with suppress(OSError):
            part.unlink(missing_ok=True)


def write_whole(path: Path, content: bytes | str, *, durable: bool = False) -> None:
    """Write or replace a file, with text as UTF-8. `durable` and errors: as of `whole_file`."""
    with whole_file(path, durable=durable) as part:
        part.write_bytes(content.encode() if isinstance(content, str) else content)


def _sync(path: Path) -> None:
    file = os.open(path, os.O_RDONLY)
    try:
        os.fsync(file)
    finally:
        os.close(file)
