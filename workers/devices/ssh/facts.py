"""Parsers of the texts that a board prints about itself. Pure except for a temporary folder; the board's text is never
executed.

Missing or invalid values become empty or `None`, never an error.
"""

import re
from dataclasses import dataclass, replace
from pathlib import Path

from sweeps.device_facts import BOARD, DeviceFacts, canonical_key
from sweeps.temporary import temporary_folder
from workers.devices.interface import Sensors
from workers.devices.linux.competing import benchmark_name, is_runner, parse_processes
from workers.devices.linux.kernel_text import parse_clusters, parse_cores, parse_features, parse_ram_bytes, parse_use
from workers.devices.linux.sensors import sensors_in

_LONGEST = 100
_ABIS = {
    "x86_64": "x86_64",
    "amd64": "x86_64",
    "aarch64": "arm64-v8a",
    "arm64": "arm64-v8a",
    "armv7l": "armeabi-v7a",
    "armv8l": "armeabi-v7a",
    "i686": "x86",
    "i386": "x86",
}
_ABIS_OF_32_BITS = {"x86_64": "x86", "arm64-v8a": "armeabi-v7a"}
_SYS = re.compile(
    r"/sys/(class/thermal/thermal_zone\d{1,4}/temp"
    r"|class/power_supply/[\w-]{1,64}/(?:type|scope|present|capacity)"
    r"|devices/system/cpu/cpu\d{1,4}/(?:cpufreq/scaling_cur_freq"
    r"|thermal_throttle/(?:core|package)_throttle_count)):([\w .+-]{0,100})",
    re.ASCII,
)
_PYTHON = re.compile(r"/[^\n\0]{1,500}")

SENSOR_FILES = """
p=/sys/class/power_supply c=/sys/devices/system/cpu
grep '' /dev/null /sys/class/thermal/thermal_zone*/temp $p/*/type $p/*/scope $p/*/present $p/*/capacity \\
    $c/cpu[0-9]*/cpufreq/scaling_cur_freq $c/cpu[0-9]*/thermal_throttle/*_throttle_count
"""
"""The script that prints files below `/sys`, as `copied` reads them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Answers:
    """The outputs of a board's commands and files."""

    uname: str
    """The output of `uname -sr`."""
    machine: str
    """The output of `uname -m`."""
    bits: str
    """The output of `getconf LONG_BIT`, the word size of the board's programs, which may be 32 under a 64-bit
    kernel."""
    os_release: str
    machine_id: str
    tree_model: str
    """The model in the board's device tree, with a line for each word."""
    tree_compatible: str
    tree_serial: str
    vendor: str
    product: str
    """The product that the firmware of a board without a device tree reports; `vendor` comes from the firmware too."""
    cpuinfo: str
    meminfo: str
    cpu_files: str
    python: str
    """The path of the board's Python with torch; empty if it has none."""


def read_facts(name: str, answers: Answers, host_key: str) -> DeviceFacts:
    """Return the facts of a board. `host_key` distinguishes boards that have neither a machine id nor a serial
    number."""
    compatible = [text for text in (_line(line) for line in answers.tree_compatible.splitlines()) if text]
    machine = _line(answers.machine) or "unknown"
    cpu_name = re.search(r"^(?:model name|Hardware)[ \t]*:[ \t]*(.+)$", answers.cpuinfo, re.MULTILINE)
    pretty = re.search(r'^PRETTY_NAME="?([^"\n]*)"?$', answers.os_release, re.MULTILINE)
    kinds = parse_clusters(answers.cpu_files)
    python = answers.python.strip()
    return DeviceFacts(
        device_id=_unit(answers, host_key),
        name=name,
        maker=_line(answers.vendor) or (compatible[0].partition(",")[0] if compatible else "") or "Linux",
        model=_line(answers.tree_model) or _line(answers.product) or machine,
        # The last of the compatible names is that of the SoC.
        soc=(compatible[-1] if compatible else "") or (_line(cpu_name[1]) if cpu_name else "") or machine,
        os_build=f"{_line(answers.uname) or 'Linux'} {_line(pretty[1]) if pretty else ''}".strip(),
        abi=_abi(machine, answers.bits.strip()),
        cores=parse_cores(answers.cpuinfo, kinds),
        ram_bytes=parse_ram_bytes(answers.meminfo),
        cpu_features=parse_features(answers.cpuinfo),
        core_clusters=kinds,
        exec_context=BOARD,
        python=python if _PYTHON.fullmatch(python) else "",
    )


def read_sensors(*, files: str, stat_before: str, stat_after: str, processes: str) -> Sensors:
    """Return the sensor values of a board. `files` is the output of `SENSOR_FILES`; `stat_after` is empty if the load
    was not requested."""
    with temporary_folder() as folder:
        sensors = sensors_in(copied(files, folder))
    steal_seconds, load = parse_use(stat_before, stat_after)
    return replace(
        sensors,
        competing=tuple(f"{name} (process {pid})" for pid, name in _benchmarks(processes)),
        steal_seconds=steal_seconds,
        load=load,
    )


def copied(files: str, folder: Path) -> Path:
    """Write lines of `/sys/FILE:CONTENT` to files again, for functions that read the files of this host. Return their
    folder."""
    for match in filter(None, map(_SYS.fullmatch, files.splitlines())):
        target = folder / match[1]
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(match[2] + "\n", encoding="ascii")
    return folder


def is_ours(cmdline: str, folder: str) -> bool:
    """Tell whether a command line, with a NUL after each word, runs a program that we pushed to this `folder`.

    Other runners of EdgeSweep do not count as ours: another user of the board may have started one.
    """
    return any(word.startswith(f"{folder}/run/") for word in cmdline.split("\0")[:2])


def _benchmarks(processes: str) -> list[tuple[int, str]]:
    benchmarks = []
    for pid, cmdline in parse_processes(processes):
        argv = cmdline.rpartition("\0")[0].split("\0")
        name = "a runner of EdgeSweep" if is_runner(argv) else benchmark_name(argv)
        if name is not None:
            benchmarks.append((pid, name))
    return benchmarks


def _abi(machine: str, bits: str) -> str:
    abi = _ABIS.get(machine.lower(), re.sub(r"[^\w-]", "_", machine, flags=re.ASCII)[:32])
    return _ABIS_OF_32_BITS.get(abi, abi) if bits == "32" else abi


def _unit(answers: Answers, host_key: str) -> str:
    """Return the device id, a short word, whatever the board reports. Boards with copied cards have the same machine
    id, but different serial numbers."""
    serial = re.search(r"^Serial[ \t]*:[ \t]*(\S+)$", answers.cpuinfo, re.MULTILINE)
    ids = [answers.machine_id.strip(), answers.tree_serial.strip(), serial[1] if serial else ""]
    return f"board-{canonical_key({'board': ids if any(ids) else host_key})[:12]}"


def _line(text: str) -> str:
    """Return the first line that is not blank, as text for people."""
    first = next((line for line in text.splitlines() if line.strip()), "")
    return "".join(character if character.isprintable() else "?" for character in first.strip())[:_LONGEST]
