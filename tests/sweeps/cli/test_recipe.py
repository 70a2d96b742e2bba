"""`edgesweep recipe`, as a user runs it: one's own model step by step, and what the command line may say."""

import itertools
import json
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

from sweeps.cli.recipe import STEPS, recipe_spec
from sweeps.errors import SpecError
from sweeps.protocol.presets import protocol_of
from tests.fresh_mlflow import fresh_mlflow

SWEEP = """
name: own
models:
  - {source: my_net:make_net, arguments: {classes: 10}, weights: random, input_shape: [1, 3, 32, 32]}
data:
  evaluation: {source: digits, images: 100}
grids:
  - precision: [fp32]
protocol: {preset: quick, rounds: 2, warmup_seconds: 0.01, min_seconds: 0.05, iterations: 5, gate: none}
# No bound on the accuracy: 100 images cannot keep one, and then nothing would be the best of its runtime.
objective: {constraints: []}
"""

Command = Callable[..., subprocess.CompletedProcess[str]]


def options(**given: Any) -> dict[str, Any]:
    left_out = dict.fromkeys(("weights", "input_shape", "seed", "preset", "rounds"))
    return {**left_out, "arguments": (), "device": "local", **given}


@pytest.fixture
def folder(own_folder: Path) -> Path:
    """The user's folder with a sweep file."""
    (own_folder / "sweep.yaml").write_text(SWEEP)
    fresh_mlflow(own_folder / "edgesweep-data")
    return own_folder


@pytest.fixture
def recipe(folder: Path, edgesweep: Command) -> Command:
    """Run `edgesweep recipe` there."""
    return lambda *words: edgesweep("recipe", *words, "--executor", "inline")


@pytest.mark.system
@pytest.mark.long
@pytest.mark.runtime("executorch")
@pytest.mark.runtime("onnxruntime")
@pytest.mark.usefixtures("forked_runners")
def test_a_model_of_one_s_own_goes_through_the_recipe_once(folder: Path, recipe: Command) -> None:
    done = recipe("sweep.yaml", "--json")
    assert done.returncode == 0, done.stderr
    document = json.loads(done.stdout)
    assert document["sweep"] == "recipe-own"
    [one] = document["recipes"]
    assert [step["step"] for step in one["steps"]] == list(STEPS)
    assert {step["outcome"] for step in one["steps"]} == {"measured"}
    for step in one["steps"]:
        assert step["latency_p50_low_ms"] <= step["latency_p50_ms"] <= step["latency_p50_high_ms"]
        assert step["accuracy_drop_low_points"] <= step["accuracy_drop_points"] <= step["accuracy_drop_high_points"]
        assert step["artifact_mb"] > 0
    gains = [step["gain_over_step_before"] for step in one["steps"][1:]]
    assert [gain["over"] for gain in gains] == list(STEPS)[:-1]
    assert all(gain["speedup_low_ratio"] <= gain["speedup_ratio"] <= gain["speedup_high_ratio"] for gain in gains)
    assert all(gain["latency"] in ("faster", "slower", "no difference shown") for gain in gains)
    # Reuse of the input changes how the artifact is run, and nothing in it.
    assert one["steps"][-1]["variant"] == one["steps"][-2]["variant"]
    assert (gains[-1]["size_ratio"], gains[-1]["accuracy_change_points"]) == (1.0, 0.0)

    workspace = folder / "edgesweep-data"
    assert json.loads((workspace / "recipes" / "recipe-own.json").read_text()) == document
    [stored] = workspace.glob("mlflow-artifacts/**/waterfall.json")
    assert json.loads(stored.read_text()) == document

    # The same with the best of each other runtime: no step is measured again.
    again = recipe("sweep.yaml", "--runtimes")
    assert again.returncode == 0, again.stderr
    assert "7 done before" in again.stderr
    for name in STEPS:
        assert name in again.stdout
    assert "█" in again.stdout
    assert "All steps: 7-input-reuse over 1-eager" in again.stdout
    assert "The best of each runtime, beside PyTorch Mobile's" in again.stdout
    [beside] = json.loads((workspace / "recipes" / "recipe-own.json").read_text())["recipes"]
    assert beside["steps"] == one["steps"]
    mobile, *others = beside["runtimes"]
    assert [mobile["step"], *(best["step"] for best in others)] == ["torchscript", "executorch", "onnxruntime"]
    assert mobile["gain_over_pytorch_mobile"] is None
    for best in others:
        assert best["outcome"] == "measured", best["reason"]
        assert best["variant"].startswith(f"{best['step']} cpu ")
        gain = best["gain_over_pytorch_mobile"]
        assert gain["over"] == "torchscript"
        # Measured by another run than PyTorch Mobile's: paired by nothing, and with an interval but for a single block,
        # after which a race may have given it up.
        made = gain["speedup_made_of"]
        assert made["source"] in ("blocks", "batches", "times")
        assert (gain["speedup_low_ratio"] is None) == (made["source"] == "times")
        if made["source"] == "blocks":
            assert gain["speedup_low_ratio"] < gain["speedup_ratio"] < gain["speedup_high_ratio"]
            assert made["ms"] / made["other_ms"] == pytest.approx(gain["speedup_ratio"])
        assert gain["size_ratio"] > 0


