"""Faults of a driver and of device hosts: computers in namespaces, two hosts with a virtual phone each, and a sweep on
a third computer. After each fault the invariants are checked, as after those of a phone on this computer's own cable.
"""

import json
import random
import re
import shutil
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import psutil
import pytest

from sweeps.journal.journal import Journal
from sweeps.records import Measured
from sweeps.workspace import Workspace
from tests.benchmarks.lab_case import DRIVER, PATIENCE_S, Lab
from tests.computers import Network, missing
from tests.conftest import EDGESWEEP, OWN_NET
from tests.faked_clock import faked_clock
from tests.faults import seen
from tests.faults.invariants import Scene, check
from tests.workers.driver.test_driver_faults import PHASES, held_in_a_block
from tests.workers.driver_process import GONE_S
from tests.workers.hosts.test_ports import NEEDS_NFT, reached, told_ports
from tests.workers.phone_sweep import OURS, PAUSE, eventually, fault, put_runner, timed
from workers.native.compiler import cache_folder
from workers.runtimes.torchscript.programs import FOLDER_VARIABLE

pytestmark = [
    pytest.mark.system,
    pytest.mark.ray,
    pytest.mark.long,
    pytest.mark.suite,
    pytest.mark.skipif(bool(missing()), reason=missing()),
    NEEDS_NFT,
]

HEAD, OTHER = "lab-1", "lab-2"
"""The faults of hosts are the second one's."""
CUT_S, FULL_S = 30.0, 15.0
CABLE_BYTES_PER_S = 8e6
MOVED_TO = "10.77.0.99"
SWEEP = """
name: tiny
models:
  - {source: "my_net:make_net", arguments: {classes: 4}, weights: random, input_shape: [1, 3, 16, 16], name: tiny}
data:
  calibration: {source: synthetic, images: 8, seed: 1}
  evaluation: {source: synthetic, images: 1000, seed: 2}
grids:
  - {precision: [fp32], layout: [nchw], threads: [1, 2, 3, 4, 5, 6]}
devices: ["adb:*"]
objective: {constraints: []}
protocol: {preset: quick, rounds: 1, warmup_seconds: 0.01, min_seconds: 0.02, iterations: 3, gate: none}
"""
JOBS = 12
# The names of a sweep's folder.
FILES = {"sweep.yaml", "my_net.py", "log", "workspace"}


@dataclass(frozen=True, slots=True)
class HostPhone:
    """One on a host's cable, as this computer sees it."""

    data: Path


@dataclass(frozen=True, slots=True)
class FaultyLab:
    """Two hosts that have joined, and the drivers' computer."""

    lab: Lab
    phones: list[HostPhone]
    folder: Path
    """All computers have it, under this name: for the sweeps."""
    clock: Path
    """The file with the seconds that are added to the clock of the second host's agent."""


@pytest.fixture(scope="module")
def faulty(tmp_path_factory: pytest.TempPathFactory) -> Iterator[FaultyLab]:
    with tempfile.TemporaryDirectory(prefix="edgesweep-faults-", dir="/var/tmp") as name:
        folder, files = Path(name), tmp_path_factory.mktemp("net")
        put_runner(folder / "runners")
        same_for_all = {"EDGESWEEP_CACHE": str(cache_folder()), FOLDER_VARIABLE: str(folder / "runners")}
        with Network(files, same_for_all) as network:
            lab = Lab(network)
            for computer in (HEAD, OTHER, DRIVER):
                network.add(computer)
            other = network.computers[OTHER]
            clock = other.folder / "clock"
            clock.write_text("+0\n")
            disk = other.run(["sh", "-c", "mkdir /tmp/state && mount -t tmpfs -o size=128m tmpfs /tmp/state"])
            assert disk.returncode == 0
            for computer, more, environment in (
                (HEAD, (), {}),
                (OTHER, ("--state", "/tmp/state", "--firewall"), _faked_clock()),
            ):
                lab.plug(computer, f"{computer}-phone", CABLE_BYTES_PER_S)
                lab.join(computer, *more, **environment)
            lab.give_token(network.computers[DRIVER])
            phones = [HostPhone(lab.data(f"{computer}-phone")) for computer in (HEAD, OTHER)]
            yield FaultyLab(lab, phones, folder, clock)


