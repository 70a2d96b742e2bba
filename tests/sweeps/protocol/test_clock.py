"""Coarse clocks."""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest

from sweeps.protocol.block_labels import block_labels
from sweeps.protocol.blocks import summarize
from sweeps.protocol.clock import Readings, figure_ns, is_coarse, tick_ns, with_resolution
from sweeps.protocol.presets import resolve
from sweeps.spec.protocol import ProtocolSpec
from sweeps.stats import Estimate
from workers.devices.fake.ticks import Ticks, shown_ns

QUICK = resolve(ProtocolSpec(preset="quick"))

MS = Ticks(tick_s=1e-3)
WATCH = Ticks(tick_s=1 / 32_768)
HZ_300 = Ticks(tick_s=1 / 300)
SLEWED = Ticks(tick_s=1e-3, faster=12.3e-6)
KERNEL = Ticks(tick_s=4e-3, faster=1e-7)
"""The clock of Linux at 250 Hz: its ticks are up to a nanosecond longer."""
CLOCKS = [
    pytest.param(MS, 10.4, id="1 ms"),
    pytest.param(MS, 10.6, id="1 ms, more than half"),
    pytest.param(Ticks(tick_s=15.625e-3), 40.0, id="64 Hz"),
    pytest.param(Ticks(tick_s=1e-4), 3.03, id="0.1 ms"),
    pytest.param(WATCH, 1.01, id="32,768 Hz"),
    pytest.param(HZ_300, 12.3, id="300 Hz"),
    pytest.param(SLEWED, 9.3, id="1 ms, 12.3 ppm fast"),
    pytest.param(KERNEL, 9.7, id="250 Hz of Linux"),
]


def resolution_ns(samples_ns: Sequence[int]) -> float:
    """The allowance of an interval for the clock, in nanoseconds."""
    known_ms = figure_ns(samples_ns) / 1e6
    high_ms = with_resolution(Estimate(known_ms, known_ms, known_ms), [Readings(samples_ns)]).high
    assert high_ms is not None
    return 1e6 * (high_ms - known_ms)


def noisy_ms(latency_ms: float, count: int, cv: float = 0.0, seed: int = 0) -> np.ndarray:
    return latency_ms * np.exp(cv * np.random.default_rng(seed).standard_normal(count))


def shown(clock: Ticks, latencies_ms: np.ndarray, began_s: float = 0.3e-3) -> tuple[int, ...]:
    return tuple(clock.shown_ns(began_s, latencies_ms / 1e3).tolist())


@pytest.mark.parametrize(("clock", "latency_ms"), CLOCKS)
def test_the_mean_is_right_to_a_tick_in_all_samples_that_share_their_readings(clock: Ticks, latency_ms: float) -> None:
    samples = shown(clock, noisy_ms(latency_ms, 50))
    tick_ms = 1e3 * clock.tick_s
    assert is_coarse(samples)
    assert tick_ns(samples) == pytest.approx(tick_ms * 1e6, rel=1e-4)
    assert resolution_ns(samples) == pytest.approx(tick_ms * 1e6 / 50, rel=1e-4)
    assert abs(figure_ns(samples) / 1e6 - latency_ms) <= 1.001 * tick_ms / 50


@pytest.mark.parametrize("rounding", ["nearest", "down", "up"])
@pytest.mark.parametrize(("clock", "latency_ms"), CLOCKS)
@pytest.mark.parametrize("cv", [0.0, 0.01, 0.04])
def test_samples_that_are_rounded_each_are_right_to_a_tick_however_many(
    clock: Ticks, latency_ms: float, rounding: str, cv: float
) -> None:
    latencies_ms = noisy_ms(latency_ms, 400, cv)
    samples = shown(replace(clock, each=rounding), latencies_ms)
    assert is_coarse(samples)
    assert resolution_ns(samples) >= 0.99 * clock.tick_s * 1e9
    assert abs(figure_ns(samples) / 1e6 - float(np.median(latencies_ms))) <= resolution_ns(samples) / 1e6


