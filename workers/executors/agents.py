"""Ends what a Ray node has started with a driver that was killed: Ray's agents would first look for their head, which
was killed with it, for a minute.

    python -P -m workers.executors.agents DRIVER PID ...
"""

import importlib.util
import signal
import subprocess
import sys
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

import psutil

from sweeps.with_parent import end_with_parent


def end_with_driver() -> "subprocess.Popen[bytes]":
    """To be called by the driver that has just started Ray, which then has its agents. Returns the process that watches
    over them, for the driver to end."""
    driver = psutil.Process()
    agents = []
    for child in driver.children():
        with suppress(psutil.NoSuchProcess):  # it has ended meanwhile
            if child.name() == "raylet":
                agents += [str(agent.pid) for agent in child.children(recursive=True)]
    words = [sys.executable, "-P", "-m", __name__, str(driver.pid), *agents]
    return subprocess.Popen(words, stdin=subprocess.DEVNULL, start_new_session=True)  # noqa: S603  # this module, numbers


def ray_processes() -> set[psutil.Process]:
    """Those of Ray that this process has started."""
    spec = importlib.util.find_spec("ray")
    if spec is None or spec.origin is None:
        return set()
    here, found = str(Path(spec.origin).parent), set()
    for child in psutil.Process().children(recursive=True):
        with suppress(psutil.Error):  # it has ended meanwhile
            if any(here in word for word in child.cmdline()):
                found.add(child)
    return found


def end_all(processes: Iterable[psutil.Process]) -> None:
    """End what a start of Ray that failed has left: it would compete with what is measured."""
    for one in processes:
        with suppress(psutil.Error):
            one.kill()


def main() -> None:
    driver, *agents = map(int, sys.argv[1:])
    there = []
    for agent in agents:
        with suppress(psutil.NoSuchProcess):
            there.append(psutil.Process(agent))

    def end() -> None:
        for one in there:
            with suppress(psutil.NoSuchProcess):  # also where its number is another one's by now
                one.kill()

    end_with_parent(driver, end)
    signal.pause()


if __name__ == "__main__":
    main()
