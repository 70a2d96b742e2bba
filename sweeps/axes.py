"""Which build axes a variant really has: what a backend or a precision leaves no choice of gets its one value.

So two cells of a grid that would be the same artifact are one variant, and a grid over backends needs no exceptions.
"""

from collections.abc import Collection
from dataclasses import replace
from typing import Any

from sweeps.records import DEFAULT_GRANULARITY, Variant

_EVERYWHERE = frozenset({"runtime", "backend", "precision", "layout"})
_OF_BACKEND = {
    "cpu": frozenset({"capture", "format", "fuse", "optimize"}),
    "nnapi": frozenset({"format", "preference", "flexible_batch"}),
    "metal": frozenset({"capture"}),
}
_OF_INT8 = frozenset({"quantization", "granularity", "calibration_images", "interface"})
_FIXED: dict[str, dict[str, Any]] = {
    "cpu": {"preference": "none", "relaxed_fp16": False, "flexible_batch": False},
    # A traced core that NNAPI runs, in a scripted whole. Its converter takes fused models only.
    "nnapi": {"capture": "mixed", "fuse": True, "optimize": False},
    # The Metal passes are a part of optimize_for_mobile, and fuse by themselves; iOS loads the lite format.
    "metal": {
        **{"format": "ptl", "fuse": True, "optimize": True},
        **{"preference": "none", "relaxed_fp16": False, "flexible_batch": False},
    },
}
_FP32: dict[str, Any] = {
    "quantization": "none",
    "qengine": "none",
    "granularity": "none",
    "calibration_images": 0,
    "interface": "none",
    "reduced_range": False,
}
_EAGER = Variant(runtime="eager", capture="eager")
"""As the user wrote it: nothing is captured, fused, lowered or quantized, so no axis has a choice."""
_UNCALIBRATED = frozenset({"dynamic"})
_ENGINE_OF_ABI = {"arm": "qnnpack", "x86": "x86"}
_EXACT_INT8 = frozenset({"avx_vnni", "avx512_vnni", "amx_int8"})
"""x86 instructions that add 8-bit products in 32 bits. Without them oneDNN adds two at a time in 16 (VPMADDUBSW), and
255 * 127 * 2 is more than fits; 255 * 64 * 2 is not."""


def free_axes(backend: str, precision: str, quantization: str) -> frozenset[str]:
    """The build axes that have a choice for this backend, precision and (int8 only) way to quantize."""
    axes = _EVERYWHERE | _OF_BACKEND.get(backend, frozenset())
    if precision == "int8":
        axes |= _OF_INT8 | ({"qengine"} if backend == "cpu" else set())
        axes -= {"calibration_images"} if quantization in _UNCALIBRATED else set()
    elif backend == "nnapi":
        axes |= {"relaxed_fp16"}
    return axes


def is_calibrated(variant: Variant) -> bool:
    """Whether calibration data go into the artifact."""
    return variant.precision == "int8" and variant.quantization not in _UNCALIBRATED


def saturates_int8(abi: str, cpu_features: Collection[str]) -> bool:
    """Whether oneDNN's sums of 8-bit products may saturate on such a CPU: one of x86 that is not known to be better."""
    return abi.startswith("x86") and _EXACT_INT8.isdisjoint(cpu_features)


def resolve_variant(variant: Variant, abi: str, cpu_features: Collection[str] = ()) -> Variant:
    """The variant with every axis that has no choice set, and every `auto` replaced by what it means for this device.

    An engine stays `auto` where none is known for the ABI.
    """
    if variant.runtime == "eager":
        return _EAGER
    variant = replace(variant, **_FIXED.get(variant.backend, {}))
    if variant.precision == "fp32":
        return replace(variant, **_FP32)
    variant = replace(variant, relaxed_fp16=False)
    if variant.backend != "cpu":
        variant = replace(variant, qengine="qnnpack")  # whose numbers phones' accelerators are made for
    elif variant.qengine == "auto":
        engines = (engine for family, engine in _ENGINE_OF_ABI.items() if abi.startswith(family))
        variant = replace(variant, qengine=next(engines, "auto"))
    if variant.granularity == "auto":
        variant = replace(variant, granularity=DEFAULT_GRANULARITY.get(variant.qengine, "auto"))
    if variant.quantization in _UNCALIBRATED:
        # Its activations have 7 bits on every CPU: torch's dynamic linears ask for that by themselves.
        return replace(variant, calibration_images=0, reduced_range=False)
    saturates = variant.qengine == "onednn" and saturates_int8(abi, cpu_features)
    return replace(variant, reduced_range=saturates)
