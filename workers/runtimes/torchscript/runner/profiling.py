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


def input_of(options: argparse.Namespace) -> Any:
    """Return a random input of `--input-dims`, which is the same in every process."""
    import torch

    x = torch.rand(options.input_dims, generator=torch.Generator().manual_seed(0))
    return as_given(x, options.memory_format, options.input_scale, options.input_zero_point)


def run_often(run: Callable[[], object], iterations: int) -> list[int]:
    """Run `run` so many times; returns the nanoseconds of each run."""
    times_ns = []
    for _ in range(iterations):
        started = time.perf_counter_ns()
        run()
        times_ns.append(time.perf_counter_ns() - started)
    return times_ns


def profile(model: Any, options: argparse.Namespace, report: IO[str]) -> None:
    """Profile a torch module, and report its iterations and operators."""
    import torch

    x = input_of(options)
    run_often(lambda: model(x), max(options.warmup, 1))
    with torch.autograd.profiler.profile(use_kineto=False) as recorder:
        times_ns = run_often(lambda: model(x), options.iter)
    tell(report, "profile", iteration_ns=times_ns)
    for event in recorder.function_events:
        began, ended = event.time_range.start, event.time_range.end
        tell(report, "operator", name=event.name, where="", start_ns=int(began * 1e3), ns=int((ended - began) * 1e3))
