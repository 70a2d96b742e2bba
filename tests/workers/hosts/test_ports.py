"""A host's ports: which there are, and who reaches them."""

import re
import shutil
import socket
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from subprocess import CompletedProcess
from types import SimpleNamespace

import pytest

from sweeps.errors import ClusterError
from tests.computers import Computer, Network, missing
from tests.conftest import EDGESWEEP
from tests.workers.hosts.hosts import PATIENCE_S
from workers.hosts import ports
from workers.hosts.node import NodeOptions
from workers.hosts.ports import Ports, any_ports, kept_to
from workers.hosts.supervisor import check_ports

Edgesweep = Callable[..., CompletedProcess[str]]
NEEDS_NFT = pytest.mark.skipif(
    shutil.which("nft", path="/usr/sbin:/usr/bin") is None,
    reason="nft is missing; enable with: apt-get install -y nftables",
)
_PORT = 6379
_SERVER = """
import socket
with socket.create_server(("0.0.0.0", 5000)) as server:
    while True:
        server.accept()[0].close()
"""
_ASK = """
import socket, sys
for port in map(int, sys.argv[2:]):
    try:
        socket.create_connection((sys.argv[1], port), 5).close()
        print(port)
    except ConnectionRefusedError:
        pass
"""

_KEEP = """
import sys, time
from workers.hosts.ports import Ports, kept_to
with kept_to(sys.argv[1], Ports(24000, 24099), None):
    print("kept", flush=True)
    time.sleep(1000)
"""


@pytest.mark.parametrize("text", ["24000", "24000-", "a-b", "80-5000", "24999-24000", "24000-24005", "24000-70000"])
def test_what_is_no_range_of_ports_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"ports|FIRST-LAST"):
        Ports.parse(text)


@pytest.mark.parametrize(("head", "grpc"), [(True, True), (True, False), (False, True)])
def test_every_port_of_a_node_is_in_its_range_and_none_is_given_twice(
    head: bool, grpc: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ports.importlib.util, "find_spec", lambda name: name if grpc else None)
    ports_of_lab = Ports.parse("24000-24099")
    assert str(ports_of_lab) == "24000-24099"
    port_options = dict(word.split("=") for word in ports_of_lab.words(head=head))
    # Ray opens it on a head where grpcio is, and takes it for an error where it is not.
    assert ("--ray-client-server-port" in port_options) == (head and grpc)
    last = port_options.pop("--max-worker-port")
    assert len(set(port_options.values())) == len(port_options)
    assert max(map(int, port_options.values())) == int(port_options["--min-worker-port"]) < int(last) == 24099
    assert all(int(port) in ports_of_lab for port in port_options.values())
    assert 23999 not in ports_of_lab
    assert 24100 not in ports_of_lab


@pytest.mark.parametrize("grpc", [True, False])
@pytest.mark.parametrize("lab_port", [6379, 10001, 16379, 52365])
def test_none_of_rays_own_ports_is_the_labs(lab_port: int, grpc: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ports.importlib.util, "find_spec", lambda name: name if grpc else None)
    port_options = dict(word.split("=") for word in any_ports(lab_port, head=True))
    assert grpc or "--ray-client-server-port" not in port_options, "Ray takes it for an error then, and opens none"
    assert port_options["--min-worker-port"] == port_options["--max-worker-port"] == "0", "ports that are free"
    fixed = {"--dashboard-agent-listen-port": "52365"} | ({"--ray-client-server-port": "10001"} if grpc else {})
    assert str(lab_port) not in (fixed | port_options).values()


