"""Folders that are one level too high, and classes that are named like splits."""

from pathlib import Path

import pytest

from sweeps.spec.folder_levels import folder_warnings, is_split, levels_of
from sweeps.spec.model_inputs import DataSpec, FolderData, SyntheticData


def put(root: Path, *names: str) -> Path:
    for name in names:
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_bytes(b"")
    return root


@pytest.mark.parametrize("name", ["train", "Validation", "val2017", "test_images", "TEST-SET", "valid", "eval", "dev"])
def test_names_of_splits_are_known(name: str) -> None:
    assert is_split(name)


@pytest.mark.parametrize("name", ["cat", "bullet_train", "trainer", "invalid", "images", "testudo", "1"])
def test_names_of_classes_are_not_taken_for_splits(name: str) -> None:
    assert not is_split(name)


def test_a_data_set_s_root_is_too_high_and_its_held_out_split_is_named(tmp_path: Path) -> None:
    put(tmp_path, *(f"{split}/{name}/1.jpg" for split in ("train", "val", "test") for name in ("cat", "dog")))
    levels = levels_of(tmp_path)
    assert (levels.too_high, levels.splits, levels.doubted) == (("cat", "dog"), ("test", "train", "val"), True)
    assert f"{tmp_path} seems one level too high" in levels.text
    assert levels.text.endswith(f"give path: {tmp_path / 'test'}")
    source = FolderData(source="folder", path=tmp_path)
    assert list(folder_warnings(DataSpec(calibration=SyntheticData(source="synthetic"), evaluation=source))) == [
        levels.text
    ]


@pytest.mark.parametrize(
    "names", [("photos/cat/1.jpg", "photos/dog/1.jpg"), ("a/cat/1.jpg", "b/cat/1.jpg", "a/dog/1.jpg", "b/dog/2.jpg")]
)
def test_a_folder_around_the_classes_is_too_high_whatever_it_is_called(tmp_path: Path, names: tuple[str, ...]) -> None:
    levels = levels_of(put(tmp_path, *names))
    assert levels.too_high == ("cat", "dog")
    assert levels.doubted


def test_flat_splits_are_doubted_and_one_class_that_is_named_so_is_only_told(tmp_path: Path) -> None:
    levels = levels_of(put(tmp_path / "splits", "train/1.jpg", "test/1.jpg"))
    assert levels.doubted
    assert "test, train in " in levels.text
    levels = levels_of(put(tmp_path / "cifar", "train/1.jpg", "truck/1.jpg", "bus/1.jpg"))
    assert (levels.splits, levels.doubted) == (("train",), False)
    assert "train in " in levels.text


def test_classes_and_classes_with_parts_of_their_own_are_not_doubted(tmp_path: Path) -> None:
    levels = levels_of(put(tmp_path, "cat/1.jpg", "cat/more/1.jpg", "dog/black/1.jpg", "eel/1.jpg", ".git/x/1.jpg"))
    assert (levels.text, levels.doubted, dict(levels.inner)) == ("", False, {"cat": (), "dog": ("black",), "eel": ()})
    levels = levels_of(put(tmp_path / "parts", "cat/old/1.jpg", "dog/black/1.jpg"))
    assert (levels.text, levels.doubted) == ("", False)