def _faked_clock() -> dict[str, str]:
    """The environment of a host whose agent has the clock of a file, and Ray's daemons their own: it is that of the
    agent's process alone, as of a job of Ray's. Empty where the library is missing."""
    faked = faked_clock("/tmp/clock")  # the computer's own
    job = {"runtime_env": {"env_vars": faked}, "metadata": {}}
    return {"RAY_JOB_CONFIG_JSON_ENV_VAR": json.dumps(job)} if faked else {}


class LabSweep:
    """One sweep on both phones, driven by the command, in a folder of its own. Its phones are as new."""

    def __init__(self, faulty: FaultyLab, name: str) -> None:
        self._lab = faulty.lab
        self.phones = faulty.phones
        self.home = faulty.folder / name
        self.home.mkdir()
        (self.home / "sweep.yaml").write_text(SWEEP)
        (self.home / "my_net.py").write_text(OWN_NET)
        self.workspace = Workspace(self.home / "workspace")
        for phone in self.phones:
            shutil.rmtree(phone.data / "local/tmp/edgesweep", ignore_errors=True)
            for file in OURS:
                (phone.data / "local" / file).unlink(missing_ok=True)

    def start(self) -> "subprocess.Popen[str]":
        """The command."""
        words = [EDGESWEEP, "run", self.home / "sweep.yaml", "--workspace", self.workspace.root]
        words += ["--lab", self._lab.head, "--token-file", "lab-token"]
        return self._lab.network.computers[DRIVER].start(words, self.home / "log")

    def in_a_block(
        self, run: "subprocess.Popen[str]", begin: Callable[[], object], then: Callable[[], object] = lambda: None
    ) -> None:
        """Begin the fault while both phones are in a block, which ends after that, and after what is done `then`."""
        for phone in self.phones:
            fault(phone, PAUSE, once=True)
        with held_in_a_block(self.phones):
            assert run.poll() is None, self.output()
            begin()
            seen.injected()
            then()

    def end(self, run: "subprocess.Popen[str]") -> None:
        """Whole, as the command and the hosts say it."""
        assert run.wait(PATIENCE_S) == 0, self.output()
        with Journal.open(self.workspace.journal) as journal:
            jobs = [job for job, _ in journal.jobs.of_sweep("tiny")]
            assert len(jobs) == JOBS
            assert all(isinstance(journal.outcomes.in_sweep("tiny", job), Measured) for job in jobs)
        assert [device["used_by"] for host in self._lab.hosts() for device in host["devices"]] == [None, None]

    def check(self, in_flight: int, *, counted: bool = True) -> None:
        """The invariants: so many blocks may have been lost. `counted`: all starts of runners are known."""
        folders: dict[Path, set[str]] = {self.home: FILES}
        for phone in self.phones:
            folders[phone.data] = {"local", "misc"}
            folders[phone.data / "local"] = {"tmp", *OURS}
            folders[phone.data / "local/tmp"] = {"edgesweep"}
        started = sum(map(timed, self.phones)) if counted else None
        scene = Scene(workspace=self.workspace, sweep="tiny", started=started, in_flight=in_flight, folders=folders)
        with Journal.open(self.workspace.journal) as journal:
            check(scene, journal)

    def output(self) -> str:
        return (self.home / "log").read_text(errors="replace")


def driver_of(run: "subprocess.Popen[str]") -> psutil.Process:
    """The command's own process: the other one has only entered the computer."""
    (driver,) = psutil.Process(run.pid).children()
    return driver


