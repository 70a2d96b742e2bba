"""Recognizes benchmarks and other programs that load a device, by their command lines. Pure."""

import re
from collections.abc import Sequence
from itertools import pairwise
from pathlib import PurePosixPath

_OUR_MODULE = re.compile(r"workers\.runtimes\.\w+\.runner")
_HASH = r"(-[0-9a-f]{16})?"
"""Suffix in the name of a program that was pushed to a device."""
_OUR_PROGRAM = re.compile(rf"(edgesweep_)?runner(_full|_lite)?{_HASH}")
_OTHER_BENCHMARKS = re.compile(
    r"(speed_benchmark_torch(_lite)?|benchmark_model\w*|\w*executor_runner|onnxruntime_perf_test|benchncnn|MNNV2Basic\.out"
    rf"|llama-bench){_HASH}"
)
"""The benchmarks of PyTorch Mobile, LiteRT, ExecuTorch, ONNX Runtime, ncnn, MNN and llama.cpp."""


def is_runner(argv: Sequence[str]) -> bool:
    """Whether this command line starts a runner of EdgeSweep."""
    # Other projects also have programs called `runner`.
    if argv and _OUR_PROGRAM.fullmatch(PurePosixPath(argv[0]).name) and {"--model", "--batch"} & {*argv}:
        return True
    return any(flag == "-m" and _OUR_MODULE.fullmatch(module) for flag, module in pairwise(argv))


def benchmark_name(argv: Sequence[str]) -> str | None:
    """The name of the benchmark with this command line; `None` if it is no benchmark."""
    if is_runner(argv):
        return "a runner of EdgeSweep"
    program = PurePosixPath(argv[0]).name if argv else ""
    return program if _OTHER_BENCHMARKS.fullmatch(program) else None
