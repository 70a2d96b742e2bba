"""Both benchmarks of the runtime measure the artifacts of sweeps/specs/recipe.yaml, each in fresh processes."""

import statistics
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TypeVar

from sweeps.manifest import Manifest
from sweeps.protocol import presets as protocol
from sweeps.spec import sweep as spec
from sweeps.spec.label import label_of
from sweeps.variant import Variant
from sweeps.workspace import Workspace
from workers.models import prepare as models
from workers.models.package import BuildInputs
from workers.runtimes.interface import RunRequest
from workers.runtimes.torchscript.runtime import TorchScript

ROOT = Path(__file__).resolve().parents[2]
RECIPE = ROOT / "sweeps" / "specs" / "recipe.yaml"
ROUNDS = 7
RUNTIME = TorchScript()


def load(folder: Path) -> BuildInputs:
    """The recipe's model with its calibration images."""
    say("loading the model")
    sweep = spec.load(RECIPE)
    workspace = Workspace.open(folder / "workspace")
    prepared = models.prepare(sweep.models[0], sweep.data, workspace, RUNTIME.versions(), lambda *_: None)
    return prepared.build_inputs


def build(inputs: BuildInputs, variant: Variant, folder: Path) -> RunRequest:
    """Build the variant into a folder of its own: one block of it under the recipe's protocol."""
    say(f"building {label_of(variant)}")
    out = folder / label_of(variant).replace(" ", "-")
    out.mkdir()
    manifest: Manifest = RUNTIME.build(variant, "0" * 64, inputs, out)
    block = protocol.resolve(spec.load(RECIPE).protocol)
    return RunRequest(
        model=str(out / manifest.file),
        backend=manifest.backend,
        engine=manifest.verification.engine,
        threads=1,
        cpus="all",
        input_shape=manifest.input.shape,
        memory_format=manifest.memory_format,
        warmup_iterations=block.warmup_iterations,
        iterations=block.iterations,
    )


def p50_ms(request: RunRequest) -> float:
    """Median of one block of the Python runner, in a fresh process."""
    ended = subprocess.run(RUNTIME.command(request), capture_output=True, check=False)
    return statistics.median(RUNTIME.parse(ended.stdout).samples_ns) / 1e6


_Taken = TypeVar("_Taken")


def in_turn(arms: Mapping[str, Callable[[], _Taken]], rounds: int = ROUNDS) -> dict[str, list[_Taken]]:
    """Every arm once per round; the arm that begins moves on with the rounds, so that drift hits all alike."""
    runs: dict[str, list[_Taken]] = {name: [] for name in arms}
    names = list(arms)
    for number in range(rounds):
        say(f"round {number + 1} of {rounds}")
        for name in names[number % len(names) :] + names[: number % len(names)]:
            runs[name].append(arms[name]())
    return runs


def table(runs: Mapping[str, Sequence[float]]) -> None:
    """Median, lowest and highest block median per arm."""
    print(f"{'arm':<36}{'p50 ms':>9}{'lowest':>9}{'highest':>9}")
    for name, values in runs.items():
        print(f"{name:<36}{statistics.median(values):>9.3f}{min(values):>9.3f}{max(values):>9.3f}")


def say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)
