"""The physics of a simulated phone: heat, noise and time, from a seed and on a virtual clock. Pure, no I/O.

The phone has one temperature. It follows Newton's law of cooling, towards the ambient temperature at rest and towards a
higher one while the phone is busy. An inference takes the true time, multiplied by factors of

    temperature x process x sample x spike x daemon x cold start

where the sample's factor is lognormal with median 1 and, in its logarithm, an autoregression of order one (AR(1)).
All random numbers come from one generator: the results depend only on the parameters, the seed and the calls.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Unpack

import numpy as np
from numpy.typing import NDArray

from workers.devices.fake.block_length import BlockLength, timed_of
from workers.devices.fake.noise_factors import (
    cores_factor,
    median_factor,
    past_weights,
    sample_factors,
    sigma_of,
    spread_factor,
)
from workers.devices.fake.phones import Phone
from workers.devices.fake.ticks import shown_ns

Times = NDArray[np.float64]
"""The time of each inference, in seconds."""
Slowed = NDArray[np.bool_]
"""For each inference, whether a daemon slowed it."""

_DEGREES_PER_STATUS = 3.0
"""Android's thermal status rises by one for each step of this size above the temperature at which throttling begins."""
_SHUTDOWN = 6

FIXED_PERFORMANCE_SLOWER = 1.25
"""The factor on latency in Android's fixed-performance mode, which uses sustainable clock rates; an assumption, not
measured."""
FIXED_PERFORMANCE_HEAT = 0.5
"""The factor on heating in that mode. The phone never throttles in it."""


@dataclass(frozen=True, slots=True)
class SimulatedBlock:
    """One process: the report of its runner, the sensor values, and in the last 3 fields values that only the simulator
    knows."""

    samples_ns: NDArray[np.int64]
    warmup_ns: NDArray[np.int64]
    """The times of the warm-up (ns), without the first inference."""
    first_inference_ns: int
    load_ns: int
    started_s: float
    """The start of the process, on the phone's clock."""
    ended_s: float
    temp_start_c: float
    temp_end_c: float
    status_start: int
    status_end: int
    throttled: bool
    """Tells whether any timed sample was throttled."""
    true_p50_ms: float
    """The true p50 at the temperature of the timed samples, without noise."""
    true_in_state_ms: float
    """The same p50 for the state (a daemon awake or asleep) that most of these samples met."""

    @property
    def median_ms(self) -> float:
        # The median of a sorted array equals np.median, which would take as long as the rest of a block.
        ordered = np.sort(self.samples_ns)
        half = ordered.size // 2
        return float(ordered[half] + ordered[-half - 1]) / 2e6

    @property
    def timed_s(self) -> float:
        return float(self.samples_ns.sum()) / 1e9


