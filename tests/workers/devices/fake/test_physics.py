from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from workers.devices.fake.phones import PHONES, Phone
from workers.devices.fake.physics import SimulatedBlock, SimulatedPhone
from workers.devices.fake.ticks import Ticks

FULL: dict[str, Any] = {
    "warmup_iterations": 10,
    "warmup_seconds": 0.5,
    "iterations": 50,
    "min_seconds": 2.0,
    "max_seconds": 300.0,
}
RACE: dict[str, Any] = {
    "warmup_iterations": 0,
    "warmup_seconds": 0.2,
    "iterations": 5,
    "min_seconds": 0.2,
    "max_seconds": 60.0,
}
HEATING = Phone(name="heating", heating_c_per_s=0.2, cooling_s=100.0)


@pytest.mark.parametrize(("asleep_s", "awake_s", "factor"), [(1e9, 1.0, 1.0), (1e-9, 1e9, 1.3)])
def test_a_block_s_truth_in_its_state_is_that_of_the_clocks_that_it_met(asleep_s, awake_s, factor):
    states = Phone(name="states", daemon_every_s=asleep_s, daemon_s=awake_s, daemon_slower=1.3)
    [block] = _blocks(states, 1)
    steady = SimulatedPhone(replace(states, daemon_every_s=0.0), 1).true_p50_ms(10.0)
    assert block.true_in_state_ms == pytest.approx(factor * steady)
    assert block.median_ms == pytest.approx(block.true_in_state_ms, rel=0.03)
    [plain] = _blocks(PHONES["spiky"], 1)
    assert plain.true_in_state_ms == plain.true_p50_ms


def _blocks(phone: Phone, count: int, true_ms: float = 10.0, **limits: Any) -> list[SimulatedBlock]:
    device = SimulatedPhone(phone, 1)
    return [device.block(true_ms, **{**RACE, **limits}) for _ in range(count)]


def test_a_resting_phone_cools_by_newtons_law():
    device = SimulatedPhone(HEATING, 0)
    for _ in range(20):
        device.block(10.0, **FULL)
    excess_c = device.temp_c - HEATING.ambient_c
    assert excess_c > 5
    device.rest(50.0)
    assert device.temp_c - HEATING.ambient_c == pytest.approx(excess_c * np.exp(-0.5))
    device.rest(50.0)
    assert device.temp_c - HEATING.ambient_c == pytest.approx(excess_c * np.exp(-1.0))


def test_a_phone_that_is_always_busy_settles_where_heating_and_cooling_balance():
    device = SimulatedPhone(HEATING, 0)
    for _ in range(400):
        device.block(10.0, **FULL)
    assert device.temp_c == pytest.approx(HEATING.ambient_c + 0.2 * 100.0, abs=0.01)


def test_the_same_seed_tells_the_same_story_and_another_one_another():
    def story(seed: int) -> list[list[int]]:
        device = SimulatedPhone(PHONES["holdout_daemons"], seed)
        return [device.block(10.0, **RACE).samples_ns.tolist() for _ in range(5)]

    assert story(3) == story(3)
    assert story(3) != story(4)


def test_the_samples_have_the_spread_and_the_autocorrelation_asked_for():
    phone = Phone(name="noise", sample_cv=0.10, ar1=0.5, process_cv=0.0)
    [block] = _blocks(phone, 1, iterations=50_000, max_seconds=1e9)
    logs = np.log(block.samples_ns)
    assert block.samples_ns.std() / block.samples_ns.mean() == pytest.approx(0.10, rel=0.03)
    assert np.corrcoef(logs[:-1], logs[1:])[0, 1] == pytest.approx(0.5, abs=0.02)
    assert np.corrcoef(logs[:-2], logs[2:])[0, 1] == pytest.approx(0.25, abs=0.02)


def test_without_an_autoregression_neighbours_do_not_know_each_other():
    [block] = _blocks(Phone(name="noise", sample_cv=0.10), 1, iterations=50_000, max_seconds=1e9)
    assert abs(np.corrcoef(block.samples_ns[:-1], block.samples_ns[1:])[0, 1]) < 0.02


def test_spikes_have_their_share_and_size():
    phone = Phone(name="spikes", sample_cv=0.01, process_cv=0.0, spike_share=0.03, spike_slower=(2.0, 5.0))
    [block] = _blocks(phone, 1, iterations=50_000, max_seconds=1e9)
    slower = block.samples_ns / 10e6
    spikes = slower[slower > 1.5]
    assert spikes.size / slower.size == pytest.approx(0.03, abs=0.003)
    assert spikes.mean() == pytest.approx(3.5, abs=0.1)


