"""The request to a runner for one artifact, before the number of iterations or the images are set."""

from sweeps.manifest import Manifest
from sweeps.variant import RunAxes, Variant
from workers.runtimes.interface import RunRequest

# Names of the runner contract for input types, by torch's names in manifests.
_INPUT_TYPES = {"float32": "float"}


def run_request(variant: Variant, run: RunAxes, manifest: Manifest, model: str) -> RunRequest:
    """Return a request for one iteration, without a warm-up. `model`: the path of the artifact on the device."""
    return RunRequest(
        model=model,
        backend=variant.backend,
        engine=variant.qengine,
        threads=run.threads,
        cpus=run.cpus,
        input_shape=manifest.input.shape,
        memory_format=manifest.memory_format,
        input_dtype=_INPUT_TYPES.get(manifest.input.dtype, manifest.input.dtype),
        input_scale=manifest.input.scale,
        input_zero_point=manifest.input.zero_point,
        reuse_input=run.reuse_input,
        sha256=manifest.file_sha256,
        graph_optimization=variant.graph_optimization,
    )
