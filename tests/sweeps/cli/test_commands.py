"""The command as a user runs it, from a sweep file with one's own model to a ranking: in processes of its own where
signals, exits and Ray matter."""

import fcntl
import json
import os
import shutil
import signal
import sqlite3
import subprocess
import sys
import termios
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import psutil
import pytest
import torch
from PIL import Image

from tests import shared
from tests.conftest import EDGESWEEP
from tests.free_port import free_port
from tests.fresh_mlflow import fresh_mlflow
from tests.workers.adb_server import kill_server

SWEEP = """
name: own
models:
  - source: my_net:make_net
    arguments: {classes: 2}
    weights: my net.pt
    input_shape: [1, 3, 32, 32]
data:
  calibration: {source: folder, path: photos, images: 6}
  evaluation: {source: folder, path: photos}
grids:
  - precision: [fp32, int8]
    layout: [nhwc]
  - precision: [int8]
    layout: [nhwc]
    fuse: [false]
protocol: {preset: quick, rounds: 2, warmup_seconds: 0.01, min_seconds: 0.05, iterations: 5, gate: none}
"""

Command = Callable[..., subprocess.CompletedProcess[str]]
Start = Callable[..., "subprocess.Popen[str]"]


@pytest.fixture
def folder(own_folder: Path) -> Path:
    """The user's folder with a checkpoint, 20 photos in two classes and a sweep file."""
    (own_folder / "sweep.yaml").write_text(SWEEP)
    scope: dict[str, Any] = {}
    exec((own_folder / "my_net.py").read_text(), scope)
    torch.manual_seed(0)
    torch.save(scope["make_net"](2).state_dict(), own_folder / "my net.pt")
    pixels = np.random.default_rng(0)
    for name, brightness in (("cat", 60), ("dog", 190)):
        (own_folder / "photos" / name).mkdir(parents=True)
        for number in range(10):
            image = pixels.normal(brightness, 30, (40, 50, 3)).clip(0, 255).astype(np.uint8)
            Image.fromarray(image).save(own_folder / "photos" / name / f"{number}.png")
    return own_folder


@pytest.fixture
def database(folder: Path) -> None:
    fresh_mlflow(folder / "edgesweep-data")


@pytest.fixture
def ended(folder: Path, edgesweep: Command, forked_runners: None) -> Path:
    """A workspace where the sweep file has run to its end. Nobody writes into it."""

    def run(made: Path) -> None:
        run = edgesweep("run", "sweep.yaml", "--executor", "inline", "--workspace", str(made))
        assert run.returncode == 0, run.stderr

    return shared.made_once("own-model", run)


@pytest.fixture
def built(folder: Path, database: None, ended: Path) -> None:
    """What the sweep file builds is there."""
    shutil.copytree(ended / "artifacts", folder / "edgesweep-data" / "artifacts")


@pytest.fixture
def measured(folder: Path, built: None, ended: Path) -> None:
    """All that the sweep file asks for is there. MLflow has none of it: its paths are those of the other workspace."""
    shutil.copy(ended / "journal.sqlite", folder / "edgesweep-data")


def _blocks(folder: Path) -> int:
    journal = folder / "edgesweep-data" / "journal.sqlite"
    if not journal.exists():
        return 0
    with sqlite3.connect(f"file:{journal}?mode=ro", uri=True) as database:
        if not database.execute("SELECT 1 FROM sqlite_master WHERE name = 'attempts'").fetchone():
            return 0  # it is just being made
        return int(database.execute("SELECT count(*) FROM attempts WHERE kind = 'block'").fetchone()[0])


