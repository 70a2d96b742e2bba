"""Transcripts of batches, whole and broken."""

from typing import Any

import pytest

from sweeps.batches import NotReached
from sweeps.errors import RunnerError
from tests.workers.runtimes.batches import kinds
from tests.workers.runtimes.test_report import END, EVAL, FIRST, LOAD, RAN, SAMPLE, START, WHOLE, transcript, without
from workers.runtimes.interface import BatchOutcome, RunReport
from workers.runtimes.torchscript import batch_report, runner_report

BATCH: dict[str, Any] = {"event": "batch", "revision": 1, "items": 3}
ASKED = ["a" * 64, "b" * 64, "c" * 64]
BATCH_END: dict[str, Any] = {"event": "batch_end"}
ERROR: dict[str, Any] = {"event": "error", "kind": "load_failed", "message": "no archive"}


def item(number: int, *events: dict[str, Any]) -> bytes:
    artifact = {"event": "artifact", "sha256": ASKED[number]}
    return transcript({"event": "item", "number": number}, artifact, *(events or WHOLE))


def parse(*parts: bytes) -> list[BatchOutcome]:
    return batch_report.parse(b"".join(parts), ASKED)


def refusal(stdout: bytes) -> RunnerError:
    with pytest.raises(RunnerError) as caught:
        batch_report.parse(stdout, ASKED)
    return caught.value


def test_each_item_is_read_as_a_report_of_its_own() -> None:
    samples = SAMPLE | {"ns": [5, 6]}
    outcomes = parse(
        transcript(BATCH), item(0), item(1, START, LOAD, FIRST, samples, RAN, END), item(2), transcript(BATCH_END)
    )
    assert kinds(outcomes) == ["report"] * 3
    alone = runner_report.parse(transcript(*WHOLE))
    report, other, _ = outcomes
    assert isinstance(report, RunReport)
    assert isinstance(other, RunReport)
    assert (report.samples_ns, other.samples_ns) == (alone.samples_ns, (5, 6))
    assert (report.runner, alone.runner) == ("python-torchscript 1 batch 1", "python-torchscript 1")


def test_an_item_with_an_error_does_not_end_the_batch() -> None:
    without_artifact = transcript({"event": "item", "number": 1}, ERROR)
    for failing in (item(1, START, ERROR), without_artifact):
        assert kinds(parse(transcript(BATCH), item(0), failing, item(2))) == ["report", "load_failed", "report"]


def test_every_cut_keeps_what_had_ended_and_names_where_it_ended() -> None:
    head, parts = transcript(BATCH), [item(0), item(1), item(2)]
    whole = head + b"".join(parts)
    first_lines = transcript({"event": "item", "number": 0})
    for length in range(len(whole)):
        cut = whole[:length]
        # The newline of the first line of an item says that it was begun.
        begun = length >= len(head) + len(first_lines)
        if not begun:
            assert refusal(cut).kind in ("no_report", "truncated", "garbled")
            continue
        outcomes = kinds(batch_report.parse(cut, ASKED))
        ended = sum(length >= len(head) + sum(map(len, parts[: number + 1])) for number in range(3))
        assert outcomes[:ended] == ["report"] * ended
        rest = outcomes[ended:]
        if rest:
            assert rest[0] in ("truncated", "no_report", "garbled", "not reached"), length
            assert rest[1:] == ["not reached"] * len(rest[1:])


def test_what_ended_between_two_items_costs_nobody() -> None:
    assert kinds(parse(transcript(BATCH), item(0))) == ["report", "not reached", "not reached"]
    assert parse(transcript(BATCH), item(0))[1] == NotReached()


def test_an_item_that_was_begun_and_said_nothing_is_where_it_ended() -> None:
    began = transcript({"event": "item", "number": 1})
    assert kinds(parse(transcript(BATCH), item(0), began)) == ["report", "no_report", "not reached"]


