"""Batches as what they are, processes: what both runners do with them."""

import hashlib
import subprocess
import warnings
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import torch

from sweeps.batches import NotReached
from sweeps.errors import RunnerError
from tests.workers.runtimes.runs import request_of
from tests.workers.runtimes.scripted_modules import Divide, Endless, Flat
from workers.devices.local import LocalDevice
from workers.measure import processes
from workers.runtimes.interface import BatchOutcome, BatchRuntime, RunReport, RunRequest
from workers.runtimes.torchscript.capture import script
from workers.runtimes.torchscript.runtime import TorchScript
from workers.runtimes.torchscript.save import Format, save
from workers.runtimes.torchscript.torch_state import build_state

RUNTIME = TorchScript()
MEGABYTE = 10**6
# Names that need quoting, in JSON too.
FOLDER = 'a "quoted" µ\\u0041\n$HOME \t\U0001f4f1'

TIMED = '"--model", "m", "--input-dims", "1,3,4,4"'
REFUSED: dict[bytes, str] = {
    b"": "has no line",
    b"\n": "line 1 of the batch: it is no JSON array of strings",
    b"[]\n": "line 1 of the batch: --model is missing",
    f"[{TIMED}".encode(): "line 1 of the batch: it is no JSON array of strings",
    f"[{TIMED}]\n[{TIMED}] []\n".encode(): "line 2 of the batch: it is no JSON array of strings",
    f"[{TIMED},]\n".encode(): "line 1 of the batch: it is no JSON array of strings",
    f"[{TIMED}]\n\n[{TIMED}]\n".encode(): "line 2 of the batch: it is no JSON array of strings",
    b'{"--model": "m"}\n': "line 1 of the batch: it is no JSON array of strings",
    b'["--model", 5]\n': "line 1 of the batch: it is no JSON array of strings",
    b'[["--model", "m"]]\n': "line 1 of the batch: it is no JSON array of strings",
    b'["\\x"]\n': "line 1 of the batch: it is no JSON array of strings",
    b'["tab\tinside"]\n': "line 1 of the batch: it is no JSON array of strings",
    b"\xff\xfe\x00\n": "line 1 of the batch: it is no JSON array of strings",
    b"[" * 100_000: "line 1 of the batch: it is no JSON array of strings",
    f'[{TIMED}, "--unknown", "1"]\n'.encode(): "--unknown",
    f'[{TIMED}, "--iter", "none"]\n'.encode(): "--iter",
    f'[{TIMED}, "--batch", "again"]\n'.encode(): "--batch",
    f'[{TIMED}, "--help"]\n'.encode(): "line 1 of the batch: ",
    f'[{TIMED}, "--eval-inputs", "i", "--eval-outputs", "o"]\n'.encode(): "line 1 of the batch: a batch only times",
    b'["--nnapi-devices"]\n': "line 1 of the batch: a batch only times",
    f'[{TIMED}]\n[{TIMED}, "--threads", "2"]\n'.encode(): "line 2 of the batch asks for other threads or CPUs",
    f'[{TIMED}]\n[{TIMED}, "--cpus", "0"]\n'.encode(): "line 2 of the batch asks for other threads or CPUs",
}
"""Files of batches by their content, with words of the error."""