def test_a_node_that_others_reach_outside_of_its_ports_is_refused(tmp_path: Path) -> None:
    node = NodeOptions(
        head="10.0.0.5:6379", is_head=True, ip="10.0.0.5", token_file=tmp_path, label="", ports=Ports(24000, 24099)
    )
    good = [(6379, "0.0.0.0:6379 (gcs_server)"), (24007, ":::24007 (raylet)"), (40000, "127.0.0.1:40000 (adb)")]
    check_ports(node, good)
    clients = (10001, "0.0.0.0:10001 (ray::ClientServer)")
    with pytest.raises(ClusterError, match=r"of the ports 24000-24099: 0\.0\.0\.0:10001 \(ray::ClientServer\)\n"):
        check_ports(node, [*good, clients])
    with pytest.raises(ClusterError, match="6379"):
        check_ports(replace(node, is_head=False), good)
    check_ports(replace(node, ports=None), [*good, clients])


def test_a_port_of_the_lab_that_is_one_of_its_hosts_ports_is_refused(edgesweep: Edgesweep, tmp_path: Path) -> None:
    words = ("host", "up", "--port", "24050", "--ports", "24000-24099", "--state", str(tmp_path))
    refused = edgesweep(*words)
    assert refused.returncode == 1
    assert "the lab's port 24050 is one of 24000-24099" in refused.stderr
    assert "give another --port, or other --ports" in refused.stderr


def test_an_address_that_is_no_own_one_is_refused_before_anything_is_changed(monkeypatch: pytest.MonkeyPatch) -> None:
    commands: list[object] = []
    monkeypatch.setattr(ports.subprocess, "Popen", lambda *words, **_: commands.append(words))
    with pytest.raises(ClusterError, match=r"no interface .* 192\.0\.2\.1"), kept_to("192.0.2.1", Ports(1, 2), None):
        pass
    assert commands == []


def test_the_next_step_is_named_where_there_is_no_nft(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ports.shutil, "which", lambda *_, **__: None)
    with pytest.raises(ClusterError) as raised, kept_to("127.0.0.1", Ports(24000, 24099), None):
        pass
    assert raised.value.next_step == "apt-get install -y nftables"


def test_only_nft_becomes_root(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ports.os, "geteuid", lambda: 1000)
    programs = {"nft": "/usr/sbin/nft"}
    monkeypatch.setattr(ports.shutil, "which", lambda name, **_: programs.get(name))
    with pytest.raises(ClusterError, match="needs sudo"), kept_to("127.0.0.1", Ports(24000, 24099), None):
        pass
    programs["sudo"] = "/usr/bin/sudo"
    ran: list[list[str]] = []

    def refuse(argv: list[str], **_: object) -> None:
        ran.append(argv)
        raise OSError("not here")

    monkeypatch.setattr(ports.subprocess, "Popen", refuse)
    with pytest.raises(ClusterError, match="not here"), kept_to("127.0.0.1", Ports(24000, 24099), None):
        pass
    assert ran == [["/usr/bin/sudo", "-n", "/usr/sbin/nft", "-i"]], "it cannot ask for a password"


