"""Three device hosts on a network, each with an adb server and two virtual phones of its own: how soon they are found,
what a call costs, and what cuts, stops and kills of hosts cost.

    python tests/benchmarks/bench_lab.py [--only calls|faults] [--rounds 3]

The computers are namespaces of this machine (tests/computers.py), so it needs root, and sees nothing of a real network.
Real `edgesweep host up` and `host join`, real Ray nodes, a driver on a fourth computer. The work on the phones has a
known length; what is beyond it is the cost of a call. Bytes are those that cross to a host on its link, with all
headers. Seven minutes; the figures hold for a machine with nothing else to do.
"""

import argparse
import json
import signal
import statistics
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Lock
from typing import Any

from lab_case import DRIVER, HOSTS, PHONES, Lab, network, say
from report import Figure, at_most, finish

from tests.computers import missing

COLD_ROUNDS, WARM_ROUNDS = 3, 30
ARTIFACT_BYTES = 14_000_000
ARTIFACT = "a" * 64
WORK_S, BLOCK_S = 0.05, 1.0
CUTS = (("lab-2", 45.0), ("lab-3", 60.0))
STOPPED, STOP_S = "lab-2", 15.0
KILLED = "lab-3"
FIRST = 1000
"""Number of the first piece of work during faults."""
SEEN, AWAY, HEARD, ON = (
    "the host is known to be silent after",
    "the block that runs is given up after",
    "the host is heard again after",
    "work goes on after",
)
BOUNDS = {SEEN: 5.0, AWAY: 5.0, ON: 10.0}
"""Seconds."""


class Driver:
    """`lab_driver.py` on the drivers' computer."""

    def __init__(self, lab: Lab) -> None:
        program = str(Path(__file__).with_name("lab_driver.py"))
        self._lock = Lock()
        self._process = lab.network.computers[DRIVER].start([sys.executable, program, lab.head, "lab-token"])

    def __call__(self, method: str, *values: object) -> Any:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        with self._lock:
            print(json.dumps([method, *values]), file=self._process.stdin, flush=True)
            line = self._process.stdout.readline()
        if not line:
            sys.exit("the driver has ended: see above")
        reply = json.loads(line)
        if "error" in reply:
            sys.exit(f"{method}: {reply['error']}")
        return reply["answer"]

    def close(self) -> None:
        self._process.communicate()


def call_figures(lab: Lab) -> list[Figure]:
    """Discovery, the cost of calls, and the bytes of an artifact."""
    cold = []
    for _ in range(COLD_ROUNDS):
        driver = Driver(lab)
        reply = driver("devices")
        if len(reply["devices"]) != len(HOSTS) * PHONES:
            sys.exit(f"not all devices were found: {reply['devices']}")
        cold.append(reply["cold_s"])
        warm_s = driver("again", WARM_ROUNDS)
        if len(cold) < COLD_ROUNDS:
            driver.close()
    say("all devices are found")
    size = driver("plant", ARTIFACT, ARTIFACT_BYTES)
    sent = []
    for _ in range(2):
        before = {name: lab.network.sent_to(name) for name in HOSTS}
        if failed := driver("once", ARTIFACT):
            sys.exit(f"work failed: {failed}")
        sent.append({name: (lab.network.sent_to(name) - before[name]) / size for name in HOSTS})
    say("the artifact is on all hosts")
    small = driver("plant", "b" * 64, 100_000)
    driver("once", "b" * 64)
    taken_ms = {
        size_: [1000 * seconds for seconds in driver("calls", key, WORK_S)]
        for size_, key in ((small, "b" * 64), (size, ARTIFACT))
    }
    empty_ms = [1000 * seconds for seconds in driver("ray_calls", WORK_S)]
    driver.close()
    figures = [
        at_most(f"all devices, first time, median of {COLD_ROUNDS}", statistics.median(cold), "s", 1.0),
        Figure("all devices, first time, slowest", max(cold), "s"),
        at_most(f"all devices, again, median of {WARM_ROUNDS}", 1000 * statistics.median(warm_s), "ms", 20.0),
        Figure("all devices, again, slowest", 1000 * max(warm_s), "ms"),
        Figure(f"call that does nothing: Ray's part, median of {len(empty_ms)}", statistics.median(empty_ms), "ms"),
        Figure("call that does nothing: Ray's part, slowest", max(empty_ms), "ms"),
    ]
    for bytes_, times_ms in taken_ms.items():
        name = f"call beyond its work, artifact of {bytes_ / 1e6:.1f} MB"
        figures += [
            at_most(f"{name}, median of {len(times_ms)}", statistics.median(times_ms), "ms", 5.0),
            Figure(f"{name}, 95th percentile", statistics.quantiles(times_ms, n=20)[-1], "ms"),
            # Without a bound: one slow call of Ray's is as slow as the whole figure.
            Figure(f"{name}, slowest", max(times_ms), "ms"),
        ]
    for name in HOSTS:
        figures.append(at_most(f"bytes to {name} for an artifact of {size / 1e6:.1f} MB", sent[0][name], "times", 1.05))
        figures.append(at_most(f"bytes to {name} when it is used again", sent[1][name], "times", 0.05))
    return figures


