"""Times each operator, for `--profile`, in the form that `workers.runtimes.operator_profile` reads. None of the figures
is a latency.

The warm-up is `--warmup` iterations, and at least one; `--iter` iterations are reported.
"""

import argparse
import time
from collections.abc import Callable
from typing import IO, Any

from workers.runtimes.torchscript.runner.events import tell
from workers.runtimes.torchscript.runner.inputs import as_given


def input_of(given: argparse.Namespace) -> Any:
    """Return a random input of `--input-dims`, which is the same in every process."""
    import torch

    x = torch.rand(given.input_dims, generator=torch.Generator().manual_seed(0))
    return as_given(x, given.memory_format, given.input_scale, given.input_zero_point)


def run_often(run: Callable[[], object], iterations: int) -> list[int]:
    """Run `run` so many times; returns the nanoseconds of each run."""
    taken = []
    for _ in range(iterations):
        started = time.perf_counter_ns()
        run()
        taken.append(time.perf_counter_ns() - started)
    return taken


def profile(model: Any, given: argparse.Namespace, report: IO[str]) -> None:
    """Profile a torch module, and report its iterations and operators."""
    import torch

    x = input_of(given)
    run_often(lambda: model(x), max(given.warmup, 1))
    with torch.autograd.profiler.profile(use_kineto=False) as found:
        taken = run_often(lambda: model(x), given.iter)
    tell(report, "profile", iteration_ns=taken)
    for event in found.function_events:
        began, ended = event.time_range.start, event.time_range.end
        tell(report, "operator", name=event.name, where="", start_ns=int(began * 1e3), ns=int((ended - began) * 1e3))
