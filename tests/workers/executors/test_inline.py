"""The inline executor builds in a real process of its own."""

import math
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import psutil
import pytest

from sweeps.records import Failed
from sweeps.variant import Variant
from sweeps.workspace import BUILD_LOG, Workspace
from tests.workers.hosts.hosts import World
from tests.workers.tiny_model import tiny_inputs
from workers.artifacts import TRANSIENT_KINDS, ArtifactStore, PackedArtifact
from workers.build_log import LIMIT_BYTES
from workers.executors import process_builder
from workers.executors.inline import InlineExecutor
from workers.executors.interface import BuildRequest
from workers.executors.local_pool import close_all
from workers.hosts.lab_executor import LabExecutor


@pytest.fixture
def executor(tmp_path: Path) -> Iterator[InlineExecutor]:
    executor = InlineExecutor(tmp_path / "a folder")
    yield executor
    executor.close()


@pytest.fixture
def of_a_lab(tmp_path: Path) -> Iterator[LabExecutor]:
    """With two builders, as on a computer with more CPUs."""
    world = World(tmp_path / "lab")
    executor = LabExecutor(world.lab(), tmp_path, builders=2)
    yield executor
    executor.close()
    world.close()


def _request(key: str, source: bytes | None = None) -> BuildRequest:
    inputs = tiny_inputs()
    if source is not None:
        inputs = replace(inputs, package=replace(inputs.package, files={"tiny_net.py": source}))
    return BuildRequest(key * 64, Variant(), inputs)


PRINTS = b"""import os, subprocess, sys
print('from Python')
os.write(2, b'from native code \\xff\\x1b[31m\\n')
subprocess.run(['sh', '-c', 'echo from a child'], check=True)
"""