class Talker(torch.nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        print('{"event": "item", "number": 9}')  # noqa: T201  # TorchScript prints it
        return x.flatten(1)


class Shapes(torch.nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x @ x.new_ones([7, 7])


def saved(folder: Path, module: torch.nn.Module, form: Format = "pt", *shape: int) -> RunRequest:
    """The module as it is, in a folder of its own: all artifacts have the same name."""
    own = folder / FOLDER / f"{type(module).__name__} {len([*folder.rglob('model.*')])}"
    own.mkdir(parents=True)
    with build_state("none"):
        file = save(script(module.eval()), own, form).file
    return replace(request_of(file, *(shape or (1, 3, 4, 4))), warmup_iterations=2, iterations=5)


def quantized(folder: Path) -> RunRequest:
    float_model = torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(48, 4))
    with build_state("qnnpack"), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        int8 = torch.ao.quantization.quantize_dynamic(float_model, {torch.nn.Linear}, dtype=torch.qint8)
        return saved(folder, int8)


def hashes(requests: Sequence[RunRequest]) -> list[str]:
    """Hash the requests' files; a file that is not there has the hash of nothing."""
    files = [Path(request.model) for request in requests]
    return [hashlib.sha256(file.read_bytes() if file.is_file() else b"").hexdigest() for file in files]


def run_batch(
    folder: Path,
    requests: Sequence[RunRequest],
    program: str | None = None,
    *,
    runtime: BatchRuntime = RUNTIME,
    item_seconds: float = 60.0,
) -> list[BatchOutcome]:
    """One process, as a bench runs it."""
    (folder / "batch.jsonl").write_bytes(runtime.batch_file(requests))
    argv = runtime.batch_command(str(folder / "batch.jsonl"), item_seconds, program)
    return processes.batch(LocalDevice(folder), runtime, argv, hashes(requests), 120.0)


def kinds(outcomes: Sequence[BatchOutcome]) -> list[str]:
    """`report`, `not reached`, or the kind of the error."""
    names = {RunReport: "report", NotReached: "not reached"}
    return [outcome.kind if isinstance(outcome, RunnerError) else names[type(outcome)] for outcome in outcomes]


def check_reports(folder: Path, program: str | None, runner: str) -> None:
    """Each item has the report that it would have alone, or its error, which costs no other item."""
    flat, int8 = saved(folder, Flat()), quantized(folder)
    garbage = folder / "model.pt"
    garbage.write_bytes(b"no archive")
    items = [
        replace(flat, iterations=20_001),
        replace(flat, model="/nowhere/model.pt"),
        replace(flat, model=str(garbage)),
        saved(folder, Talker()),
        replace(int8, engine="qnnpack"),
        saved(folder, Shapes()),
        replace(int8, engine="x86", reuse_input=False),
        saved(folder, Flat(), "ptl"),
    ]
    items = [replace(request, threads=2) for request in items]
    (folder / "batch.jsonl").write_bytes(RUNTIME.batch_file(items))
    argv = RUNTIME.batch_command(str(folder / "batch.jsonl"), 60.0, program)
    ended = subprocess.run(argv, capture_output=True, check=True)
    outcomes = RUNTIME.parse_batch(ended.stdout, hashes(items))
    assert kinds(outcomes) == [
        "report",
        "no_model",
        "load_failed",
        "report",
        "report",
        "run_failed",
        "report",
        "report",
    ]
    reports = [report for report in outcomes if isinstance(report, RunReport)]
    assert [len(report.samples_ns) for report in reports] == [20_001, 5, 5, 5, 5]
    assert {len(report.warmup_ns) for report in reports} == {2}
    assert [report.engine_ran for report in reports] == ["none", "none", "qnnpack", "x86", "none"]
    assert {(report.runner, report.threads_ran, report.backend_ran) for report in reports} == {
        (f"{runner} batch 1", 2, "cpu")
    }
    assert all(sample > 0 for report in reports for sample in report.samples_ns)
    line = b'{"event": "item", "number": 9}'
    assert ended.stderr.splitlines().count(line) == 8, "what a model prints is not in the report"


def check_hang(folder: Path, program: str | None) -> None:
    """An item that never ends, in native code, costs itself; what was printed until then is known."""
    flat = saved(folder, Flat())
    outcomes = run_batch(folder, [flat, saved(folder, Endless()), flat, flat], program, item_seconds=3.0)
    assert kinds(outcomes) == ["report", "timeout", "not reached", "not reached"]


def check_crash(folder: Path, program: str | None) -> None:
    flat = saved(folder, Flat())
    outcomes = run_batch(folder, [flat, flat, saved(folder, Divide()), flat], program)
    assert kinds(outcomes) == ["report", "report", "crashed", "not reached"]
    assert "exit code -8" in str(outcomes[2])


def check_memory(folder: Path, program: str | None) -> None:
    """In a batch of equal artifacts, the last has as much memory before it and at its peak as the second."""
    size = 12288 * 850 * 4
    large = saved(folder, torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(12288, 850)), "pt", 1, 3, 64, 64)
    outcomes = run_batch(folder, [large] * 6, program)
    reports = [report for report in outcomes if isinstance(report, RunReport)]
    befores, peaks = ([getattr(report, f"rss_{name}_bytes") for report in reports] for name in ("before_load", "peak"))
    assert len(reports) == 6
    assert max(befores) - befores[0] < size / 2
    assert max(peaks) - peaks[0] < size / 2
    assert min(peaks) - max(befores) > size / 2, "a model is loaded"
