"""Each fault of a host, a token or an address is told in one line, without Ray."""

import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from pathlib import Path
from socket import socket
from subprocess import PIPE, CompletedProcess, Popen
from traceback import format_exc
from types import SimpleNamespace

import pytest
from ray import JobID
from ray._private import worker
from ray._private.utils import check_version_info, compute_version_info

from sweeps.cli.hosts import troubles
from sweeps.errors import ClusterError, DeviceError
from sweeps.records import Failed
from tests.builders import phone_facts
from tests.free_port import free_port
from tests.workers.hosts.hosts import JOB, VERSIONS, TestHost
from workers.executors.lane import Lane
from workers.executors.loopback import LOOPBACK
from workers.hosts import access, node
from workers.hosts.agent_start import earlier_starts
from workers.hosts.cluster import Patient, error_of, pass_on_what_ray_says
from workers.hosts.interface import Hello
from workers.hosts.node import NodeOptions, node_of_head
from workers.hosts.this_machine import HostConfig
from workers.measure.timed_block import ReadyRequest


def hello(tmp_path: Path, name: str = "lab-1", *devices: str, **identity: object) -> Hello:
    return TestHost(tmp_path / f"{name}{len(list(tmp_path.iterdir()))}", name, *devices, **identity).agent.hello()


def test_hosts_names_both_versions_of_what_differs(tmp_path: Path) -> None:
    hellos = [
        (hello(tmp_path, "lab-1", versions=replace(VERSIONS, edgesweep="0.9", protocol=0)), True),
        (hello(tmp_path, "lab-2", "two", versions=replace(VERSIONS, python="3.10.1")), True),
        (hello(tmp_path, "lab-3", "three", versions=replace(VERSIONS, ray="2.61")), True),
        (hello(tmp_path, "lab-4", "four"), True),
    ]
    assert troubles(hellos, VERSIONS, 1000.0) == [
        "lab-1 has EdgeSweep 0.9 (protocol 0), not 1 (protocol 1): update it, or this computer",
        "lab-2 has Python 3.10.1, not 3: update it, or this computer",
        "lab-3 has Ray 2.61, not 2: update it, or this computer",
    ]


def test_hosts_tells_a_wrong_clock_a_doubled_name_or_device_and_who_is_silent(tmp_path: Path) -> None:
    first, other, third = hello(tmp_path, "lab-1"), hello(tmp_path, "lab-1", "two"), hello(tmp_path, "lab-2")
    assert troubles([(first, True)], VERSIONS, first.clock_s + 60) == []
    assert troubles([(first, True)], VERSIONS, first.clock_s + 3600) == [
        "lab-1: its clock is 60 min behind this computer's: set one of them"
    ]
    assert troubles([(first, True)], VERSIONS, first.clock_s - 3600) == [
        "lab-1: its clock is 60 min ahead of this computer's: set one of them"
    ]
    assert troubles([(first, True), (other, True), (third, False)], VERSIONS, first.clock_s) == [
        "lab-1 is the name of several hosts: give one of them another (--name)",
        "lab-2 does not answer",
        "host:lab-1/adb:one and host:lab-2/adb:one both call themselves one",
    ]
    assert troubles([], VERSIONS, 0) == ["no host has joined: edgesweep host join"]


def test_a_name_is_refused_only_if_another_machine_that_answers_has_it(tmp_path: Path) -> None:
    first, second = TestHost(tmp_path / "1", "lab-1").agent, TestHost(tmp_path / "2", "lab-2").agent
    nodes = [("host:lab-1:aa:5", first), ("host:lab-2:bb:6", second)]
    assert earlier_starts(nodes, "lab-3", "cc") == []
    assert earlier_starts(nodes, "lab-2", "bb") == [second]
    with pytest.raises(ClusterError, match=r"called lab-2 \(with 1 devices\)\n.*--name NAME"):
        earlier_starts(nodes, "lab-2", "cc")

    def away() -> Hello:
        raise DeviceError("host_away", "silent")

    second.hello = away  # type: ignore[method-assign]
    assert earlier_starts(nodes, "lab-2", "cc") == []


def test_what_an_agent_did_not_expect_is_an_error_in_one_line_that_names_the_host() -> None:
    own = DeviceError("offline", "it is gone")
    assert error_of("lab-1", own) is own
    other = error_of("lab-1", RuntimeError("can't start new thread\nat all"))
    assert isinstance(other, DeviceError)
    assert (other.kind, other.message) == ("worker_error", "the host lab-1: RuntimeError: can't start new thread")


