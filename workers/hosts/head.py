"""The lab's head, shared by several threads that ask it which hosts have joined."""

import math
import threading
from collections.abc import Callable, Sequence

from sweeps.errors import DeviceError
from workers.hosts.interface import Host

NamedHost = tuple[str, Host]
"""A text that identifies one start of a host of the lab, and that host."""

_CHECKED_S = 10.0
"""The interval at which the head is asked even while all hosts answer: Ray ends a driver two and a half minutes after
its head has ended."""


class Head:
    """The head, which gets one request at a time. A request without an answer takes seconds: callers that wait
    meanwhile share the failure."""

    def __init__(self, find: Callable[[], Sequence[NamedHost]], clock: Callable[[], float]) -> None:
        """Prepare to ask the head. `find` returns the hosts that have joined, and raises `DeviceError("head_away",
        ...)` if the head does not answer. `clock` returns seconds and is never set."""
        self._find = find
        self._clock = clock
        self._asking = threading.Lock()
        self._away: DeviceError | None = None
        self._away_s = self._answered_s = -math.inf

    def ask(self, asked_s: float) -> Sequence[NamedHost]:
        """Return the hosts that have joined. `asked_s`: the time at which the caller began to wait. Raises what `find`
        raises, also if `find` failed for another caller since then."""
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
        """Ask the head again if it has not answered for a while. Raises what `find` raises if it still does not
        answer."""
        now_s = self._clock()
        if now_s - self._answered_s >= _CHECKED_S:
            self.ask(now_s)
