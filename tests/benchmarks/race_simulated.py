"""The simulated device of a real one: latencies, times of a process and noise are those that real sweeps measured."""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from race_case import RealSweep, race_spec

from sweeps.batches import BatchItem
from sweeps.protocol.clock import figure_ns
from sweeps.protocol.presets import protocol_of
from sweeps.records import Block
from sweeps.stats import median
from tests.benchmarks.recorded_phone import RecordedPhone, Trace
from tests.benchmarks.simulated_sweep import simulate
from workers.devices.fake.phones import Phone


def phone_of(measured: Sequence[RealSweep]) -> tuple[Phone, dict[str, float]]:
    """A phone, and the latencies in ms of the builds that race, by name. Of `measured`, each of these has a block.

    The noise is a trace: all blocks in processes of their own, each build's divided by its latency. What a process
    takes beside warm-up and timed iterations is a start, and a loading (with the rest of the first inference) for each
    of its builds: a line through all processes, of one build and of many. Without batches all of it is the start.
    """
    blocks = [(name, block) for sweep in measured for name, own_blocks in sweep.blocks.items() for block in own_blocks]
    medians_ms: dict[str, list[float]] = {}
    for name, block in blocks:
        medians_ms.setdefault(name, []).append(figure_ns(block.samples_ns) / 1e6)
    untimed = {name for sweep in measured for name in sweep.untimed}
    latencies_ms = {name: median(several) for name, several in medians_ms.items()}

    def inferences_s(timed: Block | BatchItem, name: str) -> float:
        """The time of warm-up and timed iterations, and of the first inference as if it took no longer than others."""
        return (sum(timed.warmup_ns) + sum(timed.samples_ns)) / 1e9 + latencies_ms[name] / 1e3

    processes = [(1, block.device_seconds - inferences_s(block, name)) for name, block in blocks]
    for sweep in measured:
        for batch in sweep.batches:
            taken_s = sum(inferences_s(item, sweep.names[key]) for key, item in batch.items.items())
            processes.append((len(batch.items), batch.device_seconds - taken_s))
    builds, seconds = (np.array(column) for column in zip(*processes, strict=True))
    load_s, start_s = np.polyfit(builds, seconds, deg=1) if len(set(builds)) > 1 else (0.0, seconds.mean())
    trace = Trace(tuple(np.array(block.samples_ns) / 1e6 / latencies_ms[name] for name, block in blocks))
    phone = RecordedPhone(name="as measured", trace=trace)
    # The first inference is in the loading; the warm-up is long enough for clocks that are low at first.
    phone = replace(
        phone,
        start_s=max(0.0, float(start_s)),
        load_s=max(0.0, float(load_s)),
        first_inference_slower=1.0,
        cold_slower=1.0,
    )
    return phone, {name: ms for name, ms in latencies_ms.items() if name not in untimed}


def device_seconds(phone: Phone, true_ms: dict[str, float], seeds: int, *, alone: bool) -> list[float]:
    """The device seconds of simulated races, without waiting and pushing. `alone`: without batches."""
    protocol = protocol_of(race_spec(0))
    races = [
        simulate(phone, true_ms, protocol, seed=seed, artifact_bytes=0, groups={} if alone else None)
        for seed in range(seeds)
    ]
    return [race.device_s - race.waited_s for race in races]
