"""Fixtures of boards: `board`, which is as new for each test, and what it needs."""

import os
import shutil
import sys
import tempfile
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import psutil
import pytest

from tests.sshd import Board, running
from workers.devices.ssh import board_lock
from workers.devices.ssh.questions import PYTHON_VARIABLE
from workers.native.compiler import cache_folder


@pytest.fixture(scope="module")
def running_board() -> Iterator[Board]:
    with tempfile.TemporaryDirectory(prefix="edgesweep-board-") as root, running(Path(root) / "board") as board:
        yield board


@pytest.fixture
def own_board_lock(monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Another file than that of this machine, on which other tests may run as a board too."""
    file = Path(tempfile.mkdtemp(prefix="edgesweep-lease-")) / "lock"
    monkeypatch.setattr(board_lock, "_SCRIPT", board_lock._SCRIPT.replace(board_lock._FILE, str(file)))
    yield file
    shutil.rmtree(file.parent, ignore_errors=True)


@pytest.fixture
def board(running_board: Board, own_board_lock: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Board]:
    """This process is a user of it, with a home of its own."""
    # The caches of the home before keep what was compiled there.
    monkeypatch.setenv("EDGESWEEP_CACHE", str(cache_folder()))
    monkeypatch.setenv("HOME", str(running_board.client))
    monkeypatch.delenv("SSH_AUTH_SOCK", raising=False)
    monkeypatch.setenv(PYTHON_VARIABLE, sys.executable)
    yield running_board
    _as_new(running_board)


def _as_new(board: Board) -> None:
    board.stop()
    for program in board.programs(str(board.root)):
        if program.pid != os.getpid():
            with suppress(psutil.Error):
                program.kill()
    for folder in (board.home, board.bin):
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir()
    (board.client / ".ssh" / "config").unlink(missing_ok=True)
    board.trust()
    board.start()