@pytest.mark.parametrize(
    ("samples", "tick"),
    [
        pytest.param((8_000_000, 8_000_001) * 20, 8_000_000, id="one multiple, printed with rounding"),
        pytest.param((8_000_000, 8_000_001, 12_000_001, 8_000_000) * 5, 4_000_000, id="two multiples"),
        pytest.param((3_333_333, 6_666_667, 3_333_333, 3_333_334, 3_333_333), 3_333_333, id="five samples"),
        pytest.param(
            (3_333_000, 6_667_000, 3_333_000, 3_334_000, 6_667_000) * 3, 3_333_500, id="in whole microseconds"
        ),
        pytest.param((31_000, 61_000, 30_000, 61_000, 92_000, 31_000) * 4, 30_500, id="32,768 Hz in microseconds"),
        pytest.param((10_000_123,) * 40 + (23_000_283,), 1_000_012, id="one multiple and a spike"),
        pytest.param((7_000_000, 9_000_000) * 10, 1_000_000, id="no neighbours"),
    ],
)
def test_a_tick_is_found_by_the_distances_of_the_samples(samples: tuple[int, ...], tick: float) -> None:
    assert tick_ns(samples) == pytest.approx(tick, rel=0.03)
    assert is_coarse(samples)


def test_a_fine_clock_gives_the_median() -> None:
    # 24 MHz, as in many phones: ticks of 42 ns.
    samples = tuple(42 * (119_000 + 13 * (index % 7)) for index in range(49))
    assert not is_coarse(samples)
    assert figure_ns((*samples, 90_000_000)) == np.median((*samples, 90_000_000))
    assert resolution_ns(samples) == 0.0


@pytest.mark.parametrize(
    "unit_ns", [1, 1000, 1e9 / 24e6, 1e9 / 19.2e6], ids=["nanoseconds", "microseconds", "24 MHz", "19.2 MHz"]
)
@pytest.mark.parametrize("cv", [0.001, 0.01, 0.1])
@pytest.mark.parametrize("count", [5, 8, 40, 400])
def test_a_fine_clock_is_not_called_coarse(unit_ns: float, cv: float, count: int) -> None:
    """The clock is fine also with spikes, with two speeds, and where a tool prints whole microseconds."""
    random = np.random.default_rng(int(1e4 * cv) + count)
    coarse = 0
    for number in range(60):
        latencies_ns = 3e6 * np.exp(cv * random.standard_normal(count))
        latencies_ns[random.random(count) < (0.0, 0.05, 0.4)[number % 3]] *= (1.0, random.uniform(2, 5), 1.3)[
            number % 3
        ]
        coarse += is_coarse(np.rint(np.rint(latencies_ns / unit_ns) * unit_ns).astype(int).tolist())
    assert coarse == 0


def test_a_few_samples_say_nothing_of_the_clock() -> None:
    assert not is_coarse((10_000_000,) * 4)
    assert figure_ns((10_000_000, 12_000_000, 17_000_000)) == 12_000_000


@pytest.mark.parametrize("clock", [SLEWED, HZ_300])
def test_with_a_coarse_clock_spikes_move_no_figure_and_are_outliers_from_a_tenth_on(clock: Ticks, records) -> None:
    latencies_ms = noisy_ms(12.3, 200, 0.005)
    for every, label in ((25, False), (8, True)):
        latencies_ms[::every] = 61.0
        samples = shown(clock, latencies_ms)
        assert figure_ns(samples) / 1e6 == pytest.approx(12.3, rel=0.02)
        labels = block_labels(replace(records.block(records.job(0), 0), samples_ns=samples), "cpu", "x86", QUICK)
        assert "coarse_clock" in labels
        assert ("outliers" in labels) is label


