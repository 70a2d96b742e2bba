"""`plan --check` and the start of a run find a model's and its images' problems in seconds."""

import io
import tempfile
from collections.abc import Iterable
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image

from sweeps.spec.model_inputs import DataSpec, DigitsData, FolderData, ModelSpec, SyntheticData, TorchvisionData
from sweeps.workspace import Workspace
from tests.workers.models.mnist import mnist
from tests.workers.tiny_model import SOURCE
from workers.models.data_sources import files_in
from workers.models.model_check import Trial, try_all, try_evaluation, try_models
from workers.models.model_code import construct

NETS = SOURCE.decode() + "\n\ndef broken():\n    raise RuntimeError('no such layer')\n"


@pytest.fixture
def home(tmp_path: Path) -> Path:
    (tmp_path / "nets.py").write_text(NETS)
    state = io.BytesIO()
    torch.save(construct("nets:make", {}, {"nets.py": NETS.encode()}).state_dict(), state)
    (tmp_path / "net.pt").write_bytes(state.getvalue())
    for number in range(4):
        for name in "abcd":
            (tmp_path / "photos" / name).mkdir(parents=True, exist_ok=True)
            pixels = np.random.default_rng(number).integers(0, 256, (20, 20, 3), dtype=np.uint8)
            Image.fromarray(pixels).save(tmp_path / "photos" / name / f"{number}.png")
    return tmp_path


def checks_of(home: Path, function: str = "make", seconds: float = 60.0) -> list[Trial]:
    folder = FolderData(source="folder", path=home / "photos")
    model = ModelSpec(source=f"nets:{function}", weights=str(home / "net.pt"), input_shape=(1, 3, 16, 16))
    data = DataSpec(calibration=folder, evaluation=folder)
    return usable(try_all([model], data, (home,), Workspace(home / "workspace"), seconds))


def usable(checks: Iterable[Trial]) -> list[Trial]:
    """Without what is said of the original's accuracy."""
    return [check for check in checks if not check.code]


def tried_on(home: Path, evaluation: DigitsData | TorchvisionData) -> list[Trial]:
    model = ModelSpec(source="nets:make", weights=str(home / "net.pt"), input_shape=(1, 3, 16, 16))
    data = DataSpec(calibration=SyntheticData(source="synthetic"), evaluation=evaluation)
    return list(try_all([model], data, (home,), Workspace(home / "workspace"), 0.0))


def problems(checks: list[Trial]) -> str:
    return "\n".join(check.text for check in checks if check.problem)


def test_what_is_whole_is_told_with_its_figures(home: Path) -> None:
    model, images = checks_of(home)
    assert model.text == "make: loads; 268 parameters, 4 classes"
    assert images.text == f"{home / 'photos'}: 16 images in 4 classes can be opened, 16 were decoded"
    assert not (home / "workspace").exists()


@pytest.mark.parametrize("answer", ["{}", '{"classes": 4, "parameters": "many", "weights_text": ""}', "[]"])
def test_code_that_answers_in_place_of_edgesweep_is_a_problem_and_no_traceback(home: Path, answer: str) -> None:
    code = f"import os\nopen(os.path.join(os.environ['TMPDIR'], 'answer.json'), 'w').write({answer!r})\nos._exit(0)\n"
    (home / "nets.py").write_text(f"def make():\n    {code.replace(chr(10), chr(10) + '    ')}")
    [model, *_] = checks_of(home)
    assert model.problem
    assert "gone, or is something else" in model.message


def test_what_is_done_to_a_checkpoint_is_told(home: Path) -> None:
    state = torch.load(home / "net.pt", weights_only=True)
    half = {f"module.{name}": tensor.half() for name, tensor in state.items() if name != "1.num_batches_tracked"}
    torch.save({"ema": half | {"module.1.num_batches_tracked": state["1.num_batches_tracked"]}}, home / "net.pt")
    model, _ = checks_of(home)
    assert model.text == (
        "make: loads; the weights were read from `ema`, `module.` taken off 8 names, 7 half tensors widened; "
        "268 parameters, 4 classes"
    )


def test_a_model_that_no_image_has_the_channels_for_is_told_before_a_run(home: Path) -> None:
    folder = FolderData(source="folder", path=home / "photos")
    model = ModelSpec(source="nets:make", weights="random", input_shape=(1, 6, 16, 16))
    data = DataSpec(calibration=folder, evaluation=folder)
    misfits = [
        check for check in try_all([model], data, [home], Workspace(home / "data"), 1.0) if "channels" in check.message
    ]
    [problem] = [check for check in misfits if check.next_step.startswith("correct the model's input_shape")]
    assert (problem.problem, problem.what) == (True, "make")
    assert "source: synthetic" in problem.next_step