@pytest.mark.system
@pytest.mark.fault(32, "a builder that is SIGKILLed", "that build fails, the next one is built")
def test_a_build_that_dies_is_one_failure_and_each_ones_output_is_kept(
    executor: InlineExecutor, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    network = tiny_inputs().package.files["tiny_net.py"]
    good, failed, crash, killed, talkative = (
        _request("a", PRINTS + network),
        _request("b", PRINTS + b"raise RuntimeError('because')\n"),
        _request("c", PRINTS + b"sys.stdout.flush()\nprint('x' * 200_000, flush=True)\nos._exit(1)\n"),
        _request("e", b"import os\nos.kill(os.getpid(), 9)\n"),
        _request("d", b"print('y' * 200_000)\n" + network),  # in a folder without stages to share
    )
    results = list(executor.build([failed, crash, killed, good], lambda: False))
    assert [request for request, _ in results] == [failed, failed, crash, crash, killed, killed, good, good]
    assert [outcome for _, outcome in results[::2]] == [None] * 4
    outcomes = {request.build_key: outcome for request, outcome in results[1::2]}
    for dead_request, kind in ((crash, "crashed"), (killed, "worker_lost")):
        outcome = outcomes[dead_request.build_key]
        assert isinstance(outcome, Failed)
        assert (outcome.kind, outcome.kind in TRANSIENT_KINDS) == (kind, dead_request is killed)
    assert capfd.readouterr().out == ""
    packed = outcomes[good.build_key]
    assert isinstance(packed, PackedArtifact), packed
    words = ["from Python", "from native code", "from a child"]
    workspace = Workspace(tmp_path / "a folder")
    log = workspace.build_log(good.build_key)
    assert log == workspace.artifact(good.build_key) / BUILD_LOG
    assert packed.files[BUILD_LOG] == log.read_bytes()
    lines = log.read_text(encoding="utf-8", errors="replace").splitlines()
    assert [line.split(" \ufffd")[0] for line in lines if line.startswith("from ")] == words
    for request in (failed, crash):
        assert isinstance(outcomes[request.build_key], Failed)
        build_log = workspace.build_log(request.build_key)
        assert build_log == workspace.failed_build_log(request.build_key)
        assert all(word in build_log.read_text(encoding="utf-8", errors="replace") for word in words)
    assert "RuntimeError: because" in workspace.failed_build_log(failed.build_key).read_text(errors="replace")
    other = InlineExecutor(tmp_path / "other")
    assert len(list(other.build([talkative], lambda: False))) == 2
    other.close()
    bounded = Workspace(tmp_path / "other").build_log(talkative.build_key)
    assert bounded is not None
    assert LIMIT_BYTES <= bounded.stat().st_size <= LIMIT_BYTES + 8
    second_store = ArtifactStore(tmp_path / "another/artifacts")
    second_store.unpack(packed)
    assert Workspace(tmp_path / "another").build_log(good.build_key) is not None


def test_a_folder_that_cannot_be_written_is_a_failure_that_may_pass(tmp_path: Path) -> None:
    (tmp_path / "artifacts").write_text("in the way")
    executor = InlineExecutor(tmp_path)
    try:
        _, (_, outcome) = executor.build([_request("a")], lambda: False)
    finally:
        executor.close()
    assert isinstance(outcome, Failed)
    assert outcome.kind == "os_error"
    assert outcome.kind in TRANSIENT_KINDS


_ESCAPED = """
import os, pathlib, time
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        os.setsid()
        pathlib.Path({marker!r}).write_text(str(os.getpid()))
        time.sleep(1000)
    os._exit(0)
while not (os.path.exists({marker!r}) and pathlib.Path({marker!r}).read_text()):
    time.sleep(0.01)
"""
_ENDLESSLY = b"""
import os
while True:
    for descriptor in range(3, 32):
        try:
            os.write(descriptor, b"\\xff" * 1000)
        except OSError:
            pass
"""
_EVERYWHERE = b"""
import os
for descriptor in range(3, 256):
    try:
        os.write(descriptor, b"\\xff" * 1000)
    except OSError:
        pass
"""


@pytest.mark.system
def test_what_a_models_code_starts_neither_outlives_nor_holds_up_its_build(
    executor: InlineExecutor, tmp_path: Path
) -> None:
    marker = tmp_path / "pid"
    network = tiny_inputs().package.files["tiny_net.py"]
    daemon = _request("a", _ESCAPED.format(marker=str(marker)).encode() + network)
    talkative = _request("b", _EVERYWHERE + network)
    results = list(executor.build([daemon, talkative], lambda: False))
    assert [type(outcome) for _, outcome in results[1::2]] == [PackedArtifact, PackedArtifact]
    assert not psutil.pid_exists(int(marker.read_text()))


@pytest.mark.parametrize(
    ("code", "limits", "message"),
    [
        (b"import time\ntime.sleep(1000)\n", {"IDLE_S": 0.5}, "nothing was computed"),
        (b"while True:\n    pass\n", {"DEADLINE_S": 3.0, "IDLE_S": 100.0}, "was not built within"),
        (_ENDLESSLY, {"DEADLINE_S": 3.0}, "was not built within"),
    ],
)
def test_a_build_without_end_is_ended(
    executor: InlineExecutor, monkeypatch: pytest.MonkeyPatch, code: bytes, limits: dict[str, float], message: str
) -> None:
    monkeypatch.setattr(process_builder, "_LOOK_S", 0.2)
    for name, value in limits.items():
        monkeypatch.setattr(process_builder, name, value)
    before = set(psutil.Process().children(recursive=True))
    _, (_, outcome) = executor.build([_request("a", code)], lambda: False)
    assert isinstance(outcome, Failed)
    assert outcome.kind == "timeout"
    assert message in outcome.message
    assert set(psutil.Process().children(recursive=True)) <= before


def test_nothing_starts_after_stop(executor: InlineExecutor) -> None:
    assert list(executor.build([_request("a")], lambda: True)) == []


# On a busy host a process may not get to its end in the time that it is given: as one that does not listen.
@pytest.mark.parametrize("listens", [True, False])
def test_ctrl_c_ends_a_build_that_hangs_and_leaves_no_process_and_no_folder(
    executor: InlineExecutor, tmp_path: Path, listens: bool
) -> None:
    marker, waited_for, artifacts = tmp_path / "pid", tmp_path / "waited for", tmp_path / "a folder" / "artifacts"
    foreign = artifacts / f".{'a' * 12}-{os.getpid()}-of-another"
    foreign.mkdir(parents=True)
    hangs = "" if listens else "import signal\nsignal.signal(signal.SIGTERM, signal.SIG_IGN)\n"
    hangs += f"import os, pathlib, time\npathlib.Path({str(marker)!r}).write_text(str(os.getpid()))\ntime.sleep(600)\n"
    hangs += f"pathlib.Path({str(waited_for)!r}).touch()\n"
    builds = executor.build([_request("a", hangs.encode())], lambda: False)
    assert next(builds)[1] is None
    ended, interrupted = threading.Event(), [math.inf]

    def interrupt() -> None:
        while not (marker.exists() and marker.read_text()):
            if ended.wait(0.02):
                return
        interrupted[0] = time.monotonic()
        os.kill(os.getpid(), signal.SIGINT)

    thread = threading.Thread(target=interrupt)
    thread.start()
    try:
        with pytest.raises(KeyboardInterrupt):
            next(builds)
    finally:
        ended.set()
        thread.join()
    executor.close()
    # The build would have come to its end by itself after ten minutes.
    assert time.monotonic() - interrupted[0] < 120
    assert not waited_for.exists()
    assert not psutil.pid_exists(int(marker.read_text()))
    assert list(artifacts.iterdir()) == [foreign]


_DRIVER = """
import sys
from dataclasses import replace
from pathlib import Path
from sweeps.variant import Variant
from tests.workers.hosts.hosts import World
from tests.workers.tiny_model import tiny_inputs
from workers.executors.inline import InlineExecutor
from workers.executors.interface import BuildRequest

# Without a guard: the builder must not import it.
inputs = tiny_inputs()
inputs = replace(inputs, package=replace(inputs.package, files={"tiny_net.py": sys.argv[2].encode()}))
list(InlineExecutor(Path(sys.argv[1])).build([BuildRequest("a" * 64, Variant(), inputs)], lambda: False))
"""


@pytest.mark.system
@pytest.mark.parametrize("listens", [True, False])
def test_a_build_ends_with_a_driver_that_is_killed_and_so_does_what_it_started(tmp_path: Path, listens: bool) -> None:
    marker, folder = tmp_path / "pids", tmp_path / "a folder"
    hangs = "" if listens else "import signal\nsignal.signal(signal.SIGTERM, signal.SIG_IGN)\n"
    hangs += "import os, pathlib, subprocess, time\nother = subprocess.Popen(['sleep', '600'])\n"
    hangs += f"pathlib.Path({str(marker)!r}).write_text(f'{{os.getpid()}} {{other.pid}}')\ntime.sleep(600)\n"
    script = tmp_path / "driver.py"
    script.write_text(_DRIVER)
    environment = os.environ | {"PYTHONPATH": str(Path(__file__).parents[3])}
    with subprocess.Popen([sys.executable, script, folder, hangs], env=environment) as driver:
        while not (marker.exists() and marker.read_text().count(" ")):
            assert driver.poll() is None
            time.sleep(0.02)
        left = [psutil.Process(int(pid)) for pid in marker.read_text().split()]
        driver.kill()
    assert psutil.wait_procs(left, timeout=10.0)[1] == []
    unfinished = list((folder / "artifacts").iterdir())
    assert bool(unfinished) is not listens
    ArtifactStore(folder / "artifacts").remove_abandoned()
    assert list((folder / "artifacts").iterdir()) == []


@pytest.mark.system
def test_several_builders_build_each_request_once_and_one_that_dies_stops_no_other(
    of_a_lab: LabExecutor,
) -> None:
    before = set(psutil.Process().children())
    requests = [_request("a", b"import os\nos._exit(1)\n"), *map(_request, "bcd")]
    results = list(of_a_lab.build(requests, lambda: False))
    assert sorted(request.build_key for request, outcome in results if outcome is None) == sorted(
        r.build_key for r in requests
    )
    outcomes = {request.build_key[0]: type(outcome) for request, outcome in results if outcome is not None}
    assert outcomes == {"a": Failed, **dict.fromkeys("bcd", PackedArtifact)}
    assert set(psutil.Process().children()) <= before, "no builder occupies memory afterwards"


@pytest.mark.system
def test_builders_that_are_not_wanted_any_more_end_with_what_they_build(of_a_lab: LabExecutor) -> None:
    before = set(psutil.Process().children())
    slow = b"import time\ntime.sleep(600)\n"
    builds = of_a_lab.build([_request("a", slow), _request("b", slow)], lambda: False)
    assert {next(builds)[1], next(builds)[1]} == {None}
    builds.close()  # type: ignore[attr-defined]  # as Ctrl-C does
    assert set(psutil.Process().children()) <= before


def test_builders_are_closed_at_once(tmp_path: Path) -> None:
    """One that does not listen is waited for, and the others meanwhile."""
    together = threading.Barrier(3)

    class Waits(InlineExecutor):
        def _end_builder(self) -> None:
            together.wait(60)
            super()._end_builder()

    close_all([Waits(tmp_path) for _ in range(3)])
    assert not together.broken
