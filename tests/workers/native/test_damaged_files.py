"""Damaged model files: the runner answers or refuses by name; it never hangs, crashes or answers amiss.

None of these files crashed torch's own readers. One that does ends its own process only, which
`workers.measure.processes` turns into a typed failure, `crashed` or `killed`; here it fails the test, to be looked at.
"""

import os
import random
import shutil
import subprocess
import sys
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from sweeps.errors import RunnerError
from tests.workers.native.damage import damaged
from tests.workers.runtimes.runs import evaluating, request_of
from workers.devices.local import LocalDevice
from workers.measure import processes as runs
from workers.runtimes.interface import RunRequest
from workers.runtimes.torchscript import native_runner, references
from workers.runtimes.torchscript.runtime import TorchScript

pytestmark = [pytest.mark.system, pytest.mark.compiler]

ROOT = Path(__file__).parents[3]
IMAGES, CLASSES = 2, 3
DEADLINE_S = 60.0
"""The time of one process; `DeviceError("timeout")` after it fails the test."""
REFUSED = {"load_failed", "run_failed", "runtime_skew", "wrong_format", "wrong_backend", "output_shape"}


def evaluation_of(file: Path, images: Path) -> RunRequest:
    return request_of(
        file, 1, 3, 8, 8, **evaluating(images, torch.linspace(-1, 1, IMAGES * 3 * 64).reshape(IMAGES, 3, 8, 8))
    )


def outcomes(request: RunRequest, program: str | None, folder: Path, seed: int, count: int) -> Counter[str]:
    """Count the kinds with which the damaged file of `request` ended; `answered` where it was a whole report."""
    device, model = LocalDevice(folder), Path(request.model)
    answers = Path(request.eval_outputs or "")
    content = model.read_bytes()
    ended: Counter[str] = Counter()

    def run(request: RunRequest) -> str:
        answers.unlink(missing_ok=True)
        try:
            _, report = runs.report(device, TorchScript(), program, request, DEADLINE_S)
        except RunnerError as error:
            return error.kind
        # Weights may have changed; what counts them, and what is kept of them, may not.
        assert (report.eval_images, report.eval_classes) == (IMAGES, CLASSES)
        assert np.fromfile(answers, "<f4").size == IMAGES * CLASSES
        return "answered"

    assert run(request) == "answered", "undamaged, it runs"
    for number, broken in enumerate(damaged(content, random.Random(seed), count)):
        file = model.with_name(f"damaged-{number}{model.suffix}")
        file.write_bytes(broken)
        ended[run(replace(request, model=str(file)))] += 1
    return ended


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The files that are damaged, by a process of its own: the order of constants in a file follows Python's hash seed,
    and names in it what was captured before. With other bytes, the same seed is other damage."""
    folder = tmp_path_factory.mktemp("written")
    program = [sys.executable, "-m", "tests.workers.native.network", str(folder), str(CLASSES)]
    subprocess.run(program, check=True, cwd=ROOT, env={**os.environ, "PYTHONHASHSEED": "0"})
    return folder


@pytest.fixture
def copied(written: Path, tmp_path: Path) -> Callable[[str], RunRequest]:
    """A request for one of the files, copied to where it can be damaged."""
    return lambda name: evaluation_of(Path(shutil.copy(written / name, tmp_path)), tmp_path)


@pytest.mark.parametrize("form", ["pt", "ptl"])
def test_the_cpp_runner_answers_or_refuses_by_name(
    copied: Callable[[str], RunRequest], tmp_path: Path, form: str
) -> None:
    ended = outcomes(copied(f"model.{form}"), str(native_runner.program()), tmp_path / "device", 1, 45)
    assert set(ended) <= {"answered"} | REFUSED, ended
    assert ended["load_failed"] >= 15, "every file that was cut is told as such"


def test_the_metal_host_run_answers_or_refuses_by_name(copied: Callable[[str], RunRequest], tmp_path: Path) -> None:
    request = replace(copied("metal/model.ptl"), backend="metal", reference=references.library("metal"))
    ended = outcomes(request, None, tmp_path / "device", 2, 6)
    assert set(ended) <= {"answered"} | REFUSED, ended
    assert ended["load_failed"] >= 2, "every file that was cut is told as such"
