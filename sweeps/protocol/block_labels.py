"""The trust labels of one block: what was wrong with its device, its times or its runner."""

import math
from collections.abc import Sequence

from sweeps.batches import BatchItem
from sweeps.device_facts import VIRTUAL_PHONE
from sweeps.errors import RunnerError
from sweeps.label_kinds import in_order
from sweeps.protocol.bursts import BURST_SHARE, burst_share
from sweeps.protocol.clock import is_coarse, spike_share
from sweeps.protocol.presets import Protocol
from sweeps.records import Block
from sweeps.stats import median, outliers

BUSY_LOAD = 0.15
"""Share of all CPU time that other programs may use. An idle host shows 0.01 to 0.03. 0.15 of two cores is a third of
one core, enough to push the runner off its core sometimes. The limit was chosen by judgement, not by measurement."""

STEAL_SHARE = 0.05
"""Share of the CPU time that the hypervisor gave to other machines during a block. Chosen by judgement, not by
measurement."""

OUTLIER_SHARE = 0.10
"""Share of the samples that are outliers. A few spikes are normal: a block with 3 % of them has the same p50. From 10 %
on, the published p90 is itself an outlier.
"""

_OUTLIERS_FROM_SAMPLES = 20
"""In smaller blocks, two random outliers would already be 10 %; `few_samples` covers those blocks."""

FILLED_SHARE = 0.01
"""The samples together last at least this share of the shortest duration of a block. Between two samples the runner
fills the input, which takes longer than a tiny model; a smaller share means a wrong unit, or no inference. Chosen by
judgement, not by measurement."""

FASTEST_NS = 100
"""A median below this is impossible: two readings of a clock with a call of a runtime between them take longer. Chosen
by judgement, not by measurement."""


def block_labels(
    block: Block | BatchItem,
    requested_backend: str,
    requested_engine: str,
    protocol: Protocol,
    *,
    threads_known: bool = True,
    mean_only: bool = False,
) -> tuple[str, ...]:
    """Return the trust labels of one block or one batch item, in the order of `TRUST`. `protocol`: that of its process.

    `requested_engine` is `none` if nothing is quantized: then any engine is accepted. `threads_known`: whether the
    runner reports the number of its threads; `mean_only`: whether its one sample is the mean of all its iterations.
    Raises `RunnerError` of kind `invalid_samples` if there are no samples, or a sample is not a positive number.
    """
    samples = block.samples_ns
    invalid = [sample for sample in samples if not (math.isfinite(sample) and sample > 0)]
    if invalid or not samples:
        fault = f"{len(invalid)} of {len(samples)} samples, e.g. {invalid[0]} ns" if invalid else "no sample at all"
        raise RunnerError(
            "invalid_samples",
            f"the runner reported impossible times: {fault}",
            "check the clock and the runner of the device, then run again",
        )
    conditions = block.conditions
    load = conditions.load_start
    coarse = is_coarse(samples)
    # Multiples of a tick that are printed with rounding deviate by almost nothing, or by a whole tick.
    outlying = spike_share(samples) if coarse else float(outliers(samples).mean())
    labels = {
        "throttled": conditions.throttled is True,
        "backend_fell_back": block.backend_ran != requested_backend,
        "invalid_timing": _do_not_fit(samples, protocol, mean_only=mean_only),
        "engine_differs": requested_engine not in ("none", block.engine_ran),
        "gate_timeout": conditions.gate == "timed_out",
        # Without a sensor the temperature is unknown, not "cool".
        "ungated": conditions.gate == "none" or not conditions.heat_known,
        "virtual_phone": conditions.exec_context == VIRTUAL_PHONE,
        "hot_start": conditions.started_hot,
        "few_samples": not mean_only and len(samples) < protocol.iterations,
        "coarse_clock": coarse,
        # Samples that alternate between two ticks with the clock's phase do not depend on load.
        "bursts": not coarse and burst_share(samples) >= BURST_SHARE,
        "outliers": len(samples) >= _OUTLIERS_FROM_SAMPLES and outlying > OUTLIER_SHARE,
        "threads_unknown": not threads_known,
        "mean_only": mean_only,
        "busy_host": conditions.gate == "busy"
        or (load is not None and load > BUSY_LOAD)
        or (conditions.steal_share is not None and conditions.steal_share > STEAL_SHARE),
    }
    return in_order(name for name, applies in labels.items() if applies)


def _do_not_fit(samples_ns: Sequence[int], protocol: Protocol, *, mean_only: bool) -> bool:
    """Tell whether these times are too short for real inferences. A sample that exceeds the time of its process ends
    the attempt as a failure (`workers.measure.timed_block.check_clocks`)."""
    filled_s = sum(samples_ns) / 1e9
    return median(samples_ns) < FASTEST_NS or (not mean_only and filled_s < FILLED_SHARE * protocol.min_seconds)