def test_what_nft_says_is_told(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    nft = tmp_path / "nft"
    nft.write_text("#!/bin/sh\necho 'Error: not permitted' >&2\nexit 1\n")
    nft.chmod(0o755)
    monkeypatch.setattr(ports.shutil, "which", lambda name, **_: str(nft) if name == "nft" else None)
    monkeypatch.setattr(ports.os, "geteuid", lambda: 0)
    with pytest.raises(ClusterError, match="Error: not permitted"), kept_to("127.0.0.1", Ports(24000, 24099), None):
        pass


def test_an_nft_that_hangs_and_cannot_be_killed_is_told_of(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    nft = tmp_path / "nft"
    nft.write_text("#!/bin/sh\nexec sleep 1000\n")
    nft.chmod(0o755)
    monkeypatch.setattr(ports.shutil, "which", lambda name, **_: str(nft) if name == "nft" else None)
    monkeypatch.setattr(ports.os, "geteuid", lambda: 0)
    monkeypatch.setattr(ports, "_NFT_S", 0.1)
    kill = subprocess.Popen.kill

    def refused(process: "subprocess.Popen[bytes]") -> None:
        kill(process)  # otherwise the test would leave it behind
        raise PermissionError(1, "Operation not permitted")

    monkeypatch.setattr(subprocess.Popen, "kill", refused)
    with pytest.raises(ClusterError, match="does not say why"), kept_to("127.0.0.1", Ports(24000, 24099), None):
        pass


def test_a_label_of_an_address_is_no_interface(monkeypatch: pytest.MonkeyPatch) -> None:
    addresses = [SimpleNamespace(family=socket.AF_INET, address="192.0.2.1")]
    monkeypatch.setattr(ports.psutil, "net_if_addrs", lambda: {"eth0:1": addresses})
    assert ports._interface("192.0.2.1") == "eth0"


@pytest.mark.system
@pytest.mark.ray
@pytest.mark.skipif(bool(missing()), reason=missing())
@NEEDS_NFT
def test_with_a_firewall_a_lab_is_reached_over_its_own_interface_only(tmp_path: Path) -> None:
    with Network(tmp_path / "net") as network:
        head, other = network.add("head"), network.add("other")
        own = network.address("head")
        beside, _ = network.cable("head", "other")
        head.start([sys.executable, "-c", _SERVER])
        log = head.folder / "host.log"
        host = head.start([EDGESWEEP, "host", "up", "--address", own, "--name", "head", "--firewall"], log)
        _wait(lambda: "listening:" in log.read_text() or host.poll() is not None)
        output = log.read_text()
        assert host.poll() is None, output
        assert "use --firewall" not in output
        listening = told_ports(output)
        assert _PORT in listening
        assert {port for port in listening if not 24000 <= port <= 24999} == {_PORT}
        assert reached(other, own, listening) == listening
        assert reached(other, beside, {*listening, 5000}) == {5000}, "only what is no port of the lab"
        deletion = head.run(["nft", "delete", "table", "inet", _tables(head)[0]])
        assert deletion.returncode != 0, "only its owner can"
        # The address of the one interface over the other one.
        assert other.run(["ip", "route", "add", f"{own}/32", "via", beside]).returncode == 0
        assert reached(other, own, {_PORT, 5000}) == {5000}
        assert head.run([EDGESWEEP, "host", "leave"]).returncode == 0
        assert _tables(head) == []


@pytest.mark.system
@pytest.mark.skipif(bool(missing()), reason=missing())
@NEEDS_NFT
def test_rules_end_with_whoever_asked_for_them_also_if_it_is_killed(tmp_path: Path) -> None:
    with Network(tmp_path / "net") as network:
        head = network.add("head")
        words = [sys.executable, "-c", _KEEP, network.address("head")]
        with head.start(words) as first, head.start(words) as other:
            for process in (first, other):
                assert process.stdout is not None
                assert process.stdout.readline() == "kept\n"
            assert len(_tables(head)) == 2, "each has its own"
            assert head.run(["pkill", "-KILL", "-o", "-f", "kept_to"]).returncode == 0
            _wait(lambda: len(_tables(head)) == 1)
            assert head.run(["pkill", "-KILL", "-f", "kept_to"]).returncode == 0
        _wait(lambda: _tables(head) == [])


def _tables(computer: Computer) -> list[str]:
    return re.findall(r"^table inet (\w+)$", computer.run(["nft", "list", "tables"]).stdout, re.MULTILINE)


def _wait(until: Callable[[], bool]) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while not until():
        assert time.monotonic() < deadline
        time.sleep(0.1)


def told_ports(output: str) -> set[int]:
    """Read the ports that a host says it listens on."""
    return {int(port) for port in re.findall(r":(\d+) \(", output.partition("listening:")[2])}


def reached(computer: Computer, address: str, ports: set[int]) -> set[int]:
    answer = computer.run([sys.executable, "-c", _ASK, address, *map(str, ports)])
    assert answer.returncode == 0
    return {int(line) for line in answer.stdout.split()}
