"""A watcher that ends the agents of a Ray node if the driver is killed: by themselves they would look for their head,
which was killed with the driver, for a minute. It also reports a vital part of Ray that has ended: Ray itself ends a
driver without a message if the driver uses a raylet that has just ended.

    python -P -m workers.executors.agents DRIVER PART,PART AGENT ...
"""

import importlib.util
import os
import select
import signal
import subprocess
import sys
from collections.abc import Callable, Iterable
from contextlib import ExitStack, suppress
from pathlib import Path

import psutil

from sweeps.errors import ClusterError
from sweeps.with_parent import end_with_parent

_VITAL = frozenset({"gcs_server", "raylet"})


def vital_parts() -> dict[int, str]:
    """Return the names, by process id, of the parts of Ray that this process has started and that no run can continue
    without."""
    parts = {}
    for child in psutil.Process().children():
        with suppress(psutil.NoSuchProcess):  # the child has ended meanwhile
            if child.name() in _VITAL:
                parts[child.pid] = child.name()
    return parts


def loss_of(parts: Iterable[str]) -> ClusterError:
    """Return the error of a run that has lost vital parts of Ray, given their names."""
    return ClusterError(
        f"Ray has ended in the middle of the run: its part {' and '.join(sorted(parts))} is gone",
        "run the same command again: it goes on where this one ended; if it happens again, see whether memory was "
        "short (journalctl -k), or work without Ray: --executor inline",
    )


def end_with_driver() -> "subprocess.Popen[bytes]":
    """Start the process that ends Ray's agents if this driver, which has just started Ray, is killed. Return that
    process; the driver ends it."""
    parts, agents = vital_parts(), []
    for part in parts:
        with suppress(psutil.NoSuchProcess):  # the part has ended meanwhile
            agents += [str(agent.pid) for agent in psutil.Process(part).children(recursive=True)]
    words = [sys.executable, "-P", "-m", __name__, str(os.getpid()), ",".join(map(str, parts)), *agents]
    return subprocess.Popen(words, stdin=subprocess.DEVNULL, start_new_session=True)  # noqa: S603  # this module, numbers


def ray_processes() -> set[psutil.Process]:
    """Return the processes of Ray that this process has started."""
    return _of_ray(psutil.Process().children(recursive=True), lambda _: True)


def marked_processes(name: str, value: str) -> set[psutil.Process]:
    """Return the processes of Ray that have this variable with this value in their environment, even if the process
    that started them has ended."""
    return _of_ray(psutil.process_iter(), lambda process: process.environ().get(name) == value)


def _of_ray(processes: Iterable[psutil.Process], holds: Callable[[psutil.Process], bool]) -> set[psutil.Process]:
    spec = importlib.util.find_spec("ray")
    if spec is None or spec.origin is None:
        return set()
    folder, chosen = str(Path(spec.origin).parent), set()
    for process in processes:
        with suppress(psutil.Error):  # the process has ended meanwhile, or is another user's
            # A worker has a title in place of its words.
            of_ray = any(folder in word or word.startswith("ray::") for word in process.cmdline())
            if of_ray and holds(process):
                chosen.add(process)
    return chosen


def end_all(processes: Iterable[psutil.Process]) -> None:
    """End processes that remain after a failed start of Ray, or of a Ray that has lost a part: they would compete with
    measurements."""
    for process in processes:
        with suppress(psutil.Error):
            process.kill()


def main() -> None:
    driver, vital, *agents = sys.argv[1:]
    lost: list[str] = []
    running = []
    for agent in agents:
        with suppress(psutil.NoSuchProcess):
            running.append(psutil.Process(int(agent)))

    def end() -> None:
        for process in running:
            with suppress(psutil.NoSuchProcess):  # the number may be another process's by now
                process.kill()
        if lost:
            # The driver would have ended this process first; it cannot report the error any more.
            error = loss_of(lost)
            sys.stderr.write(f"\nedgesweep: {error.message}\n  next: {error.next_step}\n")

    end_with_parent(int(driver), end)
    lost += _lost_first(int(driver), [int(part) for part in vital.split(",") if part])
    while True:
        signal.pause()


def _lost_first(driver: int, parts: Iterable[int]) -> list[str]:
    """Wait until the driver or a part ends. Return the names of the parts that ended if the driver still runs; the wait
    may last forever."""
    if sys.platform != "linux":
        return []
    with ExitStack() as opened:
        watched = {}
        for process in (driver, *parts):
            with suppress(psutil.NoSuchProcess, ProcessLookupError):
                watched[os.pidfd_open(process)] = process, psutil.Process(process).name()
        for descriptor in watched:
            opened.callback(os.close, descriptor)
        ended = [watched[descriptor] for descriptor in select.select([*watched], [], [])[0]]
    # A driver that is killed takes its parts with it at once.
    return [] if driver in dict(ended) else [name for _, name in ended]


if __name__ == "__main__":
    main()
