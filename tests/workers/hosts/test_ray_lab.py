"""A lab of real Ray nodes on loopback, driven by its commands: a head and a further host, each with a device."""

import json
import os
import re
import sqlite3
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Self

import psutil
import pytest

from sweeps.journal.journal import Journal
from sweeps.launching import reachable_devices
from sweeps.workspace import Workspace
from tests.conftest import EDGESWEEP, OWN_NET
from tests.faults import seen
from tests.faults.invariants import Scene, check
from tests.free_port import free_port
from tests.outside import sent_outside, traced
from tests.sockets import listening
from tests.workers.adb_server import kill_server
from tests.workers.driver_process import GONE_S
from tests.workers.hosts.test_ports import told_ports

pytestmark = [pytest.mark.system, pytest.mark.ray]

SWEEP = """
name: {name}
models:
  - {{source: "my_net:make_net", arguments: {{classes: 4}}, weights: random, input_shape: [1, 3, 16, 16], name: tiny}}
data:
  calibration: {{source: synthetic, images: 8, seed: 1}}
  evaluation: {{source: synthetic, images: 8, seed: 2}}
grids:
  - {{precision: [fp32], layout: [nchw]}}
devices: {devices}
protocol: {{preset: quick, gate: none, rounds: {rounds}, warmup_seconds: 0.1, min_seconds: 0.3, iterations: 3}}
"""
PATIENCE_S = 240.0
PROCESSES = {"device": "workers.hosts.device_process", "host": "ray::HostActor"}


@dataclass(slots=True)
class RunningLab:
    """Two hosts, and a folder for drivers."""

    folder: Path
    head: str
    hosts: dict[str, "subprocess.Popen[bytes]"] = field(default_factory=dict)

    @property
    def token(self) -> Path:
        return self.folder / "lab-1" / "token"

    def start(self, name: str, *words: str) -> None:
        """Returns once the host is in the lab."""
        log = (self.folder / f"{name}.log").open("wb")
        state = ["--state", str(self.folder / name), "--name", name]
        self.hosts[name] = subprocess.Popen([EDGESWEEP, "host", *words, *state], stdout=log, stderr=log)
        log.close()
        self.wait(lambda: "is a host of the lab" in self.said(name) or self.hosts[name].poll() is not None)
        assert self.hosts[name].poll() is None, self.said(name)

    def said(self, name: str) -> str:
        return (self.folder / f"{name}.log").read_text(encoding="utf-8", errors="replace")

    def command(self, *words: str, token: Path | None = None) -> "subprocess.CompletedProcess[str]":
        return subprocess.run(
            [EDGESWEEP, *words, "--lab", self.head, "--token-file", str(token or self.token)],
            cwd=self.folder,
            capture_output=True,
            text=True,
        )

    def document(self) -> list[dict[str, Any]]:
        told = self.command("hosts", "--json")
        assert told.returncode == 0, told.stderr
        hosts: list[dict[str, Any]] = json.loads(told.stdout)["hosts"]
        return hosts

    def sweep(self, name: str, *devices: str, rounds: int = 3) -> "subprocess.Popen[bytes]":
        file = self.folder / f"{name}.yaml"
        file.write_text(SWEEP.format(name=name, devices=json.dumps(devices), rounds=rounds))
        with (self.folder / f"{name}.log").open("ab") as log:
            return subprocess.Popen(
                [EDGESWEEP, "run", str(file), "--workspace", name, "--lab", self.head, "--token-file", str(self.token)],
                cwd=self.folder,
                stdout=log,
                stderr=log,
            )

    def measuring(self, name: str) -> bool:
        """Whether some blocks of the sweep were measured."""
        return re.search(r"Measuring on \S+: [2-9] of", self.said(name)) is not None

    def blocks(self, name: str) -> list[tuple[str, int]]:
        """Job and round of each block of real jobs, as the journal has them."""
        with sqlite3.connect(f"file:{self.folder / name / 'journal.sqlite'}?mode=ro", uri=True) as journal:
            return journal.execute("SELECT key, round FROM attempts WHERE kind = 'block'").fetchall()

    def wait(self, until: Callable[[], bool]) -> None:
        deadline = time.monotonic() + PATIENCE_S
        while not until():
            assert time.monotonic() < deadline, "\n".join(self.said(name) for name in self.hosts)
            time.sleep(0.2)

    def processes(self, name: str) -> list[psutil.Process]:
        return psutil.Process(self.hosts[name].pid).children(recursive=True)

    def kill(self, name: str, process: str) -> None:
        """kill -9 of a process of this host, by the start of its name."""
        for one in self.named(name, process):
            one.kill()

    def named(self, name: str, process: str) -> list[psutil.Process]:
        """Processes of this host by the start of their name, or by the module that they run."""
        titles = [(one, _title(one)) for one in self.processes(name)]
        found = [one for one, title in titles if title.startswith(process) or f"-m {process} " in title]
        assert found, [title for _, title in titles]
        return found

    def close(self) -> None:
        for process in reversed(self.hosts.values()):
            if process.poll() is None:
                process.terminate()
                with suppress(subprocess.TimeoutExpired):
                    process.wait(60)
            process.kill()


