"""What the runners of ExecuTorch and ONNX Runtime cost: C++ runner against a bare loop in C++ over the same artifact,
and Python runner against C++ runner, on the demo's model at 64x64.

python tests/benchmarks/bench_exported_runners.py

Fresh processes, arms in turn, 9 rounds of 400 iterations, one thread. Each arm is in a round twice: how far it is from
itself (A/A) says what the comparison can resolve. Needs g++, the extra `runtimes`, and a machine with nothing else to
do; 2 minutes of building, 2 of measuring.

A shared machine has two speeds, the slow one up to 1.7 times as slow, and changes between them within a block: what the
arms add is told from the fastest 40 iterations in a row of each arm (10 ms), in which the machine took least. "By
rounds" are the medians of whole blocks: they would show what an arm does more rarely, and have no bound where even A/A
differs by a tenth.

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
from exported_case import Case, build, digits, fastest_ms
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


def bare_ms(program: list[str], case: Case) -> list[float]:
    """What each iteration of one block took."""
    request = case.request
    argv = [*program, request.model, str(request.warmup_iterations), str(request.iterations)]
    ended = subprocess.run([*argv, *map(str, request.input_shape)], capture_output=True, check=True, text=True)
    return [int(ns) / 1e6 for ns in ended.stdout.split()]


def main() -> None:
    arms: dict[str, Callable[[], list[float]]] = {}
    with tempfile.TemporaryDirectory(prefix="edgesweep-bench-") as folder:
        inputs = digits(Path(folder) / "model")
        builds = Path(folder) / "builds"
        builds.mkdir()
        for name in RUNTIMES:
            case = build(name, {}, inputs, builds, BLOCK)
            loop = partial(bare_ms, [str(bare(name))], case)
            in_python = partial(bare_ms, [sys.executable, str(HERE / f"bare_loop_{name}.py")], case)
            one: dict[str, Callable[[], list[float]]] = {
                "bare": loop,
                "C++": case.native_ms,
                "Python": case.python_ms,
                "bare Python": in_python,
            }
            # There and back: a steady drift within a round hits all alike.
            arms |= {f"{name} {arm}": time for arm, time in one.items()}
            arms |= {f"{name} {arm}{AGAIN}": time for arm, time in reversed(one.items())}
        samples = in_turn(arms, ROUNDS)
    taken = {arm: [statistics.median(block) for block in blocks] for arm, blocks in samples.items()}
    fastest = {arm: fastest_ms(blocks) for arm, blocks in samples.items()}
    table(taken)
    figures = []
    for name in RUNTIMES:
        for arm, other, within, also in PAIRS[name]:
            one, two = (f"{name} {which}" for which in (arm, other))
            quickest = [min(fastest[which], fastest[which + AGAIN]) for which in (one, two)]
            off, title = 100 * (quickest[0] / quickest[1] - 1), f"{name}: {arm} over {other}{also}"
            bound = ("", None) if within is None else (f"within {within:g} %", abs(off) <= within)
            figures.append(Figure(f"{title}, fastest iterations", off, "%", *bound))
            figures.append(Figure(f"{title}, by rounds", difference_percent(both(taken, one), both(taken, two)), "%"))
        for arm in dict.fromkeys(f"{name} {arm}" for pair in PAIRS[name] for arm in pair[:2]):
            off = 100 * (fastest[arm + AGAIN] / fastest[arm] - 1)
            figures.append(Figure(f"{arm} over itself (A/A), fastest iterations", off, "%"))
            off = difference_percent(taken[arm], taken[arm + AGAIN])
            figures.append(Figure(f"{arm} over itself (A/A), by rounds", off, "%"))
    p50_ms = {arm: statistics.median(values) for arm, values in taken.items()}
    finish("exported runners", figures, p50_ms=p50_ms, fastest_ms=fastest)


if __name__ == "__main__":
    main()
