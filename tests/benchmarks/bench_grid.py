"""Building a whole grid of MobileNetV2 with shared stages, against each variant alone from scratch; and a second time.

Alone: a process of its own and nothing kept from any other. Starting it, importing torch and starting the process that
forks verifications are not counted, in either arm. Both arms
build and verify the same 43 artifacts of the demo's model (64x64, trained on digits): every method, engine, layout,
capture, backend and interface. The shared arm runs twice, before and after the other: the A/A of this benchmark.
"""

import pickle
import subprocess
import sys
import tempfile
from pathlib import Path

from recipe_case import RUNTIME, say
from report import Figure, at_most, finish

from sweeps.planning.plan import Plan
from sweeps.spec import sweep as spec
from sweeps.spec.label import label_of
from sweeps.workspace import Workspace
from workers.models import prepare as models
from workers.models.package import BuildInputs
from workers.plan import plan_sweep

MODEL = """
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
ALONE = """
import pickle, sys, time
from pathlib import Path
from workers.models.eager import load_eager
from workers.runtimes.torchscript import building
from workers.runtimes.torchscript.runtime import TorchScript
from workers.runtimes.verify import warm_up
key, variant, inputs = pickle.loads(Path(sys.argv[1]).read_bytes())
warm_up()
started = time.monotonic()
TorchScript().build(variant, key, inputs, Path(sys.argv[2]), Path(sys.argv[3]))
print(time.monotonic() - started)
"""


def main() -> None:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "grid.yaml").write_text(MODEL)
        sweep = spec.load(folder / "grid.yaml")
        workspace = Workspace.open(folder / "workspace")
        plan = plan_sweep(sweep, workspace.root)
        say("preparing the model")
        inputs = models.prepare(
            sweep.models[0], sweep.data, workspace, plan.identities.versions, lambda *_: None
        ).build_inputs
        variants = {job.build_key: job.variant for job in plan.jobs}
        # Compiled once per machine, whatever is built.
        for backend in RUNTIME.references():
            RUNTIME.reference(backend)
        first = shared(plan, inputs, folder / "first")
        alone = sum(by_itself(key, inputs, plan, folder) for key in variants)
        again = shared(plan, inputs, folder / "again")
        second = shared(plan, inputs, folder / "first")
        finish(
            f"grid: {len(variants)} artifacts of MobileNetV2",
            [
                at_most("shared over alone", first / alone, "", 0.45),
                at_most("second build over the first", 100 * second / first, "%", 1.0),
                Figure("shared", first, "s"),
                Figure("each alone, without its process' start", alone, "s"),
                Figure("A/A: shared again over shared", again / first, ""),
            ],
        )


def shared(plan: Plan, inputs: BuildInputs, folder: Path) -> float:
    """Seconds that one process takes for all of them, one after the other."""
    program = (
        "import pickle, sys, time\nfrom pathlib import Path\nfrom workers.artifacts import ArtifactStore\n"
        "from workers.runtimes.torchscript import building\n"
        "from workers.runtimes.verify import warm_up\n"
        "wanted, inputs = pickle.loads(Path(sys.argv[1]).read_bytes())\nwarm_up()\nstarted = time.monotonic()\n"
        "store = ArtifactStore(Path(sys.argv[2]) / 'artifacts')\n"
        "for number, (key, variant) in enumerate(wanted.items()):\n"
        "    store.build(key, variant, inputs)\n"
        "print(time.monotonic() - started)\n"
    )
    say(f"building all of them, shared, in {folder.name}")
    given = folder.with_suffix(".pickle")
    given.write_bytes(pickle.dumps(({job.build_key: job.variant for job in plan.jobs}, inputs)))
    ended = subprocess.run(
        [sys.executable, "-c", program, given, folder], stdout=subprocess.PIPE, text=True, check=True
    )
    return float(ended.stdout)


def by_itself(key: str, inputs: BuildInputs, plan: Plan, folder: Path) -> float:
    variant = next(job.variant for job in plan.jobs if job.build_key == key)
    say(f"building {label_of(variant)} alone")
    given, out = folder / "alone.pickle", folder / f"alone-{key[:16]}"
    given.write_bytes(pickle.dumps((key, variant, inputs)))
    (out / "artifact").mkdir(parents=True)
    ended = subprocess.run(
        [sys.executable, "-c", ALONE, given, out / "artifact", out / "stages"],
        stdout=subprocess.PIPE,
        text=True,
        check=True,
    )
    return float(ended.stdout)


if __name__ == "__main__":
    main()
