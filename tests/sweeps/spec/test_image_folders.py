"""Images by class."""

from pathlib import Path

import pytest

from sweeps.errors import DataError
from sweeps.spec.image_folders import left_out, listed


def test_a_folder_that_the_system_does_not_look_for_is_an_error_that_names_it(tmp_path: Path) -> None:
    # A name that is too long is refused to whoever asks, also to root, like a folder of another user to others.
    with pytest.raises(DataError, match="x" * 300):
        listed(tmp_path / ("x" * 300))


def put(root: Path, *names: str) -> Path:
    for name in names:
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_bytes(b"")
    return root


def test_hidden_files_and_folders_inside_a_class_are_no_images(tmp_path: Path) -> None:
    put(tmp_path, "cat/1.jpg", "cat/more/2.JPG", "cat/.thumbnails/1.jpg", "cat/more/.trash/old/3.jpg", "cat/._1.jpg")
    put(tmp_path, ".git/1.jpg")
    assert {name: [path.name for path in paths] for name, paths in listed(tmp_path).items()} == {
        "cat": ["1.jpg", "2.JPG"]
    }
    assert left_out(tmp_path).text == ""


def test_files_that_are_left_out_are_counted_and_named(tmp_path: Path) -> None:
    put(tmp_path, "cat/1.jpg", "dog/1.png", *(f"dog/{number}.HEIC" for number in range(20)), "cat/notes.txt", "dog/raw")
    put(tmp_path, "cat/Thumbs.db", "cat/.hidden.heic", "stray.jpg")
    left = left_out(tmp_path)
    assert (left.by_suffix, left.classes, left.in_no_class) == (((".heic", 20), (".txt", 1), ("", 1)), 2, 1)
    assert f"22 files in 2 classes of {tmp_path} are left out: 20 .heic, 1 .txt, 1 without a suffix" in left.text
    assert f"1 image lies in {tmp_path} itself, in no class" in left.text


def test_a_class_of_files_that_are_all_left_out_is_not_called_empty(tmp_path: Path) -> None:
    put(tmp_path, "cat/1.jpg", *(f"dog/{number}.heic" for number in range(20)))
    with pytest.raises(DataError, match=r"the class dog has 20 files in .*/dog and none is read: 20 \.heic") as caught:
        listed(tmp_path)
    assert "convert them" in caught.value.next_step
    put(tmp_path, "eel/.hidden.jpg")
    (tmp_path / "dog" / "1.jpg").write_bytes(b"")
    with pytest.raises(DataError, match="the class eel has no images"):
        listed(tmp_path)