@pytest.mark.fault(
    29, "SIGKILL of a lab's driver: builds, pushes, measures, publishes", "resumed; at most a block a phone"
)
@pytest.mark.parametrize("phase", PHASES)
def test_a_driver_of_a_lab_that_is_killed_loses_nothing_and_leaves_nothing(faulty: FaultyLab, phase: str) -> None:
    chance = random.Random(phase)
    sweep = LabSweep(faulty, f"killed-{phase}")
    reached = PHASES[phase](sweep, chance)
    run = sweep.start()
    eventually(lambda: reached() or run.poll() is not None)
    assert run.poll() is None, sweep.output()
    driver = driver_of(run)
    started = [driver, *driver.children(recursive=True)]
    driver.kill()
    seen.injected()
    run.wait()
    assert psutil.wait_procs(started, timeout=GONE_S)[1] == []
    seen.told()
    sweep.end(sweep.start())
    sweep.check(in_flight=len(faulty.phones))


@pytest.mark.fault(30, "SIGSTOP of a lab's driver in a block, for 10 and 60 s", "goes on, no block repeated")
@pytest.mark.parametrize("seconds", [10.0, 60.0])
def test_a_driver_of_a_lab_that_is_suspended_goes_on_and_repeats_nothing(faulty: FaultyLab, seconds: float) -> None:
    sweep = LabSweep(faulty, f"stopped-{seconds:g}")
    run = sweep.start()
    sweep.in_a_block(run, lambda: driver_of(run).suspend())
    time.sleep(seconds)
    driver_of(run).resume()
    psutil.Process(run.pid).resume()  # a process that has entered the computer stops with what it started there
    sweep.end(run)
    sweep.check(in_flight=0)


@pytest.mark.fault(27, "the network of a host cut for 30 s in a block", "collected once it is back, no block repeated")
def test_a_host_that_is_cut_off_in_a_block_costs_nothing(faulty: FaultyLab) -> None:
    network = faulty.lab.network
    sweep = LabSweep(faulty, "cut")
    run = sweep.start()
    try:
        sweep.in_a_block(run, lambda: network.cut(OTHER))
        time.sleep(CUT_S)
    finally:
        network.mend(OTHER)
    sweep.end(run)
    assert f"waiting for the host {OTHER} (" in sweep.output()
    assert sweep.output().count("this computer's node in the lab, until this ends, listening: ") == 1
    sweep.check(in_flight=0)


@pytest.mark.fault(20, "the clock of a host's agent set on by an hour, back by two", "told, no block repeated")
def test_a_host_whose_clock_jumps_in_a_block_is_told_and_measures_on(faulty: FaultyLab) -> None:
    if not _faked_clock():
        pytest.skip("libfaketime is missing; enable with: make faults")
    sweep = LabSweep(faulty, "clock")
    run = sweep.start()
    try:
        for jump, way in (("+3600", "ahead of"), ("-3600", "behind")):
            warning = f"{OTHER}: its clock is 60 min {way} this computer's: set one of them"

            def is_told(warning: str = warning) -> bool:
                return warning in faulty.lab.troubles()

            # The blocks are so short that none would be left to jump in while `edgesweep hosts` asks.
            sweep.in_a_block(run, partial(faulty.clock.write_text, f"{jump}\n"), partial(faulty.lab.wait, is_told))
            seen.told()
    finally:
        faulty.clock.write_text("+0\n")
    sweep.end(run)
    sweep.check(in_flight=0)


