"""How far the C++ runner's p50 is from the Python runner's, on the same artifact.

python tests/benchmarks/bench_native_runner.py

Fresh processes, arms in turn, 7 rounds. Each arm is in a round twice: how far it is from itself (A/A) says what the
comparison can resolve. Needs g++, and a machine with nothing else to do; 2 to 3 minutes.
"""

import statistics
import subprocess
import tempfile
from functools import partial
from pathlib import Path

from bench_runner import AGAIN, WITHIN_PERCENT, both, difference_percent
from recipe_case import RUNTIME, build, in_turn, load, p50_ms, say, table
from report import Figure, finish

from sweeps.variant import Variant
from workers.runtimes.interface import RunRequest
from workers.runtimes.torchscript import native_runner

NATIVE, PYTHON = "C++ runner", "Python runner"


def native_p50_ms(request: RunRequest) -> float:
    """Median of one block of the C++ runner, in a fresh process."""
    argv = RUNTIME.command(request, str(native_runner.program()))
    ended = subprocess.run(argv, capture_output=True, check=False)
    return statistics.median(RUNTIME.parse(ended.stdout).samples_ns) / 1e6


def main() -> None:
    say("compiling the C++ runner, once per machine")
    native_runner.program()
    with tempfile.TemporaryDirectory(prefix="edgesweep-bench-") as name:
        folder = Path(name)
        request = build(load(folder), Variant(fuse=True, optimize=True, layout="nhwc"), folder)
        native, python = partial(native_p50_ms, request), partial(p50_ms, request)
        # There and back: a steady drift within a round hits both alike.
        taken = in_turn({NATIVE: native, PYTHON: python, PYTHON + AGAIN: python, NATIVE + AGAIN: native})
    table(taken)
    natives, pythons = both(taken, NATIVE), both(taken, PYTHON)
    off = difference_percent(natives, pythons)
    figures = [
        Figure(
            f"{NATIVE}, p50 over the {PYTHON}", off, "%", f"within {WITHIN_PERCENT:g} %", abs(off) <= WITHIN_PERCENT
        ),
        Figure(f"{NATIVE} over itself (A/A)", difference_percent(taken[NATIVE], taken[NATIVE + AGAIN]), "%"),
        Figure(f"{PYTHON} over itself (A/A)", difference_percent(taken[PYTHON], taken[PYTHON + AGAIN]), "%"),
    ]
    finish("native_runner", figures, p50_ms={NATIVE: statistics.median(natives), PYTHON: statistics.median(pythons)})


if __name__ == "__main__":
    main()