def test_another_artifact_than_asked_for_is_an_error_of_its_item() -> None:
    other = transcript({"event": "item", "number": 1}, {"event": "artifact", "sha256": "d" * 64}, *WHOLE)
    outcomes = parse(transcript(BATCH), item(0), other, item(2))
    assert kinds(outcomes) == ["report", "wrong_artifact", "report"]
    assert "dddddddddddd" in str(outcomes[1])
    failing = transcript({"event": "item", "number": 1}, {"event": "artifact", "sha256": "d" * 64}, ERROR)
    assert kinds(parse(transcript(BATCH), item(0), failing))[1] == "wrong_artifact"


@pytest.mark.parametrize(
    "events",
    [
        (START, LOAD, FIRST, EVAL, RAN, END),
        (START, LOAD, FIRST, SAMPLE | {"ns": [5, -6]}, RAN, END),
        (START, LOAD, FIRST, SAMPLE | {"ns": [5, float("nan")]}, RAN, END),
        (START, LOAD, FIRST, SAMPLE, RAN, END, END),
        (*WHOLE, {"event": "artifact", "sha256": ASKED[1]}),
        ({"event": "artifact", "sha256": ASKED[1]}, *WHOLE),
        ({"event": "something"}, *WHOLE),
        (START, LOAD, FIRST, SAMPLE, without(RAN, "threads"), END),
    ],
)
def test_lines_that_make_no_sense_cost_their_item(events: tuple[dict[str, Any], ...]) -> None:
    outcomes = parse(transcript(BATCH), item(0), item(1, *events), item(2))
    assert kinds(outcomes) == ["report", "garbled", "report"]


@pytest.mark.parametrize("sha256", [None, 5, "a" * 63, "A" * 64, "../etc/passwd"])
def test_a_hash_that_is_none_costs_its_item(sha256: object) -> None:
    odd = transcript({"event": "item", "number": 1}, {"event": "artifact", "sha256": sha256}, *WHOLE)
    assert kinds(parse(transcript(BATCH), item(0), odd, item(2))) == ["report", "garbled", "report"]
    missing = transcript({"event": "item", "number": 1}, *WHOLE)
    assert kinds(parse(transcript(BATCH), item(0), missing, item(2))) == ["report", "garbled", "report"]


@pytest.mark.parametrize("number", [0, 2, -1, 1.0, True, "1", None])
def test_an_item_with_another_number_ends_what_can_be_believed(number: object) -> None:
    odd = transcript({"event": "item", "number": number}, {"event": "artifact", "sha256": ASKED[1]}, *WHOLE)
    assert kinds(parse(transcript(BATCH), item(0), odd, item(2))) == ["report", "not reached", "not reached"]


def test_items_beyond_those_asked_for_are_not_read() -> None:
    more = transcript({"event": "item", "number": 3}, *WHOLE)
    assert kinds(parse(transcript(BATCH), item(0), item(1), item(2), more)) == ["report"] * 3


@pytest.mark.parametrize("batch", [{"items": 2}, {"items": 4}, {"items": None}, {"revision": 0}, {"revision": True}])
def test_another_batch_than_asked_for_is_refused(batch: dict[str, object]) -> None:
    assert refusal(transcript(BATCH | batch) + item(0)).kind == "garbled"


def test_a_runner_that_began_no_batch_says_why() -> None:
    refused = {"event": "error", "kind": "bad_batch", "message": "line 2 of the batch: --model is missing"}
    assert refusal(transcript(refused)).kind == "bad_batch"
    assert refusal(b"").kind == "no_report"
    assert refusal(transcript(BATCH)).kind == "truncated"
    assert refusal(transcript(BATCH) + transcript(*WHOLE)).kind == "truncated"
    assert refusal(transcript(*WHOLE)).kind == "garbled"
    assert refusal(transcript(BATCH).replace(b"\n", b"")).kind == "truncated"
    assert refusal(b"\xff" * 100).kind == "garbled"


@pytest.mark.parametrize(
    "message", ["unrecognized argument: --batch", "unrecognized arguments: --batch f.jsonl --item-seconds 60.0"]
)
def test_a_runner_from_before_there_were_batches_is_told_from_a_broken_one(message: str) -> None:
    error = refusal(transcript({"event": "error", "kind": "bad_arguments", "message": message}))
    assert error.kind == "no_batches"
    other = refusal(transcript({"event": "error", "kind": "bad_arguments", "message": "argument --threads: no"}))
    assert other.kind == "bad_arguments"