@pytest.mark.fault(45, "a tmpfs with a host's state filled in a block, freed after 15 s", "waited for, nothing lost")
def test_a_host_whose_disk_fills_in_a_block_is_waited_for_and_loses_nothing(faulty: FaultyLab) -> None:
    other = faulty.lab.network.computers[OTHER]
    sweep = LabSweep(faulty, "full")
    run = sweep.start()
    try:
        sweep.in_a_block(run, lambda: other.run(["sh", "-c", "cat /dev/zero >/tmp/state/filler"]))
        time.sleep(FULL_S)
        assert any("its disk is full" in trouble for trouble in faulty.lab.troubles())
    finally:
        other.run(["rm", "-f", "/tmp/state/filler"])
    sweep.end(run)
    # Until there is room; the other phone goes on.
    assert re.search(rf"waiting for the host {OTHER} \(.*its disk is full", sweep.output())
    assert f"without the host {OTHER}: host:{OTHER}/adb:" in sweep.output()
    assert " is away (" not in sweep.output()
    with Journal.open(sweep.workspace.journal) as journal:
        assert [journal.attempts.failures(job.key) for job, _ in journal.jobs.of_sweep("tiny")] == [()] * JOBS, (
            "no job lost an attempt"
        )
    # The block that ran came to its end, and its result arrived.
    sweep.check(in_flight=0)


@pytest.mark.fault(26, "a host's address changes in a block", "its node is started again; a block a phone again")
def test_a_host_with_a_new_address_joins_again_from_it_and_its_rules_go_with_it(faulty: FaultyLab) -> None:
    lab, other = faulty.lab, faulty.lab.network.computers[OTHER]
    sweep = LabSweep(faulty, "moved")
    run = sweep.start()
    change = f"ip address flush dev eth0 && ip address add {MOVED_TO}/24 dev eth0"
    sweep.in_a_block(run, lambda: other.run(["sh", "-c", change]))
    lab.wait(lambda: f"this machine has the address {MOVED_TO} now" in lab.output(OTHER))
    seen.told()
    sweep.end(run)
    sweep.check(in_flight=len(faulty.phones))
    beside = lab.network.cable(OTHER, HEAD)[0]
    # The ports of Ray's workers are told anew.
    assert lab.output(OTHER).count("listening:") > 1
    head, ports = lab.network.computers[HEAD], told_ports(lab.output(OTHER)) & set(range(24000, 24006))
    assert ports
    assert reached(head, MOVED_TO, ports) == ports
    assert reached(head, beside, ports) == set(), "only over the interface of its address"


@pytest.mark.fault(
    31, "SIGKILL of the head's computer while its phone measures", "told in a line; goes on once it is up"
)
def test_a_sweep_whose_head_is_killed_says_so_and_the_same_command_goes_on(faulty: FaultyLab) -> None:
    lab, network, phone = faulty.lab, faulty.lab.network, f"{HEAD}-phone"
    sweep = LabSweep(faulty, "head")
    run = sweep.start()
    eventually(lambda: min(map(timed, faulty.phones)) > 1 or run.poll() is not None)
    assert run.poll() is None, sweep.output()
    network.computers[HEAD].kill()
    seen.injected()
    assert run.wait(PATIENCE_S) in (0, 1), sweep.output()  # 1: no job had ended, so there is nothing to rank
    seen.told()
    assert "Traceback" not in sweep.output()
    assert "waiting for the lab's head (" in sweep.output()
    assert "run the same command again when they are back" in sweep.output(), sweep.output()
    with Journal.open(sweep.workspace.journal) as journal:
        counts = {job.key: len(journal.attempts.blocks(job.key)) for job, _ in journal.jobs.of_sweep("tiny")}
    assert sum(counts.values()) > 0
    network.add(HEAD)
    lab.plug(HEAD, phone, CABLE_BYTES_PER_S)
    lab.join(HEAD)
    faulty.phones[0] = HostPhone(lab.data(phone))
    lab.wait(lambda: [len(host["devices"]) for host in lab.hosts()] == [1, 1])
    sweep.end(sweep.start())
    with Journal.open(sweep.workspace.journal) as journal:
        assert all(len(journal.attempts.blocks(key)) >= count for key, count in counts.items()), "none was lost"
    # The counts of the head's phone went with its computer.
    sweep.check(in_flight=len(faulty.phones), counted=False)
