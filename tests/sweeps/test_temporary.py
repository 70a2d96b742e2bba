"""Temporary folders end with their block, with their process, or with the next process that makes one."""

import os
import signal
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from sweeps.temporary import folder_of_process, temporary_folder

MAKES = """
import sys, time
from sweeps.temporary import folder_of_process, temporary_folder
with temporary_folder() as folder:
    (folder / "a").touch()
    (folder_of_process() / "b").touch()
    print("made", flush=True)
    sys.stdin.readline()
"""


@pytest.fixture(autouse=True)
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    return tmp_path


def started() -> "subprocess.Popen[str]":
    command = [sys.executable, "-c", MAKES]
    process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    assert process.stdout.readline() == "made\n"
    return process


def test_a_folder_ends_with_its_block_and_with_its_process(place: Path) -> None:
    with temporary_folder() as folder:
        (folder / "file").touch()
    assert list(place.iterdir()) == []
    with started() as process:
        assert len(list(place.iterdir())) == 2
        process.communicate("end\n")
    assert list(place.iterdir()) == []


def test_a_folder_elsewhere_ends_as_well_and_nothing_else_there_does(place: Path) -> None:
    below = place / "deep" / "tmp"
    abandoned = below / "edgesweep-tmp-of-one-that-was-killed"
    abandoned.mkdir(parents=True)
    (abandoned / "lock").touch()
    (below / "other").touch()
    with temporary_folder(below) as folder:
        assert below in folder.parents
        assert not abandoned.exists()
    assert [file.name for file in below.iterdir()] == ["other"]


def test_what_a_killed_process_left_is_deleted_and_what_a_living_one_has_is_not(place: Path) -> None:
    with started() as killed, started() as lives:
        assert len(list(place.glob("*/files/[ab]"))) == 4
        os.kill(killed.pid, signal.SIGKILL)
        killed.wait()
        with temporary_folder() as folder:
            assert len(list(place.glob("*/files/[ab]"))) == 2
            assert folder.is_dir()
        assert len(list(place.iterdir())) == 2
        lives.communicate("end\n")
    assert list(place.iterdir()) == []


def test_what_is_not_known_to_be_abandoned_stays(place: Path) -> None:
    (place / "edgesweep-tmp-no-lock").mkdir()
    elsewhere = place / "elsewhere"
    elsewhere.mkdir()
    (elsewhere / "lock").touch()
    (place / "edgesweep-tmp-link").symlink_to(elsewhere)
    own = folder_of_process()
    with temporary_folder():
        pass
    assert own.is_dir()
    assert (elsewhere / "lock").exists()
    assert (place / "edgesweep-tmp-no-lock").exists()
