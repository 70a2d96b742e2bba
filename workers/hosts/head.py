"""The lab's head, for several threads that ask it which hosts have joined."""

import math
import threading
from collections.abc import Callable, Sequence

from sweeps.errors import DeviceError
from workers.hosts.interface import Host

Found = tuple[str, Host]
"""A host of the lab, and a text that identifies this start of it."""

_CHECKED_S = 10.0
"""The interval at which the head is asked also while all hosts answer: Ray ends a driver two and a half minutes after
its head."""


class Head:
    """The head, which is asked one question at a time. A question without an answer takes seconds: callers that wait
    meanwhile share the failure."""

    def __init__(self, find: Callable[[], Sequence[Found]], clock: Callable[[], float]) -> None:
        """`find` raises `DeviceError("head_away", ...)` if the head does not answer. `clock`: seconds, never set."""
        self._find = find
        self._clock = clock
        self._asking = threading.Lock()
        self._away: DeviceError | None = None
        self._away_s = self._answered_s = -math.inf

    def ask(self, asked_s: float) -> Sequence[Found]:
        """The hosts that have joined. `asked_s`: since when the caller waits. Raises what `find` raises, also if that
        failed for another caller since then."""
        with self._asking:
            if (away := self._away) is not None and self._away_s > asked_s:
                raise DeviceError(away.kind, away.message, away.next_step)
            try:
                hosts = self._find()
            except DeviceError as error:
                self._away, self._away_s = error, self._clock()
                raise
            self._away, self._answered_s = None, self._clock()
            return hosts

    def check(self) -> None:
        """Ask again if the head has not answered for a while. Raises what `find` raises, if it still does not
        answer."""
        now_s = self._clock()
        if now_s - self._answered_s >= _CHECKED_S:
            self.ask(now_s)
