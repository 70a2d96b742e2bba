"""`edgesweep plan` says which budget a sweep has, and who decided that."""

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from sweeps.cli.main import main
from sweeps.journal.journal import Journal
from sweeps.operations.sweep_plan import make_plan
from sweeps.planning.plan import Plan
from sweeps.spec.sweep import load
from sweeps.workspace import Workspace

HEAD = """name: mine
models: [{source: mobilenet_v2, weights: random, input_shape: [1, 3, 64, 64]}]
data:
  calibration: {source: synthetic, images: 4}
  evaluation: {source: synthetic, images: 4}
devices: ['fake:steady']
"""
FEW = "grids: [{precision: [fp32]}]\n"
MANY = "grids: [{precision: [fp32], fuse: [true, false], threads: [1, 2, 4]}]\n"


@pytest.fixture
def workspace(tmp_path: Path) -> Workspace:
    return Workspace.open(tmp_path / "ws")


def written(workspace: Workspace, *lines: str) -> Path:
    path = workspace.root.parent / "mine.yaml"
    path.write_text(HEAD + "".join(lines))
    return path


def document(workspace: Workspace, path: Path) -> dict[str, Any]:
    done = CliRunner().invoke(main, ["plan", str(path), "--workspace", str(workspace.root), "--json"])
    assert done.exit_code == 0, done.stderr
    plan: dict[str, Any] = json.loads(done.stdout)
    return plan


def words(workspace: Workspace, path: Path) -> str:
    done = CliRunner().invoke(main, ["plan", str(path), "--workspace", str(workspace.root)])
    assert done.exit_code == 0, done.stderr
    return " ".join(done.stdout.split())


def started(workspace: Workspace, path: Path) -> Plan:
    """Save the plan, as `edgesweep run` does first."""
    planned = make_plan(load(path), (), workspace)
    with Journal.open(workspace.journal) as journal:
        journal.save_plan(planned)
    return planned


def test_a_new_sweep_of_many_variants_races_and_the_plan_says_so(workspace: Workspace) -> None:
    path = written(workspace, MANY)
    plan = document(workspace, path)
    assert plan["budget"] == "race"
    assert plan["budget_reason"].startswith("default: 12 variants of one model, more than 8; write budget: full")
    text = words(workspace, path)
    assert f"budget: race ({plan['budget_reason']})" in text
    assert "it ends when its leader is within 2 % of the best with a probability of 98 %" in text
    assert " race to build " in text, "and not a number of rounds"


def test_a_sweep_keeps_the_race_it_began_when_variants_leave_the_file(workspace: Workspace) -> None:
    before = started(workspace, written(workspace, MANY))
    plan = document(workspace, written(workspace, FEW))
    assert (plan["budget"], plan["budget_reason"].split(",")[0]) == ("race", "kept")
    assert {job["job_key"] for job in plan["jobs"]} < {job.key for job in before.jobs}


def test_a_sweep_keeps_all_its_rounds_when_variants_are_added(workspace: Workspace) -> None:
    before = started(workspace, written(workspace, FEW))
    path = written(workspace, MANY)
    plan = document(workspace, path)
    assert (plan["budget"], plan["budget_reason"].split(",")[0]) == ("full", "kept")
    assert {job.key for job in before.jobs} < {job["job_key"] for job in plan["jobs"]}
    text = words(workspace, path)
    assert "budget: full (kept, as this sweep had it before; write budget: race to change it)" in text
    assert "leader" not in text


def test_the_budget_that_was_decided_is_stored_and_decided_once(workspace: Workspace) -> None:
    first = started(workspace, written(workspace, MANY))
    with Journal.open(workspace.journal, read_only=True) as journal:
        assert journal.plans.spec("mine").budget == "race"
        assert journal.plans.protocol("mine").preset == "race"
    again = started(workspace, written(workspace, MANY))
    assert again.jobs == first.jobs
    assert again.sweep == first.sweep


def test_what_the_file_says_needs_no_reason(workspace: Workspace) -> None:
    started(workspace, written(workspace, MANY))
    for line, budget, phrase in (
        ("budget: full\n", "full", "budget: full"),
        ("protocol: {preset: full}\n", "full", "budget: full"),
        ("budget: {device_minutes: 3}\n", {"device_minutes": 3.0}, "budget: a race of at most 3 min a device; it ends"),
    ):
        path = written(workspace, MANY, line)
        plan = document(workspace, path)
        assert (plan["budget"], plan["budget_reason"]) == (budget, "")
        assert phrase in words(workspace, path)


def test_too_few_images_for_the_constraint_are_said_before_anything_runs(workspace: Workspace) -> None:
    folder = workspace.root.parent / "photos"
    for name in ("cat", "dog"):
        (folder / name).mkdir(parents=True)
        for number in range(150):
            (folder / name / f"{number}.png").write_bytes(b"no image: a plan reads names and bytes only")
    text = f"""name: mine
models: [{{source: mobilenet_v2, weights: random, input_shape: [1, 3, 64, 64]}}]
data:
  calibration: {{source: synthetic, images: 4}}
  evaluation: {{source: folder, path: {folder}, images: IMAGES}}
devices: ['fake:steady']
{FEW}"""
    path = workspace.root.parent / "mine.yaml"

    def warned(images: int) -> str:
        path.write_text(text.replace("IMAGES", str(images)))
        done = CliRunner().invoke(main, ["plan", str(path), "--workspace", str(workspace.root)])
        return done.stderr

    assert (
        f"200 evaluation images are too few: even of a build that answers like the original, 268 are needed to show "
        f"that it loses at most 1 points; {folder} has 300: write data: evaluation: images: 268 or more"
    ) in warned(200)
    assert "too few" not in warned(268)
    text = text.replace("synthetic, images: 4", f"folder, path: {folder}, images: 100")
    assert f"{folder} has 200: add 68 or more, or raise at_most" in warned(268)
