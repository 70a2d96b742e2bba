"""`edgesweep init` writes a file that the other commands take."""

import os
import sys
from pathlib import Path

import numpy as np
import pytest
import torch
from click.testing import CliRunner, Result
from PIL import Image

from sweeps.cli.main import main
from sweeps.spec.sweep import load
from workers.models.images import prepared

NETS = """
import torch

def make(classes=4):
    return torch.nn.Sequential(
        torch.nn.Conv2d(1, 8, 3), torch.nn.AdaptiveAvgPool2d(1), torch.nn.Flatten(), torch.nn.Linear(8, classes)
    )

def needs(classes, *, width=8):
    return make(classes)

class Branch(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.head = torch.nn.Linear(3, 4)

    def forward(self, x):
        x = x.mean((2, 3))
        if bool(x.sum() > 0):
            x = x * 2
        return self.head(x)

def branch():
    return Branch()

def wide(widths):
    return torch.nn.Sequential(
        torch.nn.Conv2d(1, widths[0], 3), torch.nn.AdaptiveAvgPool2d(1), torch.nn.Flatten(), torch.nn.Linear(*widths)
    )
"""


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "nets.py").write_text(NETS)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def pictures(folder: Path, count: int) -> None:
    for name in "abcd":
        (folder / name).mkdir(parents=True)
        for number in range(count):
            pixels = np.random.default_rng(number).integers(0, 256, (30, 40), dtype=np.uint8)
            Image.fromarray(pixels).save(folder / name / f"{number}.png")


def init(*words: str) -> Result:
    return CliRunner().invoke(main, ["init", *words])


def test_the_file_says_what_was_found_and_what_was_said(home: Path) -> None:
    pictures(home / "it's data", 3)
    done = init("--model", "nets:make", "--argument", "classes=4", "--images", "it's data", "--device", "fake:steady")
    assert done.exit_code == 0, done.output
    assert "nets:make: input 1x1x28x28, 4 classes, 116 parameters" in done.output
    assert "it's data: 12 images in 4 classes" in done.output
    written = (home / "sweep.yaml").read_text()
    assert written.startswith("# yaml-language-server: $schema=sweep.schema.json\n")
    assert (home / "sweep.schema.json").exists()
    spec = load(home / "sweep.yaml")
    [model], [grid] = spec.models, spec.grids
    assert (model.source, dict(model.arguments), model.input_shape) == ("nets:make", {"classes": 4}, (1, 1, 28, 28))
    assert spec.data.calibration.images == 2
    assert spec.data.evaluation.crop, "its images are larger than the input"
    assert (grid.precision, grid.layout, grid.capture) == (("fp32", "int8"), ("nchw", "nhwc"), ("script", "trace"))
    assert spec.devices == ("fake:steady",)
    assert max(map(len, written.splitlines())) <= 120


def test_a_models_file_a_list_and_a_checkpoint_of_two_are_taken(home: Path) -> None:
    states = [torch.nn.Conv2d(1, 8, 3).state_dict(), torch.nn.Linear(8, 4).state_dict()]
    state = {
        f"{place}.{name}": tensor
        for place, tensors in zip("03", states, strict=True)
        for name, tensor in tensors.items()
    }
    average = {f"module.{name}": tensor / 2 for name, tensor in state.items()}
    torch.save({"model": state, "model_ema": average}, home / "net.pt")
    words = ("--model", "./nets.py:wide", "--argument", "widths=[8, 4]", "--weights", "net.pt")
    refused = init(*words)
    assert refused.exit_code == 1
    assert "differ: `model`, `model_ema`" in refused.output
    assert "weights_key" in refused.output
    done = init(*words, "--weights-key", "model_ema")
    assert done.exit_code == 0, done.output
    assert "  the weights were read from `model_ema`, `module.` taken off 4 names\n" in done.output
    [model] = load(home / "sweep.yaml").models
    assert (model.source, model.arguments, model.weights_key) == ("nets:wide", {"widths": [8, 4]}, "model_ema")
    assert init("other.yaml", "--model", "nets:make", "--weights-key", "model").exit_code == 1


def test_what_cannot_be_captured_is_left_out_of_the_grid_with_the_reason(home: Path) -> None:
    done = init("--model", "nets:branch")
    assert done.exit_code == 0, done.output
    assert "fusing and static int8: no: torch.fx cannot trace the model" in done.output
    [grid] = load(home / "sweep.yaml").grids
    assert (grid.quantization, grid.fuse, grid.capture, grid.layout) == (("dynamic",), (False,), ("script",), ("nchw",))
    written = (home / "sweep.yaml").read_text()
    assert "# trace is closed: " in written
    assert max(map(len, written.splitlines())) <= 120


