"""A sweep on the computer of a host that is not the lab's head: computers in namespaces, real Ray nodes."""

import json
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.computers import Computer, Network, missing
from tests.conftest import EDGESWEEP, OWN_NET
from tests.workers.hosts.test_ray_lab import PATIENCE_S, SWEEP

_TOKEN = ".local/state/edgesweep/host/token"
_KILL = """
import psutil, sys
for one in psutil.process_iter(["name", "cmdline"]):
    if one.info["name"] == "raylet" and any("edgesweep-ray-" in word for word in one.info["cmdline"]):
        folders = [word for word in one.info["cmdline"] if word.startswith("--temp_dir=")]
        print(one.pid, *folders, flush=True)
        if sys.argv[1:] == folders:
            one.kill()
"""


@pytest.mark.system
@pytest.mark.ray
@pytest.mark.skipif(bool(missing()), reason=missing())
def test_a_sweep_beside_a_host_goes_on_when_ray_of_that_host_is_killed(tmp_path: Path) -> None:
    with Network(tmp_path) as network:
        head, other = network.add("head"), network.add("other")
        address = network.address("head")
        words = ["host", "up", "--address", address, "--name", "head", "--device", "fake:steady"]
        _joined(head, [EDGESWEEP, *words])
        token = other.folder / "home" / "lab-token"
        token.write_bytes((head.folder / "home" / _TOKEN).read_bytes())
        token.chmod(0o600)
        lab = [f"{address}:6379", "--token-file", "lab-token"]
        host = _joined(other, [EDGESWEEP, "host", "join", *lab, "--name", "other", "--device", "fake:steady"])
        (own,) = _nodes(other)
        sweep = SWEEP.format(name="s", devices=json.dumps(["host:head/fake:steady"]), rounds=40)
        home = other.folder / "home"
        (home / "my_net.py").write_text(OWN_NET)
        (home / "sweep.yaml").write_text(sweep)
        log = other.folder / "sweep.log"
        run = other.start([EDGESWEEP, "run", "sweep.yaml", "--lab", *lab], log)
        _wait(lambda: "Measuring on" in log.read_text() or run.poll() is not None, log)
        assert len(_nodes(other)) == 2, "the host's and the sweep's"
        assert own in _nodes(other, own)
        _wait(lambda: "it is started again" in host.read_text(), host)
        assert run.wait(PATIENCE_S) == 0, log.read_text()
        of_ray = [line for line in log.read_text().splitlines() if "raylet" in line.replace("(raylet)", "")]
        assert of_ray == [], "its ports are told, and nothing of its end"


def _joined(computer: Computer, argv: list[str]) -> Path:
    """Start a host, wait until it has joined, and return its log."""
    log = computer.folder / "host.log"
    host = computer.start(argv, log)
    _wait(lambda: "is a host of the lab" in log.read_text() or host.poll() is not None, log)
    assert host.poll() is None, log.read_text()
    return log


def _nodes(computer: Computer, kill: str = "") -> set[str]:
    """The folders of the Ray nodes on it, as their processes name them. The node `kill` is killed then."""
    listing = computer.run([sys.executable, "-c", _KILL, *filter(None, [kill])])
    return {line.split()[1] for line in listing.stdout.splitlines()}


def _wait(until: Callable[[], bool], log: Path) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while not until():
        assert time.monotonic() < deadline, log.read_text()
        time.sleep(0.2)
