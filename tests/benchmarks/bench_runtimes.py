"""ExecuTorch's and ONNX Runtime's fp32 over PyTorch Mobile's best fp32 build, on the demo's model at 64x64 and on
MobileNetV2 at 224x224.

python tests/benchmarks/bench_runtimes.py [--size 64|224] [--without-avx512]

The native runners, one thread, fresh processes, arms in turn. Two figures have the bound: the fastest 40 iterations in
a row, in which the machine took least; and the median over the rounds of the ratio of the best builds, which is what
a user sees. Each runtime has one arm more than it has builds: its first build again, and how far that is from itself
(A/A) says what the comparison can resolve. Needs g++, the extra `runtimes`, and a machine with nothing else to do; for
each size 3 minutes of building, 3 of measuring.

PyTorch Mobile gains more from AVX-512 than the others: at 224 px on a Xeon of 2026-11, ExecuTorch took 0.90 of its time
with it and 0.37 without, ONNX Runtime 1.00 and 0.66. `--without-avx512` hides it from all processes that are started
(`hide_avx512.c`): they choose their kernels as on a CPU with AVX2 only.
"""

import argparse
import os
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from unittest import mock

from bench_runner import AGAIN, difference_percent
from exported_case import BUILDS, MOBILE, build, digits, fastest_ms, possible
from recipe_case import in_turn, load, table
from report import Figure, at_most, finish

from workers.models.package import BuildInputs


@dataclass(frozen=True, slots=True, kw_only=True)
class Size:
    inputs: Callable[[Path], BuildInputs]
    bound: float
    rounds: int
    block: tuple[int, int]


SIZES = {
    "64": Size(inputs=digits, bound=0.75, rounds=9, block=(60, 400)),
    "224": Size(inputs=load, bound=0.85, rounds=7, block=(20, 80)),
}


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--size", choices=SIZES, action="append")
    parser.add_argument("--without-avx512", action="store_true")
    given = parser.parse_args()
    figures: list[Figure] = []
    told: dict[str, object] = {}
    with without_avx512() if given.without_avx512 else nullcontext():
        for size in given.size or SIZES:
            found, told[size] = measured(size, SIZES[size])
            figures += found
    finish("runtimes without AVX-512" if given.without_avx512 else "runtimes", figures, sizes=told)


@contextmanager
def without_avx512() -> Iterator[None]:
    """Hide it from the processes that are started meanwhile."""
    with tempfile.TemporaryDirectory(prefix="edgesweep-bench-") as folder:
        library = str(Path(folder) / "hide_avx512.so")
        source = str(Path(__file__).with_name("hide_avx512.c"))
        subprocess.run(["gcc", "-O1", "-shared", "-fPIC", "-Wl,-z,initfirst", "-o", library, source], check=True)
        with mock.patch.dict(os.environ, LD_PRELOAD=library):
            if subprocess.run(["true"], check=False).returncode != 0:
                sys.exit("bench_runtimes: run it without --without-avx512 on this CPU")
            yield


def measured(name: str, size: Size) -> tuple[list[Figure], dict[str, object]]:
    with tempfile.TemporaryDirectory(prefix="edgesweep-bench-") as folder:
        inputs = size.inputs(Path(folder) / "model")
        builds = Path(folder) / "builds"
        builds.mkdir()
        arms: dict[str, Callable[[], list[float]]] = {}
        for runtime, choices in BUILDS.items():
            for number, axes in enumerate(possible(runtime, choices)):
                arm = " ".join([runtime, *map(str, axes.values())])
                arms[arm] = build(runtime, axes, inputs, builds, size.block).native_ms
                if number == 0:
                    arms[arm + AGAIN] = arms[arm]
        samples = in_turn(arms, size.rounds)
    taken = {arm: [statistics.median(block) for block in blocks] for arm, blocks in samples.items()}
    table(taken)
    best = {runtime: best_of(taken, runtime) for runtime in BUILDS}
    others = [runtime for runtime in BUILDS if runtime != MOBILE]
    # A shared machine has two speeds, and a block's median falls on either.
    fastest = {arm: fastest_ms(blocks) for arm, blocks in samples.items()}
    lowest = {one: min(ms for arm, ms in fastest.items() if arm.startswith(one)) for one in BUILDS}
    figures = [
        at_most(
            f"{one} over PyTorch Mobile, {name} px, fastest iterations", lowest[one] / lowest[MOBILE], "", size.bound
        )
        for one in others
    ]
    mobile = taken[best[MOBILE][0]]
    figures += [
        at_most(
            f"{one} over PyTorch Mobile, {name} px, median of the rounds",
            statistics.median(own / its for own, its in zip(taken[best[one][0]], mobile, strict=True)),
            "",
            size.bound,
        )
        for one in others
    ]
    figures += [
        Figure(f"{arm}, {name} px, over itself (A/A), {how}", off, "%")
        for arm in taken
        if arm + AGAIN in taken
        for how, off in (
            ("fastest iterations", 100 * (fastest[arm + AGAIN] / fastest[arm] - 1)),
            ("by rounds", difference_percent(taken[arm], taken[arm + AGAIN])),
        )
    ]
    p50_ms = {arm: statistics.median(values) for arm, values in taken.items()}
    return figures, {"p50_ms": p50_ms, "fastest_ms": fastest, "best": best}


def best_of(taken: Mapping[str, Sequence[float]], runtime: str) -> tuple[str, float]:
    """The fastest of its builds, each with all of its own rounds."""
    medians = {arm: statistics.median(values) for arm, values in taken.items() if arm.startswith(runtime)}
    arm = min((arm for arm in medians if not arm.endswith(AGAIN)), key=medians.__getitem__)
    return arm, medians[arm]


if __name__ == "__main__":
    main()
