"""Tests that hold something against the clock have the machine to themselves, and do not wait for ever to get it."""

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
