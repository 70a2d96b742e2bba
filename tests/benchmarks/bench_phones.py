"""EdgeSweep's own time on phones is measured, on virtual ones: the real adb daemon and server on this machine.

python tests/benchmarks/bench_phones.py

24 jobs of 4 s against a shell script that pushes and runs the same program with the same arguments through plain adb,
in turn, there and back. In both arms the artifacts are built, the phone is empty, and gates and accuracy are off; Ray
is up, and EdgeSweep's start of the device's actor, its sensors, its hashes, its journal and MLflow are in its time.
Needs root, g++, and a machine with nothing else to do; a quarter of an hour.
"""

import os
import shlex
import statistics
import subprocess
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import BinaryIO
from unittest import mock

import psutil
from recipe_case import say
from report import Figure, at_most, finish

from sweeps.device_facts import DeviceFacts
from sweeps.journal.journal import Journal
from sweeps.journal.sweep_progress import read_status
from sweeps.operations.executor_choice import open_executor
from sweeps.operations.sweep_plan import make_plan
from sweeps.planning.plan import Plan
from sweeps.protocol.device_time import Spent
from sweeps.protocol.presets import protocol_of
from sweeps.spec import sweep as spec
from sweeps.store.mlflow import Store
from sweeps.store.publishing import Publisher
from sweeps.workspace import Workspace
from tests.faulty_phone import FaultyPhone, faulty_phones
from tests.free_port import free_port
from workers.artifacts import ArtifactStore
from workers.devices.adb import files as adb_files
from workers.devices.adb.adb_host import AdbHost
from workers.devices.adb.wire import Wire
from workers.driver.accuracy_pass import AccuracyPass
from workers.driver.driver_events import AttemptFailed, Away, Measuring
from workers.driver.sweep_driver import Driver
from workers.measure.attach import attach
from workers.measure.timed_block import timed_request
from workers.models import prepare as models
from workers.runtimes.torchscript.runtime import TorchScript

SWEEP = """
name: {name}
models:
  - {{source: mobilenet_v2, weights: random, input_shape: [1, 3, 224, 224]}}
data:
  calibration: {{source: synthetic, images: 8}}
  evaluation: {{source: synthetic, images: 8}}
grids:
  - {{precision: [fp32], layout: [nchw, nhwc], capture: [script, trace], optimize: [true, false], threads: [1, 2]}}
  - {{precision: [int8], layout: [nchw, nhwc], capture: [script, trace], threads: [1, 2]}}
devices: ["adb:*"]
protocol: {{preset: quick, rounds: 1, gate: none, warmup_seconds: 0, min_seconds: {seconds}}}
"""
JOBS = 24
SECONDS = 4.0
EDGESWEEP, PLAIN = "edgesweep", "plain adb"
PASSES = (EDGESWEEP, PLAIN, PLAIN, EDGESWEEP)


@dataclass
class Sent:
    """Artifacts and programs on their way to phones, while it is entered."""

    bytes_by_file: dict[str, list[int]] = field(default_factory=dict)

    @contextmanager
    def counted(self) -> Iterator["Sent"]:
        send = adb_files.send_file

        def count(wire: Wire, source: BinaryIO, path: str, mode: int) -> None:
            size = os.fstat(source.fileno()).st_size
            self.bytes_by_file.setdefault(source.name, []).append(size)
            send(wire, source, path, mode)

        with mock.patch.object(adb_files, "send_file", count):
            yield self

    @property
    def total(self) -> int:
        return sum(map(sum, self.bytes_by_file.values()))

    @property
    def unique(self) -> int:
        return sum(sizes[0] for sizes in self.bytes_by_file.values())


@dataclass
class Seen:
    """The most runners that ran at once, looked at from outside every few milliseconds."""

    most_on_one: int = 0
    most_phones: int = 0

    @contextmanager
    def watching(self, phones: list[FaultyPhone]) -> Iterator["Seen"]:
        ended = threading.Event()
        thread = threading.Thread(target=self._watch, args=(phones, ended))
        thread.start()
        try:
            yield self
        finally:
            ended.set()
            thread.join()

    def _watch(self, phones: list[FaultyPhone], ended: threading.Event) -> None:
        while not ended.wait(0.02):
            counts = [_runners(phone) for phone in phones]
            self.most_on_one = max(self.most_on_one, *counts)
            self.most_phones = max(self.most_phones, sum(count > 0 for count in counts))


def _runners(phone: FaultyPhone) -> int:
    count = 0
    for process in phone.processes():
        try:
            argv = process.cmdline()
        except psutil.Error:
            continue
        count += bool(argv) and "edgesweep_runner" in argv[0] and "--model" in argv
    return count


class Case:
    """One sweep in a workspace of its own; only its timed blocks are run."""

    def __init__(self, folder: Path, name: str, seconds: float) -> None:
        file = folder / f"{name}.yaml"
        file.write_text(SWEEP.format(name=name, seconds=seconds))
        self.spec = spec.load(file)
        self.workspace = Workspace.open(folder / "workspace")
        self.plan: Plan = make_plan(self.spec, (folder,), self.workspace)
        self.store = ArtifactStore(self.workspace.artifacts)
        self.spent = Spent()
        """Where the phone's time went in the last run."""

    def run(self, executor_name: str) -> float:
        """Seconds from the first block's start, artifacts built, to the end, everything stored."""
        self.workspace.journal.unlink(missing_ok=True)
        Store(self.workspace.tracking_uri, self.workspace.mlflow_artifacts).check()
        began = None
        with (
            Journal.open(self.workspace.journal) as journal,
            Publisher(self.workspace, self.spec.name) as publisher,
            open_executor(executor_name, self.workspace, self.plan) as executor,
            mock.patch.object(AccuracyPass, "run", return_value=()),
        ):
            driver = Driver(
                self.plan,
                journal,
                self.store,
                executor,
                lambda model: models.prepare(
                    model, self.spec.data, self.workspace, self.plan.identities.versions, lambda *_: None
                ),
                publisher,
                stop=lambda: False,
            )
            for event in driver.run():
                if isinstance(event, AttemptFailed | Away):
                    say(f"{event}")
                if began is None and isinstance(event, Measuring):
                    began = time.monotonic()
            ended = time.monotonic()
            measured = sum(len(journal.attempts.blocks(job.key)) for job in self.plan.jobs)
            self.spent = read_status(journal, self.spec.name).spent
        assert began is not None, "nothing was measured"
        assert measured == len(self.plan.jobs), f"{measured} of {len(self.plan.jobs)} jobs were measured"
        return ended - began


