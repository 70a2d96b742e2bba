"""Finds and kills our programs that an earlier driver left running on a device."""

from collections.abc import Callable

from sweeps.errors import DeviceError
from workers.devices.linux.competing import parse_processes
from workers.devices.remote.attempt import attempt_folder
from workers.devices.remote.remote_shell import RemoteShell

_PROCESSES_AT_ONCE = 100
"""The number of processes that are read in one exchange: adb accepts a command of at most 64 kB."""


def end_orphans(
    remote: RemoteShell, leads_attempt: Callable[[str], bool], is_ours: Callable[[str], bool]
) -> tuple[str, ...]:
    """Kill our programs as `Device.end_orphans` does. The functions tell whether a command line, with a NUL after each
    word, is that of an attempt's shell, or of a program that we pushed."""
    (text,) = remote.sections(remote.processes_script)
    suspects = sorted({pid for pid, line in parse_processes(text) if leads_attempt(line) or is_ours(line)})
    # Each command line is read separately: in the list, an argument of one process may look like the line of another.
    lines: dict[int, str] = {}
    for start in range(0, len(suspects), _PROCESSES_AT_ONCE):
        pids = suspects[start : start + _PROCESSES_AT_ONCE]
        lines |= zip(pids, remote.sections(*map(remote.cmdline_script, pids)), strict=True)
    shells = [pid for pid, line in lines.items() if leads_attempt(line)]
    programs = [pid for pid, line in lines.items() if pid not in shells and is_ours(line)]
    # A shell leads the process group of its child processes.
    ended = [remote.kill(pid, group=True) for pid in shells] + [remote.kill(pid) for pid in programs]
    if not all(ended) or not remote.kill_marked():
        raise DeviceError(
            "orphan", f"{remote.name}: programs of an earlier sweep cannot be killed", f"restart the {remote.noun}"
        )
    remote.checked(f"rm -rf {attempt_folder(remote)}")
    return tuple(f"a program of EdgeSweep (process {pid})" for pid in (*shells, *programs))
