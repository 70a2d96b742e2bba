"""The sinks for bytes that a board sends, and the sources of bytes that are sent to it."""

import secrets
from collections.abc import AsyncIterator, Callable
from typing import BinaryIO

BLOCK_BYTES = 1 << 16
NOISE_BYTES = 1 << 16
"""The greatest number of bytes that the user's own start files on the board may print before a script of ours."""

Sink = Callable[[bytes], object]


class LostError(Exception):
    """The connection ended before the end of the program was reported."""


class Beginning:
    """A sink that keeps the first bytes, up to a limit."""

    def __init__(self, limit: int) -> None:
        self.content = bytearray()
        self._limit = limit

    def __call__(self, data: bytes) -> None:
        self.content += data[: max(0, self._limit - len(self.content))]


class Marked:
    """A sink that passes on only what follows a line with `mark`: text before that line was not printed by a script of
    ours."""

    def __init__(self, sink: Sink) -> None:
        self.mark = secrets.token_hex(16)
        self._sink = sink
        self._before: bytearray | None = bytearray()

    def __call__(self, data: bytes) -> None:
        if self._before is None:
            self._sink(data)
            return
        self._before += data
        _, mark, after = bytes(self._before).partition(self.mark.encode() + b"\n")
        if mark:
            self._before = None
            self._sink(after)
        elif len(self._before) > NOISE_BYTES:
            raise LostError("the user's start files on the board print too much before a command runs")


def nowhere(_: bytes) -> None:
    return


async def only(data: bytes) -> AsyncIterator[bytes]:
    yield data


async def blocks_of(file: BinaryIO) -> AsyncIterator[bytes]:
    while block := file.read(BLOCK_BYTES):
        yield block
