"""The Python runner's p50 is compared with that of a bare loop over the same artifact in C++ (libtorch).

python tests/benchmarks/bench_runner.py

Fresh processes, arms in turn, 7 rounds. Each arm is in a round twice: how far it is from itself (A/A) says what the
comparison can resolve. Needs g++, and a machine with nothing else to do.
"""

import statistics
import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path

import torch
from recipe_case import build, in_turn, load, p50_ms, say, table
from report import Figure, finish

from sweeps.variant import Variant
from workers.runtimes.interface import RunRequest

WITHIN_PERCENT = 5.0
RUNNER, BARE = "Python runner", "bare loop (C++)"
AGAIN = " again"


def compiled(folder: Path) -> Path:
    """bare_loop.cpp against the wheel that the runner uses."""
    say("compiling the bare loop")
    wheel, program = Path(torch.__file__).parent, folder / "bare_loop"
    include = wheel / "include"
    argv = ["g++", "-O2", "-std=c++17", f"-D_GLIBCXX_USE_CXX11_ABI={int(torch.compiled_with_cxx11_abi())}"]
    argv += [f"-I{include}", f"-I{include / 'torch' / 'csrc' / 'api' / 'include'}"]
    argv += [str(Path(__file__).with_name("bare_loop.cpp")), "-o", str(program)]
    argv += [f"-L{wheel / 'lib'}", f"-Wl,-rpath,{wheel / 'lib'}", "-Wl,--no-as-needed", "-ltorch_cpu", "-lc10"]
    subprocess.run(argv, check=True)
    return program


def bare_p50_ms(program: Path, request: RunRequest) -> float:
    channels_last = str(int(request.memory_format == "channels_last"))
    argv = [str(program), request.model, str(request.warmup_iterations), str(request.iterations)]
    argv += [str(request.threads), channels_last, *map(str, request.input_shape)]
    ended = subprocess.run(argv, capture_output=True, check=True, text=True)
    return statistics.median(map(int, ended.stdout.split())) / 1e6


def main() -> None:
    with tempfile.TemporaryDirectory(prefix="edgesweep-bench-") as name:
        folder = Path(name)
        program = compiled(folder)
        request = build(load(folder), Variant(fuse=True, optimize=True, layout="nhwc"), folder)
        runner = partial(p50_ms, request)
        bare = partial(bare_p50_ms, program, request)
        # The arms go there and back: a steady drift within a round hits both alike.
        seconds_of = in_turn({RUNNER: runner, BARE: bare, BARE + AGAIN: bare, RUNNER + AGAIN: runner})
    table(seconds_of)
    runners, bares = both_runs(seconds_of, RUNNER), both_runs(seconds_of, BARE)
    off = difference_percent(runners, bares)
    figures = [
        Figure(f"{RUNNER}, p50 over the {BARE}", off, "%", f"within {WITHIN_PERCENT:g} %", abs(off) <= WITHIN_PERCENT),
        Figure(f"{RUNNER} over itself (A/A)", difference_percent(seconds_of[RUNNER], seconds_of[RUNNER + AGAIN]), "%"),
        Figure(f"{BARE} over itself (A/A)", difference_percent(seconds_of[BARE], seconds_of[BARE + AGAIN]), "%"),
    ]
    finish("runner", figures, p50_ms={RUNNER: statistics.median(runners), BARE: statistics.median(bares)})


def both_runs(seconds_of: Mapping[str, Sequence[float]], arm: str) -> list[float]:
    """Per round, the mean of the arm's two processes."""
    return [(first + other) / 2 for first, other in zip(seconds_of[arm], seconds_of[arm + AGAIN], strict=True)]


def difference_percent(seconds: Sequence[float], other: Sequence[float]) -> float:
    """Median over the rounds: within a round both arms see the same machine."""
    return (statistics.median(a / b for a, b in zip(seconds, other, strict=True)) - 1.0) * 100.0


if __name__ == "__main__":
    main()
