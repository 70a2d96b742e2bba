"""How the driver has results published: the interface, and publishing at once in the driver's own thread."""

import time
from collections.abc import Callable, Iterator
from typing import Protocol

from sweeps.errors import StoreError

# Not every job must wait for the timeout of a tracking server that is down.
_AGAIN_S = 60.0


class Publishing(Protocol):
    """Publishes finished jobs from the journal. No method raises because of the tracking server."""

    def beside(self) -> None:
        """From now on, nothing is timed on this computer."""

    def between(self) -> None:
        """From now on, this computer is timed, and may only be used for publishing in a `turn`."""

    def turn(self) -> None:
        """Nothing is timed on this computer at this moment, and something may have finished."""

    def complaint(self) -> str:
        """Why the server takes nothing, once for each time that it went down; otherwise an empty text."""

    def drain(self, stop: Callable[[], bool]) -> Iterator[tuple[int, int]]:
        """Publish the rest: yields how many jobs of how many are published. Ends soon once `stop` returns true."""


class AtOnce:
    """Calls `publish` in each turn. Whatever is measured meanwhile waits for it."""

    def __init__(self, publish: Callable[[], object]) -> None:
        """`publish` may raise `StoreError`."""
        self._publish = publish
        self._not_before_s = 0.0
        self._complaint = ""

    def beside(self) -> None:
        pass

    def between(self) -> None:
        pass

    def turn(self) -> None:
        if time.monotonic() >= self._not_before_s:
            self._try()

    def complaint(self) -> str:
        said, self._complaint = self._complaint, ""
        return said

    def drain(self, stop: Callable[[], bool]) -> Iterator[tuple[int, int]]:
        self._try()
        yield from ()

    def _try(self) -> None:
        try:
            self._publish()
        except StoreError as error:
            self._not_before_s = time.monotonic() + _AGAIN_S
            self._complaint = error.message
