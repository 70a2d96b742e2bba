"""Sweeps whose durations nobody knows, in virtual time: the driver's own schedule, queue, builds and turns are run.

What is simulated is only how long each build, evaluation and block takes, and when a device dies. A sweep has 2 to 24
variants, of which each is one artifact for all devices or one for each of up to 3 classes of devices; int8 builds take
three times as long. Devices and artifacts have speeds of their own, unknown to the schedule, as are the rounds: each
job gets up to three times as many as its protocol begins with. The lower bound knows everything.
"""

import heapq
import math
from collections.abc import Iterable, Iterator, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

import numpy as np

from sweeps.records import Job
from sweeps.variant import Variant
from tests.builders import job_of
from workers.driver.builds import PendingBuilds, RunBuilds
from workers.driver.schedule import Schedule
from workers.driver.scheduler import Answered, Call, Task, answer, run_tasks
from workers.executors.build_queue import BuildQueue
from workers.executors.interface import BuildRequest, Builds, Stop

BUILD_S, EVALUATION_S, BLOCK_S = 6.0, 5.0, 4.0
"""Medians."""
INT8_LONGER = 3.0
FIRST_ROUNDS = 3
PREPARED: Any = SimpleNamespace(build_inputs=None)


@dataclass(slots=True)
class Device:
    """The real work of one device, in seconds by artifact."""

    name: str
    evaluations_s: dict[str, float]
    blocks_s: dict[str, list[float]]
    dies_s: float = math.inf

    @property
    def comparing_s(self) -> float:
        """The work that only begins when all of the device's artifacts are there (s)."""
        return math.fsum(seconds for blocks in self.blocks_s.values() for seconds in blocks)

    @property
    def work_s(self) -> float:
        return self.comparing_s + math.fsum(self.evaluations_s.values())


@dataclass(slots=True)
class Trace:
    """One sweep. Artifacts that are not in `builds_s` are there already."""

    builders: int
    races: bool
    builds_s: dict[str, float]
    int8: set[str]
    devices: list[Device]


@dataclass(slots=True)
class VirtualHands:
    """Work takes what it says it `spent`, of a clock that no one waits for."""

    now_s: float = 0.0
    spent_s: float = 0.0
    _ended: list[tuple[float, int, Answered]] = field(default_factory=list)
    _count: int = 0

    def start(self, run: Task[None], ask: Call) -> None:
        self.spent_s = 0.0
        answered = answer(run, ask)
        self._count += 1
        heapq.heappush(self._ended, (self.now_s + self.spent_s, self._count, answered))

    def next(self) -> Answered:
        self.now_s, _, answered = heapq.heappop(self._ended)
        return answered

    def spend(self, seconds: float) -> Call:
        def call() -> None:
            self.spent_s = seconds

        return Call(call)


class VirtualBuilders:
    """An executor: some builders, each with one build at a time."""

    def __init__(self, trace: Trace, hands: VirtualHands) -> None:
        self._trace = trace
        self._hands = hands

    def build(self, requests: Iterable[BuildRequest], stop: Stop) -> Builds:
        queue = BuildQueue.of(requests)
        running: list[tuple[float, str, BuildRequest]] = []
        families: dict[str, tuple[object, ...]] = {}
        idle: list[tuple[object, ...] | None] = [None] * self._trace.builders
        while True:
            while idle and (request := queue.take(idle[-1], [*families.values()])) is not None:
                idle.pop()
                key = request.build_key
                families[key] = request.family
                heapq.heappush(running, (self._hands.now_s + self._trace.builds_s[key], key, request))
                yield request, None
            if not running:
                return
            ends_s, key, request = heapq.heappop(running)
            self._hands.spent_s = max(0.0, ends_s - self._hands.now_s)
            idle.append(families.pop(key))
            packed: Any = SimpleNamespace(build_key=key)
            yield request, packed


def draw(seed: int, *, dies: bool = False) -> Trace:
    """One of the devices dies while it would work, if there are several."""
    rng = np.random.default_rng([seed, 13])

    def lognormal(median: float, sigma: float) -> float:
        return median * float(np.exp(sigma * rng.standard_normal()))

    count = int(rng.integers(2 if dies else 1, 13))
    classes = int(rng.integers(1, min(count, 3) + 1))
    variants = int(rng.integers(2, 25))
    races = bool(rng.integers(2))
    built_before = float(rng.choice([0.0, 0.0, 0.3]))
    builds_s: dict[str, float] = {}
    int8: set[str] = set()
    sizes: dict[str, float] = {}
    of_class: list[list[str]] = [[] for _ in range(classes)]
    for variant in range(variants):
        is_int8, shared = bool(rng.integers(2)), bool(rng.integers(2))
        size = lognormal(1.0, 0.35)
        for number in range(classes):
            key = f"{variant}" if shared else f"{variant} for {number}"
            of_class[number].append(key)
            if key in sizes:
                continue
            sizes[key] = size
            if is_int8:
                int8.add(key)
            if rng.random() >= built_before:
                builds_s[key] = lognormal(BUILD_S * (INT8_LONGER if is_int8 else 1.0), 0.4)
    devices = []
    for number in range(count):
        slow = lognormal(1.0, 0.5)
        keys = of_class[number % classes]
        evaluations_s = {key: lognormal(EVALUATION_S * slow * sizes[key], 0.05) for key in keys}
        blocks_s = {
            key: [lognormal(BLOCK_S * slow * sizes[key], 0.05) for _ in range(FIRST_ROUNDS * int(rng.integers(1, 4)))]
            for key in keys
        }
        devices.append(Device(f"device {number}", evaluations_s, blocks_s))
    trace = Trace(int(rng.choice([1, 2, 4])), races, builds_s, int8, devices)
    if dies:
        unlucky = devices[int(rng.integers(count))]
        unlucky.dies_s = float(rng.uniform(0.0, unlucky.work_s))
    return trace


