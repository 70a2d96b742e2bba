"""The measurement protocol: presets, order of rounds, trust labels, summary of blocks. Pure."""

import hashlib
import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from sweeps.errors import RunnerError, SpecError
from sweeps.records import Block, Timing
from sweeps.spec import ProtocolSpec
from sweeps.stats import mad, median, outliers, p50_estimate

STABLE_WITHIN = 0.05
"""The medians of the last 3 rounds agree when (max - min) / median is at most this."""

BUSY_LOAD = 0.15
"""Share of all CPU time that others may take. An idle host shows 0.01 to 0.03; 0.15 of two cores is a third of one,
enough to push the runner off its core now and then. A judgement, not a measurement."""

OUTLIER_SHARE = 0.10
"""Spikes are normal: a block with 3 % of them has the same p50. From a tenth on, the published p90 is one itself."""

_OUTLIERS_FROM_SAMPLES = 20
"""In smaller blocks two chance outliers would be a tenth already; `few_samples` speaks for those."""

P90_FROM_SAMPLES = 64
P99_FROM_SAMPLES = 662


@dataclass(frozen=True, slots=True, kw_only=True)
class TrustLabel:
    """Something to know about a timing. A disqualifying label is shown and never wins; an advisory one may win."""

    name: str
    disqualifying: bool
    advice: str


TRUST: dict[str, TrustLabel] = {
    label.name: label
    for label in (
        TrustLabel(
            name="throttled",
            disqualifying=True,
            advice="the device slowed itself down during a block: let it cool, shade it, measure again",
        ),
        TrustLabel(
            name="gate_timeout",
            disqualifying=True,
            advice="the device was not ready within the limit: cool or charge it, or raise the limit",
        ),
        TrustLabel(
            name="backend_fell_back",
            disqualifying=True,
            advice="another backend ran than was asked for: the time is that of the other one",
        ),
        TrustLabel(
            name="engine_differs",
            disqualifying=True,
            advice="another quantized engine ran than was asked for: use a runtime on the device that has it",
        ),
        TrustLabel(
            name="device_changed",
            disqualifying=True,
            advice="the device itself changed speed while the sweep ran: find out why, measure again",
        ),
        TrustLabel(
            name="invalid_output",
            disqualifying=True,
            advice="an output is not a finite number: look at the precision, the engine and the calibration data",
        ),
        TrustLabel(
            name="ungated",
            disqualifying=False,
            advice="the block started without waiting for a cool device (no temperature sensor, or no gate applied): "
            "keep the machine idle and compare within one sweep only",
        ),
        TrustLabel(
            name="hot_start",
            disqualifying=False,
            advice="the block started warmer than the gate asks for: let the device rest before the sweep",
        ),
        TrustLabel(
            name="unstable",
            disqualifying=False,
            advice="the last rounds differ by more than 5 %: add rounds, stop other programs",
        ),
        TrustLabel(
            name="few_samples",
            disqualifying=False,
            advice="fewer than 64 samples in all, rounds missing, or a block cut short by max_seconds: "
            "raise min_seconds, rounds or max_seconds",
        ),
        TrustLabel(
            name="one_block",
            disqualifying=False,
            advice="one process only, so no interval: fresh processes of one artifact differ by tens of percent; "
            "use 3 rounds or more",
        ),
        TrustLabel(
            name="outliers",
            disqualifying=False,
            advice="over 10 % of a block's samples are outliers, so its p90 shows them: stop other programs",
        ),
        TrustLabel(
            name="busy_host",
            disqualifying=False,
            advice="other programs took over 15 % of the CPU time just before a block: stop them, measure again",
        ),
    )
}
"""The closed list, disqualifying labels first. `hot_start` is defined against the gate temperature of a phone's
battery; a host has no such figure, so nothing sets it there."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Protocol:
    """A preset with its overrides applied: what one block is, and how many rounds there are."""

    preset: str
    rounds: int
    warmup_iterations: int
    warmup_seconds: float
    iterations: int
    """A block has at least so many timed iterations ..."""
    min_seconds: float
    """... and takes at least so long ..."""
    max_seconds: float
    """... but is ended after so long (never before one iteration)."""
    seed: int

    def comparable(self) -> dict[str, str | int | float]:
        """What a job key holds: all but `rounds` and `seed`, so that more rounds add to what is there."""
        return {
            "preset": self.preset,
            "warmup_iterations": self.warmup_iterations,
            "warmup_seconds": self.warmup_seconds,
            "iterations": self.iterations,
            "min_seconds": self.min_seconds,
            "max_seconds": self.max_seconds,
        }


PRESETS: dict[str, Protocol] = {
    protocol.preset: protocol
    for protocol in (
        Protocol(
            preset="quick",
            rounds=3,
            warmup_iterations=0,
            warmup_seconds=0.2,
            iterations=1,
            min_seconds=0.5,
            max_seconds=60.0,
            seed=0,
        ),
        Protocol(
            preset="recipe",
            rounds=1,
            warmup_iterations=5,
            warmup_seconds=0.0,
            iterations=200,
            min_seconds=0.0,
            # 3 s an inference: slow models on slow boards still reach the 200 iterations that the preset is about.
            max_seconds=600.0,
            seed=0,
        ),
    )
}


def resolve(spec: ProtocolSpec) -> Protocol:
    """The preset with the sweep file's overrides. Raises `SpecError` where the limits contradict each other."""
    preset = PRESETS[spec.preset]
    overrides = spec.model_dump(exclude={"preset"}, exclude_none=True)
    protocol = replace(preset, **overrides)
    if protocol.min_seconds > protocol.max_seconds:
        raise SpecError(
            f"protocol: min_seconds ({protocol.min_seconds:g}) is more than max_seconds ({protocol.max_seconds:g})",
            f"lower min_seconds, or set max_seconds (the preset {spec.preset} has {preset.max_seconds:g})",
        )
    return protocol


