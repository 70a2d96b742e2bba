"""What the Python runner costs: its p50 against a bare loop over the same artifact in C++ (libtorch).

python tests/benchmarks/bench_runner.py

Fresh processes, arms in turn, 7 rounds. The runner is an arm twice: how far it is from itself (A/A) says what the
comparison can resolve. Needs g++, and a machine with nothing else to do.
"""

import statistics
import subprocess
import tempfile
from functools import partial
from pathlib import Path

import torch
from recipe_case import build, finish, in_turn, load, p50_ms, say, table

from sweeps.records import Variant
from workers.runtimes.interface import RunRequest

WITHIN = 0.05
RUNNER, AGAIN, BARE = "Python runner", "Python runner again (A/A)", "bare loop (C++)"


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
        taken = in_turn({RUNNER: runner, BARE: partial(bare_p50_ms, program, request), AGAIN: runner})
    # Within a round both see the same machine: the ratio is taken there.
    ratio = statistics.median(a / b for a, b in zip(taken[RUNNER], taken[BARE], strict=True))
    same = statistics.median(a / b for a, b in zip(taken[RUNNER], taken[AGAIN], strict=True))
    table(taken)
    print(f"the runner's p50 is {(ratio - 1) * 100:+.1f} % of the bare loop's (within {WITHIN * 100:.0f} %)")
    print(f"the runner against itself: {(same - 1) * 100:+.1f} %")
    missed = [] if abs(ratio - 1) <= WITHIN else [f"the runner is {(ratio - 1) * 100:+.1f} % from the bare loop"]
    p50 = {arm: statistics.median(values) for arm, values in taken.items()}
    finish({"benchmark": "runner", "p50_ms": p50, "runner_over_bare": ratio, "runner_over_itself": same}, missed)


if __name__ == "__main__":
    main()
