"""What is still to be built, and which of it comes next. The executors take from it as their builders become free."""

import threading
from collections.abc import Callable, Collection, Iterable

from workers.executors.interface import BuildRequest

Rank = Callable[[BuildRequest], tuple[float, ...] | None]
"""How urgent a build is now: a higher one is built first. `None`: it is not built in this run."""


class BuildQueue:
    """Build requests that wait. Several threads may use it; the order is looked at anew for each build."""

    def __init__(
        self,
        requests: Iterable[BuildRequest],
        rank: Rank = lambda _: (),
        seconds: Callable[[BuildRequest], float] = lambda _: 1.0,
    ) -> None:
        """Without `rank` all are equally urgent. `seconds`: how long a build is expected to take."""
        self._waiting = list(requests)
        self._rank = rank
        self._seconds = seconds
        self._lock = threading.RLock()
        self._families: dict[object, tuple[object, ...]] = {}
        """By builder, what it built last."""

    @classmethod
    def of(cls, requests: "Iterable[BuildRequest] | BuildQueue") -> "BuildQueue":
        return requests if isinstance(requests, BuildQueue) else cls(requests)

    def take(
        self, family: tuple[object, ...] | None = None, taken: Collection[tuple[object, ...] | None] = ()
    ) -> BuildRequest | None:
        """The next request, for a builder that last built one of `family`; `None` if there is none.

        Among the most urgent ones: of the same family; else of the family without a builder that takes longest; else of
        the family that takes longest. `taken`: the families of the other builders.
        """
        with self._lock:
            urgent = self._most_urgent()
            if not urgent:
                return None
            families: dict[tuple[object, ...], float] = {}
            for request in urgent:
                families[request.family] = families.get(request.family, 0.0) + self._seconds(request)
            if family not in families:
                free = [one for one in families if one not in taken]
                family = max(free or families, key=lambda one: families[one])
            chosen = next(request for request in urgent if request.family == family)
            self._waiting.remove(chosen)
            return chosen

    def take_for(self, builder: object) -> BuildRequest | None:
        """As `take`, for one of several builders, each of which has families of its own as far as there are some."""
        with self._lock:
            others = [family for one, family in self._families.items() if one is not builder]
            request = self.take(self._families.get(builder), others)
            if request is not None:
                self._families[builder] = request.family
            return request

    def __bool__(self) -> bool:
        """Whether anything is left to take."""
        with self._lock:
            return any(self._rank(request) is not None for request in self._waiting)

    @property
    def left_out(self) -> int:
        """How many wait and are not built in this run."""
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
