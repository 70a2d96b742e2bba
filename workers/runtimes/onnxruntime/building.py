"""Builds one artifact of ONNX Runtime: exports, lowers, saves and verifies the model, and writes the manifest."""

import hashlib
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import cache
from pathlib import Path

import onnx
import torch

from sweeps.device_facts import canonical_key
from sweeps.manifest import Manifest
from sweeps.planning.axes import saturates
from sweeps.variant import Variant
from workers.models.package import BuildInputs
from workers.runtimes.interface import RunRequest, Runtime
from workers.runtimes.onnxruntime import numbers
from workers.runtimes.onnxruntime.export import export
from workers.runtimes.torchscript.building import EXACT_INT8, Built, stages_of, write_manifest
from workers.runtimes.torchscript.pipeline import calibration_images, tensor_spec
from workers.runtimes.torchscript.quantize.calibration import check_images
from workers.runtimes.torchscript.save import Saved
from workers.runtimes.torchscript.verify import Standard, least_sqnr_db, verify


def build(
    runtime: Runtime, variant: Variant, build_key: str, inputs: BuildInputs, out: Path, shared: Path | None
) -> Manifest:
    """See `Runtime.build`."""
    inputs = replace(inputs, versions=runtime.versions())
    package = inputs.package
    saved = _saved(_Stages(variant, inputs, shared).model(), out)
    request = RunRequest(
        model=str(saved.file),
        backend="cpu",
        engine="none",
        threads=1,
        cpus="all",
        input_shape=package.input_shape,
        memory_format="contiguous_format",
        graph_optimization=variant.graph_optimization,
        # The plan gives weights of 8 bits only to devices on which their sums do not saturate, as they may do here.
        exact_int8=saturates(variant) and not variant.reduced_range,
    )
    standard = Standard(
        logits=inputs.verification_logits,
        against="fp32 eager",
        least_sqnr_db=least_sqnr_db(variant, settled=package.weights_id.startswith("random:")),
    )
    verification, classes = verify(variant, request, runtime.command, runtime.parse, inputs, standard)
    if request.exact_int8:
        verification = verification.model_copy(update={"executor": EXACT_INT8})
    return write_manifest(
        runtime,
        variant,
        build_key,
        inputs,
        Built(
            saved=saved,
            memory_format=request.memory_format,
            input=tensor_spec(package.input_shape, None),
            output=tensor_spec((package.input_shape[0], classes), None),
            verification=verification,
        ),
    )


class _Stages:
    """The stages of one variant. Each is made once for all that share it, of this machine if `shared` is given.

    export ─┬─> fp16
            └─> prepare ─┬─> calibrate ─> static int8
                         └─> dynamic int8
    """

    def __init__(self, variant: Variant, inputs: BuildInputs, shared: Path | None) -> None:
        self._variant = variant
        self._inputs = inputs
        self._kept = stages_of(shared)
        package = inputs.package
        self._of_model = {
            "model_source": package.model_source,
            "arguments": dict(package.arguments),
            "weights_id": package.weights_id,
            "input_shape": list(package.input_shape),
            "opset": variant.opset,
            "versions": dict(inputs.versions),
            "code": code_id(),
        }

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
        return self._once("onnx export", lambda: export(self._inputs.package, self._variant.opset))

    def _prepared(self) -> bytes:
        return self._once("onnx prepare", lambda: numbers.prepare(self._exported()))

    def _ranges(self) -> bytes:
        images = calibration_images(self._variant, self._inputs)
        check_images(images, torch.empty(self._inputs.package.input_shape))
        batch = self._inputs.package.input_shape[0]
        data = {"calibration_id": self._inputs.calibration_id, "images": len(images)}
        return self._once("onnx calibrate", lambda: numbers.calibrate(self._prepared(), images, batch), data)

    def _once(self, stage: str, make: Callable[[], bytes], also: Mapping[str, object] | None = None) -> bytes:
        key = canonical_key({"stage": stage, **self._of_model, **(also or {})})

        def made() -> dict[str, torch.Tensor]:
            return {"content": torch.frombuffer(bytearray(make()), dtype=torch.uint8)}

        return bytes(self._kept.tensors(stage, key, made)["content"].numpy().tobytes())


@cache
def code_id() -> str:
    """sha256 over the Python files of this package and those that make a model: the id of random weights is a seed."""
    digest = hashlib.sha256()
    models = Path(__file__).parents[2] / "models"
    for path in (*sorted(Path(__file__).parent.glob("*.py")), models / "images.py", models / "weights.py"):
        digest.update(path.read_bytes())
    return digest.hexdigest()


def _saved(model: bytes, out: Path) -> Saved:
    file = out / "model.onnx"
    file.write_bytes(model)
    parsed = onnx.load_from_string(model)
    operators = {f"{node.domain or 'ai.onnx'}::{node.op_type}" for node in parsed.graph.node}
    return Saved(file=file, operators=tuple(sorted(operators)), file_version=parsed.ir_version, bytecode_version=None)
