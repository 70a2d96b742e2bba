"""The output of a build, stored in a file: only its end, as text."""

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stderr, redirect_stdout, suppress
from pathlib import Path

LIMIT_BYTES = 65_536
"""The number of bytes of the end that are stored."""


@contextmanager
def recorded(log: Path) -> Iterator[None]:
    """Record in `log` everything that this process and its children print during the block.

    Output of native code is included: if that crashes, the file has what was printed before. A file that cannot be
    written stops no build.
    """
    try:
        outside = os.dup(1), os.dup(2)
    except OSError:  # closed
        yield
        return
    try:
        log.parent.mkdir(parents=True, exist_ok=True)
        file = log.open("w", encoding="utf-8", errors="replace", buffering=1)
    except OSError:
        for number in outside:
            os.close(number)
        yield
        return
    _flush()
    with file, redirect_stdout(file), redirect_stderr(file):
        os.set_inheritable(file.fileno(), False)
        os.lseek(file.fileno(), 0, os.SEEK_END)
        for number in (1, 2):
            os.dup2(file.fileno(), number)  # all of them share one position in the file
        try:
            yield
        finally:
            _flush()
            for number, before in zip((1, 2), outside, strict=True):
                os.dup2(before, number)
                os.close(before)
    with suppress(OSError):
        _cut(log)


def _flush() -> None:
    for stream in (sys.stdout, sys.stderr):
        with suppress(OSError, ValueError, AttributeError):
            stream.flush()


def _cut(log: Path) -> None:
    if log.stat().st_size <= LIMIT_BYTES:
        return
    with log.open("rb") as file:
        file.seek(-LIMIT_BYTES, os.SEEK_END)
        end = file.read()
    log.write_bytes("…\n".encode() + end)
