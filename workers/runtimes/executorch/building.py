"""Builds one artifact of ExecuTorch: exports, quantizes, lowers, saves and verifies the model."""

import hashlib
from dataclasses import replace
from pathlib import Path

import torch
from torch.export import ExportedProgram

from sweeps.errors import BuildError
from sweeps.manifest import EvalSibling, Manifest, Verification
from sweeps.variant import Variant
from workers.models.eager_model import eager_logits
from workers.models.package import BuildInputs
from workers.runtimes.artifact_check import judge
from workers.runtimes.calibration_images import calibration_images, check_images
from workers.runtimes.executorch import export, pte, refusals, vulkan_reference
from workers.runtimes.executorch.lowering import Lowered, lower, unsupported
from workers.runtimes.executorch.quantization import Observed, exported_int8
from workers.runtimes.executorch.runner import library
from workers.runtimes.finishing import Saved, finish, request_of, standard_of
from workers.runtimes.interface import Runtime
from workers.runtimes.stages import ByteStages

EXPORTED_GRAPH = "the exported graph"
"""`Verification.executor` of artifacts for a backend that only devices have: their lowered graph was run in PyTorch."""


def build(
    runtime: Runtime, variant: Variant, build_key: str, inputs: BuildInputs, out: Path, shared: Path | None
) -> Manifest:
    """See `Runtime.build`."""
    inputs = replace(inputs, versions=runtime.versions())
    program = _Stages(variant, inputs, shared).program()
    on_device = variant.backend == "vulkan"
    # Lowering takes constants out of the program.
    exported = export.saved(program) if on_device else b""
    try:
        lowered = lower(program, variant)
        saved, head = _saved(lowered, out)
        _check_kernels(head, program.graph)
        # The exporter chooses a layout if several are the same in memory for a shape.
        request = request_of(saved, variant, inputs, memory_format=head.inputs[0].memory_format)
        if not on_device:
            return finish(runtime, variant, build_key, inputs, saved, request, lowered.coverage)
    except BuildError as error:
        raise refusals.named(error, program.graph, inputs.package.files) from error
    (out / vulkan_reference.FILE).write_bytes(exported)
    sibling = EvalSibling(file=vulkan_reference.FILE, file_sha256=hashlib.sha256(exported).hexdigest(), images=0)
    verification = _of_graph(lowered, variant, inputs)
    return finish(runtime, variant, build_key, inputs, saved, request, lowered.coverage, verification, sibling)


class _Stages:
    """The stages of one variant. Each runs once for all variants that share it; if `shared` is given, once per machine.

    export in the layout ──────────────────────────────> fp32
    export in NCHW ─┬─> calibrate ─> quantize ─┬─> export in the layout: int8
                    └──────────────> quantize ─┘

    A model is observed and quantized in NCHW for all layouts, as models for PyTorch Mobile are.
    """

    def __init__(self, variant: Variant, inputs: BuildInputs, shared: Path | None) -> None:
        self._variant = variant
        self._inputs = inputs
        self._shape = inputs.package.input_shape
        self._stages = ByteStages(Path(__file__).parent, inputs, shared)

    def program(self) -> ExportedProgram:
        """Return the exported program of the variant. Raises `BuildError`."""
        layout = self._variant.layout
        if self._variant.precision != "int8":
            return self._exported(layout)
        try:
            return exported_int8(self._quantized("nchw"), self._shape, layout)
        except BuildError as error:
            if layout == "nchw" or error.kind != "not_exportable":
                raise
        # In NCHW a graph lacks operators that only another layout needs, such as a `contiguous` before a `view`.
        return exported_int8(self._quantized(layout), self._shape, layout)

    def _exported(self, layout: str) -> ExportedProgram:
        """Return the exported program, loaded anew in each call: lowering takes constants out of it."""
        package = self._inputs.package
        return export.loaded(
            self._stages.once("executorch export", lambda: export.export(package, layout), layout=layout)
        )

    def _quantized(self, layout: str) -> torch.fx.GraphModule:
        """Return the quantized graph of the model, with ranges observed in this layout."""
        images = None
        of_images: dict[str, object] = {}
        if self._variant.quantization != "dynamic":
            images = calibration_images(self._variant, self._inputs)
            check_images(images, self._shape)
            of_images = {"calibration_id": self._inputs.calibration_id, "images": len(images)}

        def quantized() -> torch.fx.GraphModule:
            observed = Observed(self._exported(layout), self._shape, self._variant, layout)
            if images is None:
                return observed.quantized(None)
            ranges = self._stages.once(
                "executorch calibrate", lambda: observed.calibrate(images), layout=layout, **of_images
            )
            return observed.quantized(ranges)

        granularity = self._variant.granularity
        return self._stages.module(
            "executorch quantize", quantized, layout=layout, granularity=granularity, **of_images
        )


def _saved(lowered: Lowered, out: Path) -> tuple[Saved, pte.Head]:
    file = out / "model.pte"
    file.write_bytes(lowered.file)
    head = pte.read(file)
    operators = (*(f"delegate::{name}" for name in head.delegates), *head.operators)
    return Saved(file=file, operators=operators, file_version=head.version, bytecode_version=None), head


def _of_graph(lowered: Lowered, variant: Variant, inputs: BuildInputs) -> Verification:
    logits = eager_logits(lowered.runs(), inputs.verification, inputs.package.input_shape[0])
    verification = judge(variant, "none", logits, inputs, standard_of(variant, inputs))
    return verification.model_copy(update={"executor": EXPORTED_GRAPH})


def _check_kernels(head: pte.Head, graph: torch.fx.Graph) -> None:
    """Raises `BuildError` for an operator without a kernel, which otherwise would fail only on the device."""
    operators = {*library()._get_operator_names()}
    if missing := [name for name in head.operators if name not in operators]:
        raise unsupported(missing, graph)