class SimulatedPhone:
    """A phone at rest at its ambient temperature, at time 0."""

    def __init__(self, phone: Phone, seed: int) -> None:
        self.phone = phone
        self.fixed_performance = False
        self.random = np.random.Generator(np.random.SFC64(seed))
        self._now_s, self._temp_c = 0.0, phone.ambient_c
        self._battery_percent = phone.battery_percent
        self._sample_sigma = sigma_of(phone.sample_cv)
        self._process_sigma = sigma_of(phone.process_cv)
        self._past = past_weights(phone.ar1)
        self._awake_s = (math.inf, math.inf)
        if phone.daemon_every_s:
            self._awake_s = (0.0, 0.0)
            self._next_daemon()

    @property
    def now_s(self) -> float:
        return self._now_s

    @property
    def temp_c(self) -> float:
        return self._temp_c

    @property
    def thermal_status(self) -> int:
        """Return Android's thermal status, from 0 (none) to 6 (shutdown): above 0 exactly while the phone throttles."""
        above = self._temp_c - self.phone.throttles_at_c
        if self.fixed_performance or above < 0:
            return 0
        return min(_SHUTDOWN, 1 + int(above / _DEGREES_PER_STATUS))

    @property
    def battery_percent(self) -> float:
        return self._battery_percent

    def rest(self, seconds: float) -> None:
        """Let time pass without work: the phone cools."""
        self._pass(seconds, busy=False)

    def push(self, size_bytes: int) -> None:
        """Receive a file. This takes time, and causes no noticeable heat."""
        self._pass(size_bytes / self.phone.push_bytes_per_s, busy=False)

    def true_p50_ms(self, true_ms: float, temp_c: float | None = None, *, slowed: bool | None = None) -> float:
        """Return the median of all samples at a temperature (default: ambient), with spikes. `slowed`: see
        `median_factor`."""
        temp_c = self.phone.ambient_c if temp_c is None else temp_c
        slower = 1.0 + self.phone.drift_per_c * (temp_c - self.phone.ambient_c)
        if not self.fixed_performance and temp_c >= self.phone.throttles_at_c:
            slower *= self.phone.throttled_slower
        return true_ms * self._pace() * slower * self.median_factor(slowed)

    def block(self, true_ms: float, **length: Unpack[BlockLength]) -> SimulatedBlock:
        """Start a process and time it: load, first inference, warm-up, then the timed iterations.

        `true_ms` is the latency at the ambient temperature without noise.
        """
        started_s, temp_start_c, status_start = self._now_s, self._temp_c, self.thermal_status
        self._pass(self.phone.start_s, busy=True)
        block = self._item(true_ms, self.process_factor(true_ms) * cores_factor(self.phone, self.random), True, length)
        return replace(block, started_s=started_s, temp_start_c=temp_start_c, status_start=status_start)

    def batch(self, items: Sequence[tuple[float, BlockLength]]) -> list[SimulatedBlock]:
        """Start one process that loads and times one variant at a time; each item is as in `block`.

        All variants run on the same cores. Everything else that differs between processes (allocation, placement) also
        differs between the variants of one process. The first block begins with the start of the process.
        """
        started_s = self._now_s
        self._pass(self.phone.start_s, busy=True)
        cores = cores_factor(self.phone, self.random)
        blocks = [
            self._item(ms, self.process_factor(ms) * cores, not at, length) for at, (ms, length) in enumerate(items)
        ]
        return [replace(blocks[0], started_s=started_s), *blocks[1:]] if blocks else []

    def _item(self, true_ms: float, process: float, cold: bool, length: BlockLength) -> SimulatedBlock:
        """Load a model in a running process, and time it. `process`: the factor of the process; `cold`: the clock rates
        are still low."""
        phone = self.phone
        started_s, temp_start_c, status_start = self._now_s, self._temp_c, self.thermal_status
        load_ns = int(shown_ns(phone.ticks, self._now_s, np.array([phone.load_s]))[0])
        self._pass(phone.load_s, busy=True)
        base_s = true_ms * 1e-3 * self._pace() * process

        count = 9 + max(length["warmup_iterations"], math.ceil(length["warmup_seconds"] / base_s))
        count += min(
            max(length["iterations"], math.ceil(length["min_seconds"] / base_s)),
            math.ceil(length["max_seconds"] / base_s),
        )
        taken_s, slowed = self._inferences(base_s, 0.0, count, cold)
        while (timed := timed_of(taken_s.cumsum(), length)) is None:
            more_s, more_slowed = self._inferences(base_s, float(taken_s.cumsum()[-1]), count)
            taken_s, slowed = np.concatenate([taken_s, more_s]), np.concatenate([slowed, more_slowed])
        warm, last = timed
        ends_s = taken_s.cumsum()
        begins_s = float(ends_s[warm])
        finishes_s = float(ends_s[last])
        timed_from_c = self._temp_after(begins_s, busy=True)
        taken_ns = shown_ns(phone.ticks, self._now_s, taken_s[: last + 1])
        timed_middle_c = self._temp_after((begins_s + finishes_s) / 2, busy=True)
        self._pass(finishes_s, busy=True)
        return SimulatedBlock(
            samples_ns=taken_ns[warm + 1 :],
            warmup_ns=taken_ns[1 : warm + 1],
            first_inference_ns=int(taken_ns[0]),
            load_ns=load_ns,
            started_s=started_s,
            ended_s=self._now_s,
            temp_start_c=temp_start_c,
            temp_end_c=self._temp_c,
            status_start=status_start,
            status_end=self.thermal_status,
            throttled=not self.fixed_performance and max(timed_from_c, self._temp_c) >= phone.throttles_at_c,
            true_p50_ms=self.true_p50_ms(true_ms, timed_middle_c),
            true_in_state_ms=self.true_p50_ms(
                true_ms, timed_middle_c, slowed=bool(slowed[warm + 1 : last + 1].mean() > 0.5)
            ),
        )

    def _inferences(self, base_s: float, busy_s: float, count: int, cold: bool = False) -> tuple[Times, Slowed]:
        """Return the durations (s) of `count` inferences, the first of which starts `busy_s` after the model was
        loaded; and which of them a daemon slowed.

        Heat and daemons are computed for the times at which the inferences would start without them.
        """
        phone = self.phone
        taken_s = self.sample_factors(count) * base_s
        starts_s = busy_s + taken_s.cumsum()
        if phone.drift_per_c or self._temp_after(float(starts_s[-1]), busy=True) >= phone.throttles_at_c:
            taken_s *= self._warmth(starts_s)
        if cold:
            settling = min(count, 1 + int(8 * phone.cold_s / base_s))
            taken_s[:settling] *= 1.0 + (phone.cold_slower - 1.0) * np.exp(starts_s[:settling] / -phone.cold_s)
        if busy_s == 0.0:
            taken_s[0] *= phone.first_inference_slower
        slowed = np.zeros(count, dtype=np.bool_)
        if phone.daemon_every_s:
            self._wake_daemons(taken_s, slowed, self._now_s + starts_s)
        return taken_s, slowed

    def _warmth(self, starts_s: NDArray[np.float64]) -> NDArray[np.float64]:
        phone = self.phone
        ends_at_c = self._ends_at_c(busy=True)
        temp_c = ends_at_c + (self._temp_c - ends_at_c) * np.exp(starts_s / -phone.cooling_s)
        slower = 1.0 + phone.drift_per_c * (temp_c - phone.ambient_c)
        if not self.fixed_performance:
            slower[temp_c >= phone.throttles_at_c] *= phone.throttled_slower
        return slower

    def _wake_daemons(self, taken_s: Times, slowed: Slowed, starts_s: Times) -> None:
        while True:
            awake, asleep = starts_s.searchsorted(self._awake_s)
            taken_s[awake:asleep] *= self.phone.daemon_slower
            slowed[awake:asleep] = True
            if self._awake_s[1] > starts_s[-1]:
                return
            self._next_daemon()

    def _next_daemon(self) -> None:
        wakes_s = self._awake_s[1] + self.random.exponential(self.phone.daemon_every_s)
        self._awake_s = (wakes_s, wakes_s + self.random.exponential(self.phone.daemon_s))

    def median_factor(self, slowed: bool | None) -> float:
        """Return the median of all noise: see `workers.devices.fake.noise_factors.median_factor`."""
        return median_factor(self.phone, slowed)

    def sample_factors(self, count: int) -> NDArray[np.float64]:
        """Return random factors for the next samples of the running process."""
        return sample_factors(self.phone, self.random, self._past, self._sample_sigma, count)

    def process_factor(self, true_ms: float) -> float:
        """Return a random factor for one variant in one process, which begins."""
        return math.exp(spread_factor(self.phone, true_ms) * self._process_sigma * self.random.standard_normal())

    def _pace(self) -> float:
        return FIXED_PERFORMANCE_SLOWER if self.fixed_performance else 1.0

    def _ends_at_c(self, *, busy: bool) -> float:
        """Return the temperature at which the phone would settle."""
        heating = self.phone.heating_c_per_s * busy * (FIXED_PERFORMANCE_HEAT if self.fixed_performance else 1.0)
        return self.phone.ambient_c + heating * self.phone.cooling_s

    def _temp_after(self, seconds: float, *, busy: bool) -> float:
        ends_at_c = self._ends_at_c(busy=busy)
        return ends_at_c + (self._temp_c - ends_at_c) * math.exp(-seconds / self.phone.cooling_s)

    def _pass(self, seconds: float, *, busy: bool) -> None:
        self._temp_c = self._temp_after(seconds, busy=busy)
        self._now_s += seconds
        phone = self.phone
        per_hour = phone.battery_busy_percent_per_hour if busy else phone.battery_rest_percent_per_hour
        self._battery_percent = max(0.0, self._battery_percent - per_hour * seconds / 3600)
