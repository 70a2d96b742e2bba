"""Decides from device facts which variants of ONNX Runtime are worth building. Torch-free, pure."""

from sweeps.device_facts import DeviceFacts
from sweeps.skip_kinds import Skip
from sweeps.spec import built_in
from sweeps.variant import Variant

NAME = "onnxruntime"
BLOCKED = "nchw16c"


def reason_against(variant: Variant, facts: DeviceFacts) -> Skip | None:
    """Return the reason why `variant`, with resolved axes, is impossible or pointless on the device; else `None`."""
    entry = built_in.ONNXRUNTIME
    if entry.backend(variant.backend) is None:
        return Skip("not_of_runtime", f"onnxruntime has no backend {variant.backend}")
    if variant.precision not in entry.values["precision"]:
        return Skip("not_of_runtime", f"onnxruntime has no precision {variant.precision}")
    if variant.precision == "int8" and variant.quantization not in entry.values["quantization"]:
        return Skip(
            "not_of_runtime",
            f"int8 is made by {', '.join(entry.values['quantization'])} in onnxruntime, not {variant.quantization}",
        )
    if variant.layout == BLOCKED and variant.graph_optimization != "all":
        return Skip(
            "not_all_optimized", f"{BLOCKED} is for graph_optimization: all, which alone computes in blocks of channels"
        )
    if variant.layout == BLOCKED and "avx512f" not in facts.cpu_features:
        return Skip(
            "not_in_blocks",
            f"{BLOCKED} is for CPUs with AVX-512: on others, ONNX Runtime's blocks are smaller (x86) or not known",
        )
    if (variant.capture, variant.format) != ("export", "onnx"):
        return Skip("not_of_runtime", "onnxruntime takes onnx files that were exported")
    if variant.backend != "cpu" and variant.backend not in dict(facts.backends).get(NAME, ()):
        return Skip(
            "backend_not_on_device",
            f"the ONNX Runtime of {facts.name} was compiled without the provider for {variant.backend}: "
            "edgesweep explain runtimes says how a phone gets one with it",
        )
    return None
