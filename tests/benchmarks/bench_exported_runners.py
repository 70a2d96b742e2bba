"""What the runners of ExecuTorch and ONNX Runtime cost: C++ runner against a bare loop in C++ over the same artifact,
and Python runner against C++ runner, on the demo's model at 64x64.

python tests/benchmarks/bench_exported_runners.py

Fresh processes, arms in turn, 9 rounds of 400 iterations, one thread. Each arm is in a round twice: how far it is from
itself (A/A) says what the comparison can resolve. Needs g++, the extra `runtimes`, and a machine with nothing else to
do; 2 minutes of building, 2 of measuring.

A shared machine has two speeds, the slow one up to 1.7 times as slow, and an arm's median falls on either: what the
arms add is told from their fastest blocks, where the machine took nothing.

Each Python runner is held against a bare loop in Python too: what is left of the difference to C++ is the library's.
ExecuTorch's two runners are linked to two releases (infra/runtimes.md), so that difference holds those of kernels and
has no bound.
"""

import statistics
import subprocess
import sys
import tempfile
from collections.abc import Callable
from functools import partial
from importlib import metadata
from pathlib import Path

from bench_runner import AGAIN, both, difference_percent
from exported_case import Case, build, digits
from recipe_case import in_turn, say, table
from report import Figure, finish

from workers.native import compiler
from workers.runtimes.executorch import native_runner as executorch
from workers.runtimes.onnxruntime import native_runner as onnxruntime

ROUNDS, BLOCK = 9, (60, 400)
RELEASES = f"executorch {metadata.version('executorch')} and {executorch.LIBRARIES}, two releases of kernels"
NATIVE_WITHIN, PYTHON_WITHIN = 3.0, 5.0
HERE = Path(__file__).resolve().parent
RUNTIMES = ("executorch", "onnxruntime")
PAIRS = {
    "executorch": [
        ("C++", "bare", NATIVE_WITHIN, ""),
        ("Python", "bare Python", PYTHON_WITHIN, ""),
        ("Python", "C++", None, f" ({RELEASES})"),
    ],
    "onnxruntime": [
        ("C++", "bare", NATIVE_WITHIN, ""),
        ("Python", "bare Python", PYTHON_WITHIN, ""),
        ("bare Python", "bare", None, ", what the library takes in Python"),
        ("Python", "C++", PYTHON_WITHIN, ""),
    ],
}
"""By runtime: an arm, what it is held against, its bound, and what else differs."""


def bare(name: str) -> Path:
    """The bare loop of this runtime, compiled as its runner is."""
    say(f"compiling the bare loop of {name}")
    native = executorch if name == "executorch" else onnxruntime
    flags, link = native.flags(), native.link()
    source = str(HERE / f"bare_loop_{name}.cpp")
    return compiler.program(source, f"bare_loop_{name}", (*flags, "-I", str(compiler.FOLDER)), link)


def bare_ms(program: list[str], case: Case) -> float:
    request = case.request
    argv = [*program, request.model, str(request.warmup_iterations), str(request.iterations)]
    ended = subprocess.run([*argv, *map(str, request.input_shape)], capture_output=True, check=True, text=True)
    return statistics.median(map(int, ended.stdout.split())) / 1e6


def main() -> None:
    arms: dict[str, Callable[[], float]] = {}
    with tempfile.TemporaryDirectory(prefix="edgesweep-bench-") as folder:
        inputs = digits(Path(folder) / "model")
        builds = Path(folder) / "builds"
        builds.mkdir()
        for name in RUNTIMES:
            case = build(name, {}, inputs, builds, BLOCK)
            loop = partial(bare_ms, [str(bare(name))], case)
            in_python = partial(bare_ms, [sys.executable, str(HERE / f"bare_loop_{name}.py")], case)
            one: dict[str, Callable[[], float]] = {
                "bare": loop,
                "C++": case.native_p50_ms,
                "Python": case.python_p50_ms,
                "bare Python": in_python,
            }
            # There and back: a steady drift within a round hits all alike.
            arms |= {f"{name} {arm}": time for arm, time in one.items()}
            arms |= {f"{name} {arm}{AGAIN}": time for arm, time in reversed(one.items())}
        taken = in_turn(arms, ROUNDS)
    table(taken)
    figures = []
    for name in RUNTIMES:
        for arm, other, within, also in PAIRS[name]:
            measured, over = both(taken, f"{name} {arm}"), both(taken, f"{name} {other}")
            off, title = 100 * (min(measured) / min(over) - 1), f"{name}: {arm} over {other}{also}"
            bound = ("", None) if within is None else (f"within {within:g} %", abs(off) <= within)
            figures.append(Figure(f"{title}, fastest blocks", off, "%", *bound))
            figures.append(Figure(f"{title}, by rounds", difference_percent(measured, over), "%"))
        for arm in dict.fromkeys(arm for pair in PAIRS[name] for arm in pair[:2]):
            first, again = taken[f"{name} {arm}"], taken[f"{name} {arm}{AGAIN}"]
            off = 100 * (min(again) / min(first) - 1)
            figures.append(Figure(f"{name} {arm} over itself (A/A), fastest blocks", off, "%"))
            figures.append(Figure(f"{name} {arm} over itself (A/A), by rounds", difference_percent(first, again), "%"))
    finish("exported runners", figures, p50_ms={arm: statistics.median(values) for arm, values in taken.items()})


if __name__ == "__main__":
    main()