@pytest.mark.system
@pytest.mark.usefixtures("unscriptable_net", "forked_runners")
def test_a_model_that_cannot_be_scripted_keeps_its_eager_step_and_says_why(recipe: Command) -> None:
    done = recipe("sweep.yaml", "--rounds", "1", "--json")
    assert done.returncode == 0, done.stderr
    steps = json.loads(done.stdout)["recipes"][0]["steps"]
    assert steps[0]["outcome"] == "measured"
    assert steps[1]["outcome"] == "failed"
    assert steps[1]["reason"].startswith("build, ")


@pytest.mark.parametrize(
    ("words", "named", "code"),
    [
        (("mobilenet_v3",), "did you mean", 1),
        (("my_net:make_net",), "pretrained weights exist for torchvision's models only", 2),
        (("resnet18", "--weights", "gone.pt"), "gone.pt", 2),
        (("resnet18", "--input-shape", "3,224"), "input_shape", 2),
        (("resnet18", "--input-shape", "big"), "--input-shape 'big'", 2),
        (("resnet18", "--argument", "num_classes"), "KEY=VALUE", 2),
        (("resnet18", "--device", "tag:1"), "tag:1 is a device of a lab", 1),
        (("sweep.yaml", "--weights", "random"), "--weights: not allowed with a sweep file", 2),
        (("gone.yaml",), "gone.yaml", 2),
    ],
)
def test_bad_input_is_named_before_anything_runs(
    recipe: Command, words: tuple[str, ...], named: str, code: int
) -> None:
    done = recipe(*words)
    assert done.returncode == code, done.stderr
    assert named in done.stderr
    assert "Traceback" not in done.stderr


def test_help_has_an_example(edgesweep: Command) -> None:
    assert "Example: edgesweep recipe mobilenet_v2" in edgesweep("recipe", "--help").stdout


def test_each_step_adds_one_thing() -> None:
    grids = list(STEPS.values())
    added = [
        {axis for axis in now if axis not in ("quantization", "qengine") and now[axis] != before.get(axis)}
        for before, now in itertools.pairwise(grids)
    ]
    assert added == [{"runtime"}, {"fuse"}, {"optimize"}, {"layout"}, {"precision"}, {"reuse_input"}]


def test_without_labels_there_is_no_bound_on_the_accuracy() -> None:
    spec, _ = recipe_spec(
        "mobilenet_v2", **options(weights="random", arguments=("width_mult=0.35", "stages=[[1, 16], [6, 24]]"))
    )
    assert spec.name.startswith("recipe-mobilenet_v2-")
    assert spec.models[0].arguments == {"width_mult": 0.35, "stages": [[1, 16], [6, 24]]}
    assert (spec.data.evaluation.source, spec.objective.constraints) == ("synthetic", ())
    spec, _ = recipe_spec("mobilenet_v2", **options(weights="demo", rounds=7))
    assert (spec.data.evaluation.source, len(spec.objective.constraints)) == ("digits", 1)
    protocol = protocol_of(spec)
    assert (protocol.preset, protocol.rounds) == ("quick", 7)


def test_other_runtimes_are_asked_for() -> None:
    asked = options(weights="random")
    assert [grid.name for grid in recipe_spec("resnet18", **asked)[0].grids] == list(STEPS)
    grids = recipe_spec("resnet18", **asked, runtimes=True)[0].grids
    layouts = {grid.runtime: grid.layout for grid in grids[len(STEPS) :]}
    assert layouts == {("executorch",): ("nchw", "nhwc"), ("onnxruntime",): ("nchw", "nchw16c")}


def test_a_checkpoint_is_looked_for_where_the_command_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    torch.save({}, "net.pt")
    spec, roots = recipe_spec("my_net:make_net", **options(weights="net.pt", input_shape="1,3,32,32"))
    assert spec.models[0].weights == str(tmp_path / "net.pt")
    assert roots == (tmp_path,)
    with pytest.raises(SpecError, match=r"models\[0\].input_shape\[2\]: must be at most 65536, not 65537"):
        recipe_spec("resnet18", **options(weights="random", input_shape="1,3,65537,32"))
