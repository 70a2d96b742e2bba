"""A plan and a run say on which devices batches may decide."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from sweeps.cli.main import main
from sweeps.journal.journal import Journal
from sweeps.journal.noise_blocks import append, batch_file_of
from sweeps.protocol.batch_noise import PairedRound, batch_key
from sweeps.workspace import Workspace
from workers.noise_run import BatchNoiseRun

SWEEP = """
name: mine
models: [{source: mobilenet_v2, weights: random, input_shape: [1, 3, 64, 64]}]
data:
  calibration: {source: synthetic, images: 4}
  evaluation: {source: synthetic, images: 4}
grids: [{precision: [fp32], layout: [nchw, nhwc], fuse: [true, false]}]
devices: ['fake:steady', 'fake:cool']
budget: race
"""


def run(*words: str) -> Result:
    return CliRunner().invoke(main, words)


@pytest.fixture
def workspace(tmp_path: Path) -> Workspace:
    return Workspace.open(tmp_path / "workspace")


def calibrate(workspace: Workspace, shift: float, device: str = "fake:cool") -> str:
    """Store rounds on a phone whose builds are up to `shift` away from each other in batches. Returns its id."""
    facts = BatchNoiseRun(device, workspace, print).facts
    for number in range(30):
        alone = tuple(1e7 * (1 + 1e-3 * ((3 * number + build) % 7)) for build in range(8))
        together = tuple(ns * (1 + shift * build / 7) for build, ns in enumerate(alone))
        paired = PairedRound(
            builds="b",
            batch=batch_key(),
            session=1,
            round=number,
            together_ns=together,
            alone_ns=alone,
            device_seconds=30.0,
        )
        append(batch_file_of(workspace, facts), paired)
    return facts.device_id


def written(tmp_path: Path, text: str = SWEEP) -> str:
    path = tmp_path / "sweep.yaml"
    path.write_text(text)
    return str(path)


def planned(tmp_path: Path, workspace: Workspace, text: str = SWEEP) -> tuple[dict[str, Any], str]:
    words = ("plan", written(tmp_path, text), "--workspace", str(workspace.root))
    document = run(*words, "--json")
    assert document.exit_code == 0, document.stderr
    return json.loads(document.stdout)["batches"], " ".join(run(*words).stdout.split())


def test_a_plan_says_on_which_devices_batches_decide_and_why(tmp_path: Path, workspace: Workspace) -> None:
    assert planned(tmp_path, workspace)[0] == {}
    device = calibrate(workspace, 0.001)
    devices, words = planned(tmp_path, workspace)
    assert list(devices) == [device], "the other one was not measured"
    assert devices[device]["decide"]
    assert (
        "fake:cool: batches decide races of 3 programs or more: a process that builds share changes their ratios by at "
        "most" in words
    )
    assert "(upper 90 % bound, 30 rounds of edgesweep noise --batches)" in words
    assert "fake:steady: batches" not in words

    full = SWEEP.replace("budget: race", "budget: full")
    assert planned(tmp_path, workspace, full)[0] == {}, "without a race nothing is decided"
    threads = SWEEP.replace("fuse: [true, false]", "threads: [1, 2]")
    assert "not for mobilenet_v2, whose builds cannot all share one" in planned(tmp_path, workspace, threads)[1]


@pytest.mark.parametrize(("programs", "few"), [("aabb", True), ("aabc", False)])
def test_a_plan_counts_programs_and_not_builds(
    tmp_path: Path, workspace: Workspace, records: Any, programs: str, few: bool
) -> None:
    """Four builds, of which a race times one of each program."""
    calibrate(workspace, 0.001)
    document = run("plan", written(tmp_path), "--workspace", str(workspace.root), "--json")
    builds = dict.fromkeys(job["build_key"] for job in json.loads(document.stdout)["jobs"])
    built = records.manifest(records.job(0))
    with Journal.open(workspace.journal) as journal:
        for build_key, program in zip(builds, programs, strict=True):
            journal.artifacts.add(built.model_copy(update={"build_key": build_key, "program_id": program}))
    words = planned(tmp_path, workspace)[1]
    assert ("but not for mobilenet_v2, whose builds are fewer:" in words) == few
    assert "batches decide races of 3 programs or more" in words


def test_a_device_that_changes_ratios_has_finals(tmp_path: Path, workspace: Workspace) -> None:
    device = calibrate(workspace, 0.1)
    devices, words = planned(tmp_path, workspace)
    assert not devices[device]["decide"]
    assert "fake:cool: batches screen, and processes of their own decide" in words
    assert ", more than 1.0 %" in words


class Stopped:
    """A driver that measures nothing, and remembers what it was told."""

    arguments: dict[str, Any]

    def __init__(self, *_: object, **named: object) -> None:
        Stopped.arguments = named

    def run(self) -> Iterator[object]:
        return iter(())


def test_a_run_tells_it_and_does_it(tmp_path: Path, workspace: Workspace, monkeypatch: pytest.MonkeyPatch) -> None:
    device = calibrate(workspace, 0.001)
    calibrate(workspace, 0.1, "fake:steady")
    monkeypatch.setattr("sweeps.operations.run.Driver", Stopped)
    done = run("run", written(tmp_path), "--workspace", str(workspace.root), "--executor", "inline")
    assert list(Stopped.arguments["batches_decide"]) == [device]
    assert 0.0 < Stopped.arguments["batches_decide"][device] < 0.01, "the spread of its processes"
    assert "fake:cool: batches decide races" in done.stderr
    assert "fake:steady: batches screen" in done.stderr