@pytest.mark.long
@pytest.mark.ray
def test_one_s_own_model_becomes_a_ranking_and_an_exported_file(
    folder: Path, edgesweep: Command, process: Command
) -> None:
    plan = json.loads(edgesweep("plan", "sweep.yaml", "--json").stdout)
    assert [job["state"] for job in plan["jobs"]] == ["to build", "to build"]
    assert "quantization fuses Conv+BN itself" in plan["skipped"][0]["reason"]
    assert not (folder / "edgesweep-data").exists(), "a plan leaves nothing behind"

    run = process("run", "sweep.yaml", "--json")
    assert run.returncode == 0, run.stderr
    document = json.loads(run.stdout)
    [device] = document["devices"]
    assert len(device["ranking"]) == 2
    assert len(device["not_ranked"]) == 1
    assert all(row["latency_p50_ms"] > 0 for row in device["ranking"])
    ranked = json.loads(edgesweep("rank", "--json").stdout)
    assert (ranked["devices"], ranked["evaluation_images"]) == ([device], document["evaluation_images"])
    assert json.loads(edgesweep("rank", "own", "--device", "local", "--json").stdout)["devices"] == [device]

    blocks = _blocks(folder)
    again = edgesweep("run", "sweep.yaml", "--executor", "inline", "--json")
    assert "2 done before" in again.stderr
    assert (_blocks(folder), json.loads(again.stdout)["devices"]) == (blocks, [device])

    status = json.loads(edgesweep("status", "--json").stdout)
    assert (status["measured"], status["failed"], status["pending"], status["skipped"]) == (2, 0, 0, 1)

    name = device["ranking"][0]["name"]
    exported = process("export", "--variant", name, "--output", "out put", "--json")
    assert exported.returncode == 0, exported.stderr
    shipped = json.loads((folder / "out put" / "manifest.json").read_text())
    assert shipped == json.loads(exported.stdout)
    assert shipped["expected"]["figures"]["latency_p50_ms"] == device["ranking"][0]["latency_p50_ms"]
    assert shipped["artifact"]["file_bytes"] == (folder / "out put" / "model.pt").stat().st_size


def _runners(folder: Path) -> list[int]:
    return [
        process.pid
        for process in psutil.process_iter(["cmdline"])
        if "workers.runtimes.torchscript.runner" in (words := process.info["cmdline"] or [])
        and any(str(folder) in word for word in words)
    ]


def _measuring(folder: Path, start: Start) -> "subprocess.Popen[str]":
    """A run that is just measuring: a runner runs."""
    process = start("run", "sweep.yaml", "--executor", "inline")
    while not _runners(folder):
        assert process.poll() is None, process.communicate()
        time.sleep(0.01)
    return process


def _no_runner_is_left(folder: Path) -> bool:
    deadline = time.monotonic() + 60
    while _runners(folder) and time.monotonic() < deadline:
        time.sleep(0.05)
    return not _runners(folder)


@pytest.mark.system
@pytest.mark.usefixtures("built")
@pytest.mark.fault(33, "SIGINT once", "drained, 130; the same command goes on")
@pytest.mark.fault(33, "SIGINT twice", "stopped, 130; no runner left")
@pytest.mark.fault(29, "SIGKILL of the command on this computer", "no runner left; resumed whole")
def test_a_run_that_is_stopped_in_any_way_keeps_its_blocks_and_goes_on(
    folder: Path, edgesweep: Command, start: Start
) -> None:
    # More rounds, so that each run is stopped before the last one.
    (folder / "sweep.yaml").write_text(SWEEP.replace("rounds: 2", "rounds: 3"))
    kept = _ends_by_one_ctrl_c(folder, start)
    kept = _ends_with_its_terminal(folder, after=kept)
    for end in (_ends_by_two_ctrl_c, _ends_by_a_kill):
        end(folder, start)
        assert kept <= _blocks(folder) < 6
        assert _no_runner_is_left(folder)
    resumed = edgesweep("run", "sweep.yaml", "--executor", "inline", "--json")
    assert resumed.returncode == 0, resumed.stderr
    assert _blocks(folder) == 6
    assert len(json.loads(resumed.stdout)["devices"][0]["ranking"]) == 2


def _ends_by_one_ctrl_c(folder: Path, start: Start) -> int:
    """Returns the number of blocks that were kept."""
    process = start("run", "sweep.yaml", "--executor", "inline")
    while _blocks(folder) < 1:
        assert process.poll() is None, process.communicate()
        time.sleep(0.05)
    process.send_signal(signal.SIGINT)
    _, stderr = process.communicate(timeout=180)
    assert process.returncode == 130, stderr
    assert "run the same command again to continue" in stderr
    kept = _blocks(folder)
    assert 1 <= kept < 6
    return kept


