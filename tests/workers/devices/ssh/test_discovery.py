"""Boards are those that the environment names."""

import pytest

from workers.devices import registry
from workers.devices.ssh.discovery import NEXT_STEP, VARIABLE, attached


def test_boards_are_named_in_the_environment_each_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(VARIABLE, " pi@one  ssh:pi@two:2222 pi@one\n")
    assert attached() == (["ssh:pi@one", "ssh:pi@two:2222"], [])


@pytest.mark.parametrize("word", ["pi@", "adb:X", "*", "ssh:*", "pi@board;id", "\x1b[31m"])
def test_a_word_that_is_no_board_is_told_and_the_others_are_used(word: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(VARIABLE, f"pi@one {word}")
    names, (refused,) = attached()
    assert names == ["ssh:pi@one"]
    assert (refused.kind, refused.next_step) == ("unknown_device", NEXT_STEP)
    assert "\x1b" not in refused.message


def test_without_them_there_are_none_and_nothing_is_wrong(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(VARIABLE, raising=False)
    assert attached() == ([], [])


def test_they_are_among_the_units_of_all_transports(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(VARIABLE, "pi@one")
    monkeypatch.setattr("workers.devices.adb.discovery.attached", lambda: ([], []))
    assert registry.units() == (["ssh:pi@one"], [])
