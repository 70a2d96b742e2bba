"""`plan --check` judges the original before anything is built: its figure on labelled images, and its doubts."""

import json
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from sweeps.errors import ModelError
from sweeps.spec.model_inputs import DataSpec, FolderData, ModelSpec, SyntheticData
from sweeps.workspace import Workspace
from tests.brightness import checkpoints, pictures
from workers.models import prepare as models
from workers.models.images import prepared as as_input
from workers.models.model_check import Trial, try_all
from workers.models.prepare import prepare
from workers.models.sample_answers import sampled

HALF = ((0.5, 0.5, 0.5), (0.5, 0.5, 0.5))


@pytest.fixture
def home(tmp_path: Path) -> Path:
    checkpoints(tmp_path)
    pictures(tmp_path / "photos", "bright", "dark", "even", order=(2, 0, 1))
    pictures(tmp_path / "sorted", "0 dark", "1 even", "2 bright")
    return tmp_path


def checks_of(
    home: Path,
    folder: str,
    normalized: tuple[tuple[float, ...], tuple[float, ...]] = HALF,
    function: str = "make",
    **arguments: int,
) -> list[Trial]:
    """List the lines on the original, and the problems."""
    mean, std = normalized
    source = FolderData(source="folder", path=home / folder, mean=mean, std=std, crop=False)
    model = ModelSpec(
        source=f"nets:{function}", weights=str(home / f"{function}.pt"), input_shape=(1, 3, 16, 16), arguments=arguments
    )
    data = DataSpec(calibration=SyntheticData(source="synthetic"), evaluation=source)
    checks = list(try_all([model], data, (home,), Workspace(home / "workspace"), 60.0))
    json.dumps([dict(check.figures) for check in checks])
    return [check for check in checks if check.code or check.problem]


def test_an_original_that_is_right_has_a_figure_and_no_doubt(home: Path) -> None:
    [original] = checks_of(home, "sorted")
    assert original.text == (
        "make: the original has top-1 100.0 % (90.4 to 100.0) on 36 images; always 0 dark: 33.3 %, "
        "guessing among all outputs: 33.3 %"
    )
    assert (original.code, original.figures["top1_percent"], original.doubts_original) == ("original", 100.0, False)


BYTES = (123.7, 116.3, 103.5), (58.4, 57.1, 57.4)


@pytest.mark.parametrize("normalized", [((0.0, 0.0, 0.0), (1 / 255,) * 3), BYTES, ((-9.0,) * 3, (1.0,) * 3)])
def test_a_wrong_normalization_is_named_with_one_that_is_right(
    home: Path, normalized: tuple[tuple[float, ...], tuple[float, ...]]
) -> None:
    original, *doubts = checks_of(home, "sorted", normalized)
    assert original.figures["top1_percent"] == pytest.approx(100 / 3)
    assert [check.code for check in doubts] == ["reference_at_chance", "reference_one_answer"]
    for check in doubts:
        assert check.doubts_original
        assert "with mean: [0.5, 0.5, 0.5], std: [0.5, 0.5, 0.5] 100.0 % are right" in check.message
        assert check.next_step.startswith("write mean: [0.5, 0.5, 0.5], std: [0.5, 0.5, 0.5] under data:")


def test_classes_in_another_order_are_named(home: Path) -> None:
    codes = {check.code: check for check in checks_of(home, "photos")}
    assert set(codes) == {"original", "reference_at_chance", "reference_other_order"}
    assert "bright is answered as even, dark is answered as bright" in codes["reference_other_order"].message


def test_a_data_set_s_root_and_one_class_of_it_are_named(home: Path) -> None:
    for split in ("train", "val", "test"):
        pictures(home / "root" / split, "0 dark", "1 even", "2 bright", each=4)
    codes = {check.code: check for check in checks_of(home, "root")}
    assert set(codes) == {"original", "reference_at_chance", "reference_split"}
    assert codes["reference_split"].next_step == f"give path: {home / 'root' / 'test'}"
    assert [check.code for check in checks_of(home, "root/test")] == ["original"]
    pictures(home / "root" / "test" / "1 even", "coarse", "fine", order=(1, 1), each=9)
    deep = checks_of(home, "root/test/1 even")
    assert any("one level too deep" in check.message for check in deep)