def _ends_with_its_terminal(folder: Path, after: int) -> int:
    """A terminal that is closed ends a run as Ctrl-C does. Returns the number of blocks that were kept."""
    ours, theirs = os.openpty()

    def have_the_terminal() -> None:
        signal.signal(signal.SIGHUP, signal.SIG_DFL)  # tests that were started by nohup ignore it
        fcntl.ioctl(0, termios.TIOCSCTTY, 0)

    process = subprocess.Popen(
        [EDGESWEEP, "run", "sweep.yaml", "--executor", "inline"],
        cwd=folder,
        stdin=theirs,
        stdout=theirs,
        stderr=theirs,
        start_new_session=True,
        preexec_fn=have_the_terminal,
    )
    os.close(theirs)
    while _blocks(folder) <= after:
        assert process.poll() is None
        with suppress(BlockingIOError):
            os.set_blocking(ours, False)
            os.read(ours, 1 << 16)
        time.sleep(0.05)
    os.close(ours)
    assert process.wait(180) == 130
    kept = _blocks(folder)
    assert after < kept < 6
    return kept


def _ends_by_two_ctrl_c(folder: Path, start: Start) -> None:
    process = _measuring(folder, start)
    assert process.stderr is not None
    process.send_signal(signal.SIGINT)
    stderr = ""
    # Two at once would arrive as one.
    while "press Ctrl-C again" not in stderr:
        line = process.stderr.readline()
        assert line, stderr
        stderr += line
    process.send_signal(signal.SIGINT)
    stderr += process.communicate(timeout=60)[1]
    assert process.returncode == 130, stderr
    assert "Traceback" not in stderr


def _ends_by_a_kill(folder: Path, start: Start) -> None:
    process = _measuring(folder, start)
    process.kill()
    process.communicate()


MISBEHAVING = """
import os, sys


def leave(classes):
    os._exit(3)


def abort(classes):
    os.abort()


def fork(classes):
    while True:
        os.fork()
"""


BARE = {"PATH": os.environ["PATH"], "LC_ALL": "C", "TERM": "dumb"}
"""No home, no letters beyond ASCII, no terminal that draws."""


@pytest.mark.system
@pytest.mark.usefixtures("database")
def test_models_that_exit_fork_or_lack_classes_fail_alone_without_home_and_locale(
    folder: Path, edgesweep: Command
) -> None:
    (folder / "bad.py").write_text(MISBEHAVING)
    shutil.copytree(folder / "photos" / "dog", folder / "photos" / "fox")  # the user's own model has two classes
    models = {"leave": "bad:leave", "abort": "bad:abort", "fork": "bad:fork", "wider": "my_net:make_net"}
    more = "".join(
        f"  - {{name: {name}, source: '{source}', arguments: {{classes: 3}}, weights: random, "
        "input_shape: [1, 3, 32, 32]}\n"
        for name, source in models.items()
    )
    (folder / "sweep.yaml").write_text(SWEEP.replace("models:\n", f"models:\n{more}").replace("fp32, int8", "fp32"))
    checked = edgesweep("plan", "sweep.yaml", "--check")
    assert checked.returncode == 1
    assert "leave: bad:leave ended its process with exit code 3" in checked.stdout
    run = subprocess.run(
        [EDGESWEEP, "run", "sweep.yaml", "--executor", "inline"],
        cwd=folder,
        env=BARE,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
    )
    assert run.returncode == 0, run.stderr
    assert "Traceback" not in run.stderr
    told = "make_net cannot be used: it answers 2 classes, the evaluation folder has 3"
    log = " ".join(run.stderr.split())
    assert told in log.partition("Building ...")[0], run.stderr
    assert "own · wider on " in run.stdout
    found = {device["model"]: device for device in json.loads(edgesweep("rank", "--json").stdout)["devices"]}
    assert len(found["wider"]["ranking"]) == 1
    reasons = [found[name]["not_ranked"][0]["reason"] for name in ("leave", "abort", "fork", "make_net")]
    words = (
        *("ended its process with exit code 3", "crashed its process (SIGABRT)", "started more than 64 processes"),
        "the evaluation folder has 3",
    )
    assert all(word in reason for word, reason in zip(words, reasons, strict=True)), reasons
    assert ["bad_model" in reason for reason in reasons] == [True, True, True, False]
    assert "bad_data" in reasons[-1]