def _title(process: psutil.Process) -> str:
    try:
        return " ".join(process.cmdline()) if process.name() != "raylet" else "raylet"
    except psutil.Error:
        return ""


@pytest.fixture(scope="module")
def lab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningLab]:
    folder = tmp_path_factory.mktemp("lab")
    (folder / "my_net.py").write_text(OWN_NET)
    port = free_port()
    while port < 20_000:  # below, ports are of Ray's workers
        port = free_port()
    lab = RunningLab(folder, f"127.0.0.1:{port}")
    try:
        lab.start("lab-1", "up", "--port", str(port), "--device", "fake:steady", "--tag", "office")
        lab.start("lab-2", "join", lab.head, "--token-file", str(lab.token), "--device", "local")
        yield lab
    finally:
        lab.close()


def test_a_sweep_measures_on_both_hosts_over_a_killed_agent_and_listens_on_loopback(
    lab: RunningLab,
) -> None:
    running = lab.sweep("both", "tag:office", "host:lab-2/local", rounds=5)
    lab.wait(lambda: lab.measuring("both") or running.poll() is not None)
    addresses = {one for process in psutil.Process().children(recursive=True) for one in listening(process)}
    lab.kill("lab-2", "ray::HostActor")
    assert running.wait(PATIENCE_S) == 0, lab.said("both") + lab.said("lab-2")
    assert addresses <= {"127.0.0.1", "::ffff:127.0.0.1", "::1"}
    assert "127.0.0.1" in addresses
    assert "waiting for the host lab-2 (" in lab.said("both")
    assert "without the host lab-2: host:lab-2/local answers again" in lab.said("both")
    assert len(lab.blocks("both")) == len(set(lab.blocks("both"))) == 2 * 5
    told = {host["name"]: host for host in lab.document()}
    assert {name: [one["name"] for one in host["devices"]] for name, host in told.items()} == {
        "lab-1": ["host:lab-1/fake:steady"],
        "lab-2": ["host:lab-2/local"],
    }
    for name, host in told.items():
        assert host["answers"]
        assert host["usable"]
        assert [one["used_by"] for one in host["devices"]] == [None]
        assert len(list((lab.folder / name / "node" / "artifacts").iterdir())) >= 1
    devices = lab.command("devices", "--json")
    assert [one["name"] for one in json.loads(devices.stdout)["devices"]] == [
        "host:lab-1/fake:steady",
        "host:lab-2/local",
    ]


