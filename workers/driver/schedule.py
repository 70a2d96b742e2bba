"""The order of the builds: next is one for the device with the most expected work left. Pure: callers report what was
done.

No device measures before what it compares is built, so a sweep ends when, of all devices, the last of a device's builds
and the work that follows it are done. To build for the longest work first is the best order there is for one builder
(Jackson, 1955: the largest delivery time first), and close to it for several. How long the work takes is not known: it
is learned from what was measured before, and while the sweep runs.
"""

import math
import threading
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

Kind = Literal["block", "evaluation"]

_Work = tuple[str, str, str]

_PASSES = 3
"""The passes of the fit; more change nothing that would change an order."""


class Durations:
    """Expected seconds of work by worker, item and kind: each worker has a speed, each item a size, and the guesses of
    each kind are off by a factor."""

    def __init__(self) -> None:
        self._means: dict[_Work, tuple[int, float]] = {}
        self._logs: dict[_Work, float] = {}
        """Logarithms of the mean seconds in proportion to the guesses."""
        self._parts: tuple[dict[str, float], ...] = ({}, {}, {})
        """The parts that each worker, each item and each kind adds to the logarithms."""
        self._is_fitted = True

    def learn(self, worker: str, item: str, kind: str, seconds: float, guess_s: float = 1.0, times: int = 1) -> None:
        """The work took `seconds` on average, `times` times; `guess_s` was expected. Work that took no time teaches
        nothing."""
        if not (seconds > 0 and math.isfinite(seconds) and times > 0):
            return
        work = worker, item, kind
        count, mean = self._means.get(work, (0, 0.0))
        mean = (count * mean + times * seconds) / (count + times)
        self._means[work] = count + times, mean
        self._logs[work] = math.log(mean / guess_s)
        self._is_fitted = False

    def expected(self, worker: str, item: str, kind: str, guess_s: float = 1.0) -> float:
        """The expected seconds: the mean of this very work, else the guess, corrected by other work of this worker,
        item and kind."""
        if (worker, item, kind) in self._means:
            return self._means[worker, item, kind][1]
        self._fit()
        log = math.fsum(
            part.get(name, _mean(part)) for part, name in zip(self._parts, (worker, item, kind), strict=True)
        )
        return guess_s * math.exp(log)

    def _fit(self) -> None:
        """Fit the parts: each is the mean of what the others leave."""
        if self._is_fitted:
            return
        parts: tuple[dict[str, float], ...] = ({}, {}, {})
        for _ in range(_PASSES):
            for place, part in enumerate(parts):
                left: dict[str, list[float]] = {}
                for work, log in self._logs.items():
                    rest = math.fsum(parts[other].get(work[other], 0.0) for other in range(3) if other != place)
                    left.setdefault(work[place], []).append(log - rest)
                part.update({name: math.fsum(logs) / len(logs) for name, logs in left.items()})
        self._parts, self._is_fitted = parts, True


@dataclass(slots=True)
class _Device:
    waits_for: set[str] = field(default_factory=set)
    left: Counter[tuple[Kind, str]] = field(default_factory=Counter)
    left_guess_s: float = 0.0
    took_s: float = 0.0
    guess_s: float = 0.0
    """The seconds that were expected of the work which took `took_s`."""