def test_images_of_the_input_s_size_are_taken_as_they_are(home: Path) -> None:
    pictures(home / "photos", 3)
    assert init("--model", "nets:make", "--images", "photos", "--input-shape", "1,1,30,40").exit_code == 0
    data = load(home / "sweep.yaml").data
    assert (data.calibration.crop, data.evaluation.crop) == (False, False)
    pixels = np.random.default_rng(0).integers(0, 256, (30, 40), dtype=np.uint8)
    whole = prepared(Image.fromarray(pixels), (1, 1, 30, 40), (0.0,) * 3, (1.0,) * 3, crop=False)
    np.testing.assert_allclose(whole[0] * 255, pixels, rtol=1e-6)


def test_one_image_of_another_size_is_seen_also_where_there_is_no_time_to_decode_it(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sweeps.cli.init._LOOK_S", 0.0)
    pictures(home / "photos", 3)
    last = sorted((home / "photos").glob("*/*"))[-1]
    words = ("--model", "nets:make", "--images", "photos", "--input-shape", "1,1,30,40")
    assert init("same.yaml", *words).exit_code == 0
    assert not load(home / "same.yaml").data.evaluation.crop
    Image.new("L", (41, 30)).save(last)
    assert init("other.yaml", *words).exit_code == 0
    assert load(home / "other.yaml").data.evaluation.crop


def test_folders_of_two_splits_are_one_for_calibration_and_one_for_evaluation(home: Path) -> None:
    pictures(home / "photos" / "train", 1)
    pictures(home / "photos" / "val", 2)
    assert init("--model", "nets:make", "--images", "photos").exit_code == 0
    data = load(home / "sweep.yaml").data
    assert (data.calibration.path, data.evaluation.path) == (home / "photos" / "train", home / "photos" / "val")


def test_a_terminal_is_asked_for_missing_values_also_for_arguments_of_the_function(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pictures(home / "photos", 3)
    terminal, own_side = os.openpty()
    answers = ["nets:needs", "4", "random", "photos", "fake:steady"]
    os.write(terminal, "".join(f"{answer}\n" for answer in answers).encode())
    with os.fdopen(own_side, encoding="utf-8") as stdin, os.fdopen(os.dup(own_side), "w", encoding="utf-8") as stdout:
        monkeypatch.setattr(sys, "stdin", stdin)
        monkeypatch.setattr(sys, "stdout", stdout)
        main(["init"], standalone_mode=False)
        stdout.flush()
        shown = os.read(terminal, 2**16).decode()
    os.close(terminal)
    assert "Argument classes of needs (empty: none): " in shown
    assert "Argument width" not in shown
    spec = load(home / "sweep.yaml")
    [model] = spec.models
    assert (model.source, dict(model.arguments), model.weights) == ("nets:needs", {"classes": 4}, "random")
    assert (spec.data.evaluation.path, spec.devices) == (home / "photos", ("fake:steady",))


def test_paths_start_in_the_folder_of_the_shell_and_another_schema_stays(home: Path) -> None:
    pictures(home / "photos", 1)
    (home / "none.pt").write_bytes(b"x")
    (home / "sub").mkdir()
    (home / "sub" / "sweep.schema.json").write_text("mine")
    done = init("sub/sweep.yaml", "--model", "nets:make", "--images", "photos")
    assert done.exit_code == 0, done.output
    assert load(home / "sub" / "sweep.yaml").data.evaluation.path == home / "photos"
    assert "sweep.schema.json was there and is another one: it stays" in done.output
    assert (home / "sub" / "sweep.schema.json").read_text() == "mine"
    refused = init("sub/sweep.yaml", "--model", "nets:make", "--weights", "none.pt", "--force")
    assert "there is no file" not in refused.output
    assert f"{home / 'none.pt'}" in refused.output


def test_a_file_that_is_there_is_kept(home: Path) -> None:
    (home / "sweep.yaml").write_text("mine")
    refused = init("--model", "nets:make")
    assert refused.exit_code == 1
    assert "add --force" in refused.output
    assert (home / "sweep.yaml").read_text() == "mine"


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ((), "give --model module:function"),
        (("--model", "nets:mak"), "did you mean make?"),
        (("--model", "absent:make"), "no module absent"),
        (("--model", "nets:needs"), "--argument classes=VALUE of edgesweep init"),
        (("--model", "nets:make", "--weights", "none.pt"), "there is no file"),
        (("--model", "nets:make", "--argument", "classes"), "'classes' is not NAME=VALUE"),
        (("--model", "nets:make", "--device", "moon"), "there is no device 'moon'"),
        (("--model", "nets:make", "--images", "photos"), "there is no folder"),
    ],
)
def test_a_mistake_is_told_and_nothing_is_written(home: Path, words: tuple[str, ...], message: str) -> None:
    refused = init(*words)
    assert refused.exit_code in (1, 2)
    assert message in refused.output
    assert list(home.glob("*.yaml")) == []