@pytest.mark.strace
@pytest.mark.parametrize("port", [16379, 10001], ids=["of Ray's workers", "of Ray's clients"])
def test_a_host_starts_on_rays_default_port_lists_its_keepers_and_logs_no_token(tmp_path: Path, port: int) -> None:
    log, state = tmp_path / "log", ("--state", str(tmp_path / "state"))
    words = ("up", "--port", str(port), "--device", "fake:steady", *state)
    adb = free_port()  # of a server that the host starts
    with log.open("wb") as output:
        host = subprocess.Popen(
            [*traced(tmp_path / "calls"), EDGESWEEP, "host", *words],
            stdout=output,
            stderr=output,
            env=os.environ | {"ANDROID_ADB_SERVER_PORT": str(adb)},
        )
    try:
        deadline = time.monotonic() + PATIENCE_S
        while "listening:" not in log.read_text():
            assert host.poll() is None, log.read_text()
            assert time.monotonic() < deadline, log.read_text()
            time.sleep(0.2)
        processes = psutil.Process(host.pid).children(recursive=True)
        [keeper] = [one for one in processes if "-m workers.hosts.agent_process" in _title(one)]
        own = {one.laddr.port for one in keeper.net_connections("tcp") if one.status == psutil.CONN_LISTEN}
        told = log.read_text()
        assert own
        assert own | {port} <= told_ports(told)
        assert (tmp_path / "state" / "token").read_text().strip() not in told
        left = subprocess.run([EDGESWEEP, "host", "leave", *state], capture_output=True, text=True)
        assert left.returncode == 0, left.stderr
        kill_server(adb)
        assert host.wait(PATIENCE_S) == 0, log.read_text()
    finally:
        with suppress(psutil.NoSuchProcess):
            for one in psutil.Process(host.pid).children(recursive=True):
                one.kill()
        host.wait()
    assert sent_outside(tmp_path / "calls") == []


def test_a_token_is_kept_to_its_owner_and_another_one_is_refused_at_once(lab: RunningLab, tmp_path: Path) -> None:
    assert lab.token.stat().st_mode & 0o777 == 0o600
    token = lab.token.read_text()
    for name in lab.hosts:
        for process in (psutil.Process(lab.hosts[name].pid), *lab.processes(name)):
            with suppress(psutil.Error):
                assert token not in " ".join((*process.cmdline(), *process.environ().values()))
    wrong = tmp_path / "wrong"
    wrong.write_text("f" * len(token))
    wrong.chmod(0o600)
    join = ("host", "join", lab.head, "--state", str(tmp_path / "state"), "--token-file", str(wrong))
    for refused in (
        lab.command("hosts", token=wrong),
        subprocess.run([EDGESWEEP, *join], capture_output=True, text=True),
    ):
        assert refused.returncode == 1
        assert "it has another token" in refused.stderr
        assert "copy the token file" in refused.stderr
    wrong.chmod(0o644)
    assert "others may read the token file" in lab.command("hosts", token=wrong).stderr
    assert "cannot be read" in lab.command("hosts", token=tmp_path / "none").stderr


def test_a_killed_driver_frees_its_device_and_its_next_run_outlives_a_killed_node(lab: RunningLab) -> None:
    running = lab.sweep("killed", "host:lab-2/local", rounds=6)
    lab.wait(lambda: lab.measuring("killed") or running.poll() is not None)
    started = psutil.Process(running.pid).children(recursive=True)
    running.kill()
    running.wait()
    assert psutil.wait_procs(started, timeout=GONE_S)[1] == []
    before = len(lab.blocks("killed"))
    assert 0 < before < 6
    (lab.folder / "killed.log").unlink()
    running = lab.sweep("killed", "host:lab-2/local", rounds=6)
    lab.wait(lambda: len(lab.blocks("killed")) > before or running.poll() is not None)
    lab.kill("lab-2", "raylet")
    assert running.wait(PATIENCE_S) == 0, lab.said("killed") + lab.said("lab-2")
    assert "waiting for the host lab-2 (" in lab.said("killed")
    assert len(lab.blocks("killed")) == len(set(lab.blocks("killed"))) == 6
    left = [one for one in lab.processes("lab-2") if "torchscript" in _title(one) and "--model" in _title(one)]
    assert left == []


