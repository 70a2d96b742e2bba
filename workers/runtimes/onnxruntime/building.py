"""Builds one artifact of ONNX Runtime: exports, lowers, saves and verifies the model, and writes the manifest."""

from dataclasses import replace
from pathlib import Path

import onnx

from sweeps.manifest import Manifest
from sweeps.planning.axes import saturates
from sweeps.variant import Variant
from workers.models.package import BuildInputs
from workers.runtimes.calibration import calibration_images, check_images
from workers.runtimes.finishing import Saved, finish, request_of
from workers.runtimes.interface import Runtime
from workers.runtimes.onnxruntime import numbers
from workers.runtimes.onnxruntime.export import export
from workers.runtimes.stages import ByteStages


def build(
    runtime: Runtime, variant: Variant, build_key: str, inputs: BuildInputs, out: Path, shared: Path | None
) -> Manifest:
    """See `Runtime.build`."""
    inputs = replace(inputs, versions=runtime.versions())
    saved = _saved(_Stages(variant, inputs, shared).model(), out)
    request = replace(
        request_of(saved, variant, inputs),
        backend="cpu",
        # The plan gives weights of 8 bits only to devices on which their sums do not saturate, as they may do here.
        exact_int8=saturates(variant) and not variant.reduced_range,
    )
    return finish(runtime, variant, build_key, inputs, saved, request)


class _Stages:
    """The stages of one variant. Each is made once for all that share it, of this machine if `shared` is given.

    export ─┬─> fp16
            └─> prepare ─┬─> calibrate ─> static int8
                         └─> dynamic int8
    """

    def __init__(self, variant: Variant, inputs: BuildInputs, shared: Path | None) -> None:
        self._variant = variant
        self._inputs = inputs
        self._kept = ByteStages(Path(__file__).parent, inputs, shared, opset=variant.opset)

    def model(self) -> bytes:
        """The file's content. Raises `BuildError`."""
        match self._variant.precision, self._variant.quantization:
            case "fp16", _:
                return numbers.to_fp16(self._exported())
            case "int8", "dynamic":
                return numbers.to_dynamic_int8(self._prepared(), self._variant)
            case "int8", _:
                return numbers.to_static_int8(self._prepared(), self._ranges(), self._variant)
            case _:
                return self._exported()

    def _exported(self) -> bytes:
        return self._kept.once("onnx export", lambda: export(self._inputs.package, self._variant.opset))

    def _prepared(self) -> bytes:
        return self._kept.once("onnx prepare", lambda: numbers.prepare(self._exported()))

    def _ranges(self) -> bytes:
        images = calibration_images(self._variant, self._inputs)
        check_images(images, self._inputs.package.input_shape)
        batch = self._inputs.package.input_shape[0]
        return self._kept.once(
            "onnx calibrate",
            lambda: numbers.calibrate(self._prepared(), images, batch),
            calibration_id=self._inputs.calibration_id,
            images=len(images),
        )


def _saved(model: bytes, out: Path) -> Saved:
    file = out / "model.onnx"
    file.write_bytes(model)
    parsed = onnx.load_from_string(model)
    operators = {f"{node.domain or 'ai.onnx'}::{node.op_type}" for node in parsed.graph.node}
    return Saved(file=file, operators=tuple(sorted(operators)), file_version=parsed.ir_version, bytecode_version=None)
