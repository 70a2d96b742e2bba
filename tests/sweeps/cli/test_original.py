"""The commands `init`, `plan --check`, `run` and `rank` say that an original is at chance."""

import json
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from sweeps.cli.main import main
from tests.brightness import checkpoints, pictures
from tests.fresh_mlflow import fresh_mlflow

SWEEP = """
name: bright
models: [{source: "nets:make", weights: make.pt, input_shape: [1, 3, 16, 16]}]
data:
  calibration: {source: synthetic, images: 4}
  evaluation: {source: folder, path: photos, mean: MEAN, std: STD, crop: false}
grids: [{precision: [fp32], layout: [nchw], capture: [script], fuse: [false], optimize: [false]}]
devices: ["fake:steady"]
protocol: {preset: quick, rounds: 2, warmup_seconds: 0.01, min_seconds: 0.02, iterations: 3, gate: none}
objective: {minimize: latency_p50_ms, constraints: CONSTRAINTS}
"""
BYTES = "[0.00392, 0.00392, 0.00392]"  # for pixels from 0 to 255
BOUND = "[{metric: accuracy_drop_points, at_most: 10}]"


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("MLFLOW_TRACKING_URI", raising=False)
    checkpoints(tmp_path)
    pictures(tmp_path / "photos", "0 dark", "1 even", "2 bright", each=16)
    return tmp_path


def written(home: Path, mean: str = "[0, 0, 0]", std: str = BYTES, constraints: str = BOUND) -> None:
    text = SWEEP.replace("MEAN", mean).replace("STD", std).replace("CONSTRAINTS", constraints)
    (home / "sweep.yaml").write_text(text)


def edgesweep(*words: str) -> Result:
    return CliRunner().invoke(main, list(words))


def test_plan_check_tells_an_original_that_is_right_by_its_figure(home: Path) -> None:
    written(home, "[0.5, 0.5, 0.5]", "[0.5, 0.5, 0.5]")
    done = edgesweep("plan", "--check", "sweep.yaml")
    assert done.exit_code == 0, done.output
    assert "make: the original has top-1 100.0 % (92.6 to 100.0) on 48 images; always 0 dark: 33.3 %" in done.output


def test_plan_check_ends_with_an_error_code_where_nothing_can_pass(home: Path) -> None:
    written(home)
    done = edgesweep("plan", "--check", "sweep.yaml")
    assert done.exit_code == 1
    assert "make: the original itself is at chance: 33.3 % of 48 images are right" in done.output
    assert "with mean: [0.5, 0.5, 0.5], std: [0.5, 0.5, 0.5] 100.0 % are right" in done.output
    # A sweep that asks for nothing about accuracy is only told.
    written(home, constraints="[]")
    done = edgesweep("plan", "--check", "--json", "sweep.yaml")
    assert done.exit_code == 0
    messages = json.loads(done.stdout)["check"]
    assert [message["code"] for message in messages if message["code"]] == [
        "original",
        "reference_at_chance",
        "reference_one_answer",
    ]
    assert messages[1]["figures"]["top1_percent"] == pytest.approx(100 / 3)


def test_init_says_so_too_with_what_it_leaves_out(home: Path) -> None:
    (home / "photos" / "0 dark" / "1.heic").write_bytes(b"")
    named = ("--model", "nets:make", "--weights", "make.pt", "--images", "photos", "--input-shape", "1,3,16,16")
    done = edgesweep("init", *named)
    assert done.exit_code == 0, done.output
    assert "make: the original has top-1 " in done.output
    assert "likely cause: the images are prepared in another way than in training" in done.output
    assert "is left out: 1 .heic" in done.output


@pytest.mark.long
@pytest.mark.system
def test_a_run_says_so_and_no_build_wins(home: Path) -> None:
    written(home)
    fresh_mlflow(home / "edgesweep-data")
    run = edgesweep("run", "sweep.yaml", "--executor", "inline", "--json")
    assert run.exit_code == 0, run.output
    assert "make: the original itself is at chance: 33.3 % of 48 images are right" in " ".join(run.stderr.split())
    for ranking in (json.loads(run.stdout), json.loads(edgesweep("rank", "--json").stdout)):
        [device] = ranking["devices"]
        [row] = device["ranking"]
        assert (device["winner"], row["verdict"]) == (None, "unresolved")
        assert "the original itself is at chance" in row["why"]
        assert row["constraints"][0]["doubts"] == ["reference_at_chance", "reference_one_answer"]
        assert {"reference_at_chance", "reference_one_answer"} <= set(row["trust"])
    assert "the original itself is at chance" in " ".join(edgesweep("rank", "--all").output.split())
