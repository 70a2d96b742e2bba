"""The state of a device during one block, from its sensors before and after it. Pure."""

from sweeps.protocol.presets import DEFAULT_GATE, Gate
from sweeps.records import Conditions, GateState
from workers.devices.interface import Sensors
from workers.measure.readiness import Readiness, started_hot


def conditions_around(
    before: Sensors, after: Sensors, readiness: Readiness, gate: Gate | None, cpu_seconds: float
) -> Conditions:
    """Return the conditions of a block. `cpu_seconds`: the duration of the block (s) times the number of CPUs."""
    steal_share = None
    if before.steal_seconds is not None and after.steal_seconds is not None and cpu_seconds > 0:
        steal_share = max(0.0, after.steal_seconds - before.steal_seconds) / cpu_seconds
    return Conditions(
        temp_start_c=before.temp_c,
        temp_end_c=after.temp_c,
        cpu_mhz_start=before.cpu_mhz,
        cpu_mhz_end=after.cpu_mhz,
        load_start=before.load,
        throttled=_throttled(before, after),
        gate=_gate_state(gate, readiness),
        lacking=readiness.lacking,
        waited_seconds=readiness.waited_seconds,
        started_hot=gate is None and started_hot(before, DEFAULT_GATE),
        thermal_status_start=before.thermal_status,
        thermal_status_end=after.thermal_status,
        battery_percent=before.battery_percent,
        steal_share=steal_share,
    )


def _gate_state(gate: Gate | None, readiness: Readiness) -> GateState:
    if gate is None:
        return "none"
    if readiness.ready:
        return "ready"
    return "busy" if readiness.busy_only else "timed_out"


def _throttled(before: Sensors, after: Sensors) -> bool | None:
    """Tell whether the device throttled; `None` if the device does not report it.

    A sensor that could be read before the block and not after it counts as throttling: the block may be wrong.
    """
    signs: list[bool] = []
    if before.throttle_count is not None:
        signs.append(after.throttle_count is None or after.throttle_count > before.throttle_count)
    if before.thermal_status is not None or after.thermal_status is not None:
        # Independent of the gate: from 1 on, Android throttles the phone.
        signs.append(after.thermal_status is None or after.thermal_status > 0 or (before.thermal_status or 0) > 0)
    return any(signs) if signs else None
