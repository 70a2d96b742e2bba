"""Builds one artifact of PyTorch Mobile: lowers, saves and verifies the model, and writes the manifest."""

import hashlib
from dataclasses import replace
from pathlib import Path

import torch

from sweeps.manifest import EvalSibling, Manifest, TensorSpec, Verification
from sweeps.planning.axes import is_calibrated
from sweeps.variant import Variant
from workers.models.eager_model import eager_logits, load_eager
from workers.models.package import BuildInputs
from workers.runtimes.artifact_check import Standard, least_sqnr_db, verify
from workers.runtimes.finishing import EXACT_INT8, Built, Saved, write_manifest
from workers.runtimes.interface import RunRequest, Runtime
from workers.runtimes.stages import stages_of
from workers.runtimes.torchscript import metal, references
from workers.runtimes.torchscript.exact_int8 import engine_saturates
from workers.runtimes.torchscript.pipeline import lower, tensor_spec
from workers.runtimes.torchscript.program_id import program_id
from workers.runtimes.torchscript.save import bundle, save
from workers.runtimes.torchscript.torch_state import build_state

EVAL_IMAGES = 8
"""The number of images in the sibling for stock tools. With 100, MobileNetV2 would grow from 14 MB to 75 MB."""
_INPUT_TYPES = {"float32": "float"}


def build(
    runtime: Runtime, variant: Variant, build_key: str, inputs: BuildInputs, out: Path, shared: Path | None
) -> Manifest:
    """See `Runtime.build`."""
    # The versions of a sweep's other runtimes change neither stages nor manifest.
    inputs = replace(inputs, versions=runtime.versions())
    package = inputs.package
    emulated = variant.backend != "cpu"
    engine = variant.qengine if variant.precision == "int8" else "none"
    with build_state(engine):
        if variant.backend == "metal":
            metal.load_operators()
        lowered = lower(variant, inputs, stages_of(shared))
        saved = save(lowered.module, out, "ptl" if variant.format == "ptl" else "pt")
    memory_format = "channels_last" if variant.layout == "nhwc" else "contiguous_format"
    spec = tensor_spec(package.input_shape, lowered.input)
    request = RunRequest(
        model=str(saved.file),
        backend=variant.backend,
        engine=engine,
        threads=1,
        cpus="all",
        input_shape=package.input_shape,
        memory_format=memory_format,
        input_dtype=_INPUT_TYPES.get(spec.dtype, spec.dtype),
        input_scale=spec.scale,
        input_zero_point=spec.zero_point,
        reference=references.library(variant.backend) if emulated else None,
    )
    request = replace(request, exact_int8=_saturates_here_only(variant))
    verification, classes = _verified(runtime, variant, request, inputs)
    sibling = None
    if variant.backend == "nnapi":
        with build_state(engine):
            sibling = _sibling(saved, inputs, spec, memory_format)
    return write_manifest(
        runtime,
        variant,
        build_key,
        inputs,
        Built(
            saved=saved,
            memory_format=memory_format,
            input=spec,
            output=tensor_spec((package.input_shape[0], classes), lowered.output),
            verification=verification,
            fused=lowered.fused,
            # An accelerator's choices for a program may depend on the weights. Only the optimiser freezes a module.
            program_id=program_id(saved.file) if variant.optimize and not emulated else None,
            coverage=lowered.coverage,
            sibling=sibling,
        ),
    )


def _saturates_here_only(variant: Variant) -> bool:
    """Tell whether this machine's engine saturates, but the device's does not.

    The plan gives onednn the full range only if the device does not saturate; the building machine may be another one.
    """
    if variant.qengine != "onednn" or variant.reduced_range or not is_calibrated(variant):
        return False
    with build_state(variant.qengine):
        return engine_saturates()


def _verified(runtime: Runtime, variant: Variant, request: RunRequest, inputs: BuildInputs) -> tuple[Verification, int]:
    standard = _standard(variant, inputs)
    verification, classes = verify(variant, request, runtime.command, runtime.parse, inputs, standard)
    if variant.flexible_batch:
        batch, *image = request.input_shape
        twice = replace(request, input_shape=(2 * batch, *image))
        verify(variant, twice, runtime.command, runtime.parse, inputs, standard)
    executor = EXACT_INT8 if request.exact_int8 else references.names().get(variant.backend, "")
    return verification.model_copy(update={"executor": executor}), classes


def _standard(variant: Variant, inputs: BuildInputs) -> Standard:
    """Return the reference of the verification. Trained models are compared with fp32 eager. Random weights amplify
    fp16 rounding errors, so a Metal artifact with random weights is compared with an eager run that also rounds to
    fp16."""
    settled = inputs.package.weights_id.startswith("random:")
    least = least_sqnr_db(variant, settled=settled)
    if variant.backend != "metal" or not settled:
        return Standard(logits=inputs.verification_logits, against="fp32 eager", least_sqnr_db=least)
    rounded = metal.round_to_half(load_eager(inputs.package))
    logits = eager_logits(rounded, inputs.verification, inputs.package.input_shape[0])
    return Standard(logits=logits, against="fp16-rounded eager", least_sqnr_db=least)


def _sibling(saved: Saved, inputs: BuildInputs, spec: TensorSpec, memory_format: str) -> EvalSibling | None:
    batch = spec.shape[0]
    count = max(EVAL_IMAGES // batch, 1) * batch
    if len(inputs.verification) < count:
        return None
    images = torch.from_numpy(inputs.verification[:count])
    file = bundle(saved.file, images, saved.file.parent, spec, memory_format)
    return EvalSibling(file=file.name, file_sha256=hashlib.sha256(file.read_bytes()).hexdigest(), images=count)
