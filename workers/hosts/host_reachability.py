"""The connection from a driver to one host: once it is lost, no call is tried before the host's computer can be
reached.

gRPC, which carries Ray's calls, pauses between attempts to connect. The pauses grow with each failed attempt, up to two
minutes, and Ray has no setting for those between a driver and a host. So a driver makes no attempt that would fail: it
tries a plain TCP connection first, which costs nothing if it fails. That begins when the host is silent, before the
system gives up the old connection (5 s: `RAY_grpc_client_keepalive_timeout_ms`), since the next call would try to
connect. If an attempt was made all the same, the next one waits until gRPC has dropped its record of the failed
attempt, which it does once for each connection. Ray makes no attempt by itself: `workers.hosts.access.AGAIN_MS`.
"""

import socket
import time
from collections.abc import Callable

from workers.hosts.access import IDLE_S
from workers.hosts.interface import SILENT_S

REACH_S = 1.0
FORGOTTEN_S = 2 * IDLE_S + 0.2
"""The time after the last call at which gRPC has dropped its connection, and the pauses: once per `IDLE_S` it checks
whether there was a call since its last check."""

Address = tuple[str, int]


def reachable(address: Address) -> bool:
    """Tell whether a program accepts a connection at the address, within `REACH_S`."""
    try:
        socket.create_connection(address, REACH_S).close()
    except OSError:
        return False
    return True


class Link:
    """The link to one host, which tells whether a call is worth a try now. Any thread may use it."""

    def __init__(
        self,
        address: Address | None,
        clock: Callable[[], float] = time.monotonic,
        reach: Callable[[Address], bool] = reachable,
    ) -> None:
        """Create a link that counts as just heard. `address`: of a socket that always listens on the host's computer;
        `None` if that is not known. `clock` returns seconds."""
        self._address = address
        self._clock = clock
        self._reach = reach
        self._heard_s = clock()
        self._is_lost = False
        self._forgotten_s = clock()

    def heard(self) -> None:
        """Note that a call was answered."""
        self._heard_s, self._is_lost = self._clock(), False

    def lost(self) -> None:
        """Note that a call's connection was lost, or that none was made. (A late answer is no lost connection: the host
        may be busy.)"""
        self._is_lost, self._forgotten_s = True, self._clock() + FORGOTTEN_S

    def silent_in_s(self) -> float:
        """Return the seconds until the host counts as away; not above zero if it already does."""
        return self._heard_s + SILENT_S - self._clock()

    def is_open(self) -> bool:
        """Tell whether a call is worth a try. This may take `REACH_S`."""
        if self._address is None or not (self._is_lost or self.silent_in_s() <= 0):
            return True
        return self._clock() >= self._forgotten_s and self._reach(self._address)
