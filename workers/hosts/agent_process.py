"""The process that starts this machine's agent on its Ray node, and ends it in order.

It is a separate process, because Ray ends every process that is connected to a node that exits. It reads a JSON object
on stdin, prints one JSON object on stdout once the agent runs or has failed to start, and ends when stdin is closed or
the agent is gone.
"""

import json
import sys
import threading
from pathlib import Path

from sweeps.errors import EdgeSweepError, in_one_line
from workers.hosts import agent_start, cluster
from workers.hosts.interface import BEAT_S
from workers.hosts.supervisor import LEAVE_S
from workers.hosts.this_machine import HostConfig

_SILENT = 30
"""The number of unanswered calls in a row after which the agent, or its node, counts as gone."""


def main() -> None:
    request = json.loads(sys.stdin.readline())
    config = HostConfig(
        name=request["name"], state=Path(request["state"]), units=tuple(request["units"]), tags=tuple(request["tags"])
    )
    try:
        cluster.connect(request["head"], Path(request["token_file"]), Path(request["folder"]))
        host, end = agent_start.raise_agent(config, request["label"])
        hello = host.hello()
    except EdgeSweepError as error:
        _say({"error": error.message, "next_step": error.next_step})
        return
    except Exception as error:  # noqa: BLE001  # Ray raises whatever its parts raise; the parent tells it
        _say({"error": f"the agent of this host does not start: {in_one_line(error)}", "next_step": ""})
        return
    _say({"devices": [hello.named(device.facts).name for device in hello.devices]})
    closed = threading.Event()
    threading.Thread(target=_await_end, args=(closed,), daemon=True).start()
    silent = 0
    while not (closed.is_set() or host.dead) and silent < _SILENT:
        try:
            host.hello()
        except EdgeSweepError:
            silent += 1
        else:
            silent = 0
        closed.wait(BEAT_S)
    if closed.is_set():
        end(LEAVE_S)


def _await_end(closed: threading.Event) -> None:
    sys.stdin.read()
    closed.set()


def _say(words: dict[str, object]) -> None:
    print(json.dumps(words), flush=True)  # noqa: T201  # its parent reads it


if __name__ == "__main__":
    main()
