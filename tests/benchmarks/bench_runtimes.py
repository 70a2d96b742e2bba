"""ExecuTorch's and ONNX Runtime's fp32 over PyTorch Mobile's best fp32 build, on the demo's model at 64x64.

python tests/benchmarks/bench_runtimes.py

The native runners, one thread, fresh processes, arms in turn, 9 rounds of 400 iterations. Each runtime has one arm more
than it has builds: its first build again, and how far that is from itself (A/A) says what the comparison can resolve.
Needs g++, the extra `runtimes`, and a machine with nothing else to do; 2 minutes of building, 1 of measuring.
"""

import statistics
import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path

from bench_runner import AGAIN, difference_percent
from recipe_case import in_turn, say, table
from report import Figure, at_most, finish

from sweeps.device_facts import VIRTUAL_PHONE
from sweeps.planning.axes import resolve_variant
from sweeps.spec import sweep as spec
from sweeps.variant import Variant
from sweeps.workspace import Workspace
from workers.devices.local import local_facts
from workers.models import prepare as models
from workers.runtimes import registry
from workers.runtimes.interface import RunRequest, Runtime

SPEC = Path(__file__).resolve().parents[2] / "sweeps" / "specs" / "runtimes.yaml"
ROUNDS, WARMUP, ITERATIONS = 9, 60, 400
BOUND = 0.75
MOBILE = "torchscript"
BUILDS: Mapping[str, Sequence[Mapping[str, object]]] = {
    MOBILE: [
        {"layout": "nhwc", "capture": "trace", "fuse": True, "optimize": True},
        {"layout": "nhwc", "capture": "script", "fuse": True, "optimize": True, "format": "ptl"},
        {"layout": "nchw", "capture": "trace", "fuse": True, "optimize": True},
    ],
    "executorch": [{"layout": "nchw"}, {"layout": "nhwc"}],
    "onnxruntime": [{"graph_optimization": "all"}],
}


def p50_ms(runtime: Runtime, request: RunRequest, program: str) -> float:
    """Median of one block of the native runner, in a fresh process."""
    ended = subprocess.run(runtime.command(request, program), capture_output=True, check=False)
    return statistics.median(runtime.parse(ended.stdout).samples_ns) / 1e6


def main() -> None:
    facts = local_facts()
    phone = replace(facts, exec_context=VIRTUAL_PHONE, python="")
    with tempfile.TemporaryDirectory(prefix="edgesweep-bench-") as name:
        folder = Path(name)
        sweep = spec.load(SPEC)
        say("training the model")
        inputs = models.prepare(
            sweep.models[0], sweep.data, Workspace.open(folder), {"torch": "2"}, lambda *_: None
        ).build_inputs
        arms = {}
        for runtime_name, builds in BUILDS.items():
            runtime = registry.get(runtime_name)
            programs = runtime.programs(phone)
            for number, axes in enumerate(builds):
                arm = " ".join([runtime_name, *map(str, axes.values())])
                say(f"building {arm}")
                out = folder / f"{runtime_name}-{number}"
                out.mkdir()
                variant = resolve_variant(Variant(runtime=runtime_name, **axes), facts.abi, facts.cpu_features)  # type: ignore[arg-type]
                manifest = runtime.build(variant, "0" * 64, inputs, out, folder)
                request = RunRequest(
                    model=str(out / manifest.file),
                    backend="cpu",
                    engine="none",
                    threads=1,
                    cpus="all",
                    input_shape=manifest.input.shape,
                    memory_format=manifest.memory_format,
                    warmup_iterations=WARMUP,
                    iterations=ITERATIONS,
                    sha256=manifest.file_sha256,
                    graph_optimization=variant.graph_optimization,
                )
                arms[arm] = partial(p50_ms, runtime, request, programs[variant.format].path)
                if number == 0:
                    arms[arm + AGAIN] = arms[arm]
        taken = in_turn(arms, ROUNDS)
    table(taken)
    best = {name: best_of(taken, name) for name in BUILDS}
    figures = [
        at_most(f"{name} over PyTorch Mobile", best[name][1] / best[MOBILE][1], "", BOUND)
        for name in BUILDS
        if name != MOBILE
    ]
    # A shared machine has slow phases: the fastest blocks are those without.
    lowest = {name: min(min(values) for arm, values in taken.items() if arm.startswith(name)) for name in BUILDS}
    figures += [
        Figure(f"{name} over PyTorch Mobile, lowest blocks", lowest[name] / lowest[MOBILE], "")
        for name in BUILDS
        if name != MOBILE
    ]
    figures += [
        Figure(f"{arm} over itself (A/A)", difference_percent(taken[arm], taken[arm + AGAIN]), "%")
        for arm in taken
        if arm + AGAIN in taken
    ]
    finish("runtimes", figures, p50_ms={arm: statistics.median(values) for arm, values in taken.items()}, best=best)


def best_of(taken: Mapping[str, Sequence[float]], runtime: str) -> tuple[str, float]:
    """The fastest of its builds, each with all of its own rounds."""
    medians = {arm: statistics.median(values) for arm, values in taken.items() if arm.startswith(runtime)}
    arm = min((arm for arm in medians if not arm.endswith(AGAIN)), key=medians.__getitem__)
    return arm, medians[arm]


if __name__ == "__main__":
    main()
