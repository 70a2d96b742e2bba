"""Parsers of the texts that a phone prints about itself. Pure; the phone's text is never executed.

Formats differ between Android versions and makers: missing or invalid values become empty or `None`, never an error.
"""

import re
from collections.abc import Mapping

from sweeps.device_facts import DeviceFacts
from workers.devices.adb.phone_connection import FOLDER
from workers.devices.interface import Sensors
from workers.devices.linux.competing import benchmark_name, is_runner, parse_processes
from workers.devices.linux.kernel_text import parse_clusters, parse_cores, parse_features, parse_ram_bytes, parse_use
from workers.devices.linux.sensors import hottest_zone_c

_PROPERTY = re.compile(r"\[([^\]]*)\]: \[(.*)")
_LONGEST_PROPERTY = 200
_FIRST_NNAPI_SDK = 27
_SURE_TENTHS_C = 8.0
"""The battery temperature (°C) from which the phone certainly reported tenths of a degree: no battery is at 80 °C."""
_VIRTUAL = "edgesweep/virtual/"
"""The beginning of a virtual phone's build fingerprint."""


def parse_properties(text: str) -> dict[str, str]:
    """Parse the output of `getprop`: `[name]: [value]`, where a value may have several lines."""
    properties: dict[str, str] = {}
    name: str | None = None
    lines: list[str] = []
    for line in text.split("\n"):
        if name is not None:
            lines.append(line)
        elif match := _PROPERTY.fullmatch(line):
            name, lines = match[1], [match[2]]
        if name is not None and lines[-1].endswith("]"):
            properties[name] = "\n".join(lines)[:-1].strip()[:_LONGEST_PROPERTY]
            name = None
    return properties


def read_facts(
    name: str,
    serial: str,
    *,
    properties: Mapping[str, str],
    cpuinfo: str,
    meminfo: str,
    cpu_files: str,
    has_nnapi: bool,
) -> DeviceFacts:
    """Return the facts of a phone. `serial`: the serial number that the phone reports, or adb's if it reports none."""

    def get(*names: str) -> str:
        return next((value for key in names if (value := properties.get(key, ""))), "")

    sdk = get("ro.build.version.sdk")
    level = (_number(sdk) or 0) if has_nnapi else 0
    release, build = get("ro.build.version.release"), get("ro.build.fingerprint", "ro.build.display.id")
    maker_of_soc, soc = get("ro.soc.manufacturer"), get("ro.soc.model", "ro.board.platform", "ro.hardware")
    kinds = parse_clusters(cpu_files)
    return DeviceFacts(
        device_id=serial,
        name=name,
        maker=get("ro.product.manufacturer", "ro.product.brand"),
        model=get("ro.product.model", "ro.product.device"),
        soc=f"{maker_of_soc} {soc}".strip(),
        os_build=f"Android {release} {build}".strip() if release or build else "",
        abi=get("ro.product.cpu.abi"),
        cores=parse_cores(cpuinfo, kinds),
        ram_bytes=parse_ram_bytes(meminfo),
        cpu_features=parse_features(cpuinfo),
        nnapi_level=level if level >= _FIRST_NNAPI_SDK else None,
        core_clusters=kinds,
        # The times of a virtual phone are those of its host's CPU.
        exec_context="virtual phone" if properties.get("ro.build.fingerprint", "").startswith(_VIRTUAL) else "shell",
    )


def read_sensors(
    *, battery: str, thermal: str, zones: str, mhz: str, stat_before: str, stat_after: str, processes: str
) -> Sensors:
    """Return the sensor values of a phone. `stat_after` is empty if the load was not requested."""
    present, percent, temp_c = parse_battery(battery)
    hottest = hottest_zone_c(_numbers(zones))
    kilohertz = [value for value in _numbers(mhz) if value > 0]
    steal_seconds, load = parse_use(stat_before, stat_after)
    return Sensors(
        temp_c=hottest if temp_c is None else temp_c,
        temp_is_battery=temp_c is not None,
        thermal_status=parse_thermal_status(thermal),
        has_battery=present,
        battery_percent=percent,
        competing=tuple(f"{name} (process {pid})" for pid, name in parse_benchmarks(processes)),
        steal_seconds=steal_seconds,
        cpu_mhz=sum(kilohertz) / len(kilohertz) / 1000 if kilohertz else None,
        load=load,
    )


def parse_thermal_status(text: str) -> int | None:
    """Parse the thermal status in the output of `dumpsys thermalservice`. `None` if the status does not come from a
    sensor: the service has no HAL, a person has overridden the status (`cmd thermalservice override-status`), or it is
    printed more than once."""
    values = re.findall(r"^[ \t]*Thermal Status: ([0-6])[ \t\r]*$", text, re.MULTILINE)
    invalid = re.search(r"^[ \t]*(?:IsStatusOverride:[ \t]*true|HAL Ready:(?![ \t]*true\b))", text, re.MULTILINE)
    return int(values[0]) if len(values) == 1 and invalid is None else None


def parse_battery(text: str) -> tuple[bool, float | None, float | None]:
    """Parse the output of `dumpsys battery`: whether there is a battery, its charge in percent, its temperature in °C
    (printed in tenths). Charge and temperature are `None` while a person has stopped their updates (`dumpsys battery
    unplug` and `set`)."""
    values = {key.strip(): value.strip() for key, _, value in (line.partition(":") for line in text.splitlines())}
    if values.get("present") == "false" or not values.keys() & {"level", "temperature", "present"}:
        return False, None, None
    level, scale, tenths = (_number(values.get(key, "")) for key in ("level", "scale", "temperature"))
    if "UPDATES STOPPED" in text:
        return True, None, None
    percent = None if level is None else 100 * level / (scale or 100)
    temp_c = None if tenths is None else tenths / 10
    return (
        True,
        percent if percent is not None and 0 <= percent <= 100 else None,
        # A phone without this sensor reports 0. A value of a few tenths of a degree may as well be whole degrees of a
        # hot phone.
        temp_c if temp_c is not None and (_SURE_TENTHS_C <= temp_c <= 150 or -30 <= temp_c < 0) else None,
    )


def parse_benchmarks(processes: str) -> list[tuple[int, str]]:
    """Return the process id and name of each benchmark in the input of `parse_processes`."""
    benchmarks = ((pid, benchmark(cmdline)) for pid, cmdline in parse_processes(processes))
    return [(pid, match[0]) for pid, match in benchmarks if match]


def benchmark(cmdline: str) -> tuple[str, bool] | None:
    """Return the benchmark's name, and whether it is a program of EdgeSweep; `None` if the command line, with a NUL
    after each word, starts no benchmark.

    Every program that EdgeSweep pushed to the phone counts as EdgeSweep's, whoever wrote it.
    """
    words, nul, _ = cmdline.rpartition("\0")
    argv = words.split("\0")
    own = is_runner(argv) or argv[0].startswith(f"{FOLDER}/")
    name = benchmark_name(argv) or ("a program of EdgeSweep" if own else None)
    return (name, own) if nul and name is not None else None


def is_ours(cmdline: str) -> bool:
    """Tell whether a command line, with a NUL after each word, runs a program of EdgeSweep."""
    match = benchmark(cmdline)
    return match is not None and match[1]


def _numbers(text: str) -> list[int]:
    return [value for line in text.splitlines() if (value := _number(line)) is not None]


def _number(text: str) -> int | None:
    return int(text) if re.fullmatch(r"-?[0-9]{1,15}", text.strip()) else None
