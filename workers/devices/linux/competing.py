"""Recognizes benchmarks and other programs that load a device, by their command lines. Pure."""

import re
from collections.abc import Sequence
from itertools import dropwhile, pairwise
from pathlib import PurePosixPath

_OUR_MODULE = re.compile(r"workers\.runtimes\.\w+\.runner")
_HASH = r"(-[0-9a-f]{16})?"
"""The suffix in the name of a program that was pushed to a device."""
_OUR_PROGRAM = re.compile(rf"(edgesweep_)?runner(_full|_lite|_python|_executorch|_onnxruntime)?{_HASH}")
_OTHER_BENCHMARKS = re.compile(
    r"(speed_benchmark_torch(_lite)?|benchmark_model\w*|\w*executor_runner|onnxruntime_perf_test|benchncnn|MNNV2Basic\.out"
    rf"|llama-bench){_HASH}"
)
"""The benchmarks of PyTorch Mobile, LiteRT, ExecuTorch, ONNX Runtime, ncnn, MNN and llama.cpp."""
_SWEEPS = frozenset({"run", "demo", "recipe", "noise"})


def is_runner(argv: Sequence[str]) -> bool:
    """Tell whether a command line starts a runner of EdgeSweep."""
    # On a board without EdgeSweep, Python runs one file.
    by_python = len(argv) > 1 and PurePosixPath(argv[0]).name.startswith("python")
    program = PurePosixPath(argv[1 if by_python else 0]).name if argv else ""
    # Other projects also have programs called `runner`.
    if _OUR_PROGRAM.fullmatch(program) and {"--model", "--batch"} & {*argv}:
        return True
    return any(flag == "-m" and _OUR_MODULE.fullmatch(module) for flag, module in pairwise(argv))


def benchmark_name(argv: Sequence[str]) -> str | None:
    """Return the name of the benchmark with this command line; `None` if it is no benchmark."""
    if is_runner(argv):
        return "a runner of EdgeSweep"
    program = PurePosixPath(argv[0]).name if argv else ""
    return program if _OTHER_BENCHMARKS.fullmatch(program) else None


def sweep_command(argv: Sequence[str]) -> str | None:
    """Return the command of a process that builds and measures, such as `edgesweep run`; `None` for any other command
    line. Between the blocks of such a process no runner shows that it is there."""
    words = list(argv)
    if words and PurePosixPath(words[0]).name.startswith("python"):
        words = list(dropwhile(lambda word: word.startswith("-"), words[1:]))
    if len(words) < 2 or words[1] not in _SWEEPS:
        return None
    of_edgesweep = PurePosixPath(words[0]).name == "edgesweep" or "sweeps.cli.main" in words[0]
    return f"edgesweep {words[1]}" if of_edgesweep else None


def parse_processes(processes: str) -> list[tuple[int, str]]:
    """Return the id and command line of each process in lines of `/proc/ID/cmdline:word NUL word NUL`.

    A word may contain such lines too: before a process is killed, its command line is read separately.
    """
    lines = (re.fullmatch(r"/proc/([0-9]{1,9})/cmdline:(.*)", line) for line in processes.split("\n"))
    return [(int(match[1]), match[2]) for match in lines if match]
