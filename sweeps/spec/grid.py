"""The variants in a sweep file: the axes of a grid, and their allowed values."""

from typing import Annotated, Any, Literal

from pydantic import Field, field_validator
from pydantic.config import JsonDict

from sweeps.spec.fields import Cpus, Name, Part, Release, RunnerRelease, ValueOf, check_unique
from sweeps.spec.toolchains import SAME
from sweeps.variant import INSTALLED


def _axis(default: tuple[Any, ...], description: str) -> Any:
    extra: JsonDict = {"uniqueItems": True}
    return Field(default=default, min_length=1, description=description, json_schema_extra=extra)


class GridSpec(Part):
    """Every axis is a list; all combinations are taken, over all grids."""

    name: Literal[""] | Name = Field(
        default="", description="Named grids keep their jobs apart, even of one and the same variant."
    )
    runtime: tuple[Annotated[str, ValueOf("runtime")], ...] = _axis(
        ("torchscript",),
        "Toolchain: torchscript is PyTorch Mobile; executorch and onnxruntime need the extra `runtimes`; eager is "
        "PyTorch in Python, to compare with and never to ship.",
    )
    backend: tuple[Annotated[str, ValueOf("backend")], ...] = _axis(("cpu",), "Where the operators run.")
    precision: tuple[Annotated[str, ValueOf("precision")], ...] = _axis(
        ("fp32", "int8"), "Numbers; fp16: weights and arithmetic in half precision, onnxruntime only."
    )
    quantization: tuple[Annotated[str, ValueOf("quantization")], ...] = _axis(
        ("static",),
        "How int8 is made: static (in PyTorch Mobile in FX graph mode, as static_fx, or in eager mode), dynamic "
        "(linear layers only), or static after a short quantization-aware training; fp32 ignores it.",
    )
    qengine: tuple[Annotated[str, ValueOf("qengine")], ...] = _axis(
        ("auto",),
        "Kernels of int8 on the CPU, and the qconfig that fits them; auto: qnnpack on Arm, x86 on x86. onednn on an "
        "x86 CPU without VNNI, where its sums would saturate, gets static int8 in a reduced range (weights of 7 bits).",
    )
    granularity: tuple[Annotated[str, ValueOf("granularity")], ...] = _axis(
        ("auto",), "int8 only: one scale for all weights of a layer, or one per channel; auto: the engine's default."
    )
    calibration_images: tuple[Literal["all"] | Annotated[int, Field(ge=1, le=1_000_000)], ...] = _axis(
        ("all",), "int8 only: calibrate with the first so many images of data.calibration."
    )
    interface: tuple[Annotated[str, ValueOf("interface")], ...] = _axis(
        ("core",), "int8 only: core: float in and out; full: int8 in and out; inside: NNAPI quantizes as well."
    )
    layout: tuple[Annotated[str, ValueOf("layout")], ...] = _axis(
        ("nchw", "nhwc"),
        "Memory layout of the artifact. onnxruntime has nchw (which it takes nhwc for) and nchw16c: nchw with channels "
        "filled up to 16, so that narrow layers stay in its blocks on CPUs with AVX-512.",
    )
    capture: tuple[Annotated[str, ValueOf("capture")], ...] = _axis(
        ("script",), "How TorchScript is made; mixed: traced parts in a scripted whole, as nnapi always is."
    )
    format: tuple[Annotated[str, ValueOf("format")], ...] = _axis(
        ("pt",), "For the full interpreter, or ptl for the lite one, as metal always is."
    )
    fuse: tuple[bool, ...] = _axis((True,), "cpu only: fuse Conv+BN, Conv+BN+ReLU, Conv+ReLU, Linear+ReLU.")
    optimize: tuple[bool, ...] = _axis((True,), "cpu only: apply optimize_for_mobile.")
    preference: tuple[Annotated[str, ValueOf("preference")], ...] = _axis(
        ("sustained_speed",), "nnapi only: what the phone's driver compiles for."
    )
    relaxed_fp16: tuple[bool, ...] = _axis((False,), "nnapi in fp32 only: the driver may compute in fp16.")
    flexible_batch: tuple[bool, ...] = _axis((False,), "nnapi only: one model for any batch, not for one.")
    opset: tuple[Literal["auto"] | Annotated[int, Field(ge=18, le=25)], ...] = _axis(
        ("auto",), "onnxruntime only: the version of ONNX's operators; auto: the exporter's own."
    )
    graph_optimization: tuple[Annotated[str, ValueOf("graph_optimization")], ...] = _axis(
        ("all",), "onnxruntime only: what it does to the graph as it loads it."
    )
    toolchain: tuple[Release, ...] = _axis(
        (INSTALLED,),
        "onnxruntime and executorch: the release that exports, quantizes and lowers, such as onnxruntime==1.31.1; each "
        "comes from an environment of its own (edgesweep toolchain add).",
    )
    runner_toolchain: tuple[RunnerRelease, ...] = _axis(
        (SAME,),
        "onnxruntime and executorch: the release that runs it; same: the one of toolchain; installed: the device's "
        "own.",
    )
    threads: tuple[Annotated[int, Field(ge=1, le=1024)], ...] = _axis((1,), "Threads of the runner.")
    cpus: tuple[Cpus, ...] = _axis(
        ("all",), "CPUs that the runner may use: all, big, little, or a list such as 0,1 or 0-3."
    )
    reuse_input: tuple[bool, ...] = _axis((True,), "Give every iteration the same input tensor.")

    @field_validator("*")
    @classmethod
    def _values_are_unique(cls, values: Any) -> Any:
        if isinstance(values, tuple):
            check_unique([str(value) for value in values], "the value {} is in this list twice")
        return values
