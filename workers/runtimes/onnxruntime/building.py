"""Builds one artifact of ONNX Runtime: exports, lowers, saves and verifies the model, and writes the manifest."""

import re
from collections import Counter
from dataclasses import replace
from pathlib import Path

import numpy as np
import onnx
import onnxruntime

from sweeps.errors import BuildError
from sweeps.manifest import Manifest
from sweeps.temporary import temporary_folder
from sweeps.variant import Variant
from workers.models.package import BuildInputs
from workers.runtimes.calibration_images import calibration_images, check_images
from workers.runtimes.finishing import Saved, finish, request_of
from workers.runtimes.interface import RunRequest, Runtime
from workers.runtimes.onnxruntime import numbers, profile, runner
from workers.runtimes.onnxruntime.blocked import blocked
from workers.runtimes.onnxruntime.export import export
from workers.runtimes.onnxruntime.onnx_multiply_adds import share_of
from workers.runtimes.onnxruntime.supports import BLOCKED
from workers.runtimes.stages import ByteStages

CPU_PROVIDER = "ONNX Runtime's CPU provider"
"""`Verification.executor` of artifacts for a provider that only devices have."""
_NO_KERNEL = re.compile(r"Could not find an implementation for (\w+)")


def build(
    runtime: Runtime, variant: Variant, build_key: str, inputs: BuildInputs, out: Path, shared: Path | None
) -> Manifest:
    """See `Runtime.build`."""
    inputs = replace(inputs, versions=runtime.versions())
    saved = _saved(_Stages(variant, inputs, shared).model(), out)
    request = replace(
        request_of(saved, variant, inputs),
        backend="cpu",
        # The plan gives 8-bit weights only to devices on which their sums do not saturate; on this machine they may
        # saturate. The file is checked with the CPU's provider, whatever provider runs it on the device.
        exact_int8=variant.precision == "int8" and not variant.reduced_range,
    )
    try:
        manifest = finish(runtime, variant, build_key, inputs, saved, request)
    except BuildError as error:
        raise _named(error, variant, saved.file) from error
    # The providers are counted only after the verification, which refuses a file that ends the process that loads it.
    changes: dict[str, object] = {"providers": _providers(saved.file, request)}
    if variant.backend != request.backend:
        changes["verification"] = manifest.verification.model_copy(update={"executor": CPU_PROVIDER})
    manifest = manifest.model_copy(update=changes)
    manifest.write(out)
    return manifest


class _Stages:
    """The stages of one variant. Each runs once for all variants that share it; if `shared` is given, once per machine.

    export ─┬─> blocked, if nchw16c ─> fp16
            └─> prepare ─┬─> calibrate ─> static int8
                         └─> dynamic int8
    """

    def __init__(self, variant: Variant, inputs: BuildInputs, shared: Path | None) -> None:
        self._variant = variant
        self._inputs = inputs
        self._stages = ByteStages(Path(__file__).parent, inputs, shared, opset=variant.opset)

    def model(self) -> bytes:
        """Return the content of the variant's file. Raises `BuildError`."""
        match self._variant.precision, self._variant.quantization:
            case "fp16", _:
                return numbers.to_fp16(self._laid_out())
            case "int8", "dynamic":
                return numbers.to_dynamic_int8(self._prepared(), self._variant)
            case "int8", _:
                return self._static_int8()
            case _:
                return self._laid_out()

    def _laid_out(self) -> bytes:
        return blocked(self._exported()) if self._variant.layout == BLOCKED else self._exported()

    def _exported(self) -> bytes:
        # ONNX Runtime has no part in the export: all its releases share the exported model.
        versions = {name: version for name, version in self._inputs.versions.items() if name != "onnxruntime"}
        return self._stages.once(
            "onnx export", lambda: export(self._inputs.package, self._variant.opset), versions=versions
        )

    def _prepared(self) -> bytes:
        return self._stages.once("onnx prepare", lambda: numbers.prepare(self._exported()))

    def _static_int8(self) -> bytes:
        images = calibration_images(self._variant, self._inputs)
        check_images(images, self._inputs.package.input_shape)
        batch = self._inputs.package.input_shape[0]
        if not numbers.keeps_ranges():
            return numbers.calibrated_int8(self._prepared(), images, batch, self._variant)
        ranges = self._stages.once(
            "onnx calibrate",
            lambda: numbers.calibrate(self._prepared(), images, batch),
            calibration_id=self._inputs.calibration_id,
            images=len(images),
        )
        return numbers.to_static_int8(self._prepared(), ranges, self._variant)


def _named(error: BuildError, variant: Variant, file: Path) -> BuildError:
    """Return an error that names the operator without a kernel, if the library that built the file lacks the kernel. An
    error of another release, such as a device's older one, is returned unchanged."""
    match = _NO_KERNEL.search(error.message)
    if error.kind != "runtime_skew" or match is None or variant.toolchain != variant.runner_toolchain:
        return error
    named = share_of(match[1], onnx.load(file))
    return BuildError(
        "unsupported_operator",
        f"onnxruntime {onnxruntime.__version__} has no kernel for {named}: {error.message}",
        "replace this operator in the model, choose another precision, or ship it with another runtime",
    )


def _providers(file: Path, request: RunRequest) -> dict[str, int]:
    """Return the number of nodes by the provider that runs them, after the optimisation that the request asks for."""
    options = runner.session_options(request.graph_optimization, request.threads)
    with temporary_folder() as folder:
        options.enable_profiling = True
        options.profile_file_prefix = str(folder / "profile")
        session = onnxruntime.InferenceSession(str(file), options, providers=[runner.PROVIDERS[request.backend]])
        session.run(None, {session.get_inputs()[0].name: np.zeros(request.input_shape, np.float32)})
        nodes = {run.node: run.provider for run in profile.runs(Path(session.end_profiling()).read_text("utf-8"))}
    return dict(sorted(Counter(nodes.values()).items()))


def _saved(model: bytes, out: Path) -> Saved:
    file = out / "model.onnx"
    file.write_bytes(model)
    parsed = onnx.load_from_string(model)
    operators = {f"{node.domain or 'ai.onnx'}::{node.op_type}" for node in parsed.graph.node}
    return Saved(file=file, operators=tuple(sorted(operators)), file_version=parsed.ir_version, bytecode_version=None)
