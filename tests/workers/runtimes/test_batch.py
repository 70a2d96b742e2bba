"""Batches of the Python runner: files that it refuses, and real processes."""

import io
import os
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from sweeps.errors import RunnerError
from tests.workers.runtimes import batches, runs
from tests.workers.runtimes.batches import REFUSED, kinds, run_batch
from workers.models.package import ModelPackage
from workers.runtimes.eager import package_file
from workers.runtimes.eager.runtime import Eager
from workers.runtimes.interface import RunReport
from workers.runtimes.torchscript import native_runner
from workers.runtimes.torchscript.runner import batch
from workers.runtimes.torchscript.runner.events import GiveUp
from workers.runtimes.torchscript.runtime import TorchScript

RUNTIME = TorchScript()
EAGER_NET = b"""
import os
import torch

class Net(torch.nn.Module):
    def __init__(self, dies):
        super().__init__()
        self.dies = dies

    def forward(self, x):
        if self.dies:
            os.kill(os.getpid(), 9)
        return x.flatten(1)
"""


def test_what_is_only_for_batches_is_in_no_job_key() -> None:
    assert native_runner.version() == "4cccfaf894e2", "times of earlier builds of the runner are lost"
    assert RUNTIME.runner() == "python-torchscript 2"
    assert Eager().runner() == "python-eager 1"


@pytest.mark.parametrize("content", REFUSED, ids=lambda content: repr(content)[2:40])
def test_a_file_with_a_line_that_cannot_be_run_is_refused(tmp_path: Path, content: bytes) -> None:
    file = tmp_path / "batch.jsonl"
    file.write_bytes(content)
    with pytest.raises(GiveUp) as caught:
        batch.read_items(file)
    assert caught.value.kind == "bad_batch"
    assert REFUSED[content] in caught.value.message


def test_a_file_that_is_not_there_or_too_large_is_refused(tmp_path: Path) -> None:
    large = tmp_path / "large.jsonl"
    with large.open("wb") as file:
        file.truncate(batch.MAX_FILE_BYTES + 1)
    for path, words in ((tmp_path / "none", "cannot be read"), (tmp_path, "cannot be read"), (large, "larger than")):
        with pytest.raises(GiveUp, match=words) as caught:
            batch.read_items(path)
        assert caught.value.kind == "bad_batch"


def test_a_line_has_the_arguments_of_the_request_whatever_is_in_its_name(tmp_path: Path) -> None:
    name = os.fsdecode(b'a "name" \\ with\nlines, \xc2\xb5 and \xff')
    request = runs.request_of(Path(name), 1, 3, 4, 4)
    (tmp_path / "batch.jsonl").write_bytes(RUNTIME.batch_file([request, request]))
    assert [item.model for item in batch.read_items(tmp_path / "batch.jsonl")] == [name, name]


@pytest.mark.parametrize("words", [["--batch"], ["--batch", "f"], ["--batch", "f", "--item-seconds", "0"]])
def test_a_batch_has_a_file_and_a_limit_of_seconds(words: list[str]) -> None:
    assert runs.refusal([*runs.RUNNER, *words]).kind == "bad_arguments"
    assert runs.refusal([*runs.RUNNER, *words, "--iter", "5"]).kind == "bad_arguments"


def test_every_item_has_its_report_and_an_error_costs_no_other(tmp_path: Path) -> None:
    batches.check_reports(tmp_path, None, RUNTIME.runner())


def test_an_item_that_hangs_costs_itself_and_what_was_not_reached(tmp_path: Path) -> None:
    batches.check_hang(tmp_path, None)


@pytest.mark.system
def test_an_item_that_crashes_costs_itself_and_what_was_not_reached(tmp_path: Path) -> None:
    batches.check_crash(tmp_path, None)


def test_memory_is_that_of_the_largest_and_not_of_all(tmp_path: Path) -> None:
    batches.check_memory(tmp_path, None)


def test_eager_models_have_batches_too(tmp_path: Path) -> None:
    state = io.BytesIO()
    torch.save({}, state)
    files = []
    for dies in (0, 1):
        package = ModelPackage(
            name="net",
            source="own_net:Net",
            arguments={"dies": dies},
            files={"own_net.py": EAGER_NET},
            state=state.getvalue(),
            weights_id="random:0",
            model_source="own_net:Net",
            input_shape=(1, 3, 4, 4),
        )
        files.append(tmp_path / f"{dies}.zip")
        package_file.write(package, files[-1])
    fine, dying = (runs.request_of(file, 1, 3, 4, 4) for file in files)
    outcomes = run_batch(tmp_path, [fine, fine, dying, fine], runtime=Eager())
    assert kinds(outcomes) == ["report", "report", "killed", "not reached"]
    assert isinstance(outcomes[0], RunReport)
    assert outcomes[0].runner == f"{Eager().runner()} batch 1"


def test_what_cannot_share_a_process_makes_no_file(tmp_path: Path) -> None:
    flat = runs.request_of(tmp_path / "model.pt", 1, 3, 4, 4)
    for requests, words in (
        ([replace(flat, threads=2)], "threads and CPUs"),
        ([replace(flat, cpus="0")], "threads and CPUs"),
        ([replace(flat, eval_inputs="i", eval_outputs="o")], "only times"),
    ):
        with pytest.raises(ValueError, match=words):
            RUNTIME.batch_file([flat, *requests])
    with pytest.raises(ValueError, match="at least one"):
        RUNTIME.batch_file([])


def test_cpus_that_cannot_be_had_are_told_before_any_item(tmp_path: Path) -> None:
    with pytest.raises(RunnerError) as caught:
        run_batch(tmp_path, [replace(runs.request_of(tmp_path / "model.pt"), cpus="4000")])
    assert caught.value.kind == "bad_cpus"
