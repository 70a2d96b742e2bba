"""Times an artifact: the first inference, the warm-up and every iteration.

`--reuse-input` is part 5 of the performance recipe: an app allocates its input once and fills it for each frame (1), or
allocates an input for each frame (0). Filling is the app's work in both cases, so it is not timed. With 1 the time is
that of `forward` only, as in `speed_benchmark_torch`; with 0 also that of the allocation, zeroed like Android's
`ByteBuffer.allocateDirect`. The difference is the gain of reuse.
"""

import argparse
import gc
import time
from typing import IO, Any

from workers.runtimes.torchscript.runner.events import tell
from workers.runtimes.torchscript.runner.inputs import as_given, bundled_input
from workers.runtimes.torchscript.runner.process import be_patient

_SAMPLES_PER_LINE = 10_000


def measure(model: Any, options: argparse.Namespace, report: IO[str]) -> None:
    """Time the model, and report the times. Raises `GiveUp("no_bundled_input")`."""
    import torch

    if options.use_bundled_input is not None:
        data = bundled_input(model, options.use_bundled_input)
    else:
        x = torch.rand(options.input_dims, generator=torch.Generator().manual_seed(0))
        data = (as_given(x, options.memory_format, options.input_scale, options.input_zero_point),)
    reused = tuple(torch.empty_like(source) for source in data)
    clock = time.perf_counter_ns

    def once() -> int:
        started = clock()
        arguments = reused if options.reuse_input else tuple(torch.empty_like(source).fill_(0) for source in data)
        allocated = clock() - started
        for argument, source in zip(arguments, data):  # noqa: B905  # of one length
            argument.copy_(source)
        started = clock()
        model(*arguments)
        return clock() - started + (0 if options.reuse_input else allocated)

    def block(iterations: int, min_seconds: float, max_seconds: float) -> list[int]:
        times_ns: list[int] = []
        begin = clock()
        least, most = begin + int(min_seconds * 1e9), begin + int(max_seconds * 1e9)
        while True:
            now = clock()
            if (len(times_ns) >= iterations and now >= least) or (times_ns and now >= most):
                return times_ns
            times_ns.append(once())

    gc.collect()
    gc.disable()
    be_patient(options)
    first = once()
    # A warm-up in seconds gets its full time; one in iterations must not take longer than the measurement may.
    longest = max(options.max_seconds, options.warmup_seconds)
    be_patient(options, longest + options.max_seconds)
    warmup = block(options.warmup, options.warmup_seconds, longest) if options.warmup or options.warmup_seconds else []
    samples = block(options.iter, options.min_seconds, options.max_seconds)
    gc.enable()
    tell(report, "first_inference", ns=first)
    for name, times_ns in (("warmup", warmup), ("sample", samples)):
        for start in range(0, len(times_ns), _SAMPLES_PER_LINE):
            tell(report, name, ns=times_ns[start : start + _SAMPLES_PER_LINE])
