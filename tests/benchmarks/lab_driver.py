"""A driver of a lab, which does what `bench_lab.py` says on stdin: a JSON list per line, and a JSON line as answer.

python tests/benchmarks/lab_driver.py HOST:PORT TOKEN_FILE
"""

import hashlib
import json
import os
import sys
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any
from unittest import mock

from sweeps.cli.lab import LabOptions, open_lab
from sweeps.device_facts import DeviceFacts
from sweeps.errors import DeviceError
from sweeps.manifest import Manifest
from sweeps.records import Failed
from sweeps.variant import Variant
from tests.benchmarks.lab_work import Work
from tests.builders import job_of
from tests.workers.tiny_model import tiny_inputs
from workers.artifacts import ArtifactStore
from workers.driver.ladder import AWAY_WAIT
from workers.hosts import lab as labs
from workers.hosts.lab import Lab
from workers.hosts.lab_executor import LabExecutor

FOLDER = Path("workspace")
CALLS = 40
FIRST = 1000
"""Number of the first piece of work under load."""
_LOOK_S = 0.01


@dataclass(slots=True)
class Timed:
    """The time that it took to know all devices of the lab, the first time in this process."""

    cold_s: float = 0.0
    find: Callable[[], Any] | None = None

    def lab(self, find: Callable[[], Any], *words: Any) -> Lab:
        began = time.perf_counter()
        lab = Lab(find, *words)
        tuple(lab.select("adb:*"))
        self.cold_s = time.perf_counter() - began
        self.find = find
        return lab


@dataclass(slots=True)
class Load:
    """Work on every device, one piece after the other, until it is told to end; and who was silent when."""

    lab: Lab
    ask: Callable[[DeviceFacts, int, float], float | Failed]
    seconds: float
    events: list[tuple[float, str, int, str]] = field(default_factory=list)
    """When (`time.monotonic`), device, number of the work, and the kind of a failure; empty: it is done."""
    beats: list[tuple[float, str, bool]] = field(default_factory=list)
    """When a host was found to be silent, or to answer again."""
    _ended: threading.Event = field(default_factory=threading.Event)
    _threads: list[threading.Thread] = field(default_factory=list)

    def begin(self, devices: list[DeviceFacts]) -> None:
        calls: list[Callable[[], None]] = [self._watch]
        calls += [partial(self._work, facts) for facts in devices]
        self._threads = [threading.Thread(target=call) for call in calls]
        for thread in self._threads:
            thread.start()

    def end(self) -> None:
        self._ended.set()
        for thread in self._threads:
            thread.join()

    def _watch(self) -> None:
        last_answers: dict[str, bool] = {}
        while not self._ended.wait(_LOOK_S):
            answering = {hello.name: answers for hello, answers in self.lab.hellos()}
            now = time.monotonic()
            for name in answering.keys() | last_answers.keys():
                if (answers := answering.get(name, False)) != last_answers.get(name, True):
                    self.beats.append((now, name, answers))
                last_answers[name] = answers

    def _work(self, facts: DeviceFacts) -> None:
        number = FIRST
        while not self._ended.is_set():
            answer = self.ask(facts, number, self.seconds)
            kind = answer.kind if isinstance(answer, Failed) else ""
            self.events.append((time.monotonic(), facts.device_id, number, kind))
            if kind:
                # A sweep waits as long.
                self._ended.wait(AWAY_WAIT.poll_s)
            else:
                number += 1