def test_embeddings_that_are_scored_as_classes_are_named(home: Path) -> None:
    codes = {check.code: check for check in checks_of(home, "sorted", function="embedding")}
    assert {"reference_at_chance", "reference_other_classes"} <= set(codes)
    assert "embeddings" in codes["reference_at_chance"].message


def test_more_outputs_than_folders_are_believed_where_the_answers_fit(home: Path) -> None:
    assert [check.code for check in checks_of(home, "sorted", outputs=7)] == ["original"]


@pytest.mark.parametrize("function", ["noisy", "dropping"])
def test_a_model_that_answers_otherwise_each_time_cannot_be_used(home: Path, function: str) -> None:
    [refused] = checks_of(home, "sorted", function=function)
    assert refused.problem
    assert f"{function} answers otherwise each time it is asked with the same images" in refused.message
    model = ModelSpec(source=f"nets:{function}", weights=str(home / f"{function}.pt"), input_shape=(1, 3, 16, 16))
    data = DataSpec(calibration=SyntheticData(source="synthetic"), evaluation=SyntheticData(source="synthetic"))
    with pytest.raises(ModelError, match="answers otherwise each time"):
        prepare(model, data, Workspace(home / "workspace"), {}, lambda *_: None, (home,))


def prepared(home: Path, weights: str, data: DataSpec) -> models.PreparedModel:
    model = ModelSpec(source="nets:make", weights=weights, input_shape=(1, 3, 16, 16))
    return prepare(model, data, Workspace(home / "workspace"), {}, lambda *_: None, (home,))


def test_what_a_run_prepares_is_judged_on_all_its_images(home: Path) -> None:
    turned = FolderData(source="folder", path=home / "photos", mean=HALF[0], std=HALF[1])
    data = DataSpec(calibration=SyntheticData(source="synthetic"), evaluation=turned)
    package = prepared(home, str(home / "make.pt"), data)
    assert [doubt.code for doubt in package.doubts] == ["reference_at_chance", "reference_other_order"]
    first, *doubts = package.original_lines
    assert first.startswith("the original has 0.00 % top-1 on the 36 evaluation images")
    assert doubts == [doubt.text for doubt in package.doubts]
    # Random weights stand for no training, and images without labels tell nothing.
    assert (prepared(home, "random", data).doubts, prepared(home, "random", data).original_lines) == ((), ())
    synthetic = DataSpec(calibration=data.calibration, evaluation=SyntheticData(source="synthetic"))
    assert prepared(home, str(home / "make.pt"), synthetic).doubts == ()


WHOLE = {"labels": [0, 1], "given": [1, 1], "outputs": 3, "classes": [], "low": 0, "high": 1, "better": ""}


@pytest.mark.parametrize(
    "answers",
    [
        {},
        {"labels": 3},
        WHOLE,
        WHOLE | {"better_percent": None, "given": [1, 7]},
        WHOLE | {"better_percent": None, "given": [1]},
        WHOLE | {"better_percent": None, "labels": "ab"},
        WHOLE | {"better_percent": None, "labels": [0, -1]},
        WHOLE | {"better_percent": None, "labels": [0, float("inf")]},
        WHOLE | {"better_percent": None, "outputs": 10**400},
    ],
)
def test_answers_that_user_code_made_up_are_refused(answers: dict[str, object]) -> None:
    with pytest.raises((KeyError, TypeError, ValueError, OverflowError)):
        sampled(answers)
    assert sampled(WHOLE | {"better_percent": None}).answers.predicted == [1, 1]


def test_the_usual_normalizations_are_those_of_prepared_images() -> None:
    from workers.models.sampling import _planes

    image = Image.fromarray(np.full((8, 8, 3), 51, np.uint8))
    grey = as_input(image, (1, 1, 8, 8), (0.1, 0.2, 0.3), (0.5, 0.5, 0.5))[None]
    np.testing.assert_allclose(grey * _planes((0.5, 0.5, 0.5), grey) + _planes((0.1, 0.2, 0.3), grey), 0.2, atol=1e-6)
