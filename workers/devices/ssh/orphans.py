"""Finds and kills our programs that an earlier driver left running on a board."""

from sweeps.errors import DeviceError
from workers.devices.linux.competing import parse_processes
from workers.devices.shell import quoted
from workers.devices.ssh.attempt import leads_attempt
from workers.devices.ssh.board_connection import BoardConnection
from workers.devices.ssh.ending import PROCESSES, kill, kill_marked
from workers.devices.ssh.facts import is_ours

_PROCESSES_AT_ONCE = 100


def end_orphans(link: BoardConnection) -> tuple[str, ...]:
    """See `SshDevice.end_orphans`."""
    (text,) = link.sections(PROCESSES)
    folder = str(link.folder)
    suspects = sorted({pid for pid, line in parse_processes(text) if leads_attempt(line) or is_ours(line, folder)})
    # Read each separately: in the list, an argument of one process may look like the line of another.
    lines: dict[int, str] = {}
    for start in range(0, len(suspects), _PROCESSES_AT_ONCE):
        some = suspects[start : start + _PROCESSES_AT_ONCE]
        # Only those of this user: nobody else's can be killed, nor are they ours.
        lines |= zip(
            some, link.sections(*(f"[ -O /proc/{pid} ] && cat /proc/{pid}/cmdline" for pid in some)), strict=True
        )
    shells = [pid for pid, line in lines.items() if leads_attempt(line)]
    programs = [pid for pid, line in lines.items() if pid not in shells and is_ours(line, folder)]
    # A shell leads the process group of its child processes.
    ended = [kill(link, pid, group=True) for pid in shells] + [kill(link, pid) for pid in programs]
    if not all(ended) or not kill_marked(link):
        raise DeviceError("orphan", f"{link.name}: programs of an earlier sweep cannot be killed", "restart the board")
    link.checked(f"rm -rf {quoted([f'{folder}/attempts'])}")
    return tuple(f"a program of EdgeSweep (process {pid})" for pid in (*shells, *programs))
