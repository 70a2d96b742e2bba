"""Batches of the C++ runner as what they are, processes: it answers and refuses as the Python runner does."""

import hashlib
import json
import random
import subprocess
from dataclasses import replace
from pathlib import Path

import pytest

from sweeps.errors import RunnerError
from tests.workers.runtimes import batches, runs
from tests.workers.runtimes.batches import REFUSED, RUNTIME, kinds, run_batch, saved
from tests.workers.runtimes.scripted_modules import Flat
from workers.runtimes.interface import RunReport
from workers.runtimes.torchscript import native_runner
from workers.runtimes.torchscript.runner import batch

pytestmark = [pytest.mark.system, pytest.mark.long, pytest.mark.compiler]


@pytest.fixture(scope="module")
def program() -> str:
    return str(native_runner.program())


@pytest.mark.smoke
def test_every_item_has_its_report_and_an_error_costs_no_other(tmp_path: Path, program: str) -> None:
    batches.check_reports(tmp_path, program, native_runner.runner())


def test_an_item_that_hangs_costs_itself_and_what_was_not_reached(tmp_path: Path, program: str) -> None:
    batches.check_hang(tmp_path, program)


def test_an_item_that_crashes_costs_itself_and_what_was_not_reached(tmp_path: Path, program: str) -> None:
    batches.check_crash(tmp_path, program)


def test_memory_is_that_of_the_largest_and_not_of_all(tmp_path: Path, program: str) -> None:
    batches.check_memory(tmp_path, program)


@pytest.mark.parametrize("content", REFUSED, ids=lambda content: repr(content)[2:40])
def test_a_file_with_a_line_that_cannot_be_run_is_refused(tmp_path: Path, program: str, content: bytes) -> None:
    file = tmp_path / "batch.jsonl"
    file.write_bytes(content)
    error = runs.refusal(RUNTIME.batch_command(str(file), 60.0, program))
    assert error.kind == "bad_batch"
    assert REFUSED[content] in error.message


def test_a_file_that_is_not_there_or_too_large_is_refused(tmp_path: Path, program: str) -> None:
    large = tmp_path / "large.jsonl"
    with large.open("wb") as file:
        file.truncate(batch.MAX_FILE_BYTES + 1)
    for path, words in ((tmp_path / "none", "cannot be read"), (tmp_path, "cannot be read"), (large, "larger than")):
        error = runs.refusal(RUNTIME.batch_command(str(path), 60.0, program))
        assert (error.kind, words in error.message) == ("bad_batch", True), error.message


@pytest.mark.parametrize(
    "words",
    [
        ["--batch"],
        ["--batch", "f"],
        ["--batch", "f", "--item-seconds", "0"],
        ["--batch", "f", "--item-seconds", "nan"],
        ["--batch", "f", "--item-seconds", "5", "--iter", "5"],
        ["--batch", "f", "--batch", "f", "--item-seconds", "5"],
    ],
)
def test_a_batch_has_a_file_and_a_limit_of_seconds(program: str, words: list[str]) -> None:
    assert runs.refusal([program, *words]).kind == "bad_arguments"


def test_cpus_that_cannot_be_had_are_told_before_any_item(tmp_path: Path, program: str) -> None:
    with pytest.raises(RunnerError) as caught:
        run_batch(tmp_path, [replace(runs.request_of(tmp_path / "model.pt"), cpus="4000")], program)
    assert caught.value.kind == "bad_cpus"


def test_escaped_names_are_read_as_json_says(tmp_path: Path, program: str) -> None:
    name = 'q"b\\s/t\tn\nu\u00b5\u20ac\U0001f4f1\x7f'
    request = runs.request_of(tmp_path / name, 1, 3, 4, 4)
    for plain in (True, False):
        line = json.dumps(["--model", request.model, "--input-dims", "1,3,4,4"], ensure_ascii=plain)
        (tmp_path / "batch.jsonl").write_text(line, encoding="utf-8")
        ended = subprocess.run(
            RUNTIME.batch_command(str(tmp_path / "batch.jsonl"), 60.0, program), capture_output=True, check=True
        )
        (outcome,) = RUNTIME.parse_batch(ended.stdout, ["0" * 64])
        assert isinstance(outcome, RunnerError)
        assert outcome.message == f"there is no file {request.model}"


@pytest.mark.parametrize("escape", ["\\u0000", "\\ud83d", "\\udcf1", "\\ud83dx", "\\ud83d\\u0041", "\\u00g0", "\\u12"])
def test_escapes_that_are_no_characters_are_refused(tmp_path: Path, program: str, escape: str) -> None:
    (tmp_path / "batch.jsonl").write_text(f'["--model", "{escape}", "--input-dims", "1"]\n')
    error = runs.refusal(RUNTIME.batch_command(str(tmp_path / "batch.jsonl"), 60.0, program))
    assert error.message == "line 1 of the batch: it is no JSON array of strings"


def test_the_hash_of_an_artifact_is_that_of_its_bytes_whatever_their_number(tmp_path: Path, program: str) -> None:
    """No archive among them: what cannot be loaded was hashed before."""
    sizes = [0, 1, 55, 56, 57, 63, 64, 65, 119, 120, 128, 1 << 20, (1 << 20) + 63]
    chance = random.Random(0)
    files = [tmp_path / f"{size}.bin" for size in sizes]
    for file, size in zip(files, sizes, strict=True):
        file.write_bytes(chance.randbytes(size))
    requests = [runs.request_of(file, 1, 3, 4, 4) for file in files]
    (tmp_path / "batch.jsonl").write_bytes(RUNTIME.batch_file(requests))
    argv = RUNTIME.batch_command(str(tmp_path / "batch.jsonl"), 60.0, program)
    events = [json.loads(line) for line in subprocess.run(argv, capture_output=True, check=True).stdout.splitlines()]
    hashes = [event["sha256"] for event in events if event["event"] == "artifact"]
    assert hashes == [hashlib.sha256(file.read_bytes()).hexdigest() for file in files]


def test_alone_it_does_what_it_did(tmp_path: Path, program: str) -> None:
    flat = saved(tmp_path, Flat())
    ended = subprocess.run(RUNTIME.command(flat, program), capture_output=True, check=True)
    alone = RUNTIME.parse(ended.stdout)
    (inside,) = run_batch(tmp_path, [flat], program)
    assert kinds([inside]) == ["report"]
    assert isinstance(inside, RunReport)
    assert (alone.runner, inside.runner) == (native_runner.runner(), f"{native_runner.runner()} batch 1")
