"""Parsers of the texts that the kernel of another Linux machine prints about its processor, its memory and their use.

They are pure except for a temporary folder. Missing or invalid values become empty or `None`, never an error.
"""

import re

from sweeps.temporary import temporary_folder
from workers.cores import clusters
from workers.devices.linux.sensors import CpuSeconds, load_of_others, parse_cpu_seconds

FEATURES = ("asimddp", "i8mm", "sve", "avx2", "avx512f", "avx_vnni", "avx512_vnni", "amx_int8")
"""The instruction sets that decide which kernels run."""
CPU_FILES = """
c=/sys/devices/system/cpu
ls -d $c/cpu[0-9]*
grep '' /dev/null $c/cpu[0-9]*/online $c/cpu[0-9]*/cpu_capacity $c/cpu[0-9]*/cpufreq/cpuinfo_max_freq
"""
"""The script that prints what `parse_clusters` reads."""
CPU_TIMES = "grep '^cpu ' /proc/stat"
"""The command that prints the CPU times; `parse_use` reads two outputs of it."""
_CPU = re.compile(
    r"/sys/devices/system/cpu/(cpu\d{1,4})(?:/(online|cpu_capacity|cpufreq/cpuinfo_max_freq):(\d{1,15}))?", re.ASCII
)


def cpu_times_later(*, load: bool) -> str:
    """Return the command that prints the CPU times again after 0.2 s, or without `load` prints nothing."""
    return f"sleep 0.2; {CPU_TIMES}" if load else ":"


def parse_use(before: str, after: str) -> tuple[float | None, float | None]:
    """Return the steal time in seconds, and the load (0 to 1), from the outputs of `CPU_TIMES` and
    `cpu_times_later`."""
    first, second = parse_cpu_seconds(before), parse_cpu_seconds(after)
    load = None
    if first.keys() == second.keys():
        load = load_of_others(CpuSeconds(of_all=first, of_own={}), CpuSeconds(of_all=second, of_own={}))
    return (second or first).get("steal"), load


def parse_clusters(cpu_files: str) -> tuple[tuple[int, ...], ...]:
    """Return the CPUs by kind of core, from the output of `CPU_FILES`: the output is written to files again, for
    `workers.cores`."""
    with temporary_folder() as root:
        for match in filter(None, map(_CPU.fullmatch, cpu_files.splitlines())):
            (root / match[1] / "cpufreq").mkdir(parents=True, exist_ok=True)
            if match[2]:
                (root / match[1] / match[2]).write_text(match[3], encoding="ascii")
        return clusters(root)


def parse_cores(cpuinfo: str, kinds: tuple[tuple[int, ...], ...]) -> int:
    """Return the number of cores, at least 1: `/proc/cpuinfo` of some kernels has only those that are switched on."""
    return max(len(re.findall(r"^processor\s*:", cpuinfo, re.MULTILINE)), sum(map(len, kinds)), 1)


def parse_features(cpuinfo: str) -> tuple[str, ...]:
    """Return the `FEATURES` that `/proc/cpuinfo` lists."""
    flags = re.search(r"^(?:Features|flags)\s*:(.*)$", cpuinfo, re.MULTILINE)
    words = set(flags[1].split()) if flags else set()
    return tuple(feature for feature in FEATURES if feature in words)


def parse_ram_bytes(meminfo: str) -> int | None:
    """Return the memory of the machine (bytes), from `/proc/meminfo`."""
    memory = re.search(r"^MemTotal:[ \t]+([0-9]{1,15}) kB$", meminfo, re.MULTILINE)
    return int(memory[1]) * 1024 if memory else None
