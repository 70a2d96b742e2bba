"""Writes files atomically: a file exists with all of its content or not at all, because it is written under another
name and then renamed."""

import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path


@contextmanager
def whole_file(path: Path, *, durable: bool = False) -> Iterator[Path]:
    """Yield the path of a new hidden file next to `path`, to be written in the `with` block: the file replaces `path`
    at the end, and is deleted if the block fails. `durable`: the file is synced to the disk before that, so that after
    a loss of power the old or the new file is there.

    Raises `OSError`.
    """
    part = path.with_name(f".{os.urandom(8).hex()}.part")
    try:
        yield part
        if durable:
            _sync(part)
        part.replace(path)
        if durable:
            # Some file systems refuse to sync a folder; the file is in its place all the same.
            with suppress(OSError):
                _sync(path.parent)
    finally:
        # The hidden file is deleted after `replace`, too: if both names are links to the same file, `replace` leaves
        # both.
        with suppress(OSError):
            part.unlink(missing_ok=True)


def write_whole(path: Path, content: bytes | str, *, durable: bool = False) -> None:
    """Write or replace a file atomically; text is written as UTF-8. `durable` and errors: as in `whole_file`."""
    with whole_file(path, durable=durable) as part:
        part.write_bytes(content.encode() if isinstance(content, str) else content)


def _sync(path: Path) -> None:
    file = os.open(path, os.O_RDONLY)
    try:
        os.fsync(file)
    finally:
        os.close(file)