@pytest.mark.parametrize(
    ("function", "message"), [("mak", "no function mak (did you mean make?)"), ("broken", "no such")]
)
def test_a_function_that_makes_no_model_is_told_and_images_are_tried_all_the_same(
    home: Path, function: str, message: str
) -> None:
    model, images = checks_of(home, function)
    assert model.problem
    assert message in model.text
    assert not images.problem


def test_a_folder_for_temporary_files_that_takes_none_is_told(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    full = home / "net.pt"  # a file, for root may write everywhere
    monkeypatch.setattr(tempfile, "tempdir", str(full))
    checks = checks_of(home)
    assert [check.what for check in checks] == ["make", str(home / "photos")]
    for check in checks:
        assert check.problem
        assert check.message == f"{full} cannot take what the model is tried with: Not a directory"
        assert "TMPDIR" in check.next_step
    # In a run nothing of it lies there.
    model = ModelSpec(source="nets:make", weights=str(home / "net.pt"), input_shape=(1, 3, 16, 16))
    workspace = Workspace(home / "workspace")
    ((_, classes, _),) = try_models([model], (home,), workspace, below=workspace.temporary)
    assert classes == 4


def test_weights_that_are_damaged_are_told(home: Path) -> None:
    (home / "net.pt").write_bytes(b"not a checkpoint")
    assert "net.pt is damaged, or no checkpoint of torch" in problems(checks_of(home))


def test_more_folders_than_classes_are_a_problem_and_fewer_are_told(home: Path) -> None:
    for name in "ef":
        (home / "photos" / name).mkdir()
        (home / "photos" / name / "0.png").write_bytes((home / "photos" / "a" / "0.png").read_bytes())
    assert "make: it answers 4 classes, the evaluation folder has 6" in problems(checks_of(home))
    for name in "cdef":
        for file in (home / "photos" / name).iterdir():
            file.unlink()
        (home / "photos" / name).rmdir()
    checks = checks_of(home)
    assert problems(checks) == ""
    assert "must be the first 2 of the model's classes" in checks[-1].text


def test_classes_of_the_digits_and_of_a_downloaded_set_are_compared_too(home: Path) -> None:
    digits = problems(tried_on(home, DigitsData(source="digits")))
    assert "make: it answers 4 classes, the digits data has 10" in digits
    model, original, chance, *_, images, classes = tried_on(home, mnist(home / "downloads", train=[1], test=[3, 5]))
    assert (original.code, original.figures["images"], chance.code) == ("original", 2, "reference_at_chance")
    assert images.text == "MNIST, evaluation: 2 images, the first can be opened"
    assert "it answers 4 classes, MNIST has 6" in classes.text
    assert not model.problem
    assert classes.problem


def test_a_set_that_is_not_downloaded_is_no_problem_and_is_not_downloaded(home: Path) -> None:
    model, images = tried_on(home, TorchvisionData(source="torchvision", dataset="MNIST", root=home / "downloads"))
    assert not model.problem
    assert not images.problem
    assert images.message == "not in its folder yet, or not whole: the run downloads it"
    assert not (home / "downloads").exists()


def test_before_a_run_only_images_that_accuracy_is_computed_on_are_tried(home: Path) -> None:
    folder = FolderData(source="folder", path=home / "photos", images=12)
    data = DataSpec(calibration=folder, evaluation=folder.model_copy(update={"images": None}))
    files, _ = files_in(home / "photos")
    files[0].write_bytes(b"no image")
    evaluated, (images,) = try_evaluation(data, 60.0)
    assert images.text == f"{home / 'photos'}: 4 images in 4 classes can be opened, 4 were decoded"
    assert evaluated.classes == 4
    files[-1].write_bytes(b"no image")
    assert f"{files[-1]} is not a readable image" in problems(list(try_evaluation(data, 60.0)[1]))


@pytest.mark.parametrize("seconds", [0.0, 60.0])
def test_bombs_and_truncated_images_are_found_also_without_time_to_decode_all(home: Path, seconds: float) -> None:
    bomb = home / "photos" / "a" / "bomb.png"
    Image.new("1", (20_000, 20_000)).save(bomb)
    cut = home / "photos" / "b" / "cut.png"
    cut.write_bytes((home / "photos" / "b" / "0.png").read_bytes()[:-500])
    photo = home / "photos" / "c" / "cut.jpg"
    Image.open(home / "photos" / "c" / "0.png").save(photo)
    whole = photo.read_bytes()
    photo.write_bytes(whole[:-100])
    more = home / "photos" / "d" / "more behind its end.jpg"
    more.write_bytes(whole + bytes(200))
    text = problems(checks_of(home, seconds=seconds))
    assert f"{bomb} has too many pixels" in text
    assert f"{cut} is not a readable image" in text
    assert f"{photo} is not a readable image" in text
    assert str(more) not in text