def test_a_later_start_of_a_host_is_the_later_one_also_if_its_clock_was_set_back(tmp_path: Path) -> None:
    config = HostConfig(name="lab-1", state=tmp_path)
    boots = [config.next_boot(now_ms) for now_ms in (5_000_000, 1_400_000, 1_400_000, 5_000_009)]
    assert boots == [5_000_000, 5_000_001, 5_000_002, 5_000_009]
    (tmp_path / "host.boot").write_text("damaged")
    assert config.next_boot(7) == 7


def test_what_ray_tells_a_driver_is_no_output_and_the_driver_alone_tells_a_nodes_end(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    died = (
        "The node with node id: 1 and address: 10.0.0.5 has been marked dead because the detector has missed too many"
    )
    messages = iter([died, "Raylet is terminated. Last lines:\n (raylet) a.cc:1", "A worker died."])

    def poll() -> tuple[None, dict[str, object]]:
        try:
            return None, {"job_id": None, "error_message": next(messages)}
        except StopIteration:
            raise ConnectionError from None

    subscriber = SimpleNamespace(subscribe=lambda: None, poll=poll)
    driver = SimpleNamespace(gcs_error_subscriber=subscriber, current_job_id=JobID.nil())
    monkeypatch.setattr(worker, "print_to_stdstream", worker.print_to_stdstream)
    pass_on_what_ray_says()
    worker.listen_error_messages(driver, threading.Event())
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err == "Ray: A worker died.\n"


def test_a_head_that_does_not_answer_is_not_asked_again_at_once() -> None:
    """Ray's own thread asks as fast as it can, which kept a core busy while a network was cut."""
    waited: list[float] = []

    class Ended(threading.Event):
        def wait(self, timeout: float | None = None) -> bool:
            waited.append(timeout or 0.0)
            if len(waited) == 3:
                self.set()
            return self.is_set()

    ended = Ended()
    answers = iter([(None, None), (None, {"job_id": b"another job", "error_message": ""}), (None, None), (None, None)])
    subscriber = SimpleNamespace(subscribe=lambda: None, poll=lambda: next(answers))
    driver = SimpleNamespace(gcs_error_subscriber=Patient(subscriber, ended), current_job_id=JobID.nil())
    worker.listen_error_messages(driver, ended)
    assert waited == [1.0, 1.0, 1.0]


@pytest.fixture
def raylet(tmp_path: Path) -> Iterator[Callable[..., None]]:
    """Starts what looks like a node of Ray."""
    program = tmp_path / "raylet"
    program.symlink_to(sys.executable)
    with ExitStack() as stack:

        def start(*words: str) -> None:
            wait = "print(flush=True); import time; time.sleep(600)"
            process = stack.enter_context(Popen([program, "-c", wait, *words], stdout=PIPE))
            stack.callback(process.kill)
            assert process.stdout is not None
            process.stdout.readline()

        yield start


def test_a_driver_uses_the_node_of_the_head_and_of_no_other_host(raylet: Callable[..., None]) -> None:
    head = "10.0.0.5:6379"
    raylet(f"--gcs-address={head}", "--temp_dir=/of-a-host")
    raylet("--gcs-address=10.0.0.9:6379", "--head", "--temp_dir=/of-another-lab")
    assert node_of_head(head) is None
    raylet(f"--gcs-address={head}", "--head", "--temp_dir=/of-the-head")
    assert node_of_head(head) == Path("/of-the-head")


def test_a_node_of_another_ray_or_python_is_told_with_both_versions() -> None:
    """By Ray's own words, as its command says them."""
    own = compute_version_info()
    words = ""
    try:
        check_version_info({"ray_version": "2.61.0", "python_version": "3.12.1"}, "node 10.0.0.7")
    except RuntimeError:
        words = f"2026-11-26 10:00:00,000 INFO scripts.py:1 -- Local node IP: 10.0.0.7\n{format_exc()}"
    options = NodeOptions(head="10.0.0.5:6379", ip="10.0.0.7", token_file=Path("token"), label="")
    failure = node._why_not(words, options)
    assert failure.message.startswith("this machine and the lab at 10.0.0.5:6379 differ: ")
    assert "The cluster was started with: Ray: 2.61.0 Python: 3.12.1" in failure.message
    assert f"was started with: Ray: {own[0]} Python: {own[1]}" in failure.message
    assert failure.next_step == "install the same versions"


@contextmanager
def listening() -> Iterator[str]:
    """Something that is no lab: it takes connections, and never says a word."""
    with socket() as server:
        server.bind(("127.0.0.1", 0))
        server.listen()
        yield f"127.0.0.1:{server.getsockname()[1]}"


def token_file(tmp_path: Path, mode: int = 0o600, text: str = "a" * 64) -> Path:
    file = tmp_path / "token"
    file.write_text(text)
    file.chmod(mode)
    return file


def test_without_its_lab_a_device_of_it_is_away_and_no_job_fails(tmp_path: Path) -> None:
    device = phone_facts("one", name="host:lab-1/adb:one")
    answer = Lane(device, tmp_path).ask(ReadyRequest(JOB, None, 0.0))
    assert isinstance(answer, Failed)
    assert answer.kind == "offline"
    assert "host:lab-1/adb:one is a device of a lab (name the lab: --lab" in answer.message


def test_a_device_of_a_lab_is_not_cleaned_from_here(edgesweep: Callable[..., CompletedProcess[str]]) -> None:
    refused = edgesweep("devices", "clean", "host:lab-1/adb:one")
    assert refused.returncode == 1
    assert "'host:lab-1/adb:one' names no phone" in refused.stderr


def test_a_second_head_is_refused_with_the_way_to_be_a_host_instead(
    edgesweep: Callable[..., CompletedProcess[str]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with listening() as head:
        up = ("host", "up", "--state", str(tmp_path), "--port", head.rpartition(":")[2])
        refused = edgesweep(*up)
        assert refused.returncode == 1
        assert f"this computer has a lab's head, or another program, at {head} already" in refused.stderr
        assert f"edgesweep host join {head}" in refused.stderr
        monkeypatch.setenv("EDGESWEEP_LAB", "10.0.0.5")
        refused = edgesweep(*up)
    assert refused.returncode == 1
    assert "EDGESWEEP_LAB names the lab at 10.0.0.5, and this would be the head of a second one" in refused.stderr
    assert "edgesweep host join 10.0.0.5, or unset EDGESWEEP_LAB" in refused.stderr


def test_an_address_where_no_lab_can_be_led_is_told_before_ray_is_started() -> None:
    access.check_free(f"127.0.0.1:{free_port()}")
    with pytest.raises(ClusterError, match=r"no lab can be led at 192\.0\.2\.1:6379: Cannot assign"):
        access.check_free("192.0.2.1:6379")


@pytest.mark.system  # Ray gives up after ten seconds
def test_what_is_no_head_is_told_whether_it_answers_or_not(tmp_path: Path) -> None:
    with listening() as head:
        access.check_head(head)
        with pytest.raises(ClusterError, match=f"something answers at {head}, but not as a lab's head does"):
            access.check_token(head, token_file(tmp_path), LOOPBACK)
    with pytest.raises(ClusterError, match=f"no lab answers at {head}"):
        access.check_head(head)


def test_a_token_file_that_others_may_read_or_that_is_empty_or_missing_is_refused(tmp_path: Path) -> None:
    access.check_token_file(token_file(tmp_path))
    with pytest.raises(ClusterError, match=r"others may read .* \(mode 0640\)\n.*chmod 600"):
        access.check_token_file(token_file(tmp_path, 0o640))
    with pytest.raises(ClusterError, match="is empty"):
        access.check_token_file(token_file(tmp_path, text="\n"))
    with pytest.raises(ClusterError, match=r"cannot be read: No such file"):
        access.check_token_file(tmp_path / "none")


@pytest.mark.parametrize("address", ["", ":1", "host:", "host:0", "host:65536", "host:ssh"])
def test_an_address_that_is_none_is_refused_with_an_example(address: str) -> None:
    with pytest.raises(ClusterError, match=r"is no address of a lab\n.*10\.0\.0\.5:6379"):
        access.split_address(address)


def test_the_port_of_an_address_may_be_left_out() -> None:
    assert access.split_address("10.0.0.5") == ("10.0.0.5", 6379)
    assert access.resolved("localhost:77") == "127.0.0.1:77"
