"""A driver's own CPU and memory are measured per job, with 100 and with 1,000 phones in its lab.

    python tests/benchmarks/bench_many_phones.py [--rounds 2] [--seconds 240]

10 hosts with 100 simulated phones, and 100 hosts with 1,000: hosts are agents in Ray's actors on this computer, ten in
each, without nodes of their own. Each phone has ten blocks, five jobs of two. A block stands for a minute of a phone,
of which a tenth of `--seconds` passes: with 60 s the hosts, which share two cores with the driver, cannot keep up with
1,000 phones, the sweep takes three times as long, and its jobs pay for three times as many heartbeats. Driver, lab,
calls through Ray, leases, outboxes and the journal are real; nothing is built, evaluated or published. Each size is
driven by a process of its own, in turn, so many times. CPU is that of all threads of the driver's process, from the
first to the last event of the run.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from statistics import median
from typing import Any

import psutil
from report import Figure, at_most, finish

from sweeps.journal.journal import Journal
from sweeps.records import Failed
from sweeps.spec.grid import GridSpec
from sweeps.spec.objective import ObjectiveSpec
from sweeps.spec.protocol import ProtocolSpec
from tests.at_once import AtOnce
from tests.sweeps.conftest import Records
from tests.workers.tiny_sweep import Sweep
from workers.artifacts import ArtifactStore
from workers.devices.fake.device import FakeDevice
from workers.devices.interface import Sensors
from workers.driver.driver_events import AttemptFailed, Away, Event, Waiting
from workers.driver.sweep_driver import Driver
from workers.hosts.access import environment
from workers.hosts.agent import HostAgent, Identity
from workers.hosts.handshake import about
from workers.hosts.inventory import Inventory
from workers.hosts.leases import Leases
from workers.hosts.result_buffer import Outbox
from workers.hosts.this_machine import versions
from workers.measure.device_runner import AnswerT, Request
from workers.measure.readiness import Readiness
from workers.measure.timed_block import BlockRequest, ReadyRequest
from workers.plan_inputs import plan_sweep

SIZES = (10, 100)
"""Hosts."""
PHONES, TOGETHER = 10, 10
"""The phones of a host, and the hosts of an actor."""
JOBS, ROUNDS, BLOCK_S = 5, 2, 60.0
TIMES = 1.3
TAG = "many"
READY = Readiness(sensors=Sensors(), lacking=(), busy_only=False)
CALLS = 512

records = Records()


class Phone:
    """A `workers.hosts.agent.Worker` whose blocks take a time that is known."""

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds

    def ask(self, request: Request[AnswerT]) -> AnswerT | Failed:
        answer: Any
        match request:
            case ReadyRequest():
                answer = READY
            case BlockRequest():
                time.sleep(self._seconds)
                answer = records.block(request.job, request.round, samples=50, device_seconds=BLOCK_S)
            case _:
                raise TypeError(f"not expected: {request}")
        return answer  # type: ignore[no-any-return]

    def close(self) -> None: ...

    def kill(self) -> None: ...


class Agents:
    """Several hosts in one actor, each called by its number."""

    def __init__(self, folder: Path, first: int, block_s: float) -> None:
        self._agents = [_agent(folder / str(number), number, block_s) for number in range(first, first + TOGETHER)]
        threading.Thread(target=self._tend, daemon=True).start()

    def call(self, number: int, method: str, *values: Any, **shared: Any) -> Any:
        agent = self._agents[number]
        if method == "about":
            hello = agent.hello()
            return about(hello.name, hello.machine, hello.boot, hello.versions)
        if method == "run":
            lease, request, acknowledged = values
            return agent.run(*lease, replace(request, **shared), acknowledged)
        return getattr(agent, method)(*values)

    def _tend(self) -> None:
        while True:
            for agent in self._agents:
                with suppress(Exception):
                    agent.tend()
            time.sleep(1.0)


class OneOf:
    """A host of an actor, called as if it were one of its own."""

    def __init__(self, actor: Any, number: int) -> None:
        self._actor = actor
        self._number = number

    def __getattr__(self, method: str) -> Any:
        actor, number = self._actor, self._number

        class Call:
            @staticmethod
            def remote(*values: Any, **shared: Any) -> Any:
                return actor.call.remote(number, method, *values, **shared)

        return Call


def _agent(folder: Path, number: int, block_s: float) -> HostAgent:
    folder.mkdir(parents=True)
    outbox = Outbox(folder / "outbox.sqlite", "1")
    phone = FakeDevice(folder, "steady").facts()
    phones = {f"fake:{number}-{index}": replace(phone, device_id=f"phone-{number}-{index}") for index in range(PHONES)}
    agent = HostAgent(
        Identity(name=f"host-{number}", machine=str(number), boot=1, versions=versions(), tags=(TAG,)),
        folder,
        Inventory(lambda: (list(phones), {}), lambda name: replace(phones[name], name=name), time.monotonic),
        Leases(time.monotonic, outbox.next_epoch),
        outbox,
        lambda _: Phone(block_s),
        time.time,
    )
    agent.tend()
    return agent


def drive(hosts: int, seconds: float, folder: Path) -> dict[str, float]:
    """One sweep, in this process."""
    token = folder / "token"
    token.touch(mode=0o600)
    token.write_text("0" * 64)
    os.environ |= environment(token, "127.0.0.1")
    import ray

    from workers.hosts.cluster import RemoteHost, Shared
    from workers.hosts.host_reachability import Link
    from workers.hosts.lab import Lab

    ray.init(num_cpus=2, include_dashboard=False, log_to_driver=False, logging_level="CRITICAL")
    actor_class: Any = ray.remote(num_cpus=0, max_concurrency=CALLS)(Agents)
    first = range(0, hosts, TOGETHER)
    actors = [actor_class.remote(folder / "hosts", number, seconds * BLOCK_S / 600) for number in first]
    ray.get([actor.call.remote(0, "hello") for actor in actors])
    shared = Shared()
    ends = [OneOf(actors[number // TOGETHER], number % TOGETHER) for number in range(hosts)]
    hosts_found = [
        (f"host:{number}", RemoteHost(end, f"host-{number}", shared, Link(None))) for number, end in enumerate(ends)
    ]
    events_of_lab: list[str] = []
    lab = Lab(lambda: hosts_found, "bench", versions(), time.monotonic, events_of_lab.append)
    sweep = _sweep(folder, lab)
    assert len(sweep.plan.jobs) == hosts * PHONES * JOBS
    events: list[Event] = []
    with Journal.open(sweep.workspace.journal) as journal:
        journal.save_plan(sweep.plan)
        # A timed block is no accuracy pass. All phones have one fingerprint.
        fingerprint = sweep.plan.devices[0].fingerprint
        accuracy = {"executor": fingerprint, "evaluation_id": sweep.plan.identities.evaluation_id}
        journal.attempts.add_accuracy(records.accuracy(sweep.plan.jobs[0], **accuracy))
        driver = Driver(
            sweep.plan,
            journal,
            ArtifactStore(sweep.workspace.artifacts),
            _executor(lab, sweep),
            sweep.prepare,
            AtOnce(lambda: None),
            lambda: False,
        )
        process, began = psutil.Process(), time.perf_counter()
        rss, cpu_s = process.memory_info().rss, time.process_time()
        for event in driver.run():
            if isinstance(event, Away | AttemptFailed | Waiting):
                events.append(event)
        cpu_s = time.process_time() - cpu_s
        took_s = time.perf_counter() - began
        rss = process.memory_info().rss - rss
        done = sum(journal.attempts.block_count(job.key) == ROUNDS for job in sweep.plan.jobs)
    lab.close()
    ray.shutdown()
    for event in events[:5]:
        print(event, file=sys.stderr)
    return {"done": done, "troubles": len(events) + len(events_of_lab), "cpu_s": cpu_s, "took_s": took_s, "rss": rss}


def _sweep(folder: Path, lab: Any) -> Sweep:
    protocol = ProtocolSpec(preset="quick", rounds=ROUNDS, gate="none")
    grid = GridSpec(precision=("fp32",), layout=("nhwc",), threads=tuple(range(1, JOBS + 1)))
    home = folder / "sweep"
    home.mkdir()
    sweep = Sweep(home, grid, budget="full", protocol=protocol, objective=ObjectiveSpec(constraints=()))
    sweep.spec = sweep.spec.model_copy(update={"devices": (f"tag:{TAG}",)})
    sweep.plan = plan_sweep(sweep.spec, sweep.workspace.root, (home,), lab=lab.select)
    [build] = {job.build_key: job for job in sweep.plan.jobs}.values()
    inputs = sweep.prepare(sweep.spec.models[0]).build_inputs
    ArtifactStore(sweep.workspace.artifacts).build(build.build_key, build.variant, inputs)
    return sweep


def _executor(lab: Any, sweep: Sweep) -> Any:
    from workers.hosts.lab_executor import LabExecutor

    return LabExecutor(lab, sweep.workspace.root)


def measured(hosts: int, seconds: float) -> Mapping[str, float]:
    with tempfile.TemporaryDirectory(prefix="edgesweep-bench-") as folder:
        argv = [sys.executable, __file__, "--drive", str(hosts), "--seconds", str(seconds), "--folder", folder]
        done = subprocess.run(argv, stdout=subprocess.PIPE, text=True, check=True)
    figures: dict[str, float] = json.loads(done.stdout.splitlines()[-1])
    print(f"{hosts * PHONES} phones: {figures}", file=sys.stderr, flush=True)
    return figures


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--seconds", type=float, default=240.0, help="for ten minutes of a phone")
    parser.add_argument("--drive", type=int, help=argparse.SUPPRESS)
    parser.add_argument("--folder", type=Path, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.drive:
        print(json.dumps(drive(options.drive, options.seconds, options.folder)))
        return
    runs = {hosts: [measured(hosts, options.seconds) for _ in range(options.rounds)] for hosts in SIZES}
    few, many = SIZES

    def of(hosts: int, value: Callable[[Mapping[str, float]], float]) -> float:
        return median(value(measurement) for measurement in runs[hosts])

    def per_job(hosts: int, name: str) -> float:
        return of(hosts, lambda measurement: measurement[name] / (hosts * PHONES * JOBS))

    figures = [
        at_most("CPU per job, 1,000 phones over 100", per_job(many, "cpu_s") / per_job(few, "cpu_s"), "times", TIMES),
        at_most("memory per job, 1,000 phones over 100", per_job(many, "rss") / per_job(few, "rss"), "times", TIMES),
    ]
    for hosts in SIZES:
        name = f"{hosts * PHONES} phones"
        lost = hosts * PHONES * JOBS - of(hosts, lambda measurement: measurement["done"])
        figures += [
            at_most(f"{name}: jobs lost", lost, f"of {hosts * PHONES * JOBS}", 0),
            at_most(
                f"{name}: phones or hosts that were waited for",
                of(hosts, lambda measurement: measurement["troubles"]),
                "",
                0,
            ),
            Figure(f"{name}: CPU per job", 1000 * per_job(hosts, "cpu_s"), "ms"),
            Figure(
                f"{name}: memory beyond its start", of(hosts, lambda measurement: measurement["rss"] / 2**20), "MiB"
            ),
            Figure(f"{name}: the sweep took", of(hosts, lambda measurement: measurement["took_s"]), "s"),
        ]
    finish("many phones: what a driver costs per job", figures, rounds=options.rounds, seconds=options.seconds)


if __name__ == "__main__":
    main()
