"""Runs of the runner as what it is, a process, and what it answers or refuses."""

import subprocess
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from sweeps.errors import RunnerError
from sweeps.manifest import Manifest
from workers.models.package import Logits
from workers.runtimes.interface import RunReport, RunRequest
from workers.runtimes.torchscript.runner.main import ERROR_EXIT
from workers.runtimes.torchscript.runner_report import parse
from workers.runtimes.torchscript.runtime import TorchScript

RUNNER = (sys.executable, "-m", "workers.runtimes.torchscript.runner")


def asking_for(manifest: Manifest, folder: Path) -> RunRequest:
    """The artifact that was built into `folder`, as its manifest says it wants to be run."""
    return RunRequest(
        model=str(folder / manifest.file),
        backend=manifest.backend,
        engine=manifest.verification.engine,
        threads=1,
        cpus="all",
        input_shape=manifest.input.shape,
        input_dtype="float" if manifest.input.dtype == "float32" else manifest.input.dtype,
        input_scale=manifest.input.scale,
        input_zero_point=manifest.input.zero_point,
        memory_format=manifest.memory_format,
    )


def request_of(file: Path | str, *shape: int, **changes: Any) -> RunRequest:
    """Any file as an fp32 artifact for the CPU, without timing; its input is (2, 3, 4, 4) unless said otherwise."""
    request = RunRequest(
        model=str(file),
        backend="cpu",
        engine="none",
        threads=1,
        cpus="all",
        input_shape=shape or (2, 3, 4, 4),
        memory_format="contiguous_format",
    )
    return replace(request, **changes)


def run(request: RunRequest) -> RunReport:
    ended = subprocess.run(TorchScript().command(request), capture_output=True, check=False)
    report = parse(ended.stdout)
    assert ended.returncode == 0
    assert ended.stderr == b""
    return report


def refusal(argv: Sequence[str]) -> RunnerError:
    """Return the error that the runner gave up with, without a word on stderr: no traceback, no crash."""
    ended = subprocess.run(argv, capture_output=True, check=False)
    assert (ended.returncode, ended.stderr) == (ERROR_EXIT, b"")
    with pytest.raises(RunnerError) as caught:
        parse(ended.stdout)
    return caught.value


def refused(request: RunRequest) -> RunnerError:
    return refusal(TorchScript().command(request))


def evaluating(folder: Path, images: torch.Tensor) -> dict[str, str]:
    """The fields of a request that evaluates `images`."""
    (folder / "in.bin").write_bytes(np.ascontiguousarray(images.numpy(), "<f4").tobytes())
    return {"eval_inputs": str(folder / "in.bin"), "eval_outputs": str(folder / "out.bin")}


def answers(folder: Path, report: RunReport) -> Logits:
    shape = (report.eval_images or 0, report.eval_classes or 0)
    return np.fromfile(folder / "out.bin", "<f4").reshape(shape)
