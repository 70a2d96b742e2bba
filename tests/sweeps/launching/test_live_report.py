"""The file that tells what a driver does now."""

import json
from pathlib import Path

import pytest

from sweeps.errors import WorkspaceError
from sweeps.launching.live_report import LiveFile, read_live


def test_the_last_of_many_changes_is_in_the_file_and_nothing_runs_any_more(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sweeps.launching.live_report.WRITE_EVERY_S", 3600.0)
    path = tmp_path / "live.json"
    with LiveFile(path, "small") as live:
        begun = read_live(path)
        for done in range(50):
            live.measuring("adb:1", done, 50, f"job {done}")
            live.note(f"note {done} \x1b[2J")
        assert read_live(path) == begun, "it writes at most once a second"
        live.measuring("adb:2", 3, 9, "a job")
        live.away("adb:2", "unplugged", 6)
    report = read_live(path)
    assert report is not None
    assert begun is not None
    assert (begun.ended, report.ended, report.sweep, report.pid) == ("", "finished", "small", begun.pid)
    assert (report.device("adb:1").done, report.device("adb:1").running) == (49, "")
    assert (report.device("adb:2").away, report.device("adb:2").pending) == ("unplugged", 6)
    assert [note.text for note in report.notes][-1] == "note 49 �[2J"
    assert len(report.notes) == 20
    assert [entry.name for entry in tmp_path.iterdir()] == ["live.json"]


@pytest.mark.parametrize(
    ("error", "ended", "problem"),
    [
        (WorkspaceError("the disk is full", "free some space"), "failed", "the disk is full"),
        (KeyboardInterrupt(), "stopped", ""),
        (ValueError("odd"), "failed", "ValueError: odd"),
    ],
)
def test_it_tells_how_the_run_ended(tmp_path: Path, error: BaseException, ended: str, problem: str) -> None:
    with pytest.raises(type(error)), LiveFile(tmp_path / "live.json", "small"):
        raise error
    report = read_live(tmp_path / "live.json")
    assert report is not None
    assert (report.ended, report.problem) == (ended, problem)


def test_time_left_is_told_at_the_pace_so_far_and_a_wait_only_while_it_is_told_again(tmp_path: Path) -> None:
    now = [1000.0]
    with LiveFile(tmp_path / "live.json", "small", lambda: now[0]) as live:
        live.measuring("adb:1", 0, 8, "first")
        assert live.live.device("adb:1").seconds_left(1005.0) is None
        live.measuring("adb:1", 2, 8, "third")
        assert live.live.device("adb:1").seconds_left(1010.0) == 30.0
        now[0] = 2000.0
        live.measuring("adb:1", 0, 4, "once more, from the start")
        live.measuring("adb:1", 1, 4, "its second")
        assert live.live.device("adb:1").seconds_left(2005.0) == 15.0
        now[0] = 1000.0
        live.waiting("adb:1", ("the battery has 40 °C",), 20.0)
        waits = live.live.device("adb:1")
    assert waits.lacks(1009.0) == ("the battery has 40 °C",)
    assert waits.lacks(1060.0) == ()


@pytest.mark.parametrize("text", ["", "{", "[]", json.dumps({"sweep": 1}), "\udcff"])
def test_a_file_of_something_else_counts_as_none(tmp_path: Path, text: str) -> None:
    (tmp_path / "live.json").write_bytes(text.encode("utf-8", "surrogateescape"))
    assert read_live(tmp_path / "live.json") is None


def test_a_file_that_cannot_be_written_stops_nothing(tmp_path: Path) -> None:
    with LiveFile(tmp_path / "missing" / "live.json", "small") as live:
        live.note("on it goes")
    assert live.live.ended == "finished"
