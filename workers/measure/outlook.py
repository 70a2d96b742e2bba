"""A preview of how blocks would run on this computer in its present state, before anything runs."""

from collections.abc import Iterator, Sequence
from dataclasses import replace

from sweeps.planning.plan import Plan
from sweeps.protocol.presets import Protocol
from sweeps.spec import catalog
from sweeps.text import duration
from workers.devices.interface import Sensors
from workers.devices.linux.sensors import other_sweeps, read_sensors
from workers.measure.readiness import judge


def outlook_here(plan: Plan) -> list[str]:
    """Return lines of text about the blocks of a plan on this computer in its present state; none if the plan times
    nothing here."""
    device_ids = {facts.device_id for facts in plan.devices if catalog.is_host(facts.name)}
    timed = [job.device_id for job in plan.jobs if job.device_id in device_ids and not job.emulated]
    return list(outlook(read_sensors(), plan.protocol.on(timed[0]), other_sweeps())) if timed else []


def outlook(sensors: Sensors, protocol: Protocol, sweeps: Sequence[str] = ()) -> Iterator[str]:
    """Yield a line of text for each kind of condition that is not met now; none if the computer is ready, or there is
    no gate. Pure. `sweeps`: other sweeps that run on this computer, in words; between their blocks they build, which no
    sensor shows beforehand."""
    gate = protocol.gate
    if gate is None:
        return
    readiness = judge(sensors, gate)
    ready_but_busy = judge(_without_load(sensors), gate)
    load = [text for text in readiness.words if text not in ready_but_busy.words]
    if load:
        longest = duration(min(gate.load_wait_seconds, gate.wait_seconds))
        yield (
            f"this computer is busy: {'; '.join(load)}. Each block waits up to {longest} for that to end. Once "
            f"{longest} were in vain no block waits any more: those that start while it is busy are marked busy_host, "
            "which may win; their intervals will be wider"
        )
    if sweeps:
        yield (
            f"this computer runs another sweep: {', '.join(sweeps)}. Whenever it builds or measures, it is such load: "
            "for narrow intervals, let it end first"
        )
    if ready_but_busy.lacking:
        fate = "are marked gate_timeout, which may not win" if protocol.on_not_ready == "mark" else "fail (not_ready)"
        yield (
            f"this computer is not ready: {'; '.join(ready_but_busy.words)}. Blocks will wait up to "
            f"{duration(gate.wait_seconds)}, and if that is in vain, they {fate}; the limits are under protocol: gate:"
        )


def _without_load(sensors: Sensors) -> Sensors:
    return replace(sensors, load=None, competing=())