@pytest.mark.parametrize("more", [{}, {"PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}], ids=["LC_ALL=C", "ASCII"])
def test_a_plan_needs_neither_home_nor_locale_nor_terminal(folder: Path, more: dict[str, str]) -> None:
    done = subprocess.run(
        [EDGESWEEP, "plan", "sweep.yaml"], cwd=folder, env=BARE | more, stdin=subprocess.DEVNULL, capture_output=True
    )
    assert done.returncode == 0, done.stderr
    assert done.stderr == b"" or b"Traceback" not in done.stderr
    assert b"2 jobs of 2 artifacts" in done.stdout


def _accuracies(folder: Path) -> int:
    with sqlite3.connect(f"file:{folder / 'edgesweep-data' / 'journal.sqlite'}?mode=ro", uri=True) as database:
        return int(database.execute("SELECT count(*) FROM attempts WHERE kind = 'accuracy'").fetchone()[0])


@pytest.mark.system
@pytest.mark.usefixtures("database", "forked_runners")
@pytest.mark.parametrize("times", [1, 2])
def test_ctrl_c_while_a_phone_is_used_and_the_rest_is_built_loses_nothing(
    folder: Path, edgesweep: Command, start: Start, times: int
) -> None:
    race = "budget: race\ndevices: [fake:cool]\nprotocol: {preset: race, gate: none, sentinel_every: 0}\n"
    wide = SWEEP.replace("layout: [nhwc]", "layout: [nchw, nhwc]").partition("protocol:")[0] + race
    (folder / "sweep.yaml").write_text(wide)
    process = start("run", "sweep.yaml", "--executor", "inline")
    assert process.stderr is not None
    stderr = ""
    while "Measuring on fake:cool ..." not in stderr:
        line = process.stderr.readline()
        assert line, stderr
        stderr += line
    assert "Building ..." in stderr
    started = psutil.Process(process.pid).children(recursive=True)
    process.send_signal(signal.SIGINT)
    if times == 2:
        while "press Ctrl-C again" not in stderr:
            line = process.stderr.readline()
            assert line, stderr
            stderr += line
        process.send_signal(signal.SIGINT)
    stderr += process.communicate(timeout=180)[1]
    assert process.returncode == 130, stderr
    assert "Traceback" not in stderr
    assert _blocks(folder) == 0, "its field was still being built"
    assert not psutil.wait_procs(started, timeout=60)[1], "no build and no evaluation goes on"
    there = {path.name for path in (folder / "edgesweep-data" / "artifacts").iterdir()}
    assert there
    assert not [name for name in there if name.startswith(".")], "no unfinished folder"
    # An evaluation may have been about to begin: what it had become is not told by its bar.
    assert _accuracies(folder) <= len(there)
    if times == 2:
        return  # how it goes on is shown after one

    resumed = edgesweep("run", "sweep.yaml", "--executor", "inline", "--json")
    assert resumed.returncode == 0, resumed.stderr
    made = {path.name for path in (folder / "edgesweep-data" / "artifacts").iterdir()}
    assert there < made
    assert _accuracies(folder) == len(made), "each is evaluated once"


def _under_ctrl_c(work: str) -> "subprocess.Popen[str]":
    """A process whose work runs as the command's does, and that has begun."""
    program = (
        "import sys, time\nfrom sweeps.cli.session import CtrlC\n"
        "with CtrlC(lambda text: print(text, flush=True)) as stop:\n"
        f"    print('ready', flush=True)\n    {work}\n"
    )
    process = subprocess.Popen(
        [sys.executable, "-c", program],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONUNBUFFERED": ""},
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "ready\n", process.communicate()
    return process


def test_the_first_ctrl_c_is_answered_while_work_runs_and_the_second_ends_it() -> None:
    # One long sleep could miss a signal that comes just as it goes on after the first one.
    process = _under_ctrl_c("while True: time.sleep(0.05)")
    assert process.stdout is not None
    process.send_signal(signal.SIGINT)
    assert "press Ctrl-C again" in process.stdout.readline()
    assert process.poll() is None
    process.send_signal(signal.SIGINT)
    _, stderr = process.communicate(timeout=60)
    assert process.returncode == -signal.SIGINT, stderr


@pytest.mark.parametrize("ignored", [False, True], ids=["closed", "nohup"])
def test_a_terminal_that_closes_before_the_work_ends_the_command_as_ctrl_c_does(ignored: bool) -> None:
    program = (
        "import signal, sys\nfrom sweeps.cli.main import Group\n"
        f"signal.signal(signal.SIGHUP, signal.{'SIG_IGN' if ignored else 'SIG_DFL'})\n"
        "command = Group('edgesweep', invoke_without_command=True)\n"
        "command.callback = lambda: (signal.raise_signal(signal.SIGHUP), print('went on'))\n"
        "command.main([])"
    )
    ended = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert (ended.returncode, "went on" in ended.stdout) == ((0, True) if ignored else (130, False)), ended.stderr
    assert "Traceback" not in ended.stderr


def test_ctrl_c_in_the_middle_of_a_write_is_answered_after_it() -> None:
    # More than a pipe holds: it is in the write until the other end reads on.
    process = _under_ctrl_c("print('x' * 1_000_000, flush=True); print('stops:', stop())")
    assert process.stdout is not None
    assert process.stdout.read(1) == "x"
    process.send_signal(signal.SIGINT)
    stdout = process.stdout.read()
    _, stderr = process.communicate()
    assert process.returncode == 0, stderr
    assert stdout.count("x") == 999_999
    assert "stops: True" in stdout
    assert "press Ctrl-C again" in stdout


@pytest.mark.system
@pytest.mark.usefixtures("measured")
def test_a_lost_artifact_is_built_again_and_nothing_is_measured_again(folder: Path, edgesweep: Command) -> None:
    ranked = json.loads(edgesweep("rank", "--json").stdout)
    name = ranked["devices"][0]["ranking"][0]["name"]
    for model in (folder / "edgesweep-data" / "artifacts").glob("*/model.pt"):
        model.write_bytes(model.read_bytes()[:-9])
    refused = edgesweep("export", "--variant", name)
    assert refused.returncode == 1
    assert "run the sweep again" in refused.stderr
    assert edgesweep("run", "sweep.yaml", "--executor", "inline").returncode == 0
    assert _blocks(folder) == 4
    exported = edgesweep("export", "--variant", name)
    assert exported.returncode == 0
    assert "from the sweep own" in exported.stdout
    assert "In place of" not in exported.stdout
    other = ranked["devices"][0]["ranking"][1]["name"]
    assert f"In place of {name}, from the sweep own." in edgesweep("export", "--variant", other).stdout


@pytest.mark.system
@pytest.mark.usefixtures("database")
@pytest.mark.usefixtures("unscriptable_net")
@pytest.mark.fault(39, "a model that cannot be scripted", "one failed row, the rest measured")
def test_a_variant_that_cannot_be_built_is_one_failed_row(folder: Path, edgesweep: Command) -> None:
    sweep = folder / "sweep.yaml"
    sweep.write_text(
        SWEEP.replace("precision: [fp32, int8]", "precision: [fp32]\n    fuse: [false]\n    capture: [script, trace]")
    )
    run = edgesweep("run", "sweep.yaml", "--executor", "inline", "--json")
    assert run.returncode == 0, run.stderr
    [device] = json.loads(run.stdout)["devices"]
    failed = [row for row in device["not_ranked"] if row["outcome"] == "failed"]
    assert len(failed) == 1
    assert "script" in failed[0]["reason"]
    assert len(device["ranking"]) == 1


@pytest.mark.parametrize(
    ("change", "named", "code"),
    [
        (("weights: my net.pt", "weights: lost.pt"), "lost.pt", 2),
        (("path: photos, images: 6", "path: nowhere, images: 6"), "nowhere", 2),
        (("precision: [fp32, int8]", "precision: [fp8]"), "sweep.yaml:12", 2),
        (("precision: [fp32, int8]", "precison: [fp32]"), "precision", 2),
        (("my_net:make_net", "my_net:make_nett"), "make_nett", 1),
        (("{classes: 2}", "{classes: 3}"), "my net.pt", 1),
    ],
)
def test_bad_input_is_named_before_anything_runs(
    folder: Path, edgesweep: Command, change: tuple[str, str], named: str, code: int
) -> None:
    sweep = folder / "sweep.yaml"
    sweep.write_text(SWEEP.replace(*change))
    run = edgesweep("run", "sweep.yaml", "--executor", "inline")
    assert run.returncode == code, run.stderr
    assert named in run.stderr
    assert "Traceback" not in run.stderr
    assert _blocks(folder) == 0


def test_an_empty_class_is_named(folder: Path, edgesweep: Command) -> None:
    (folder / "photos" / "emu").mkdir()
    run = edgesweep("run", "sweep.yaml", "--executor", "inline")
    assert run.returncode == 1
    assert "emu" in run.stderr
    assert "Traceback" not in run.stderr


@pytest.mark.fault(41, "a pickle that runs a command", "refused, never run")
def test_a_hostile_checkpoint_never_runs(folder: Path, edgesweep: Command) -> None:
    class Payload:
        def __reduce__(self) -> tuple[Any, ...]:
            return (os.system, (f"touch '{folder.parent}/ran'",))

    torch.save({"weights": Payload()}, folder / "my net.pt")
    run = edgesweep("run", "sweep.yaml", "--executor", "inline")
    assert run.returncode == 1
    assert "my net.pt" in run.stderr
    assert not (folder.parent / "ran").exists()


@pytest.mark.fault(36, "the workspace's lock is held", "refused, with the holder's process")
def test_a_workspace_that_another_process_holds_is_refused_with_its_number(folder: Path, process: Command) -> None:
    from sweeps.workspace import Workspace

    with Workspace.open(folder / "edgesweep-data").lock():
        run = process("run", "sweep.yaml", "--executor", "inline")
    assert run.returncode == 1
    assert str(os.getpid()) in run.stderr


def test_a_tracking_server_that_is_down_is_named_at_the_start(
    folder: Path, edgesweep: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MLFLOW_TRACKING_URI", "http://127.0.0.1:1")
    started = time.monotonic()
    run = edgesweep("run", "sweep.yaml", "--executor", "inline")
    assert run.returncode == 1
    assert "127.0.0.1:1" in run.stderr
    assert time.monotonic() - started < 60, "the user waits for an answer"


@pytest.mark.system
@pytest.mark.fault(31, "RAY_ADDRESS where nothing listens", "named, with --executor inline")
def test_ray_that_is_not_there_is_named_with_the_way_out(
    folder: Path, process: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RAY_ADDRESS", "127.0.0.1:1")
    run = process("run", "sweep.yaml")
    assert run.returncode == 1
    assert "--executor inline" in run.stderr


def test_commands_without_a_sweep_say_what_to_do(edgesweep: Command) -> None:
    for words in (["rank"], ["status"], ["export"]):
        done = edgesweep(*words)
        assert done.returncode == 1, words
        assert "edgesweep run" in done.stderr
        assert "Traceback" not in done.stderr


def test_what_is_here_can_be_asked_by_machines(edgesweep: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    port = free_port()
    monkeypatch.setenv("ANDROID_ADB_SERVER_PORT", str(port))
    try:
        listed = json.loads(edgesweep("devices", "--json").stdout)
        checks = {check["name"]: check["ok"] for check in json.loads(edgesweep("doctor", "--json").stdout)["checks"]}
    finally:
        kill_server(port)
    # A phone on a cable of this machine is found by any server.
    assert listed["devices"][0]["name"] == "local"
    assert checks["torch"]
    assert checks["XNNPACK"]
    assert json.loads(edgesweep("schema").stdout)["title"] == "EdgeSweep sweep file"


def test_every_command_has_help_with_an_example(edgesweep: Command, process: Command) -> None:
    listed = process("--help").stdout.split()
    verbs = ["plan", "run", "recipe", "demo", "status", "rank", "export", "devices", "doctor", "dashboard"]
    verbs += ["schema"]
    assert set(verbs) <= set(listed)
    for verb in verbs:
        assert "Example: edgesweep" in edgesweep(verb, "--help").stdout, verb
