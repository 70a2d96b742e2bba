"""Ends programs on a board, and makes sure that they are gone."""

import re

from workers.devices.ssh.board_connection import BoardConnection

MARK = "EDGESWEEP_ATTEMPT"
"""In the environment of every program that we start on a board, and so in that of all its children."""
PROCESSES = """
if echo x | grep -aq x 2>/dev/null; then a=-a; else a=; fi
grep $a '' /dev/null /proc/[0-9]*/cmdline
"""
"""Prints what `workers.devices.linux.competing.parse_processes` reads. BusyBox's grep has no `-a`, and needs none."""


def kill(link: BoardConnection, pid: int, *, group: bool = False) -> bool:
    """Kill a process, or the process group that it leads; `False` if it continues. Raises `DeviceError`."""
    if pid < 2:
        # `kill -- -1` would kill every process.
        return False
    target = f"-{pid}" if group else str(pid)
    alive = f"kill -s 0 -- {target} 2>/dev/null"
    wait = f"i=0; while {alive} && [ $i -lt 50 ]; do sleep 0.1; i=$((i+1)); done; ! {alive}"
    return link.shell(f"kill -s KILL -- {target} 2>/dev/null; {wait}").exit_code == 0


def kill_marked(link: BoardConnection, name: str = "") -> bool:
    """Kill what the attempt `name`, or any attempt, started, also what left its process group; `False` if some go on.

    Only programs of the same user can be seen. Raises `DeviceError`.
    """
    if not re.fullmatch(r"[0-9a-f-]*", name):
        raise ValueError(f"{name!r} is no attempt's name")
    word = f"{MARK}={name}." if name else f"{MARK}="
    script = f"""
i=0
while [ $i -lt 50 ]; do
    found=$(grep -ls '{word}' /proc/[0-9]*/environ)
    [ -n "$found" ] || exit 0
    for one in $found; do one=${{one#/proc/}}; kill -s KILL "${{one%/environ}}" 2>/dev/null; done
    sleep 0.1
    i=$((i+1))
done
exit 1
"""
    return link.shell(script).exit_code == 0
