"""Coarse clocks."""

from dataclasses import replace

import numpy as np
import pytest

from sweeps.protocol.blocks import block_labels, summarize
from sweeps.protocol.clock import figure_ns, is_coarse, resolution_ns, tick_ns
from sweeps.protocol.presets import resolve
from sweeps.spec.protocol import ProtocolSpec

QUICK = resolve(ProtocolSpec(preset="quick"))


def ticking(latency_ms: float, tick_ms: float, count: int, start_ms: float = 0.3) -> tuple[int, ...]:
    """The samples of a program that reads such a clock after each iteration."""
    ends_ms = start_ms + latency_ms * np.arange(count + 1)
    return tuple(int(ticks) * round(tick_ms * 1e6) for ticks in np.diff(np.floor(ends_ms / tick_ms)))


@pytest.mark.parametrize(("latency_ms", "tick_ms"), [(10.4, 1.0), (10.6, 1.0), (40.0, 15.625), (3.0, 0.1)])
def test_with_a_coarse_clock_the_mean_is_right_to_a_tick_in_all_samples(latency_ms: float, tick_ms: float) -> None:
    samples = ticking(latency_ms, tick_ms, 50)
    assert is_coarse(samples)
    assert tick_ns(samples) == pytest.approx(tick_ms * 1e6)
    assert resolution_ns(samples) == pytest.approx(tick_ms * 1e6 / 50)
    assert abs(figure_ns(samples) / 1e6 - latency_ms) <= tick_ms / 50


def test_a_fine_clock_gives_the_median() -> None:
    # 24 MHz, as in many phones: ticks of 42 ns.
    samples = tuple(42 * (119_000 + 13 * (index % 7)) for index in range(49))
    assert not is_coarse(samples)
    assert figure_ns((*samples, 90_000_000)) == np.median((*samples, 90_000_000))
    assert resolution_ns(samples) == 0.0


def test_a_few_samples_say_nothing_of_the_clock() -> None:
    assert not is_coarse((10_000_000,) * 4)
    assert figure_ns((10_000_000, 12_000_000, 17_000_000)) == 12_000_000


def test_an_interval_is_never_narrower_than_the_clock_allows(records) -> None:
    blocks = [replace(records.block(records.job(0), round_), samples_ns=(10_000_000,) * 100) for round_ in range(3)]
    timing = summarize(blocks[0].job_key, blocks, QUICK)
    assert (timing.latency_ci_low_ms, timing.latency_p50_ms, timing.latency_ci_high_ms) == pytest.approx(
        (9.9, 10.0, 10.1)
    )


def test_a_coarse_clock_is_a_label_of_the_block(records) -> None:
    block = records.block(records.job(0), 0)
    assert "coarse_clock" not in block_labels(block, "cpu", "x86", QUICK)
    coarse = replace(block, samples_ns=ticking(10.4, 1.0, 100))
    assert "coarse_clock" in block_labels(coarse, "cpu", "x86", QUICK)
