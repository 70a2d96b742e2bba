"""The variant (one value for each build axis), and the run axes of an artifact. Frozen values."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass

DEFAULT_GRANULARITY = {"qnnpack": "per_tensor", "x86": "per_channel", "onednn": "per_channel", "none": "per_channel"}
"""The granularity with which the default qconfig of each of PyTorch's engines quantizes weights; `none`: a runtime that
has no engine."""


INSTALLED = "installed"
"""The toolchain of this environment, without a chosen release."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Variant:
    """One value for each build axis. Two equal variants of one model are the same artifact."""

    runtime: str = "torchscript"
    backend: str = "cpu"
    precision: str = "fp32"
    quantization: str = "none"
    qengine: str = "none"
    granularity: str = "none"
    """The granularity of int8 weights: `per_tensor` or `per_channel`."""
    calibration_images: int = 0
    """The number of calibration images: the first ones are used; 0: all of them, or no calibration."""
    interface: str = "none"
    layout: str = "nchw"
    capture: str = "script"
    format: str = "pt"
    fuse: bool = False
    optimize: bool = False
    preference: str = "none"
    """The compilation preference of NNAPI: `sustained_speed`, `fast_single_answer`, `low_power`."""
    relaxed_fp16: bool = False
    """Whether NNAPI may compute float32 as float16."""
    flexible_batch: bool = False
    """Whether the NNAPI model accepts any batch size."""
    reduced_range: bool = False
    """Whether int8 weights have only 7 bits, for a CPU on which sums of 8-bit products saturate. The axis is derived
    from the device."""
    opset: int = 0
    """The version of ONNX's operators; 0: the exporter's default, or no ONNX."""
    graph_optimization: str = "none"
    """The graph optimization with which ONNX Runtime loads the graph: `all`, `extended`, `basic` or `disabled`."""
    toolchain: str = INSTALLED
    """The release of the runtime's library that exports, quantizes and lowers, such as `onnxruntime==1.31.1`."""
    runner_toolchain: str = INSTALLED
    """The release that runs the artifact, including its verification. On a phone, `installed` is the release on the
    phone."""

    def axes(self) -> dict[str, str | bool | int]:
        """Return the axes by name. Axes that were added later are left out at their default, so that older keys stay
        valid."""
        return {
            name: value for name, value in asdict(self).items() if name not in LATER_AXES or value != LATER_AXES[name]
        }


LATER_AXES: Mapping[str, str | bool | int] = {
    name: getattr(Variant(), name)
    for name in ("reduced_range", "opset", "graph_optimization", "toolchain", "runner_toolchain")
}
"""The axes that the first build keys did not have, with their defaults. A new axis must be added here."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RunAxes:
    """How an artifact is run, as far as the user chooses it. `cpus`: `all`, `big`, `little` or a list such as `0,1`."""

    threads: int = 1
    cpus: str = "all"
    reuse_input: bool = True
