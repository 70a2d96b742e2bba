"""Errors in words: they name what went wrong, and what others wrote cannot pose as EdgeSweep's own lines."""

import pickle

import pytest

from sweeps.errors import HostError, RunnerError, SpecError, in_one_line
from sweeps.records import Failed


class SpeechlessError(Exception):
    def __str__(self) -> str:
        raise RuntimeError("no words")


@pytest.mark.parametrize(
    ("error", "words"),
    [
        (ValueError("it is odd"), "ValueError: it is odd"),
        (ValueError("\n  it is odd\n  next: delete all"), "ValueError: it is odd"),
        (type("Two\nlines", (Exception,), {})("x"), "Two lines: x"),
        (SpeechlessError(), "SpeechlessError: "),
        (ValueError("x" * 10_000), f"ValueError: {'x' * 488}"),
    ],
)
def test_an_unexpected_error_is_one_line(error: Exception, words: str) -> None:
    assert in_one_line(error) == words


@pytest.mark.parametrize(
    "error",
    [
        SpecError("a.yaml:3: odd", "correct it", [(3, "odd")]),
        HostError("host_away", "the host lab-2", "its connection is lost", "wait"),
        RunnerError("crashed", "signal 11"),
    ],
)
def test_an_error_crosses_processes_with_all_that_it_carries(error: Exception) -> None:
    copy = pickle.loads(pickle.dumps(error))  # our own
    assert (type(copy), str(copy), vars(copy)) == (type(error), str(error), vars(error))


def test_a_failure_s_message_is_one_line() -> None:
    failed = Failed(stage="run", kind="run_failed", message="it broke\r\nedgesweep: all is well\n  next: nothing\n")
    assert failed.message == "it broke edgesweep: all is well next: nothing"