def lower_bound_s(trace: Trace) -> float:
    """No schedule that knows everything ends sooner. Of the devices that live.

    Of any devices together: all that they need is built by no fewer builders, and who gets the last artifact still has
    to evaluate that and to compare. Of each device alone: its first artifact, and all that it does.
    """
    living = [device for device in trace.devices if device.dies_s == math.inf]
    bounds_s = []
    for device in living:
        needs = [trace.builds_s.get(key, 0.0) for key in device.evaluations_s]
        first_s = min(needs) if trace.races else _built_s(needs, trace.builders)
        bounds_s.append(first_s + device.work_s)
    needed: set[str] = set()
    tails = sorted(living, key=lambda device: -_tail_s(trace, device))
    for device in tails:
        needed |= device.evaluations_s.keys() & trace.builds_s.keys()
        if needed:
            bounds_s.append(_built_s([trace.builds_s[key] for key in needed], trace.builders) + _tail_s(trace, device))
    return max(bounds_s)


def _built_s(builds_s: Sequence[float], builders: int) -> float:
    return max(max(builds_s), math.fsum(builds_s) / builders)


def _tail_s(trace: Trace, device: Device) -> float:
    """The least work of the device after its last artifact is there (s)."""
    if not trace.races:
        return device.work_s
    built = [key for key in device.evaluations_s if key in trace.builds_s]
    return device.comparing_s + min((device.evaluations_s[key] for key in built), default=0.0)


def makespan_s(trace: Trace) -> float:
    """When the last living device has ended."""
    hands, schedule = VirtualHands(), Schedule()
    nothing: Any = SimpleNamespace(artifacts=SimpleNamespace(add=lambda _: None), transaction=nullcontext)
    store: Any = SimpleNamespace(find=lambda key: None if key in trace.builds_s else key, unpack=lambda packed: packed)
    builds = RunBuilds(nothing, nothing, nothing, store, schedule, lambda: False, lambda: hands.now_s)
    jobs = {
        device.name: [_job(device.name, key, key in trace.int8) for key in device.evaluations_s]
        for device in trace.devices
    }
    builds.look(job for of_device in jobs.values() for job in of_device)
    for device in trace.devices:
        for key in device.evaluations_s:
            schedule.expect(device.name, key, "block", FIRST_ROUNDS, BLOCK_S)
            schedule.expect(device.name, key, "evaluation", 1, EVALUATION_S)
            if key in trace.builds_s:
                schedule.wait(device.name, key)
    ended_s: dict[str, float] = {}
    executor: Any = VirtualBuilders(trace, hands)
    runs = [builds.steps(executor, {"net": PREPARED})] if builds.waiting else []
    runs += [
        _device(trace, device, builds.field(jobs[device.name]), schedule, hands, ended_s) for device in trace.devices
    ]
    for _ in run_tasks(runs, hands):
        pass
    return max(ended_s[device.name] for device in trace.devices if device.dies_s == math.inf)


def _device(
    trace: Trace,
    device: Device,
    its_field: PendingBuilds,
    schedule: Schedule,
    hands: VirtualHands,
    ended_s: dict[str, float],
) -> Task[None]:
    """The device takes its turns as `workers.driver.device_run.DeviceRun` does."""

    def work(key: str, kind: Any, seconds: float) -> Task[bool]:
        """Work, and tell whether the device lived."""
        yield hands.spend(max(0.0, min(seconds, device.dies_s - hands.now_s)))
        if hands.now_s >= device.dies_s:
            return False
        schedule.done(device.name, key, kind, seconds)
        return True

    def everything() -> Task[None]:
        left = dict(device.evaluations_s)
        while trace.races and its_field.missing:
            ready = [key for key in left if key not in its_field.missing]
            if not ready:
                yield from its_field.more()
            elif not (yield from work(ready[0], "evaluation", left.pop(ready[0]))):
                return
        yield from its_field.whole()
        for key, seconds in left.items():
            if not (yield from work(key, "evaluation", seconds)):
                return
        for key, blocks in device.blocks_s.items():
            for seconds in blocks:
                if not (yield from work(key, "block", seconds)):
                    return

    yield from everything()
    ended_s[device.name] = hands.now_s
    schedule.leave(device.name)


def _job(device: str, key: str, int8: bool) -> Job:
    variant = Variant(precision="int8", qengine="qnnpack", fuse=True) if int8 else Variant()
    return job_of(f"{device} {key}", key, device, name=key, model="net", variant=variant)


def ratios(seeds: Iterable[int], *, dies: bool = False) -> Iterator[float]:
    """Makespan over lower bound."""
    for seed in seeds:
        trace = draw(seed, dies=dies)
        yield makespan_s(trace) / lower_bound_s(trace)
