"""Decides from device facts which variants of PyTorch Mobile are worth building. Torch-free, pure."""

import re

from sweeps.device_facts import DeviceFacts
from sweeps.skip_kinds import Skip
from sweeps.variant import Variant
from workers.native.compiler import INSTALL

LAYOUTS = ("nchw", "nhwc")
CAPTURES = ("script", "trace", "mixed")
METHODS = ("static_fx", "static_eager", "dynamic", "qat")
NNAPI_PER_CHANNEL_LEVEL = 29
"""API level of Android 10, which introduced weights with a scale per channel (TENSOR_QUANT8_SYMM_PER_CHANNEL)."""
METAL_FROM_A = 9
"""PyTorch's Metal backend needs Apple's A9 chip or later."""


def reason_against(variant: Variant, facts: DeviceFacts) -> Skip | None:
    """Return the reason why `variant`, with resolved axes, is impossible or pointless on the device; else `None`."""
    backends = {"cpu": _cpu, "nnapi": _nnapi, "metal": _metal}
    if variant.backend not in backends:
        return Skip("not_of_runtime", f"torchscript has no backend {variant.backend}")
    if variant.layout not in LAYOUTS:
        return Skip("not_of_runtime", f"torchscript has no layout {variant.layout}")
    if variant.capture not in CAPTURES:
        return Skip("not_of_runtime", f"torchscript captures by {', '.join(CAPTURES)}, not {variant.capture}")
    if variant.format not in ("pt", "ptl"):
        return Skip("not_of_runtime", f"torchscript writes pt and ptl files, not {variant.format}")
    if variant.precision not in ("fp32", "int8"):
        return Skip("not_of_runtime", f"torchscript has no precision {variant.precision}")
    if variant.precision == "fp32" and variant.quantization != "none":
        return Skip("not_of_runtime", "fp32 takes no quantization")
    if variant.precision == "int8" and variant.quantization not in METHODS:
        return Skip("not_of_runtime", f"int8 is made by {', '.join(METHODS)}, not {variant.quantization}")
    return backends[variant.backend](variant, facts)


def _cpu(variant: Variant, facts: DeviceFacts) -> Skip | None:
    if variant.precision == "fp32":
        return None
    if variant.interface == "inside":
        return Skip("duplicate", "duplicate of core: on the cpu a model with float ends always quantizes by itself")
    if variant.interface not in ("core", "full"):
        return Skip("no_such_interface", f"int8 on the cpu has the interfaces core and full, not {variant.interface}")
    if variant.quantization == "dynamic":
        if variant.interface == "full":
            return Skip("no_such_interface", "dynamic int8 has floats between its layers, and so at its ends")
    elif not variant.fuse:
        return Skip("duplicate", "quantization fuses Conv+BN itself: fuse: false is the same artifact")
    if variant.qengine not in facts.qengines:
        return Skip(
            "no_quantized_engine",
            f"{facts.name} has no quantized engine {variant.qengine} (known: {', '.join(facts.qengines) or 'none'})",
        )
    return None


def _nnapi(variant: Variant, facts: DeviceFacts) -> Skip | None:
    if variant.quantization == "dynamic":
        return Skip("not_on_nnapi", "NNAPI has no dynamic quantization")
    if "nnapi" in facts.emulates:
        return None
    if facts.nnapi_level is None:
        return _unchecked("NNAPI", facts)
    if variant.granularity == "per_channel" and facts.nnapi_level < NNAPI_PER_CHANNEL_LEVEL:
        return Skip(
            "nnapi_level",
            f"{facts.name} has NNAPI level {facts.nnapi_level}; weights per channel need {NNAPI_PER_CHANNEL_LEVEL}",
        )
    return None


def _metal(variant: Variant, facts: DeviceFacts) -> Skip | None:
    if variant.precision == "int8":
        return Skip("not_on_metal", "PyTorch's Metal backend has no quantized operators")
    if variant.layout == "nhwc":
        return Skip("no_effect", "no effect: Metal keeps a layout of its own")
    if "metal" in facts.emulates:
        return None
    if facts.maker != "Apple":
        return _unchecked("Metal", facts)
    chip = re.search(r"\bA(\d+)\b", facts.soc)
    if chip and int(chip[1]) < METAL_FROM_A:
        return Skip(
            "not_on_metal", f"Metal needs Apple's A{METAL_FROM_A} chip or later; {facts.name} has an A{chip[1]}"
        )
    return None


def _unchecked(backend: str, facts: DeviceFacts) -> Skip:
    if facts.name == "local":
        return Skip(
            "needs_compiler",
            f"{backend} models are checked here with a library that is compiled on first use: {INSTALL}",
        )
    return Skip("backend_not_on_device", f"{facts.name} has no {backend}")
