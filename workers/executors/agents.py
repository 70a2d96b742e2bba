"""Ends what a Ray node has started with a driver that was killed: Ray's agents would first look for their head, which
was killed with it, for a minute.

    python -P -m workers.executors.agents DRIVER PID ...
"""

import signal
import subprocess
import sys
from contextlib import suppress

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
