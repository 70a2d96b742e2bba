"""The interface through which the driver publishes results."""

from collections.abc import Callable, Iterator
from typing import Protocol


class Publishing(Protocol):
    """The publisher of finished jobs from the journal. No method raises because of the tracking server."""

    def beside(self) -> None:
        """From now on, nothing is timed on this computer."""

    def between(self) -> None:
        """From now on, this computer is timed, and may only be used for publishing in a `turn`."""

    def turn(self) -> None:
        """Nothing is timed on this computer at this moment, and something may have finished."""

    def complaint(self) -> str:
        """The reason why the server takes nothing, once for each time that it went down; otherwise an empty text."""

    def drain(self, stop: Callable[[], bool]) -> Iterator[tuple[int, int]]:
        """Publish the rest: yields how many jobs of how many are published. Ends soon once `stop` returns true."""
