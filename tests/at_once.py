"""Publishing in the driver's own thread: a test sees what was published at each of its steps."""

import time
from collections.abc import Callable, Iterator

from sweeps.errors import StoreError

# A job does not wait for the timeout of a tracking server that was just down.
_AGAIN_S = 60.0


class AtOnce:
    """A publisher that calls `publish` in each turn. Whatever is measured meanwhile waits for it."""

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
        complaint, self._complaint = self._complaint, ""
        return complaint

    def drain(self, stop: Callable[[], bool]) -> Iterator[tuple[int, int]]:
        self._try()
        yield from ()

    def _try(self) -> None:
        try:
            self._publish()
        except StoreError as error:
            self._not_before_s = time.monotonic() + _AGAIN_S
            self._complaint = error.message
