"""The sensors of a Linux host. If a folder of `/sys` is missing, as in most containers, so are its sensors."""

import os
import re
import time
from collections.abc import Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path

import psutil

from workers.devices.interface import Sensors
from workers.devices.linux.competing import benchmark_name, sweep_command

# A virtual machine's ticks are 10 ms: a shorter window shows no load.
_LOAD_WINDOW_S = 0.2
_STAT = ("user", "nice", "system", "idle", "iowait", "irq", "softirq", "steal")
_TICKS_PER_S = 100
"""The ticks per second of `/proc/stat`: the same on every Linux, as programs see it."""
_NO_DEMAND = ("idle", "iowait", "steal")
_COUNTED_ELSEWHERE = ("guest", "guest_nice")


def read_sensors(sys: Path = Path("/sys"), *, load: bool = True) -> Sensors:
    """Return the present sensor values. Takes 0.02 to 0.05 s for a hundred processes, and 0.2 s for the load of other
    programs."""
    programs = _programs()
    own = _own(programs)
    before = after = _cpu_seconds(own)
    if load:
        time.sleep(_LOAD_WINDOW_S)
        after = _cpu_seconds(own)
    return replace(
        sensors_in(sys),
        competing=_competing(programs, own),
        shared=True,
        steal_seconds=after.of_all.get("steal"),
        load=load_of_others(before, after) if load else None,
    )


def sensors_in(sys: Path) -> Sensors:
    """Return the sensor values in the files below `/sys`, or in a copy of some of them."""
    battery, percent = _battery(sys / "class/power_supply")
    cpus = sys / "devices/system/cpu"
    return Sensors(
        temp_c=host_temperature(sys / "class/thermal"),
        has_battery=battery,
        battery_percent=percent,
        cpu_mhz=_mean_mhz(cpus),
        throttle_count=_throttle_count(cpus),
    )


def host_temperature(folder: Path = Path("/sys/class/thermal")) -> float | None:
    """Return the temperature of the hottest thermal zone in °C; zones that report impossible values (0, -274) are left
    out."""
    return hottest_zone_c(_numbers(sorted(folder.glob("thermal_zone*/temp"))))


def hottest_zone_c(readings: Iterable[int]) -> float | None:
    """Return the temperature in °C of the hottest of these thermal zones, which report thousandths of a degree (Linux,
    Documentation/driver-api/thermal/sysfs-api.rst). Less than 1 °C is left out: such a zone has no sensor, or reports
    whole degrees."""
    return max((value / 1000 for value in readings if 1000 <= value < 150_000), default=None)


def _battery(folder: Path) -> tuple[bool, float | None]:
    """Return whether there are batteries, and their mean charge in percent, `None` if one cannot be read."""
    batteries = [supply for supply in sorted(folder.glob("*")) if _is_battery(supply)]
    levels = [level for level in _numbers([supply / "capacity" for supply in batteries]) if 0 <= level <= 100]
    known = bool(batteries) and len(levels) == len(batteries)
    return bool(batteries), sum(levels) / len(levels) if known else None


def _is_battery(supply: Path) -> bool:
    # Scope `Device`: the battery of a mouse or a keyboard. `present` 0: an empty bay.
    is_battery = supply.name.startswith("BAT") or _text(supply / "type") == "Battery"
    return is_battery and _text(supply / "scope") != "Device" and _text(supply / "present") != "0"


def _mean_mhz(folder: Path) -> float | None:
    kilohertz = _numbers(sorted(folder.glob("cpu[0-9]*/cpufreq/scaling_cur_freq")))
    return sum(kilohertz) / len(kilohertz) / 1000 if kilohertz else None


def _throttle_count(folder: Path) -> int | None:
    """Return the sum of throttle counts over cores and packages. Each core reports its package's count too, so that is
    added several times."""
    counts = _numbers(sorted(folder.glob("cpu[0-9]*/thermal_throttle/*_throttle_count")))
    return sum(counts) if counts else None


