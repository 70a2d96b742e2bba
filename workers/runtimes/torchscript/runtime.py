"""PyTorch Mobile: builds TorchScript for phones, and runs it with the Python runner. Torch-free but for `build`."""

import hashlib
import sys
from importlib import metadata
from pathlib import Path

from sweeps.errors import EdgeSweepError
from sweeps.manifest import Manifest, TensorSpec
from sweeps.records import DeviceFacts, Variant
from workers.runtimes.interface import BuildInputs, RunReport, RunRequest
from workers.runtimes.torchscript import report
from workers.runtimes.torchscript.runner import NAME, VERSION

BUILDER_VERSION = "1"
"""Raised with every change that makes another artifact of the same variant."""


class TorchScript:
    """The runtime `torchscript`."""

    name = "torchscript"

    def supports(self, variant: Variant, facts: DeviceFacts) -> str | None:
        """See `Runtime.supports`. The axes of int8 are resolved: `none` for fp32, and never `auto`."""
        if variant.backend != "cpu":
            return f"torchscript has no backend {variant.backend}"
        if variant.format != "pt":
            return f"the cpu backend builds pt files, not {variant.format}"
        if variant.capture not in ("script", "trace"):
            return f"torchscript captures by script or trace, not {variant.capture}"
        if variant.layout not in ("nchw", "nhwc"):
            return f"the cpu backend has no layout {variant.layout}"
        match variant.precision:
            case "fp32":
                return None if variant.quantization == "none" else "fp32 takes no quantization"
            case "int8":
                return _supports_int8(variant, facts)
            case _:
                return f"the cpu backend has no precision {variant.precision}"

    def versions(self) -> dict[str, str]:
        """See `Runtime.versions`. Raises `EdgeSweepError` where torch is not installed."""
        try:
            libraries = {name: metadata.version(name) for name in ("torch", "torchvision")}
        except metadata.PackageNotFoundError as error:
            raise EdgeSweepError(f"{error.name} is not installed", "pip install 'edgesweep[workers]'") from error
        return {**libraries, "builder": f"torchscript {BUILDER_VERSION}"}

    def runner(self) -> str:
        return f"{NAME} {VERSION}"

    def build(self, variant: Variant, build_key: str, inputs: BuildInputs, out: Path) -> Manifest:
        """See `Runtime.build`."""
        from workers.models import load_eager
        from workers.runtimes.torchscript.cpu import lower
        from workers.runtimes.torchscript.torch_state import build_state
        from workers.runtimes.torchscript.verify import verify

        package = inputs.package
        quantized = variant.precision == "int8"
        engine = variant.qengine if quantized else "none"
        with build_state(engine):
            lowered = lower(load_eager(package), variant, package.input_shape, inputs.calibration, out)
        request = RunRequest(
            model=str(lowered.file),
            backend=variant.backend,
            engine=engine,
            threads=1,
            cpus="all",
            input_shape=package.input_shape,
            memory_format=_memory_format(variant),
        )
        verification, classes = verify(variant, request, self.command, self.parse, inputs)
        content = lowered.file.read_bytes()
        manifest = Manifest(
            build_key=build_key,
            model=package.name,
            model_source=package.model_source,
            weights_id=package.weights_id,
            runtime=self.name,
            backend=variant.backend,
            variant=variant.axes(),
            file=lowered.file.name,
            file_bytes=len(content),
            file_sha256=hashlib.sha256(content).hexdigest(),
            memory_format=_memory_format(variant),
            input=TensorSpec(shape=package.input_shape, dtype="float32"),
            output=TensorSpec(shape=(package.input_shape[0], classes), dtype="float32"),
            fused=lowered.fused,
            operators=lowered.operators,
            file_version=lowered.file_version,
            bytecode_version=None,  # a pt file holds source, not bytecode
            calibration_id=inputs.calibration_id if quantized else None,
            versions=dict(inputs.versions),
            verification=verification,
        )
        manifest.write(out)
        return manifest

    def command(self, request: RunRequest) -> list[str]:
        """The Python runner's argument list, for the interpreter that runs now."""
        argv = [sys.executable, "-m", "workers.runtimes.torchscript.runner"]
        argv += ["--model", request.model, "--backend", request.backend, "--engine", request.engine]
        argv += ["--warmup", str(request.warmup_iterations), "--warmup-seconds", repr(request.warmup_seconds)]
        argv += ["--iter", str(request.iterations)]
        argv += ["--min-seconds", repr(request.min_seconds), "--max-seconds", repr(request.max_seconds)]
        argv += ["--threads", str(request.threads), "--cpus", request.cpus]
        argv += ["--input-dims", ",".join(map(str, request.input_shape)), "--input-type", request.input_dtype]
        if request.input_scale is not None and request.input_zero_point is not None:
            argv += ["--input-scale", repr(request.input_scale), "--input-zero-point", str(request.input_zero_point)]
        argv += ["--memory-format", request.memory_format, "--reuse-input", str(int(request.reuse_input))]
        if request.eval_inputs is not None and request.eval_outputs is not None:
            argv += ["--eval-inputs", request.eval_inputs, "--eval-outputs", request.eval_outputs]
        if request.reference is not None:
            argv += ["--reference", request.reference]
        return argv

    def parse(self, stdout: bytes) -> RunReport:
        return report.parse(stdout)


def _supports_int8(variant: Variant, facts: DeviceFacts) -> str | None:
    if variant.quantization != "static_fx":
        return f"int8 is made by static_fx, not {variant.quantization}"
    if variant.interface != "core":
        return f"int8 on the cpu has the interface core, not {variant.interface}"
    if not variant.fuse:
        return "FX quantization fuses Conv+BN itself: fuse: false is the same artifact"
    if variant.qengine not in facts.qengines:
        return f"{facts.name} has no quantized engine {variant.qengine} (it has: {', '.join(facts.qengines) or 'none'})"
    return None


def _memory_format(variant: Variant) -> str:
    return "channels_last" if variant.layout == "nhwc" else "contiguous_format"
