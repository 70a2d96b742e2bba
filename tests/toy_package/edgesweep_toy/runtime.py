"""A runtime whose artifact is a table: each class is a weighted sum of the image's pixels.

The format `table` adds a constant to each class, `stub` does without.
"""

import json
from pathlib import Path

import numpy as np

from edgesweep_toy.runner import NAME, VERSION, features
from sweeps.device_facts import DeviceFacts
from sweeps.errors import BuildError
from sweeps.manifest import Manifest
from sweeps.skip_kinds import Skip
from sweeps.spec import catalog
from sweeps.variant import Variant
from workers.models.package import BuildInputs
from workers.runtimes.contract import KeepsContract
from workers.runtimes.interface import Program


class Toy(KeepsContract):
    """The runtime `toy`: it learns the answers of the eager model by heart."""

    name = "toy"
    module = "edgesweep_toy.runner"

    def supports(self, variant: Variant, facts: DeviceFacts) -> Skip | None:
        if (variant.backend, variant.precision) != ("abacus", "fp32"):
            reason = f"a toy counts fp32 on its abacus, not {variant.precision} on {variant.backend}"
            return Skip("not_of_runtime", reason)
        has_python = catalog.is_host(facts.name) or facts.runtime_versions
        return None if has_python else Skip("needs_python", f"{facts.name} has no Python")

    def versions(self) -> dict[str, str]:
        return {"builder": "toy 1"}

    def runner(self) -> str:
        return f"{NAME} {VERSION}"

    def references(self) -> dict[str, str]:
        return {}

    def reference(self, backend: str, artifact: Path) -> str:
        raise BuildError("no_reference", f"nothing stands in for {backend}")

    def build(
        self, variant: Variant, build_key: str, inputs: BuildInputs, out: Path, shared: Path | None = None
    ) -> Manifest:
        from workers.models.eager_model import eager_logits, load_eager
        from workers.runtimes.finishing import Saved, finish, request_of

        answers = eager_logits(load_eager(inputs.package), inputs.verification, inputs.package.input_shape[0])
        pixels, constant = features(inputs.verification.astype(np.float64))
        known = pixels if variant.format == "stub" else np.hstack([pixels, constant])
        weights, *_ = np.linalg.lstsq(known, answers)
        file = out / "model.json"
        file.write_text(json.dumps(weights.tolist()))
        saved = Saved(file=file, operators=("weighted_sum",), file_version=1, bytecode_version=None)
        return finish(self, variant, build_key, inputs, saved, request_of(saved, variant, inputs))

    def programs(self, facts: DeviceFacts) -> dict[str, Program]:
        raise BuildError("no_runner", "toy needs Python")
