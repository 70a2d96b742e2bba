"""Holds are files in a folder that all users of the host share: whatever lies there is not trusted."""

import os
import stat
from collections.abc import Callable
from pathlib import Path

import pytest

from sweeps import holds
from sweeps.errors import DeviceError
from workers.devices.adb.lease import HeldError, Hold


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    path = tmp_path / "held"
    monkeypatch.setattr(holds, "HELD", path)
    return path


@pytest.fixture
def file(folder: Path) -> Path:
    """Where the hold of `phone X` would lie."""
    Hold("phone X").release()
    (path,) = folder.iterdir()
    path.unlink()
    return path


@pytest.fixture
def victim(tmp_path: Path) -> Path:
    path = tmp_path / "victim"
    path.write_text("precious")
    path.chmod(0o600)
    return path


def assert_untouched(victim: Path) -> None:
    assert victim.read_text() == "precious"
    assert stat.S_IMODE(victim.stat().st_mode) == 0o600


def test_a_name_is_held_once_and_by_whom_is_told(folder: Path) -> None:
    first = Hold("phone X")
    with pytest.raises(HeldError) as caught:
        Hold("phone X")
    assert caught.value.process == str(os.getpid())
    Hold("phone Y").release()
    first.release()
    Hold("phone X").release()
    assert stat.S_IMODE(folder.stat().st_mode) == 0o1777
    assert {stat.S_IMODE(path.stat().st_mode) for path in folder.iterdir()} == {0o666}


@pytest.mark.parametrize(
    "lay",
    [
        lambda path, victim: path.symlink_to(victim),
        lambda path, victim: path.hardlink_to(victim),
        lambda path, _: path.symlink_to(path.parent / "nowhere"),
        lambda path, _: os.mkfifo(path),
        lambda path, _: path.mkdir(),
    ],
    ids=["link", "hard link", "link to nothing", "pipe", "folder"],
)
def test_what_is_no_plain_file_of_its_own_is_refused_and_not_written(
    file: Path, victim: Path, lay: Callable[[Path, Path], object]
) -> None:
    lay(file, victim)
    with pytest.raises(DeviceError) as caught:
        Hold("phone X")
    assert caught.value.kind == "os_error"
    assert str(file) in caught.value.message
    assert str(file) in caught.value.next_step
    assert_untouched(victim)
    assert not (file.parent / "nowhere").exists()


def test_a_folder_that_leads_elsewhere_is_refused_and_keeps_its_mode(folder: Path, tmp_path: Path) -> None:
    other = tmp_path / "other"
    other.mkdir(mode=0o700)
    folder.symlink_to(other)
    with pytest.raises(DeviceError, match="cannot be opened"):
        Hold("phone X")
    assert stat.S_IMODE(other.stat().st_mode) == 0o700
    assert not list(other.iterdir())