class Schedule:
    """The work of the devices of one run, and the builds that they wait for. Any thread may ask. Seconds are expected
    ones."""

    def __init__(self) -> None:
        self._durations = Durations()
        self._builds = Durations()
        self._devices: dict[str, _Device] = {}
        self._anyway: set[str] = set()
        self._guesses_s: dict[tuple[Kind, str], float] = {}
        self._remaining_s: dict[str, float] = {}
        self._lock = threading.RLock()

    def expect(self, device: str, artifact: str, kind: Kind, times: int = 1, guess_s: float = 1.0) -> None:
        """The device will do this with an artifact so many times. `guess_s`: what once takes, if nothing is known."""
        with self._lock:
            state = self._devices.setdefault(device, _Device())
            state.left[kind, artifact] += times
            state.left_guess_s += times * guess_s
            self._guesses_s[kind, artifact] = guess_s
            self._remaining_s.clear()

    def wait(self, device: str, artifact: str) -> None:
        """The device waits for a build."""
        with self._lock:
            self._devices.setdefault(device, _Device()).waits_for.add(artifact)

    def want(self, artifact: str) -> None:
        """The artifact is built last, although no device that measures beside the builds waits for it."""
        with self._lock:
            self._anyway.add(artifact)

    def learn(self, device: str, artifact: str, kind: Kind, seconds: float, guess_s: float, times: int = 1) -> None:
        """The work took `seconds` before this run."""
        with self._lock:
            self._durations.learn(device, artifact, kind, seconds, guess_s, times)
            self._remaining_s.clear()
            state = self._devices.setdefault(device, _Device())
            state.took_s += times * seconds
            state.guess_s += times * guess_s

    def done(self, device: str, artifact: str, kind: Kind, seconds: float) -> None:
        """The device did it once."""
        with self._lock:
            guess_s = self._guesses_s.get((kind, artifact), 1.0)
            self.learn(device, artifact, kind, seconds, guess_s)
            state = self._devices.get(device)
            if state is not None and state.left[kind, artifact] > 0:
                state.left[kind, artifact] -= 1
                state.left_guess_s -= guess_s

    def built(self, artifact: str, like: str, seconds: float) -> None:
        """The artifact is there, after `seconds`. `like`: a word for builds that take about as long."""
        with self._lock:
            self._builds.learn("", like, "", seconds)
            self.gone(artifact)

    def gone(self, artifact: str) -> None:
        """Nobody waits for the artifact any more: its build has failed, or is not made in this run."""
        with self._lock:
            self._anyway.discard(artifact)
            for state in self._devices.values():
                state.waits_for.discard(artifact)

    def leave(self, device: str) -> None:
        """The device does nothing more in this run: builds that only it waits for are not made."""
        with self._lock:
            self._devices.pop(device, None)

    def remaining_s(self, device: str) -> float:
        """The work that is left for the device."""
        with self._lock:
            if device not in self._remaining_s:
                left = self._devices[device].left if device in self._devices else Counter[tuple[Kind, str]]()
                self._remaining_s[device] = math.fsum(
                    times * self._durations.expected(device, artifact, kind, self._guesses_s[kind, artifact])
                    for (kind, artifact), times in left.items()
                    if times > 0
                )
            return self._remaining_s[device]

    def about_s(self, device: str) -> float:
        """The work that is left for the device, by its own pace alone: as good as free, however much is known."""
        with self._lock:
            state = self._devices.get(device)
            if state is None:
                return 0.0
            return max(0.0, state.left_guess_s) * (
                state.took_s / state.guess_s if state.took_s and state.guess_s else 1.0
            )

    def rank(self, artifact: str) -> tuple[float, ...] | None:
        """The urgency of an artifact's build, as `workers.executors.build_queue.Rank`.

        First comes the most work left on a device that waits for the artifact. Of
        equal ones, how many devices wait for it, so that each has an artifact early; then how few builds one of them
        still waits for, so that one can begin.
        """
        with self._lock:
            waiting = [device for device, state in self._devices.items() if artifact in state.waits_for]
            if not waiting:
                return (0.0,) if artifact in self._anyway else None
            most = max(self.remaining_s(device) for device in waiting)
            fewest = min(len(self._devices[device].waits_for) for device in waiting)
            return 1.0 + most, float(len(waiting)), -float(fewest)

    def build_s(self, like: str) -> float:
        """The expected seconds of such a build; `like` as of `built`."""
        with self._lock:
            return self._builds.expected("", like, "")


def _mean(part: Mapping[str, float]) -> float:
    return math.fsum(part.values()) / len(part) if part else 0.0
