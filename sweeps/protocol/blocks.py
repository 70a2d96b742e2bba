"""The summary of all blocks of a job: its figures, with their trust labels."""

from collections.abc import Sequence
from dataclasses import replace

from sweeps.label_kinds import disqualified, stored_in_order
from sweeps.metrics import P90_FROM_SAMPLES, P99_FROM_SAMPLES
from sweeps.protocol.clock import Readings, figure_ns, shows_ticks, with_resolution
from sweeps.protocol.lost_rounds import is_lost
from sweeps.protocol.presets import STABLE_WITHIN, Protocol
from sweeps.protocol.sentinel_rules import in_race
from sweeps.records import Block, Timing
from sweeps.stats import mad, median, p50_estimate


def summarize(job_key: str, blocks: Sequence[Block], protocol: Protocol) -> Timing:
    """Return one timing from all accepted blocks of a job.

    p90 and p99 are over the pooled samples of all blocks (with linear interpolation), if there are enough samples. All
    other figures are medians over the blocks, so that one unusual process does not change them. The p50 of a race's
    winner comes only from its confirming blocks, and from blocks that were added later: the earlier blocks selected it,
    which is partly luck. Blocks with a disqualifying label are left out if enough rounds remain. In a race a shift of
    the device is only a warning, and only for the blocks that enter the p50. Raises `ValueError` for no blocks, a block
    of another job, one that only checks batches, or two blocks of one round.
    """
    import numpy as np  # numpy is imported inside functions, as in sweeps.stats.

    blocks = sorted(blocks, key=lambda block: block.round)
    rounds = [block.round for block in blocks]
    if (
        not blocks
        or len(set(rounds)) != len(rounds)
        or any(block.job_key != job_key or block.checks for block in blocks)
    ):
        raise ValueError(f"not the blocks of job {job_key}, one a round: rounds {rounds}")

    if protocol.budget == "race":
        blocks = [replace(block, labels=in_race(block.labels)) for block in blocks]
    won = any(block.confirms for block in blocks)
    sound = [block for block in blocks if not disqualified(block.labels)]
    shifted = any(map(is_lost, blocks))
    steady = [block for block in sound if protocol.budget == "race" or "device_moved" not in block.labels]
    if len(steady) >= protocol.rounds:
        blocks = steady
    elif len(sound) >= protocol.rounds:
        blocks = sound
    selecting = [block for block in blocks if not block.confirms]
    confirming = [block for block in blocks if block.confirms or (won and block.added)]
    known = [block for block in confirming if "device_moved" not in block.labels]
    if len(known) >= protocol.confirmations:
        confirming = known  # The blocks were measured again: the speed during the others is in doubt.
    if len(confirming) < 2 and selecting:
        confirming = []  # A single block has no interval.
    pooled = np.concatenate([np.asarray(block.samples_ns, dtype=np.float64) for block in blocks]) / 1e6
    medians_ms = [figure_ns(block.samples_ns) / 1e6 for block in confirming or blocks]
    readings = [_readings(block) for block in confirming or blocks]
    p50 = with_resolution(p50_estimate(medians_ms), readings)
    last = medians_ms[-3:]
    labels = {label for block in blocks for label in block.labels}
    # A block of few samples does not show its clock's tick, and early versions did not detect every tick.
    if shows_ticks(readings):
        labels.add("coarse_clock")
    # The label concerns only the blocks that enter the p50. If some blocks were left out, the rest are from before and
    # after a shift.
    labels.discard("device_moved")
    doubtful = any("device_moved" in block.labels for block in confirming or blocks)
    if doubtful or (shifted and "device_changed" not in labels):
        labels.add("device_moved")
    if len(blocks) == 1:
        labels.add("one_block")
    elif _spread(last) > STABLE_WITHIN:
        labels.add("unstable")
    few = pooled.size < P90_FROM_SAMPLES and "mean_only" not in labels
    if few or len(blocks) < protocol.rounds:
        labels.add("few_samples")

    p99 = float(np.quantile(pooled, 0.99)) if pooled.size >= P99_FROM_SAMPLES else None
    figures: dict[str, float | None] = {
        "latency_p50_ms": p50.value,
        "latency_ci_low_ms": p50.low,
        "latency_ci_high_ms": p50.high,
        "latency_p90_ms": float(np.quantile(pooled, 0.90)) if pooled.size >= P90_FROM_SAMPLES else None,
        "latency_p99_ms": p99,
        "p99_over_p50": None if p99 is None else p99 / float(np.quantile(pooled, 0.50)),
        "spread_within": median([mad(block.samples_ns) / median(block.samples_ns) for block in blocks]),
        "spread_between": _spread(medians_ms) if len(blocks) > 1 else None,
        "first_inference_ms": _median_of_known([_ms(block.first_inference_ns) for block in blocks]),
        "load_ms": _median_of_known([_ms(block.load_ns) for block in blocks]),
        "model_rss_mb": _median_of_known([_model_rss_mb(block) for block in blocks]),
        "temp_start_c": _median_of_known([block.conditions.temp_start_c for block in blocks]),
        "temp_end_c": _median_of_known([block.conditions.temp_end_c for block in blocks]),
    }
    return Timing(
        job_key=job_key,
        rounds=len(blocks),
        samples=pooled.size,
        figures={name: value for name, value in figures.items() if value is not None},
        block_medians_ms=_by_visit(selecting),
        confirmed_medians_ms=_by_visit(confirming),
        labels=stored_in_order(labels),
        extra_metrics=_extra_medians(blocks),
    )


def _readings(block: Block) -> Readings:
    return Readings(block.samples_ns, (*block.warmup_ns, *filter(None, (block.first_inference_ns, block.load_ns))))


def _by_visit(blocks: Sequence[Block]) -> tuple[tuple[int, float], ...]:
    return tuple((block.visit, figure_ns(block.samples_ns) / 1e6) for block in blocks)


def _extra_medians(blocks: Sequence[Block]) -> dict[str, float]:
    names = dict.fromkeys(name for block in blocks for name in block.extra_metrics)
    return {
        name: median([block.extra_metrics[name] for block in blocks if name in block.extra_metrics]) for name in names
    }


def _ms(ns: int | None) -> float | None:
    return None if ns is None else ns / 1e6


def _model_rss_mb(block: Block) -> float | None:
    if block.rss_peak_bytes is None or block.rss_before_load_bytes is None:
        return None
    return (block.rss_peak_bytes - block.rss_before_load_bytes) / 1e6


def _median_of_known(values: Sequence[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return median(known) if known else None


def _spread(values: Sequence[float]) -> float:
    return (max(values) - min(values)) / median(values)
