"""Decides from device facts which variants of ExecuTorch are worth building. Torch-free, pure."""

from sweeps.device_facts import DeviceFacts
from sweeps.skip_kinds import Skip
from sweeps.spec import built_in
from sweeps.variant import Variant

NAME = "executorch"


def reason_against(variant: Variant, facts: DeviceFacts) -> Skip | None:
    """Return the reason why `variant`, with resolved axes, is impossible or pointless on the device; else `None`."""
    entry = built_in.EXECUTORCH
    if entry.backend(variant.backend) is None:
        return Skip("not_of_runtime", f"executorch has no backend {variant.backend}")
    if variant.precision not in entry.values["precision"]:
        return Skip("not_of_runtime", f"executorch has no precision {variant.precision}")
    if variant.backend == "portable" and variant.precision == "int8":
        return Skip("duplicate", "portable kernels compute int8 in float32: fp32 is the same, and faster")
    if variant.backend == "vulkan" and variant.precision == "int8":
        return Skip("not_of_runtime", "EdgeSweep builds fp32 for Vulkan")
    if variant.precision == "int8" and variant.quantization not in entry.values["quantization"]:
        return Skip(
            "not_of_runtime",
            f"int8 is made by {', '.join(entry.values['quantization'])} in executorch, not {variant.quantization}",
        )
    if (variant.capture, variant.format) != ("export", "pte"):
        return Skip("not_of_runtime", "executorch takes pte files that were exported")
    has_vulkan = "vulkan" in dict(facts.backends).get(NAME, ()) or "vulkan" in facts.emulates
    if variant.backend == "vulkan" and not has_vulkan:
        return Skip(
            "backend_not_on_device",
            f"the ExecuTorch of {facts.name} was compiled without Vulkan: "
            "edgesweep explain runtimes says how a phone gets one with it, and how its export is checked without one",
        )
    return None