class Driver:
    """One connection to the lab."""

    def __init__(self, lab: Lab, timed: Timed) -> None:
        self._lab = lab
        self._timed = timed
        self._devices = sorted(
            (device for device in lab.select("adb:*") if isinstance(device, DeviceFacts)),
            key=lambda device: device.device_id,
        )
        self._executor = LabExecutor(lab, FOLDER)
        self._lanes = {device.device_id: self._executor.lane(device) for device in self._devices}
        self._load: Load | None = None

    def devices(self) -> dict[str, object]:
        return {"cold_s": self._timed.cold_s, "devices": [device.device_id for device in self._devices]}

    def again(self, rounds: int) -> list[float]:
        """Seconds until all hosts have told their devices, by a driver that is connected."""
        assert self._timed.find is not None
        times_s = []
        for _ in range(rounds):
            began = time.perf_counter()
            hosts = self._timed.find()
            with ThreadPoolExecutor(len(hosts)) as pool:
                tuple(pool.map(lambda host: host[1].hello(), hosts))
            times_s.append(time.perf_counter() - began)
        return times_s

    def plant(self, build_key: str, size: int) -> int:
        """An artifact of so many bytes, which do not get smaller on the way. Returns the bytes of all its files."""
        store = ArtifactStore(FOLDER / "artifacts")
        manifest = store.build(build_key, Variant(), tiny_inputs())
        model = store.model(manifest)
        model.write_bytes(os.urandom(size))
        changed = manifest.model_copy(update={"file_sha256": hashlib.sha256(model.read_bytes()).hexdigest()})
        changed.write(model.parent)
        assert isinstance(store.find(build_key), Manifest)
        return sum(map(len, store.pack(changed).files.values()))

    def once(self, build_key: str) -> list[str]:
        """A moment's work on every device at once. Returns what failed."""
        with ThreadPoolExecutor(len(self._devices)) as pool:
            answers = list(pool.map(lambda facts: self._ask(facts, 0, 0.01, build_key), self._devices))
        return [answer.message for answer in answers if isinstance(answer, Failed)]

    def calls(self, build_key: str, seconds: float) -> list[float]:
        """Seconds beyond the work, of calls one after the other, on each host's first device in turn."""
        hosts: dict[str, DeviceFacts] = {}
        for facts in self._devices:
            hosts.setdefault(facts.name.partition("/")[0], facts)
        times_s = []
        for call in range(CALLS):
            for facts in hosts.values():
                began = time.perf_counter()
                answer = self._ask(facts, 1 + call, seconds, build_key)
                took = time.perf_counter() - began
                if isinstance(answer, Failed):
                    raise RuntimeError(answer.message)
                times_s.append(took - answer)
        return times_s

    def ray_calls(self, pause_s: float) -> list[float]:
        """Seconds of calls that have nothing to do: Ray and the network alone. A pause before each, as work is one."""
        hosts = {facts.name.partition("/")[0]: self._lab.where(facts.device_id) for facts in self._devices}
        times_s = []
        for _ in range(CALLS):
            for host in hosts.values():
                time.sleep(pause_s)
                began = time.perf_counter()
                host.missing(())
                times_s.append(time.perf_counter() - began)
        return times_s

    def begin(self, build_key: str, seconds: float) -> None:
        self._load = Load(self._lab, lambda facts, number, length: self._ask(facts, number, length, build_key), seconds)
        self._load.begin(self._devices)

    def so_far(self) -> dict[str, object]:
        assert self._load is not None
        return {"events": list(self._load.events), "seen": list(self._load.beats)}

    def end(self) -> dict[str, object]:
        assert self._load is not None
        self._load.end()
        return self.so_far()

    def close(self) -> None:
        self._executor.close()

    def _ask(self, facts: DeviceFacts, number: int, seconds: float, build_key: str) -> float | Failed:
        job = job_of(f"{os.getpid()} {facts.device_id}", build_key, facts.device_id, name="work", model="none")
        return self._lanes[facts.device_id].ask(Work(job=job, number=number, seconds=seconds))


def main() -> None:
    head, token = sys.argv[1:]
    timed = Timed()
    answers, sys.stdout = sys.stdout, sys.stderr
    with mock.patch.object(labs, "Lab", timed.lab), open_lab(LabOptions(head, Path(token).resolve()), "bench") as lab:
        driver = Driver(lab, timed)
        for line in sys.stdin:
            method, *values = json.loads(line)
            try:
                reply = {"answer": getattr(driver, method)(*values)}
            except DeviceError as error:
                reply = {"error": str(error)}
            print(json.dumps(reply), file=answers, flush=True)
        driver.close()


if __name__ == "__main__":
    main()
