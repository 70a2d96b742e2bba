"""Which programs measure or load a device as a benchmark does, told by their command lines. Pure."""

import re
from collections.abc import Sequence
from itertools import pairwise
from pathlib import PurePosixPath

_OUR_MODULE = re.compile(r"workers\.runtimes\.\w+\.runner")
_HASH = r"(-[0-9a-f]{16})?"
"""In the name of a program that was brought to a device."""
_OUR_PROGRAM = re.compile(rf"(edgesweep_)?runner(_full|_lite)?{_HASH}")
_PEERS = re.compile(
    r"(speed_benchmark_torch(_lite)?|benchmark_model\w*|\w*executor_runner|onnxruntime_perf_test|benchncnn|MNNV2Basic\.out"
    rf"|llama-bench){_HASH}"
)
"""The benchmarks of PyTorch Mobile, LiteRT, ExecuTorch, ONNX Runtime, ncnn, MNN and llama.cpp."""


def is_runner(argv: Sequence[str]) -> bool:
    """Whether this command line starts a runner of EdgeSweep."""
    # Others call a program `runner` too.
    if argv and _OUR_PROGRAM.fullmatch(PurePosixPath(argv[0]).name) and "--model" in argv:
        return True
    return any(flag == "-m" and _OUR_MODULE.fullmatch(module) for flag, module in pairwise(argv))


def benchmark_name(argv: Sequence[str]) -> str | None:
    """What the program with this command line is called if it is a benchmark; else `None`."""
    if is_runner(argv):
        return "a runner of EdgeSweep"
    program = PurePosixPath(argv[0]).name if argv else ""
    return program if _PEERS.fullmatch(program) else None
