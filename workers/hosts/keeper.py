"""The process that starts this machine's agent on its Ray node, and ends it in order.

A process of its own, because Ray ends whoever is connected to a node that exits. Reads a JSON object on stdin, prints
one JSON object on stdout once the agent runs or cannot, and ends when stdin is closed or the agent is gone.
"""

import json
import sys
import threading
from pathlib import Path

from sweeps.errors import EdgeSweepError, in_one_line
from workers.hosts import cluster, raising
from workers.hosts.interface import BEAT_S
from workers.hosts.supervisor import LEAVE_S
from workers.hosts.this_machine import HostConfig

_SILENT = 30
"""So many unanswered calls in a row: the agent is gone, or its node is."""


def main() -> None:
    asked = json.loads(sys.stdin.readline())
    config = HostConfig(
        name=asked["name"], state=Path(asked["state"]), units=tuple(asked["units"]), tags=tuple(asked["tags"])
    )
    try:
        cluster.connect(asked["head"], Path(asked["token_file"]), Path(asked["folder"]))
        host, end = raising.raise_agent(config, asked["label"])
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
