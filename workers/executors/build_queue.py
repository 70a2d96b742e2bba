"""The queue of the builds that are left, in their order. Builders take the next build when they are free."""

import threading
from collections.abc import Callable, Collection, Iterable

from workers.executors.interface import BuildRequest

Rank = Callable[[BuildRequest], tuple[float, ...] | None]
"""A function that returns the urgency of a build: a higher one is built first. `None`: the build is left out of this
run."""


class BuildQueue:
    """The build requests that wait. Several threads may use the queue; the order is determined anew for each build."""

    def __init__(
        self,
        requests: Iterable[BuildRequest],
        rank: Rank = lambda _: (),
        seconds: Callable[[BuildRequest], float] = lambda _: 1.0,
    ) -> None:
        """Create a queue of these requests. Without `rank` all are equally urgent. `seconds` returns how long a build
        is expected to take."""
        self._waiting = list(requests)
        self._rank = rank
        self._seconds = seconds
        self._lock = threading.RLock()
        self._families: dict[object, tuple[object, ...]] = {}
        """The family of the last build of each builder."""

    @classmethod
    def of(cls, requests: "Iterable[BuildRequest] | BuildQueue") -> "BuildQueue":
        return requests if isinstance(requests, BuildQueue) else cls(requests)

    def take(
        self, family: tuple[object, ...] | None = None, taken_families: Collection[tuple[object, ...] | None] = ()
    ) -> BuildRequest | None:
        """Return the next request, for a builder that last built one of `family`; `None` if there is none.

        The choice is among the most urgent requests: first one of the same family; else one of the family that takes
        longest of those that no other builder works on; else one of the family that takes longest. `taken_families`:
        the families of the other builders.
        """
        with self._lock:
            urgent = self._most_urgent()
            if not urgent:
                return None
            families: dict[tuple[object, ...], float] = {}
            for request in urgent:
                families[request.family] = families.get(request.family, 0.0) + self._seconds(request)
            if family not in families:
                free = [free_family for free_family in families if free_family not in taken_families]
                family = max(free or families, key=lambda member: families[member])
            chosen = next(request for request in urgent if request.family == family)
            self._waiting.remove(chosen)
            return chosen

    def take_for(self, builder: object) -> BuildRequest | None:
        """Return the next request for one of several builders, as `take` does. Each builder gets families that no other
        builder works on, as long as there are such."""
        with self._lock:
            other_families = [family for owner, family in self._families.items() if owner is not builder]
            request = self.take(self._families.get(builder), other_families)
            if request is not None:
                self._families[builder] = request.family
            return request

    def __bool__(self) -> bool:
        """Tell whether a request is left that is built in this run."""
        with self._lock:
            return any(self._rank(request) is not None for request in self._waiting)

    @property
    def left_out(self) -> int:
        """Return the number of waiting requests that are not built in this run."""
        with self._lock:
            return sum(self._rank(request) is None for request in self._waiting)

    def __iter__(self) -> "BuildQueue":
        return self

    def __next__(self) -> BuildRequest:
        request = self.take()
        if request is None:
            raise StopIteration
        return request

    def _most_urgent(self) -> list[BuildRequest]:
        ranked = [(rank, request) for request in self._waiting if (rank := self._rank(request)) is not None]
        highest = max((rank for rank, _ in ranked), default=())
        return [request for rank, request in ranked if rank == highest]
