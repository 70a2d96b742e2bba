"""Which build axes a variant really has: what a backend or a precision leaves no choice of gets its one value.

So two cells of a grid that would be the same artifact are one variant, and a grid over backends needs no exceptions.
"""

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
}
_EAGER = Variant(runtime="eager", capture="eager")
"""As the user wrote it: nothing is captured, fused, lowered or quantized, so no axis has a choice."""
_UNCALIBRATED = frozenset({"dynamic"})
_ENGINE_OF_ABI = {"arm": "qnnpack", "x86": "x86"}


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


def resolve_variant(variant: Variant, abi: str) -> Variant:
    """The variant with every axis that has no choice set, and every `auto` replaced by what it means for this ABI.

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
        variant = replace(variant, calibration_images=0)
    return variant
