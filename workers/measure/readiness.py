"""The readiness of a device for a block: cool, charged, and not used by others. Waits for it, within limits.

The rules:

* A condition without a sensor is not checked. That does not mean cool: `Conditions.heat_known` is false then, and the
  block is labelled `ungated`.
* A sensor that was there and can no longer be read makes the device not ready: an unknown battery level counts as too
  low, an unknown temperature as too high, even if another thermometer replaces the battery's.
* A run waits for the load of other programs to end as for heat, with a separate limit (`Readiness.busy_only`): waiting
  seldom ends it. On a computer that people also work on, another benchmark counts as such load; on a phone or a board,
  which nobody else uses meanwhile, it does not.
"""

import math
from dataclasses import dataclass, replace

from sweeps.protocol.presets import Gate
from sweeps.records import Lack
from workers.devices.interface import Device, Sensors

POLL_SECONDS = 5.0
"""The pause between two readings of the sensors: batteries cool by a few hundredths of a degree in that time."""

_NO_TIME_S = 1e-3
"""A wait with less time left than this is over: a clock that is a float may not even advance by so little."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Readiness:
    """The readiness of a device at one point in time."""

    sensors: Sensors
    lacking: tuple[Lack, ...]
    """The conditions that are not met; empty if the device is ready."""
    busy_only: bool
    """Tells whether the load of other programs is the only condition that is not met."""
    waited_seconds: float = 0.0
    """The seconds of the wait, on the device's clock."""

    @property
    def ready(self) -> bool:
        return not self.lacking

    @property
    def words(self) -> tuple[str, ...]:
        """Return the conditions that are not met, in words."""
        return tuple(lack.text for lack in self.lacking)


def judge(sensors: Sensors, gate: Gate, earlier: Sensors | None = None) -> Readiness:
    """Compare one reading of the sensors with the gate, and return the readiness. Pure.

    `earlier`: an earlier reading of the same device, which shows which sensors the device has.
    """
    benchmarks = tuple(Lack(f"another benchmark runs on the device: {program}") for program in sensors.competing)
    busy: tuple[Lack, ...] = ()
    if sensors.load is not None and not sensors.load <= gate.max_load:
        busy = (Lack(f"other programs take {sensors.load:.0%} of the CPU time, more than {gate.max_load:.0%}"),)
    busy = (*benchmarks, *busy) if sensors.shared else busy
    benchmarks = () if sensors.shared else benchmarks
    lacking = (
        *_heat(sensors, gate),
        *_unreadable(sensors, earlier),
        *_power(sensors, gate, earlier),
        *benchmarks,
        *busy,
    )
    return Readiness(sensors=sensors, lacking=lacking, busy_only=bool(busy) and lacking == busy)


def started_hot(sensors: Sensors, gate: Gate) -> bool:
    """Tell whether a block without a gate starts warmer than this gate allows."""
    return bool(_heat(sensors, gate))


def await_ready(device: Device, gate: Gate, seconds: float, earlier: Sensors | None = None) -> Readiness:
    """Wait until the device is ready, at most for `seconds`; the sensors are read at least once.

    A long wait may be split into short ones: `earlier` is then the first reading of them all. Raises `DeviceError` if
    the device does not answer, and `ValueError` if `seconds` is NaN, since the wait would never end.
    """
    if math.isnan(seconds):
        raise ValueError("the longest wait is not a number")
    started = device.now_s()
    while True:
        sensors = device.sensors()
        earlier = earlier or sensors
        readiness = judge(sensors, gate, earlier)
        waited = device.now_s() - started
        left = seconds - waited
        if readiness.ready or left < _NO_TIME_S:
            return replace(readiness, waited_seconds=waited)
        device.rest(min(POLL_SECONDS, left))


def _heat(sensors: Sensors, gate: Gate) -> tuple[Lack, ...]:
    lacks: list[Lack] = []
    name = "max_battery_temp_c" if sensors.temp_is_battery else "max_cpu_temp_c"
    limit: float = getattr(gate, name)
    # A NaN is too hot: the comparison is negated for that.
    if sensors.temp_c is not None and not sensors.temp_c <= limit:
        sensor = "battery" if sensors.temp_is_battery else "CPU"
        lacks.append(
            _beyond(f"{sensor} at {sensors.temp_c:.1f} °C, above {limit:g} °C", name, round(sensors.temp_c, 1))
        )
    if sensors.thermal_status is not None and sensors.thermal_status > gate.max_thermal_status:
        text = f"thermal status {sensors.thermal_status}, above {gate.max_thermal_status}"
        lacks.append(_beyond(text, "max_thermal_status", sensors.thermal_status))
    return tuple(lacks)


def _beyond(text: str, limit: str, figure: float) -> Lack:
    return Lack(text, limit, float(figure)) if math.isfinite(figure) else Lack(text)


def _unreadable(sensors: Sensors, earlier: Sensors | None) -> tuple[Lack, ...]:
    if earlier is None:
        return ()
    readings = {
        "temperature": (earlier.temp_c, sensors.temp_c),
        "thermal status": (earlier.thermal_status, sensors.thermal_status),
    }
    missing = [name for name, (then, now) in readings.items() if then is not None and now is None]
    # Another thermometer has another limit, and does not show the battery's temperature.
    if earlier.temp_is_battery and not sensors.temp_is_battery and sensors.temp_c is not None:
        missing.insert(0, "battery's temperature")
    return tuple(Lack(f"the {name} cannot be read any more") for name in missing)


def _power(sensors: Sensors, gate: Gate, earlier: Sensors | None) -> tuple[Lack, ...]:
    has_battery = sensors.has_battery or (earlier is not None and earlier.has_battery)
    if not has_battery or gate.min_battery_percent <= 0:
        return ()
    if sensors.battery_percent is None:
        return (Lack(f"battery level cannot be read, {gate.min_battery_percent:g} % is asked for"),)
    if not sensors.battery_percent >= gate.min_battery_percent:
        text = f"battery at {sensors.battery_percent:.0f} %, below {gate.min_battery_percent:g} %"
        percent = sensors.battery_percent
        return (_beyond(text, "min_battery_percent", round(percent) if math.isfinite(percent) else percent),)
    return ()
