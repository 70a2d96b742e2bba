"""The end of every build: verifies the saved model, and writes the manifest."""

import hashlib
from dataclasses import dataclass
from pathlib import Path

from sweeps.manifest import Coverage, EvalSibling, Manifest, TensorSpec, Verification
from sweeps.planning.axes import is_calibrated
from sweeps.variant import Variant
from workers.models.package import BuildInputs
from workers.runtimes.artifact_check import Standard, least_sqnr_db, verify
from workers.runtimes.interface import RunRequest, Runtime

EXACT_INT8 = "exact int8 arithmetic"
"""`Verification.executor` of artifacts that are checked in exact arithmetic: this machine's engine saturates, the
device's does not."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Saved:
    """A saved model, with the features that a runtime needs to load it."""

    file: Path
    operators: tuple[str, ...]
    """The operators with overload names, sorted: `aten::conv2d`, `aten::add.Tensor`."""
    file_version: int
    bytecode_version: int | None
    """The version of the bytecode; `None` for `pt`, which contains source code."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Built:
    """A saved and verified model, with the content of its manifest."""

    saved: Saved
    memory_format: str
    input: TensorSpec
    output: TensorSpec
    verification: Verification
    fused: tuple[str, ...] = ()
    program_id: str | None = None
    coverage: Coverage | None = None
    sibling: EvalSibling | None = None


def request_of(
    saved: Saved, variant: Variant, inputs: BuildInputs, *, memory_format: str = "contiguous_format"
) -> RunRequest:
    """Return the request that verifies a model with float inputs and outputs, on one thread of this machine."""
    return RunRequest(
        model=str(saved.file),
        backend=variant.backend,
        engine="none",
        threads=1,
        cpus="all",
        input_shape=inputs.package.input_shape,
        memory_format=memory_format,
        sha256=hashlib.sha256(saved.file.read_bytes()).hexdigest(),
        graph_optimization=variant.graph_optimization,
    )


def standard_of(variant: Variant, inputs: BuildInputs) -> Standard:
    """Return the reference of the verification: the user's own fp32 eager model."""
    return Standard(
        logits=inputs.verification_logits,
        against="fp32 eager",
        least_sqnr_db=least_sqnr_db(variant, settled=inputs.package.weights_id.startswith("random:")),
    )


def finish(
    runtime: Runtime,
    variant: Variant,
    build_key: str,
    inputs: BuildInputs,
    saved: Saved,
    request: RunRequest,
    coverage: Coverage | None = None,
    verification: Verification | None = None,
    sibling: EvalSibling | None = None,
) -> Manifest:
    """Verify a model with float inputs and outputs by running `request`, and write its manifest. Raises `BuildError`.

    `verification`: the result, for a model that no runner of this machine can run; `sibling`: the file that a host
    evaluates in its place.
    """
    if verification is None:
        standard = standard_of(variant, inputs)
        verification, _ = verify(variant, request, runtime.command, runtime.parse, inputs, standard)
    if request.exact_int8:
        verification = verification.model_copy(update={"executor": EXACT_INT8})
    shape = request.input_shape
    built = Built(
        saved=saved,
        memory_format=request.memory_format,
        input=TensorSpec(shape=shape, dtype="float32"),
        output=TensorSpec(shape=(shape[0], inputs.verification_logits.shape[1]), dtype="float32"),
        verification=verification,
        coverage=coverage,
        sibling=sibling,
    )
    return write_manifest(runtime, variant, build_key, inputs, built)


def write_manifest(runtime: Runtime, variant: Variant, build_key: str, inputs: BuildInputs, built: Built) -> Manifest:
    """Write the manifest of a build beside the model, and return it. All runtimes that save a model in one file use
    this."""
    package, saved = inputs.package, built.saved
    content = saved.file.read_bytes()
    manifest = Manifest(
        build_key=build_key,
        model=package.name,
        model_source=package.model_source,
        weights_id=package.weights_id,
        runtime=runtime.name,
        backend=variant.backend,
        variant=variant.axes(),
        file=saved.file.name,
        file_bytes=len(content),
        file_sha256=hashlib.sha256(content).hexdigest(),
        memory_format=built.memory_format,
        input=built.input,
        output=built.output,
        fused=built.fused,
        operators=saved.operators,
        program_id=built.program_id,
        file_version=saved.file_version,
        bytecode_version=saved.bytecode_version,
        calibration_id=inputs.calibration_id if is_calibrated(variant) else None,
        versions=runtime.versions(),
        verification=built.verification,
        coverage=built.coverage,
        eval=built.sibling,
    )
    manifest.write(saved.file.parent)
    return manifest