class Runners:
    """Counts the runners that time a block on a host, each of which takes seconds. Use it as a context manager."""

    def __init__(self, lab: RunningLab, name: str) -> None:
        self._lab, self._name = lab, name
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._look)
        self.seen: set[psutil.Process] = set()

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        self._thread.join()

    def _look(self) -> None:
        while not self._ended.wait(0.1):
            titles = [(one, _title(one)) for one in self._lab.processes(self._name)]
            self.seen |= {
                one for one, title in titles if "torchscript.runner" in title and "--eval-inputs" not in title
            }


@pytest.mark.suite
@pytest.mark.fault(26, "SIGKILL of a device's process, or of the host's actor, twice", "a block each time, no other")
@pytest.mark.parametrize(("kind", "process"), PROCESSES.items())
def test_a_process_of_a_host_that_is_killed_costs_the_block_that_runs(lab: RunningLab, kind: str, process: str) -> None:
    _disturbed(lab, f"killed-{kind}", 2, lambda: lab.kill("lab-2", process))


@pytest.mark.suite
@pytest.mark.fault(30, "SIGSTOP of a device's process, or of the host's actor, for 10 and 60 s", "no block repeated")
@pytest.mark.parametrize(("kind", "process"), PROCESSES.items())
def test_a_process_of_a_host_that_is_stopped_for_a_while_costs_nothing(
    lab: RunningLab, kind: str, process: str
) -> None:
    seconds = iter((10.0, 60.0))

    def stop() -> None:
        stopped = lab.named("lab-2", process)
        for one in stopped:
            one.suspend()
        seen.injected()
        time.sleep(next(seconds))
        for one in stopped:
            one.resume()

    _disturbed(lab, f"stopped-{kind}", 0, stop)


def _disturbed(lab: RunningLab, name: str, in_flight: int, disturb: Callable[[], None]) -> None:
    """A sweep of one job on `lab-2`, disturbed twice while a runner works, which ends whole."""
    there = {path.name for path in lab.folder.iterdir()}
    with Runners(lab, "lab-2") as runners:
        running = lab.sweep(name, "host:lab-2/local", rounds=8)
        for blocks in (1, 4):
            # The next one has been started, as a rule.
            lab.wait(lambda blocks=blocks: len(runners.seen) > blocks or running.poll() is not None)
            assert running.poll() is None, lab.said(name)
            disturb()
        assert running.wait(PATIENCE_S) == 0, lab.said(name) + lab.said("lab-2")
    workspace = Workspace(lab.folder / name)
    assert len(lab.blocks(name)) == 8
    scene = Scene(
        workspace=workspace,
        sweep=name,
        started=len(runners.seen),
        in_flight=in_flight,
        folders={lab.folder: {*there, name, f"{name}.yaml", f"{name}.log"}},
    )
    with Journal.open(workspace.journal) as journal:
        check(scene, journal)


def test_a_host_that_leaves_hands_back_its_devices_and_ends_all_it_started(lab: RunningLab, tmp_path: Path) -> None:
    started = lab.processes("lab-2")
    left = subprocess.run(
        [EDGESWEEP, "host", "leave", "--state", str(lab.folder / "lab-2")], capture_output=True, text=True
    )
    assert left.returncode == 0, left.stderr
    assert lab.hosts["lab-2"].wait(PATIENCE_S) == 0
    lab.wait(lambda: not any(one.is_running() and one.status() != psutil.STATUS_ZOMBIE for one in started))
    rows, _ = reachable_devices.hosts(Workspace(tmp_path), ("--lab", lab.head, "--token-file", str(lab.token)))
    assert [(row.host, row.device, row.used_by, row.waiting) for row in rows if row.answers] == [
        ("lab-1", "host:lab-1/fake:steady", "", 0)
    ]
    again = subprocess.run(
        [EDGESWEEP, "host", "leave", "--state", str(lab.folder / "lab-2")], capture_output=True, text=True
    )
    assert again.returncode == 1
    assert "no device host" in again.stderr
