"""What will happen to blocks on this computer as it is now, said before anything runs. Pure: sensors in, lines out."""

from collections.abc import Iterator
from dataclasses import replace

from sweeps.protocol.presets import Protocol
from sweeps.text import duration
from workers.devices.interface import Sensors
from workers.measure.readiness import judge


def outlook(sensors: Sensors, protocol: Protocol) -> Iterator[str]:
    """A line for each kind of condition that is not met now; none if the computer is ready, or there is no gate."""
    gate = protocol.gate
    if gate is None:
        return
    found = judge(sensors, gate)
    ready_but_busy = judge(_without_load(sensors), gate)
    load = [one for one in found.lacking if one not in ready_but_busy.lacking]
    if load:
        yield (
            f"this computer is busy: {'; '.join(load)}. Blocks will wait for it up to "
            f"{duration(min(gate.load_wait_seconds, gate.wait_seconds))} in all, and are then marked busy_host, which "
            "may win; their intervals will be wider"
        )
    if ready_but_busy.lacking:
        then = "are marked gate_timeout, which may not win" if protocol.on_not_ready == "mark" else "fail (not_ready)"
        yield (
            f"this computer is not ready: {'; '.join(ready_but_busy.lacking)}. Blocks will wait up to "
            f"{duration(gate.wait_seconds)}, and if that is in vain, they {then}; the limits are under protocol: gate:"
        )


def _without_load(sensors: Sensors) -> Sensors:
    return replace(sensors, load=None, competing=())
