"""Finds and kills our programs that an earlier driver left running on a phone."""

from sweeps.errors import DeviceError
from workers.devices.adb.attempt import ATTEMPTS, leads_attempt
from workers.devices.adb.facts import benchmark
from workers.devices.adb.phone_connection import PhoneConnection
from workers.devices.adb.questions import PROCESSES
from workers.devices.linux.competing import parse_processes

_PROCESSES_AT_ONCE = 100
"""Read in one round trip: a command has 64 kB at most."""


def end_orphans(link: PhoneConnection) -> tuple[str, ...]:
    """See `AdbDevice.end_orphans`."""
    (text,) = link.sections(PROCESSES)
    suspects = sorted({pid for pid, cmdline in parse_processes(text) if leads_attempt(cmdline) or _is_ours(cmdline)})
    # Read each separately: in the list, an argument of one process may look like the line of another.
    cmdlines: dict[int, str] = {}
    for start in range(0, len(suspects), _PROCESSES_AT_ONCE):
        some = suspects[start : start + _PROCESSES_AT_ONCE]
        cmdlines |= zip(some, link.sections(*(f"cat /proc/{pid}/cmdline" for pid in some)), strict=True)
    shells = [pid for pid, cmdline in cmdlines.items() if leads_attempt(cmdline)]
    runners = [pid for pid, cmdline in cmdlines.items() if pid not in shells and _is_ours(cmdline)]
    # A shell leads the process group of its child processes.
    ended = [link.kill(pid, group=True) for pid in shells] + [link.kill(pid) for pid in runners]
    if not all(ended):
        raise DeviceError(
            "orphan", f"adb:{link.serial}: programs of an earlier sweep cannot be killed", "restart the phone"
        )
    link.checked(f"rm -rf {ATTEMPTS}")
    return (
        *(f"a program of EdgeSweep (process {pid})" for pid in shells),
        *(f"a runner of EdgeSweep (process {pid})" for pid in runners),
    )


def _is_ours(cmdline: str) -> bool:
    found = benchmark(cmdline)
    return found is not None and found[1]