@pytest.mark.parametrize(
    ("samples_ns", "warmup_ns", "low_ms", "high_ms"),
    [
        pytest.param((10_000_000,) * 100, (), 5.0, 20.0, id="nothing finer than the sample is known"),
        pytest.param(
            (10_000_000,) * 100, (13_000_000, 11_000_000, 12_000_000), 9.0, 11.0, id="the warm-up shows a tick"
        ),
        pytest.param((10_000_000,) * 60 + (11_000_000,) * 30, (), 9.3333, 11.3333, id="each is rounded"),
        pytest.param((10_000_000, 10_000_000, 11_000_000) * 30, (), 10.3222, 10.3444, id="they share their readings"),
    ],
)
def test_an_interval_is_never_narrower_than_the_clock_allows(
    samples_ns: tuple[int, ...], warmup_ns: tuple[int, ...], low_ms: float, high_ms: float, records
) -> None:
    once = {"first_inference_ns": None, "load_ns": None}
    blocks = [
        replace(records.block(records.job(0), round_), samples_ns=samples_ns, warmup_ns=warmup_ns, **once)
        for round_ in range(3)
    ]
    timing = summarize(blocks[0].job_key, blocks, QUICK)
    assert (timing.figures["latency_ci_low_ms"], timing.figures["latency_ci_high_ms"]) == pytest.approx(
        (low_ms, high_ms), abs=1e-4
    )


def test_blocks_that_share_their_readings_keep_a_narrow_interval(records) -> None:
    # Each block alone is too short to show it.
    blocks = [
        replace(records.block(records.job(0), round_), samples_ns=shown(HZ_300, noisy_ms(18.1, 16, 0.004, round_)))
        for round_ in range(3)
    ]
    timing = summarize(blocks[0].job_key, blocks, QUICK)
    assert timing.figures.get("latency_ci_low_ms") is not None
    assert timing.figures.get("latency_ci_high_ms") is not None
    assert timing.figures["latency_ci_low_ms"] <= 18.1 <= timing.figures["latency_ci_high_ms"]
    assert timing.figures["latency_ci_high_ms"] - timing.figures["latency_ci_low_ms"] < 2 * 1e3 / 300


@pytest.mark.parametrize(("clock", "labelled"), [(None, False), (HZ_300, True), (Ticks(tick_s=1 / 64), True)])
def test_blocks_of_few_samples_show_a_coarse_clock_together(clock: Ticks | None, labelled: bool, records) -> None:
    untimed = {"warmup_ns": (), "first_inference_ns": None, "load_ns": None}
    shown_by_round = [shown_ns(clock, 0.0, noisy_ms(61.7, 4, 0.01, round_) / 1e3).tolist() for round_ in range(3)]
    blocks = [
        replace(records.block(records.job(0), round_), samples_ns=tuple(samples), **untimed)
        for round_, samples in enumerate(shown_by_round)
    ]
    timing = summarize(blocks[0].job_key, blocks, QUICK)
    assert ("coarse_clock" in timing.labels) is labelled
    if clock is not None:
        assert timing.figures.get("latency_ci_low_ms") is not None
        assert timing.figures.get("latency_ci_high_ms") is not None
        assert timing.figures["latency_ci_high_ms"] - timing.figures["latency_ci_low_ms"] >= 2e3 * clock.tick_s


@pytest.mark.parametrize(("clock", "latency_ms"), CLOCKS)
def test_a_coarse_clock_is_a_label_of_the_block(clock: Ticks, latency_ms: float, records) -> None:
    block = records.block(records.job(0), 0)
    assert "coarse_clock" not in block_labels(block, "cpu", "x86", QUICK)
    coarse = replace(block, samples_ns=shown(clock, noisy_ms(latency_ms, 60, 0.02)))
    labels = block_labels(coarse, "cpu", "x86", QUICK)
    assert "coarse_clock" in labels
    assert not {"outliers", "bursts"} & set(labels)
