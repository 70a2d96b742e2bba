"""A runtime whose artifact is a table: each class is a weighted sum of the means of the image's channels.

The format `table` adds a constant to each class, `stub` does without.
"""

import hashlib
import json
import sys
from pathlib import Path

import numpy as np

from edgesweep_toy.runner import NAME, VERSION
from sweeps.device_facts import DeviceFacts
from sweeps.errors import BuildError
from sweeps.manifest import Manifest, TensorSpec, Verification
from sweeps.variant import Variant
from workers.models.package import BuildInputs
from workers.runtimes.interface import Program, RunnerIdentity, RunReport, RunRequest
from workers.runtimes.torchscript import report


class Toy:
    """The runtime `toy`: taught by the answers of the eager model."""

    name = "toy"

    def supports(self, variant: Variant, facts: DeviceFacts) -> str | None:
        return None if facts.runtime_versions else f"{facts.name} has no Python"

    def versions(self) -> dict[str, str]:
        return {"builder": "toy 1"}

    def runner(self) -> str:
        return f"{NAME} {VERSION}"

    def references(self) -> dict[str, str]:
        return {}

    def reference(self, backend: str) -> str:
        raise BuildError("no_reference", f"nothing stands in for {backend}")

    def build(
        self, variant: Variant, build_key: str, inputs: BuildInputs, out: Path, shared: Path | None = None
    ) -> Manifest:
        means = inputs.verification.mean(axis=(2, 3))
        features = np.hstack([means, np.ones((len(means), 1), dtype=np.float32)])
        logits = inputs.verification_logits
        if variant.format == "stub":
            features = means
        weights, *_ = np.linalg.lstsq(features, logits, rcond=None)
        file = out / "model.json"
        file.write_text(json.dumps(weights.tolist()))
        noise = float(np.square(features @ weights - logits).sum())
        package = inputs.package
        manifest = Manifest(
            build_key=build_key,
            model=package.name,
            model_source=package.model_source,
            weights_id=package.weights_id,
            runtime=self.name,
            backend=variant.backend,
            variant=variant.axes(),
            file=file.name,
            file_bytes=file.stat().st_size,
            file_sha256=hashlib.sha256(file.read_bytes()).hexdigest(),
            memory_format="contiguous_format",
            input=TensorSpec(shape=package.input_shape, dtype="float32"),
            output=TensorSpec(shape=(package.input_shape[0], logits.shape[1]), dtype="float32"),
            fused=(),
            operators=("weighted_sum",),
            file_version=1,
            bytecode_version=None,
            calibration_id=None,
            versions=self.versions(),
            verification=Verification(
                images=len(logits),
                engine="none",
                sqnr_db=10 * float(np.log10(np.square(logits).sum() / noise)) if noise else None,
                top1_percent=None,
                reference_top1_percent=None,
            ),
        )
        manifest.write(out)
        return manifest

    def programs(self, facts: DeviceFacts) -> dict[str, Program]:
        raise BuildError("no_runner", "toy needs Python")

    def introduction(self, program: str) -> list[str]:
        raise NotImplementedError("there is no program of toy")

    def identity(self, stdout: bytes) -> RunnerIdentity:
        raise NotImplementedError("there is no program of toy")

    def command(self, request: RunRequest, program: str | None = None) -> list[str]:
        argv = [sys.executable, "-m", "edgesweep_toy.runner", "--model", request.model, "--backend", request.backend]
        argv += ["--warmup", str(request.warmup_iterations), "--iter", str(request.iterations)]
        argv += ["--min-seconds", repr(request.min_seconds), "--threads", str(request.threads)]
        argv += ["--input-dims", ",".join(map(str, request.input_shape))]
        if request.eval_inputs is not None and request.eval_outputs is not None:
            argv += ["--eval-inputs", request.eval_inputs, "--eval-outputs", request.eval_outputs]
        return argv

    def parse(self, stdout: bytes) -> RunReport:
        return report.parse(stdout)
