"""The lab's head, for several threads that ask it."""

import threading
from collections.abc import Callable

from sweeps.errors import DeviceError


class Head:
    """Asks one question after the other. One that fails takes seconds: whoever waited meanwhile shares the failure."""

    def __init__(self, question: Callable[[], None], clock: Callable[[], float]) -> None:
        """`question` raises `DeviceError` if the head does not answer. `clock`: seconds, never set."""
        self._question = question
        self._clock = clock
        self._asking = threading.Lock()
        self._away: tuple[DeviceError, float] | None = None
        """The last failure, and when it was known."""

    def ask(self) -> None:
        """Raises what the question raises."""
        asked_s = self._clock()
        with self._asking:
            if self._away is not None and self._away[1] > asked_s:
                error = self._away[0]
                raise DeviceError(error.kind, error.message, error.next_step)
            try:
                self._question()
            except DeviceError as error:
                self._away = error, self._clock()
                raise