def plain_adb_s(case: Case, serial: str, folder: Path) -> float:
    """The same with a shell script: each file is pushed once, each job is one `adb shell`."""
    host = AdbHost()
    adb = f"{shlex.quote(str(host.adb))} -P {host.port} -s {serial}"
    runtime, target = TorchScript(), "/data/local/tmp/plain"
    protocol = protocol_of(case.spec)
    program = runtime.programs(_facts(serial, folder))["pt"].path
    lines = ["set -e", f"{adb} push {program} {target}/runner >/dev/null 2>&1"]
    pushed: set[str] = set()
    for job in case.plan.jobs:
        manifest = case.store.find(job.build_key)
        assert manifest is not None
        model = f"{target}/{job.build_key[:16]}"
        if job.build_key not in pushed:
            pushed.add(job.build_key)
            lines.append(f"{adb} push {case.store.model(manifest)} {model} >/dev/null 2>&1")
        argv = runtime.command(timed_request(job, manifest, model, protocol), f"{target}/runner")
        lines.append(f"{adb} shell {shlex.quote(shlex.join(argv))} >>{folder}/plain.log")
    script = folder / "plain.sh"
    script.write_text("\n".join(lines) + "\n")
    began = time.monotonic()
    subprocess.run(["sh", script], check=True)
    return time.monotonic() - began


def _facts(serial: str, folder: Path) -> DeviceFacts:
    attached = attach(f"adb:{serial}", folder)
    attached.device.release()
    return attached.facts


def _empty(phones: list[FaultyPhone]) -> None:
    for phone in phones:
        subprocess.run(["rm", "-rf", phone.data / "local/tmp/edgesweep", phone.data / "local/tmp/plain"], check=True)
        (phone.data / "local/tmp/plain").mkdir(parents=True)


def cost(folder: Path, figures: list[Figure]) -> dict[str, list[float]]:
    seconds: dict[str, list[float]] = {EDGESWEEP: [], PLAIN: []}
    with _phones(1, folder) as phones:
        case = Case(folder, "cost", SECONDS)
        assert len(case.plan.jobs) == JOBS, len(case.plan.jobs)
        say("building")
        Case(folder, "cost", 0.1).run("ray")
        for number, arm in enumerate(PASSES):
            say(f"pass {number + 1} of {len(PASSES)}: {arm}")
            _empty(phones)
            seconds[arm].append(case.run("ray") if arm == EDGESWEEP else plain_adb_s(case, phones[0].serial, folder))
        say(case.spent.text)
        timed_percent = 100 * case.spent.timed_s / case.spent.measuring_s
        figures.append(Figure("timed iterations, of the phone's time", timed_percent, "%"))
        figures.append(
            at_most(
                f"{JOBS} jobs of {SECONDS:g} s, over a script of plain adb",
                statistics.mean(seconds[EDGESWEEP]) / statistics.mean(seconds[PLAIN]),
                "times",
                1.05,
            )
        )
        for arm, (first, other) in seconds.items():
            figures.append(Figure(f"{arm} over itself (A/A)", other / first, "times"))
        _empty(phones)
        with Sent().counted() as cold:
            Case(folder, "cost", 0.1).run("inline")
        assert cold.total > 0, "nothing was counted"
        figures.append(at_most("bytes pushed over unique bytes, cold", cold.total / cold.unique, "times", 1.02))
        with Sent().counted() as warm:
            Case(folder, "cost", 0.1).run("inline")
        figures.append(at_most("bytes pushed, warm", warm.total, "B", 0))
    return seconds


def in_flight(folder: Path, figures: list[Figure]) -> None:
    with _phones(4, folder) as phones:
        case = Case(folder, "flight", 1.0)
        say("four phones")
        with Seen().watching(phones) as watch:
            case.run("ray")
    figures += [
        Figure("phones that measured at once", watch.most_phones, "of 4", "4", watch.most_phones == 4),
        at_most("runners at once on one phone", watch.most_on_one, "", 1),
    ]


@contextmanager
def _phones(count: int, folder: Path) -> Iterator[list[FaultyPhone]]:
    with faulty_phones(count, Path(tempfile.mkdtemp(dir=folder))) as phones:
        host = AdbHost()
        for phone in phones:
            assert host.connect(phone.serial), f"{phone.serial} is not reached"
        try:
            yield phones
        finally:
            for phone in phones:
                host.disconnect(phone.serial)


def main() -> None:
    figures: list[Figure] = []
    os.environ["ANDROID_ADB_SERVER_PORT"] = str(free_port())
    try:
        with tempfile.TemporaryDirectory(prefix="edgesweep-bench-") as name:
            seconds = cost(Path(name), figures)
            in_flight(Path(name), figures)
    finally:
        host = AdbHost()
        subprocess.run([host.adb, "-P", str(host.port), "kill-server"], capture_output=True, check=False)
    finish("phones", figures, seconds=seconds)


if __name__ == "__main__":
    main()