@dataclass(frozen=True, slots=True, kw_only=True)
class CpuSeconds:
    """The CPU time since the start of the machine or of the process."""

    of_all: Mapping[str, float]
    """The CPU seconds of the machine, by the categories of `/proc/stat`."""
    of_own: Mapping[int, float]
    """The CPU seconds of each of our own processes, by process id."""


@dataclass(frozen=True, slots=True)
class _Program:
    parent: int
    argv: tuple[str, ...]


def _programs() -> dict[int, _Program]:
    """Return all visible processes, by id."""
    # Without this, psutil leaves out a new process that has the id of a cached one.
    psutil.process_iter.cache_clear()
    infos = (process.info for process in psutil.process_iter(["pid", "ppid", "cmdline"]))
    return {info["pid"]: _Program(info["ppid"] or 0, tuple(info["cmdline"] or ())) for info in infos}


def _own(programs: dict[int, _Program]) -> set[int]:
    """Return the ids of this process, its ancestors and its descendants: a driver waits for its runner.

    Siblings are not among them: the same parent may have started a program that loads the machine.
    """
    me = os.getpid()
    own = {me}
    ancestor = me
    while ancestor in programs and programs[ancestor].parent not in own | {0}:
        ancestor = programs[ancestor].parent
        own.add(ancestor)
    descendants = {me}
    while children := {pid for pid, program in programs.items() if program.parent in descendants} - descendants:
        descendants |= children
    return own | descendants


def _competing(programs: dict[int, _Program], own: Collection[int]) -> tuple[str, ...]:
    named = ((pid, benchmark_name(program.argv)) for pid, program in sorted(programs.items()) if pid not in own)
    return tuple(f"{name} (process {pid})" for pid, name in named if name)


def other_sweeps() -> tuple[str, ...]:
    """Return the commands of EdgeSweep that build and measure on this machine now, besides this process: `edgesweep run
    (process 7)`."""
    programs = _programs()
    own = _own(programs)
    named = ((pid, sweep_command(program.argv)) for pid, program in sorted(programs.items()) if pid not in own)
    return tuple(f"{name} (process {pid})" for pid, name in named if name)


def load_of_others(before: CpuSeconds, after: CpuSeconds) -> float | None:
    """Return the share (0 to 1) of CPU time that other programs used between two readings, without steal time. Pure."""
    passed = {name: after.of_all[name] - seconds for name, seconds in before.of_all.items()}
    total = sum(passed.values())
    if total <= 0:
        return None
    in_use = total - sum(passed.get(name, 0.0) for name in _NO_DEMAND)
    by_own = sum(after.of_own[pid] - before.of_own[pid] for pid in before.of_own.keys() & after.of_own.keys())
    return min(max(in_use - by_own, 0.0) / total, 1.0)


def parse_cpu_seconds(stat: str) -> dict[str, float]:
    """Return the CPU time of a machine (s) by category, from the line `cpu` of its `/proc/stat`; empty without such a
    line. Pure."""
    line = re.search(r"^cpu ([0-9 ]+)$", stat, re.MULTILINE)
    ticks = [int(word) if len(word) <= 15 else None for word in line[1].split()] if line else []
    return {name: tick / _TICKS_PER_S for name, tick in zip(_STAT, ticks, strict=False) if tick is not None}


def _cpu_seconds(own: Collection[int]) -> CpuSeconds:
    of_own: dict[int, float] = {}
    for pid in own:
        with suppress(psutil.Error):
            own_times = psutil.Process(pid).cpu_times()
            of_own[pid] = own_times.user + own_times.system
    times = psutil.cpu_times()
    of_all = {name: float(getattr(times, name)) for name in times._fields if name not in _COUNTED_ELSEWHERE}
    return CpuSeconds(of_all=of_all, of_own=of_own)


def _numbers(paths: Sequence[Path]) -> list[int]:
    numbers = []
    for path in paths:
        with suppress(OSError, ValueError):
            numbers.append(int(path.read_text()))
    return numbers


def _text(path: Path) -> str:
    with suppress(OSError, ValueError):
        return path.read_text(encoding="utf-8").strip()
    return ""
