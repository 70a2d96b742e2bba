"""The interface through which the driver publishes results."""

from collections.abc import Callable, Iterator
from typing import Protocol


class Publishing(Protocol):
    """The publisher of finished jobs from the journal. No method raises because of the tracking server."""

    def beside(self) -> None:
        """Publish at any time from now on: nothing is timed on this computer."""

    def between(self) -> None:
        """Publish only in a `turn` from now on: this computer is timed."""

    def turn(self) -> None:
        """Publish what has finished: at this moment nothing is timed on this computer."""

    def complaint(self) -> str:
        """Return why the server accepts nothing, once for each time that it goes down; otherwise an empty text."""

    def drain(self, stop: Callable[[], bool]) -> Iterator[tuple[int, int]]:
        """Publish the remaining jobs. Yields how many jobs of how many are published. Ends soon after `stop` returns
        true."""