class Faults:
    """The faults of a driver that works on all devices, from its own record."""

    def __init__(self, lab: Lab, rounds: int) -> None:
        self._lab = lab
        self._rounds = rounds
        self._driver = Driver(lab)
        self._driver("plant", ARTIFACT, ARTIFACT_BYTES)
        if failed := self._driver("once", ARTIFACT):
            sys.exit(f"work failed: {failed}")
        self._driver("begin", ARTIFACT, BLOCK_S)
        self.took_s: dict[str, list[float]] = {}
        """Seconds by what was timed, one value for each fault."""

    def run(self) -> list[Figure]:
        network = self._lab.network
        for _ in range(self._rounds):
            # Two hosts at once, which takes less time. They have nothing to do with one another.
            with ThreadPoolExecutor(len(CUTS)) as pool:
                for cut in [pool.submit(self._cut, *cut) for cut in CUTS]:
                    cut.result()
            computer = network.computers[STOPPED]
            self._fault(f"SIGSTOP for {STOP_S:g} s", STOPPED, computer.stop, STOP_S, computer.go_on)
        self._fault("SIGKILL of a host", KILLED, network.computers[KILLED].kill, 0.0, self._restart)
        record = self._driver("end")
        self._driver.close()
        return [*self._times(), *self._counts(record["events"])]

    def _cut(self, name: str, seconds: float) -> None:
        network = self._lab.network
        self._fault(f"cut for {seconds:g} s", name, lambda: network.cut(name), seconds, lambda: network.mend(name))

    def _fault(
        self, fault: str, name: str, inject: Callable[[], None], seconds: float, mend: Callable[[], None]
    ) -> None:
        time.sleep(3 * BLOCK_S)
        say(f"{name}: {fault}")
        began = time.monotonic()
        inject()
        time.sleep(max(0.0, began + seconds - time.monotonic()))
        mend()
        mended = time.monotonic()
        self._lab.wait(lambda: len(self._back(name, mended)) == PHONES, 120.0)
        record = self._driver("so_far")
        beats = [(at, answers) for at, host, answers in record["seen"] if host == name and at > began]
        away = [at for at, device, _, kind in record["events"] if device.startswith(name) and kind and at > began]
        if not any(not answers for _, answers in beats) or not away:
            sys.exit(f"{name}: {fault}: the driver has not seen it")
        for text, seconds_ in (
            (SEEN, next(at for at, answers in beats if not answers) - began),
            (AWAY, away[0] - began),
            (HEARD, max(0.0, max(at for at, answers in beats if answers) - mended)),
            (ON, max(self._back(name, mended).values())),
        ):
            self.took_s.setdefault(f"{fault}: {text}", []).append(seconds_)

    def _back(self, name: str, since: float) -> dict[str, float]:
        """Seconds until each of the host's devices had done something again."""
        away_s: dict[str, float] = {}
        for at, device, _, kind in self._driver("so_far")["events"]:
            if device.startswith(name) and not kind and at > since:
                away_s.setdefault(device, at - since)
        return away_s

    def _restart(self) -> None:
        time.sleep(10.0)
        self._lab.network.add(KILLED)
        for phone in range(PHONES):
            self._lab.plug(KILLED, f"{KILLED}-phone-{phone + 1}")
        self._lab.join(KILLED)

    def _times(self) -> list[Figure]:
        figures = []
        for name, values in self.took_s.items():
            median = statistics.median(values)
            bound = next((bound for text, bound in BOUNDS.items() if name.endswith(text)), None)
            figures.append(at_most(name, median, "s", bound) if bound else Figure(name, median, "s"))
            if len(values) > 1:
                figures.append(Figure(f"{name}, slowest of {len(values)}", max(values), "s"))
        return figures

    def _counts(self, events: list[tuple[float, str, int, str]]) -> list[Figure]:
        """Compare the work that was done with the work that was started on the hosts."""
        lost, twice, repeated = 0, 0, {True: 0, False: 0}
        for name in HOSTS:
            for file in (self._lab.network.computers[name].folder / "work").iterdir():
                started = Counter(number for number in map(int, file.read_text().split()) if number >= FIRST)
                done = Counter(number for _, device, number, kind in events if device == file.name and not kind)
                lost += len(started.keys() - done.keys())
                twice += sum(count - 1 for count in done.values())
                repeated[name == KILLED] += sum(count - 1 for count in started.values())
        return [
            at_most("blocks that were lost", lost, "blocks", 0),
            at_most("blocks that came twice", twice, "blocks", 0),
            at_most("cut and stopped hosts: blocks done twice", repeated[False], "blocks", 0),
            at_most(f"killed host, {PHONES} phones: blocks done again", repeated[True], "blocks", PHONES),
            Figure("blocks done in all", sum(not kind for *_, kind in events), "blocks"),
        ]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", choices=("calls", "faults"))
    parser.add_argument("--rounds", type=int, default=3, help="of cuts and stops")
    options = parser.parse_args()
    if why := missing():
        sys.exit(f"bench_lab: {why}")
    # Without it the computers would end all the same, but their files would stay.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit("bench_lab: ended"))
    figures: list[Figure] = []
    with tempfile.TemporaryDirectory(prefix="edgesweep-bench-") as name, network(Path(name)) as computers:
        lab = Lab(computers)
        lab.start()
        phones_of_host = {host["name"]: len(host["devices"]) for host in lab.hosts()}
        if phones_of_host != dict.fromkeys(HOSTS, PHONES):
            sys.exit(f"not the lab that was started: {phones_of_host}")
        say("three hosts have joined")
        if options.only != "faults":
            figures += call_figures(lab)
        if options.only != "calls":
            figures += Faults(lab, options.rounds).run()
    finish("lab", figures, hosts=len(HOSTS), phones=len(HOSTS) * PHONES, rounds=options.rounds, only=options.only)


if __name__ == "__main__":
    main()