def test_processes_of_one_artifact_differ_as_much_as_asked_for():
    logs = np.log([block.median_ms for block in _blocks(Phone(name="p", sample_cv=0.001, process_cv=0.05), 2000)])
    assert logs.std() == pytest.approx(0.05, rel=0.06)


def test_daemons_slow_blocks_for_their_share_of_the_time():
    phone = Phone(name="d", sample_cv=0.01, daemon_every_s=20.0, daemon_s=5.0, daemon_slower=2.0)
    slowed = np.concatenate([block.samples_ns > 15e6 for block in _blocks(phone, 3000)])
    # Slowed samples take twice the time: 5 s awake in 25 s make half as many samples.
    assert slowed.mean() == pytest.approx(0.2 / 2 / (0.8 + 0.2 / 2), abs=0.03)


@pytest.mark.parametrize("name", PHONES)
def test_the_truth_is_the_median_of_all_samples_of_all_processes(name: str):
    phone = replace(PHONES[name], heating_c_per_s=0.0)
    device = SimulatedPhone(phone, 2)
    blocks = []
    for _ in range(4000):
        blocks.append(device.block(10.0, **RACE))
        device.rest(10.0)
    # Each block gives as many samples: a slow process has fewer in the same time.
    samples_ns = np.concatenate([block.samples_ns[:10] for block in blocks if block.samples_ns.size >= 10])
    tolerance = 0.01 if phone.little_share or phone.daemon_every_s else 0.0015
    assert np.median(samples_ns) / 1e6 == pytest.approx(device.true_p50_ms(10.0), rel=tolerance)
    assert blocks[0].true_p50_ms == device.true_p50_ms(10.0)


def test_latency_drifts_with_the_temperature_and_the_truth_with_it():
    phone = Phone(name="drift", heating_c_per_s=0.2, cooling_s=100.0, drift_per_c=0.01, process_cv=0.0)
    device = SimulatedPhone(phone, 0)
    blocks = [device.block(10.0, **FULL) for _ in range(200)]
    assert blocks[-1].median_ms / blocks[0].median_ms == pytest.approx(1.2, abs=0.02)
    ratios = [block.median_ms / block.true_p50_ms for block in blocks]
    assert np.mean(ratios) == pytest.approx(1.0, abs=0.002)
    assert device.true_p50_ms(10.0, 35.0) == pytest.approx(1.1 * device.true_p50_ms(10.0))


def test_a_hot_phone_throttles_and_its_thermal_status_always_tells():
    phone = replace(PHONES["hot"], sample_cv=0.01, process_cv=0.0, drift_per_c=0.0)
    device = SimulatedPhone(phone, 0)
    blocks = [device.block(10.0, **FULL) for _ in range(60)]
    throttled = [block for block in blocks if block.throttled]
    assert 0 < len(throttled) < len(blocks)
    assert all(block.status_start > 0 or block.status_end > 0 for block in throttled)
    assert not any(block.status_end for block in blocks if not block.throttled)
    assert throttled[-1].median_ms / blocks[0].median_ms == pytest.approx(phone.throttled_slower, rel=0.01)


def test_the_thermal_status_ends_at_shutdown():
    device = SimulatedPhone(replace(HEATING, throttles_at_c=26.0, heating_c_per_s=1.0), 0)
    assert device.thermal_status == 0
    for _ in range(100):
        device.block(10.0, **FULL)
    assert device.thermal_status == 6


def test_fixed_performance_is_slower_cooler_and_never_throttles():
    free, fixed = SimulatedPhone(PHONES["hot"], 0), SimulatedPhone(PHONES["hot"], 0)
    fixed.fixed_performance = True
    for _ in range(200):
        free_block, fixed_block = free.block(10.0, **FULL), fixed.block(10.0, **FULL)
    assert free_block.throttled
    assert not fixed_block.throttled
    assert fixed.thermal_status == 0
    assert fixed.temp_c > PHONES["hot"].throttles_at_c
    assert fixed.temp_c < free.temp_c
    assert fixed.true_p50_ms(10.0) == pytest.approx(1.25 * free.true_p50_ms(10.0))


