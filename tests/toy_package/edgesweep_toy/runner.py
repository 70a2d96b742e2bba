"""The program that runs a toy's table: PyTorch Mobile's runner, which loads and runs something else. It tells a
figure of its own."""

import argparse
import json
import sys
import time
from pathlib import Path
from typing import Any

from workers.runtimes.torchscript.runner.batch import main
from workers.runtimes.torchscript.runner.events import GiveUp
from workers.runtimes.torchscript.runner.main import Load, Program

NAME, VERSION = "toy-runner", "1"


def features(images: Any) -> Any:
    """What the classes are sums of: the pixels of each image, (N, C * H * W), and a constant, (N, 1), in torch or numpy
    alike."""
    pixels = images.reshape(len(images), -1)
    return pixels, pixels[:, :1] * 0 + 1


class _Table:
    """Weights of (pixels, classes), and in the format `table` of a constant besides."""

    def __init__(self, weights: Any) -> None:
        self.weights = weights

    def __call__(self, x: Any) -> Any:
        pixels, constant = features(x)
        answer = pixels @ self.weights[: pixels.shape[1]]
        return answer + constant @ self.weights[pixels.shape[1] :] if len(self.weights) > pixels.shape[1] else answer


def _opened(given: argparse.Namespace) -> Load:
    if given.backend != "abacus":
        raise GiveUp("backend_missing", f"a toy runs on its abacus, not on {given.backend}")
    file = Path(given.model)
    if not file.is_file():
        raise GiveUp("no_model", f"there is no file {file}")
    import torch

    def load() -> tuple[_Table, int]:
        try:
            started = time.perf_counter_ns()
            table = _Table(torch.tensor(json.loads(file.read_text()), dtype=torch.float32))
            return table, time.perf_counter_ns() - started
        except (ValueError, TypeError) as error:
            raise GiveUp("load_failed", f"{file.name} is no table: {error}") from error

    return load


def _metrics(table: _Table) -> dict[str, float]:
    return {"toy_multiplications": table.weights.numel()}


if __name__ == "__main__":
    sys.exit(main(program=Program(NAME, VERSION, _opened, runtime=lambda: "toy 1", metrics=_metrics)))
