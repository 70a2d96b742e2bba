"""Tests that hold something against the clock have the machine to themselves, and do not wait for ever to get it."""

import subprocess
import sys
import threading
from pathlib import Path

from tests.side_by_side import turn


def _in_its_turn(folder: Path, began: threading.Event, ends: threading.Event, *, alone: bool) -> threading.Thread:
    def run() -> None:
        with turn(folder, alone=alone):
            began.set()
            ends.wait()

    thread = threading.Thread(target=run)
    thread.start()
    return thread


def test_others_run_side_by_side_and_none_beside_one_that_is_alone(tmp_path: Path) -> None:
    began, end = [threading.Event() for _ in range(4)], [threading.Event() for _ in range(4)]
    running = [_in_its_turn(tmp_path, began[n], end[n], alone=False) for n in (0, 1)]
    assert began[0].wait(60)
    assert began[1].wait(60), "both at once"
    running.append(_in_its_turn(tmp_path, began[2], end[2], alone=True))
    end[0].set()
    running[0].join()
    assert not began[2].wait(0.2), "one still runs"
    running.append(_in_its_turn(tmp_path, began[3], end[3], alone=False))
    assert not began[3].wait(0.2), "who came later waits for the one that waits"
    end[1].set()
    assert began[2].wait(60)
    assert not began[3].wait(0.2)
    end[2].set()
    assert began[3].wait(60)
    end[3].set()
    for thread in running:
        thread.join()


def test_tests_of_one_group_run_on_one_worker(tmp_path: Path) -> None:
    """Two workers, one group, and a file for each worker that ran a test of it."""
    (tmp_path / "test_grouped.py").write_text(
        "import os, pathlib, pytest\n"
        "@pytest.mark.xdist_group('boards')\n"
        "@pytest.mark.parametrize('number', range(8))\n"
        "def test_it(number):\n"
        "    pathlib.Path(os.environ['PYTEST_XDIST_WORKER']).touch()\n"
    )
    argv = [sys.executable, "-m", "pytest", "-q", "-n", "2", "--dist", "loadgroup", "-p", "no:cacheprovider"]
    subprocess.run([*argv, "--rootdir", str(tmp_path), "test_grouped.py"], cwd=tmp_path, check=True, timeout=300)
    assert len(list(tmp_path.glob("gw*"))) == 1