def order(job_keys: Iterable[str], round: int, seed: int) -> list[str]:
    """The jobs of one round, shuffled: by a hash of seed, round and key.

    The same for any order of `job_keys` and in any process; a job that is added later moves none of the others.
    """
    return sorted(job_keys, key=lambda key: hashlib.sha256(f"{seed}:{round}:{key}".encode()).digest())


def block_labels(block: Block, requested_backend: str, requested_engine: str, protocol: Protocol) -> tuple[str, ...]:
    """The trust labels that one block earns by itself, in the order of `TRUST`.

    `requested_engine` is `none` where nothing is quantized: then any engine will do.
    Raises `RunnerError` of kind `invalid_samples` where there are none, or one is not a positive number.
    """
    samples = block.samples_ns
    invalid = [sample for sample in samples if not (math.isfinite(sample) and sample > 0)]
    if invalid or not samples:
        found = f"{len(invalid)} of {len(samples)} samples, e.g. {invalid[0]} ns" if invalid else "no sample at all"
        raise RunnerError(
            "invalid_samples",
            f"the runner reported times that can not be: {found}",
            "check the clock and the runner of the device, then run again",
        )
    load = block.conditions.load_start
    labels = {
        "throttled": block.conditions.throttled is True,
        "backend_fell_back": block.backend_ran != requested_backend,
        "engine_differs": requested_engine not in ("none", block.engine_ran),
        # No gate exists yet, so none was applied to any block, whether or not the device has a sensor.
        "ungated": True,
        "few_samples": len(samples) < protocol.iterations,
        "outliers": len(samples) >= _OUTLIERS_FROM_SAMPLES and float(outliers(samples).mean()) > OUTLIER_SHARE,
        "busy_host": load is not None and load > BUSY_LOAD,
    }
    return _in_order(name for name, found in labels.items() if found)


def summarize(job_key: str, blocks: Sequence[Block], protocol: Protocol) -> Timing:
    """One timing from all accepted blocks of a job.

    p90 and p99 are over the samples of all blocks together (linear between neighbours), where there are enough of
    them; all other figures are medians over the blocks, so that one odd process does not move them.
    Raises `ValueError` for no blocks, another job's block, or a round that comes twice.
    """
    blocks = sorted(blocks, key=lambda block: block.round)
    rounds = [block.round for block in blocks]
    if not blocks or len(set(rounds)) != len(rounds) or any(block.job_key != job_key for block in blocks):
        raise ValueError(f"not the blocks of job {job_key}, one a round: rounds {rounds}")

    pooled = np.concatenate([np.asarray(block.samples_ns, dtype=np.float64) for block in blocks]) / 1e6
    medians_ms = [median(block.samples_ns) / 1e6 for block in blocks]
    p50 = p50_estimate(medians_ms)
    last = medians_ms[-3:]
    labels = {label for block in blocks for label in block.labels}
    if len(blocks) == 1:
        labels.add("one_block")
    elif _spread(last) > STABLE_WITHIN:
        labels.add("unstable")
    if pooled.size < P90_FROM_SAMPLES or len(blocks) < protocol.rounds:
        labels.add("few_samples")

    return Timing(
        job_key=job_key,
        rounds=len(blocks),
        samples=pooled.size,
        latency_p50_ms=p50.value,
        latency_ci_low_ms=p50.low,
        latency_ci_high_ms=p50.high,
        latency_p90_ms=float(np.quantile(pooled, 0.90)) if pooled.size >= P90_FROM_SAMPLES else None,
        latency_p99_ms=float(np.quantile(pooled, 0.99)) if pooled.size >= P99_FROM_SAMPLES else None,
        spread_within=median([mad(block.samples_ns) / median(block.samples_ns) for block in blocks]),
        spread_between=_spread(medians_ms) if len(blocks) > 1 else None,
        first_inference_ms=median([block.first_inference_ns for block in blocks]) / 1e6,
        load_ms=median([block.load_ns for block in blocks]) / 1e6,
        model_rss_mb=_median_of_known([_model_rss_mb(block) for block in blocks]),
        block_medians_ms=tuple(zip((block.visit for block in blocks), medians_ms, strict=True)),
        temp_start_c=_median_of_known([block.conditions.temp_start_c for block in blocks]),
        temp_end_c=_median_of_known([block.conditions.temp_end_c for block in blocks]),
        labels=_in_order(labels),
    )


def _model_rss_mb(block: Block) -> float | None:
    if block.rss_peak_bytes is None or block.rss_before_load_bytes is None:
        return None
    return (block.rss_peak_bytes - block.rss_before_load_bytes) / 1e6


def _median_of_known(values: Sequence[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return median(known) if known else None


def _spread(values: Sequence[float]) -> float:
    return (max(values) - min(values)) / median(values)


def _in_order(labels: Iterable[str]) -> tuple[str, ...]:
    found = set(labels)
    if unknown := found - TRUST.keys():
        raise ValueError(f"no such trust labels: {', '.join(sorted(unknown))}")
    return tuple(name for name in TRUST if name in found)
