"""Whoever reads a file finds the old content or the new one, and nothing lies beside it."""

from pathlib import Path

import pytest

from sweeps.whole_file import whole_file, write_whole


@pytest.mark.parametrize("durable", [False, True])
def test_a_file_is_replaced_at_the_end_of_its_block(tmp_path: Path, durable: bool) -> None:
    file = tmp_path / "file"
    write_whole(file, "ä old", durable=durable)
    with whole_file(file, durable=durable) as part:
        part.write_text("new")
        assert file.read_bytes() == "ä old".encode()
        assert part.name.startswith(".")  # a backup leaves hidden files out
    assert file.read_bytes() == b"new"
    assert list(tmp_path.iterdir()) == [file]


def test_a_block_that_fails_leaves_the_old_file_alone(tmp_path: Path) -> None:
    file = tmp_path / "file"
    write_whole(file, b"old")
    with pytest.raises(KeyboardInterrupt), whole_file(file) as part:  # noqa: PT012  # fails after a part is written
        part.write_text("new")
        raise KeyboardInterrupt
    assert file.read_bytes() == b"old"
    assert list(tmp_path.iterdir()) == [file]


def test_what_stands_in_the_place_stays_and_is_told(tmp_path: Path) -> None:
    folder = tmp_path / "folder"
    folder.mkdir()
    with pytest.raises(IsADirectoryError):
        write_whole(folder, b"new")
    assert list(tmp_path.iterdir()) == [folder]
    with pytest.raises(FileNotFoundError):
        write_whole(tmp_path / "nowhere" / "file", b"new")


def test_a_second_link_to_the_same_file_is_not_left(tmp_path: Path) -> None:
    (tmp_path / "source").write_bytes(b"same")
    for _ in range(2):
        with whole_file(tmp_path / "file") as part:
            part.hardlink_to(tmp_path / "source")
    assert {path.name for path in tmp_path.iterdir()} == {"source", "file"}
