"""Building a whole grid of MobileNetV2 with shared stages, against each variant alone from scratch; and a second time.

python tests/benchmarks/bench_grid.py [--only mobile|runtimes]

Two grids of the demo's model (64x64, trained on digits): 43 artifacts of PyTorch Mobile, every method, engine, layout,
capture, backend and interface; and those of sweeps/specs/runtimes.yaml in all three runtimes.

Alone: a process of its own and nothing kept from any other. Starting it, importing torch and starting the process that
forks verifications are not counted, in either arm, nor is importing what exports. Both arms build and verify the same
artifacts. The shared arm runs twice, before and after the other: the A/A of this benchmark.
"""

import argparse
import pickle
import subprocess
import sys
import tempfile
from collections.abc import Collection, Mapping
from pathlib import Path

from exported_case import SPEC
from recipe_case import RUNTIME, say
from report import Figure, at_most, finish

from sweeps.spec import sweep as spec
from sweeps.spec.label import label_of
from sweeps.variant import Variant
from sweeps.workspace import Workspace
from workers.models import prepare as models
from workers.models.package import BuildInputs
from workers.plan import plan_sweep

MOBILE = """
name: grid
models:
  - source: mobilenet_v2
    arguments: {width_mult: 0.35, num_classes: 10}
    weights: demo
    input_shape: [1, 3, 64, 64]
grids:
  - {precision: [fp32], capture: [script, trace], optimize: [true, false]}
  - precision: [int8]
    quantization: [static_fx, static_eager, qat]
    qengine: [x86, qnnpack]
    capture: [script, trace]
  - {backend: [nnapi], precision: [fp32], relaxed_fp16: [false, true]}
  - {backend: [nnapi], precision: [int8], interface: [core, full, inside]}
  - {backend: [metal], precision: [fp32], layout: [nchw]}
"""
IMPORTED = {
    "torchscript": ["workers.runtimes.torchscript.building"],
    "executorch": [
        "workers.runtimes.executorch.building",
        "executorch.exir",
        "executorch.backends.xnnpack.partition.xnnpack_partitioner",
        "executorch.backends.xnnpack.quantizer.xnnpack_quantizer",
        "torchao.quantization.pt2e.quantize_pt2e",
        "executorch.extension.pybindings.portable_lib",
    ],
    "onnxruntime": ["workers.runtimes.onnxruntime.building", "torch.onnx._internal.exporter._core", "onnxscript"],
}
"""By runtime, what a build imports."""
START = """
import importlib, pickle, sys, time, warnings
from pathlib import Path
from workers.artifacts import ArtifactStore
from workers.runtimes import registry
from workers.runtimes.verify import warm_up
warnings.simplefilter("ignore")
for module in sys.argv[1].split(","):
    importlib.import_module(module)
warm_up()
"""
SHARED = """
wanted, inputs = pickle.loads(Path(sys.argv[2]).read_bytes())
started = time.monotonic()
store = ArtifactStore(Path(sys.argv[3]) / "artifacts")
for key, variant in wanted.items():
    store.build(key, variant, inputs)
print(time.monotonic() - started)
"""
ALONE = """
key, variant, inputs = pickle.loads(Path(sys.argv[2]).read_bytes())
runtime = registry.get(variant.runtime)
started = time.monotonic()
runtime.build(variant, key, inputs, Path(sys.argv[3]), Path(sys.argv[4]))
print(time.monotonic() - started)
"""


BOUNDS = {"mobile": 0.45, "runtimes": 0.6}


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--only", choices=BOUNDS)
    only = parser.parse_args().only
    figures: list[Figure] = []
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "grid.yaml").write_text(MOBILE)
        files = {"mobile": folder / "grid.yaml", "runtimes": SPEC}
        for grid, bound in BOUNDS.items():
            if only in (None, grid):
                figures += measured(grid, files[grid], folder / grid, bound)
    finish("grid", figures)


def measured(name: str, file: Path, folder: Path, bound: float) -> list[Figure]:
    sweep = spec.load(file)
    workspace = Workspace.open(folder / "workspace")
    plan = plan_sweep(sweep, workspace.root)
    say("preparing the model")
    inputs = models.prepare(
        sweep.models[0], sweep.data, workspace, plan.identities.versions, lambda *_: None
    ).build_inputs
    variants = {job.build_key: job.variant for job in plan.jobs}
    # Compiled once per machine, whatever is built.
    for backend in RUNTIME.references():
        RUNTIME.reference(backend, folder)
    first = shared(variants, inputs, folder / "first")
    alone = sum(by_itself(key, variant, inputs, folder) for key, variant in variants.items())
    again = shared(variants, inputs, folder / "again")
    second = shared(variants, inputs, folder / "first")
    what = f"{name}, {len(variants)} artifacts"
    return [
        at_most(f"{what}: shared over alone", first / alone, "", bound),
        at_most(f"{what}: second build over the first", 100 * second / first, "%", 1.0),
        Figure(f"{what}: shared", first, "s"),
        Figure(f"{what}: each alone, without its process' start", alone, "s"),
        Figure(f"{what}: A/A: shared again over shared", again / first, ""),
    ]


def shared(variants: Mapping[str, Variant], inputs: BuildInputs, folder: Path) -> float:
    """Seconds that one process takes for all of them, one after the other."""
    say(f"building all of them, shared, in {folder.name}")
    return _seconds(SHARED, {one.runtime for one in variants.values()}, (variants, inputs), folder)


def by_itself(key: str, variant: Variant, inputs: BuildInputs, folder: Path) -> float:
    say(f"building {variant.runtime} {label_of(variant)} alone")
    out = folder / f"alone-{key[:16]}"
    (out / "artifact").mkdir(parents=True)
    return _seconds(ALONE, {variant.runtime}, (key, variant, inputs), out / "artifact", out / "stages")


def _seconds(work: str, runtimes: Collection[str], given: object, *folders: Path) -> float:
    with tempfile.NamedTemporaryFile(suffix=".pickle") as file:
        file.write(pickle.dumps(given))
        file.flush()
        imported = ",".join(module for runtime in sorted(runtimes) for module in IMPORTED[runtime])
        argv = [sys.executable, "-c", START + work, imported, file.name, *map(str, folders)]
        ended = subprocess.run(argv, stdout=subprocess.PIPE, text=True, check=True)
    return float(ended.stdout)


if __name__ == "__main__":
    main()
