"""The label of a variant: a short text for people."""

from sweeps.spec import catalog, toolchains
from sweeps.variant import DEFAULT_GRANULARITY, INSTALLED, Variant

_USUAL = Variant()


def label_of(variant: Variant) -> str:
    """Return the label of a variant, such as `cpu int8-x86 nhwc trace fused optimized`. It names every value that is
    not the default, so different variants have different labels."""
    backend = catalog.backend_of(variant)
    unsaid = backend.unsaid
    usual = DEFAULT_GRANULARITY.get(variant.qengine, "none")
    usual_format = backend.fixed.get("format", _USUAL.format) if "format" in unsaid else _USUAL.format
    # For an eager model, the capture already reads `eager`, so the runtime is not named a second time.
    words = [variant.runtime] * (variant.runtime not in (_USUAL.runtime, variant.capture))
    words += [
        variant.backend,
        variant.precision if variant.qengine == "none" else f"{variant.precision}-{variant.qengine}",
    ]
    words += [variant.quantization] * (variant.quantization not in ("none", "static", "static_fx"))
    words += [variant.granularity] * (variant.granularity not in ("none", usual))
    words += ["reduced-range"] * variant.reduced_range
    words += [f"calibrated-on-{variant.calibration_images}"] * (variant.calibration_images > 0)
    words += [variant.interface] * (variant.interface not in ("none", "core"))
    words += [variant.layout]
    words += [variant.capture] * ("capture" not in unsaid)
    words += ["fused"] * (variant.fuse and "fuse" not in unsaid)
    words += ["optimized"] * (variant.optimize and "optimize" not in unsaid)
    words += [variant.format] * (variant.format != usual_format)
    words += [variant.preference] * (variant.preference not in ("none", "sustained_speed"))
    words += ["relaxed-fp16"] * variant.relaxed_fp16 + ["any-batch"] * variant.flexible_batch
    words += [f"opset-{variant.opset}"] * (variant.opset > 0)
    words += [f"graph-{variant.graph_optimization}"] * (variant.graph_optimization not in ("none", "all"))
    words += [toolchains.word(variant.toolchain)] * (variant.toolchain != INSTALLED)
    words += [f"run-by-{toolchains.word(variant.runner_toolchain)}"] * (variant.runner_toolchain != variant.toolchain)
    return " ".join(words)


def names_of_job(name: str, name_here: str, model: str) -> set[str]:
    """Return the names by which people may give a job: its name in the plan (`name`) and in its device's table
    (`name_here`), each with and without the model."""
    return {text.removeprefix(lead) for text in (name, name_here) for lead in ("", f"{model} · ")}