def test_a_block_has_at_least_its_iterations_and_its_seconds():
    for block in _blocks(PHONES["noisy"], 200, true_ms=10.0):
        assert block.timed_s >= 0.2
        assert block.timed_s - block.samples_ns[-1] / 1e9 < 0.2
    for block in _blocks(PHONES["noisy"], 200, true_ms=100.0):
        assert block.samples_ns.size == 5
    for block in _blocks(PHONES["noisy"], 20, warmup_iterations=30):
        assert block.warmup_ns.size == 30
    for block in _blocks(PHONES["noisy"], 20, warmup_seconds=0.0):
        assert block.warmup_ns.size == 0


def test_a_block_ends_after_its_longest_time_but_never_before_one_iteration():
    for block in _blocks(PHONES["spiky"], 50, iterations=1000, max_seconds=0.5):
        assert block.timed_s >= 0.5
        assert block.timed_s - block.samples_ns[-1] / 1e9 < 0.5
    assert [block.samples_ns.size for block in _blocks(PHONES["cool"], 3, true_ms=500.0, max_seconds=0.3)] == [1] * 3


@pytest.mark.parametrize("iterations", [5, 6])
def test_the_median_of_a_block_is_that_of_its_samples(iterations: int):
    for block in _blocks(PHONES["noisy"], 5, true_ms=200.0, iterations=iterations):
        assert block.samples_ns.size == iterations
        assert block.median_ms == pytest.approx(np.median(block.samples_ns) / 1e6, rel=1e-12)


def test_enough_is_drawn_when_samples_are_much_faster_than_expected():
    # A process of these may be several times as fast as the latency that the draws were counted by.
    for block in _blocks(Phone(name="wild", sample_cv=1.5, process_cv=0.1), 300, true_ms=5.0):
        assert block.timed_s >= 0.2


def test_a_cold_process_is_slower_and_the_first_inference_slowest():
    [block] = _blocks(Phone(name="cold", sample_cv=0.001, process_cv=0.0), 1, true_ms=5.0, warmup_iterations=100)
    assert block.first_inference_ns > 3 * block.samples_ns.mean()
    assert block.warmup_ns[0] > 1.1 * block.samples_ns.mean()
    assert block.warmup_ns[-1] == pytest.approx(block.samples_ns.mean(), rel=0.01)


def test_the_clock_and_the_battery_count_all_that_a_block_did():
    device = SimulatedPhone(PHONES["spiky"], 0)
    device.push(3_000_000)
    assert device.now_s == pytest.approx(0.1)
    block = device.block(10.0, **FULL)
    spent_s = device.phone.start_s + (block.load_ns + block.first_inference_ns) / 1e9
    spent_s += block.warmup_ns.sum() / 1e9 + block.timed_s
    assert block.ended_s - block.started_s == pytest.approx(spent_s, abs=1e-6)
    assert device.now_s == block.ended_s
    full = device.battery_percent
    device.rest(3600.0)
    assert device.battery_percent == pytest.approx(full - device.phone.battery_rest_percent_per_hour)
    device.rest(1e9)
    assert device.battery_percent == 0.0


@pytest.mark.parametrize("rounding", ["", "nearest", "down", "up"])
def test_a_clock_that_ticks_shows_whole_ticks_of_the_times_that_pass(rounding: Any):
    ticks = Ticks(tick_s=1 / 300, faster=1e-3, each=rounding)
    [fine], [coarse] = _blocks(PHONES["cool"], 1), _blocks(replace(PHONES["cool"], ticks=ticks), 1)
    assert (coarse.ended_s, coarse.true_p50_ms) == (fine.ended_s, fine.true_p50_ms)
    tick_ns = 1e9 / 300 * (1 + 1e-3)
    shown = np.array([*coarse.samples_ns, *coarse.warmup_ns, coarse.first_inference_ns, coarse.load_ns])
    passed = np.array([*fine.samples_ns, *fine.warmup_ns, fine.first_inference_ns, fine.load_ns])
    assert np.abs(shown - tick_ns * np.rint(shown / tick_ns)).max() <= 1
    errors = shown / tick_ns - passed / (1e9 / 300)
    least, most = {"": (-1, 1), "nearest": (-0.5, 0.5), "down": (-1, 0), "up": (0, 1)}[rounding]
    assert least - 1e-6 <= errors.min() < errors.max() <= most + 1e-6
    if not rounding:
        assert abs(errors[: coarse.samples_ns.size].sum()) < 1, "the errors of shared readings cancel"
