"""The order of the builds: first a build for the device with the most expected work left. Pure: callers report the work
that was done.

No device measures before everything that it compares is built, so a sweep ends when the last device has done the work
that follows its last build. To build for the longest remaining work first is optimal for one builder (Jackson, 1955:
largest delivery time first), and close to optimal for several. How long the work takes is not known in advance: it is
learned from earlier measurements, and while the sweep runs.
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
"""The number of passes of the fit; further passes change nothing that would change an order."""


class Durations:
    """The expected seconds of work, by worker, item of work and kind of work. In the model each worker has a speed,
    each item a size, and the guesses for each kind are off by one factor."""

    def __init__(self) -> None:
        self._means: dict[_Work, tuple[int, float]] = {}
        self._logs: dict[_Work, float] = {}
        """The logarithms of (mean seconds / guessed seconds), by work."""
        self._parts: tuple[dict[str, float], ...] = ({}, {}, {})
        """What each worker, each item and each kind adds to the logarithm."""
        self._is_fitted = True

    def learn(self, worker: str, item: str, kind: str, seconds: float, guess_s: float = 1.0, times: int = 1) -> None:
        """Learn that the work took `seconds` on average, `times` times; `guess_s` was expected. Work that took no time
        is ignored."""
        if not (seconds > 0 and math.isfinite(seconds) and times > 0):
            return
        work = worker, item, kind
        count, mean = self._means.get(work, (0, 0.0))
        mean = (count * mean + times * seconds) / (count + times)
        self._means[work] = count + times, mean
        self._logs[work] = math.log(mean / guess_s)
        self._is_fitted = False

    def expected(self, worker: str, item: str, kind: str, guess_s: float = 1.0) -> float:
        """Return the expected seconds: the mean of exactly this work if it was done before, else the guess, corrected
        by other work of this worker, item and kind."""
        if (worker, item, kind) in self._means:
            return self._means[worker, item, kind][1]
        self._fit()
        log = math.fsum(
            part.get(name, _mean(part)) for part, name in zip(self._parts, (worker, item, kind), strict=True)
        )
        return guess_s * math.exp(log)

    def _fit(self) -> None:
        """Fit the parts: each part is the mean of the residuals of the other parts."""
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
    """The seconds that were expected for the work that took `took_s`."""


class Schedule:
    """The remaining work of the devices of one run, and the builds that they wait for. Any thread may call it. All
    seconds are expected ones."""

    def __init__(self) -> None:
        self._durations = Durations()
        self._builds = Durations()
        self._devices: dict[str, _Device] = {}
        self._anyway: set[str] = set()
        self._guesses_s: dict[tuple[Kind, str], float] = {}
        self._remaining_s: dict[str, float] = {}
        self._lock = threading.RLock()

    def expect(self, device: str, artifact: str, kind: Kind, times: int = 1, guess_s: float = 1.0) -> None:
        """Expect `times` blocks or evaluations of an artifact on the device. `guess_s`: the seconds of one of them, if
        nothing is known."""
        with self._lock:
            state = self._devices.setdefault(device, _Device())
            state.left[kind, artifact] += times
            state.left_guess_s += times * guess_s
            self._guesses_s[kind, artifact] = guess_s
            self._remaining_s.clear()

    def wait(self, device: str, artifact: str) -> None:
        """Note that the device waits for a build."""
        with self._lock:
            self._devices.setdefault(device, _Device()).waits_for.add(artifact)

    def want(self, artifact: str) -> None:
        """Build the artifact last, although no device that measures beside the builds waits for it."""
        with self._lock:
            self._anyway.add(artifact)

    def learn(self, device: str, artifact: str, kind: Kind, seconds: float, guess_s: float, times: int = 1) -> None:
        """Learn that the work took `seconds` before this run."""
        with self._lock:
            self._durations.learn(device, artifact, kind, seconds, guess_s, times)
            self._remaining_s.clear()
            state = self._devices.setdefault(device, _Device())
            state.took_s += times * seconds
            state.guess_s += times * guess_s

    def done(self, device: str, artifact: str, kind: Kind, seconds: float) -> None:
        """Note that the device did this work once, in `seconds`."""
        with self._lock:
            guess_s = self._guesses_s.get((kind, artifact), 1.0)
            self.learn(device, artifact, kind, seconds, guess_s)
            state = self._devices.get(device)
            if state is not None and state.left[kind, artifact] > 0:
                state.left[kind, artifact] -= 1
                state.left_guess_s -= guess_s

    def built(self, artifact: str, like: str, seconds: float) -> None:
        """Note that the artifact was built in `seconds`. `like`: a text that is equal for builds that take about
        equally long."""
        with self._lock:
            self._builds.learn("", like, "", seconds)
            self.drop(artifact)

    def drop(self, artifact: str) -> None:
        """Note that no device waits for the artifact any more: it is built, its build failed, or it is not built in
        this run."""
        with self._lock:
            self._anyway.discard(artifact)
            for state in self._devices.values():
                state.waits_for.discard(artifact)

    def leave(self, device: str) -> None:
        """Note that the device does nothing more in this run: builds that only this device waits for are not built."""
        with self._lock:
            self._devices.pop(device, None)

    def remaining_s(self, device: str) -> float:
        """Return the seconds of work that are left for the device."""
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
        """Return the seconds of work that are left for the device, estimated from the device's own pace alone. This
        costs next to nothing, however much is known."""
        with self._lock:
            state = self._devices.get(device)
            if state is None:
                return 0.0
            return max(0.0, state.left_guess_s) * (
                state.took_s / state.guess_s if state.took_s and state.guess_s else 1.0
            )

    def rank(self, artifact: str) -> tuple[float, ...] | None:
        """Return the urgency of an artifact's build, as a `workers.executors.build_queue.Rank`; `None`: it is not
        built.

        First comes the seconds of work left on the device that has the most of it, among those that wait for the
        artifact. Among equal ones, the number of devices that wait for it, so that each has an artifact early; then the
        fewest builds that one of these devices still waits for, so that one device can begin.
        """
        with self._lock:
            waiting = [device for device, state in self._devices.items() if artifact in state.waits_for]
            if not waiting:
                return (0.0,) if artifact in self._anyway else None
            most = max(self.remaining_s(device) for device in waiting)
            fewest = min(len(self._devices[device].waits_for) for device in waiting)
            return 1.0 + most, float(len(waiting)), -float(fewest)

    def build_s(self, like: str) -> float:
        """Return the expected seconds of a build; `like` as in `built`."""
        with self._lock:
            return self._builds.expected("", like, "")


def _mean(part: Mapping[str, float]) -> float:
    return math.fsum(part.values()) / len(part) if part else 0.0
