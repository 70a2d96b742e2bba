"""A variant (one value for each build axis), and the run axes of an artifact. Frozen values."""

from dataclasses import asdict, dataclass

DEFAULT_GRANULARITY = {"qnnpack": "per_tensor", "x86": "per_channel", "onednn": "per_channel"}
"""How each engine's default qconfig quantizes weights."""

_FIXED_AXES: dict[str, dict[str, str]] = {
    "nnapi": {"capture": "", "fuse": "", "optimize": ""},
    "metal": {"format": "ptl", "fuse": "", "optimize": ""},
}
"""Per backend, the axes without a choice, which a label leaves out; for the format, its usual value."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Variant:
    """One value for each build axis. Two equal variants of one model are the same artifact."""

    runtime: str = "torchscript"
    backend: str = "cpu"
    precision: str = "fp32"
    quantization: str = "none"
    qengine: str = "none"
    granularity: str = "none"
    """Granularity of int8 weights: `per_tensor` or `per_channel`."""
    calibration_images: int = 0
    """How many of the first calibration images are used; 0: all of them, or no calibration."""
    interface: str = "none"
    layout: str = "nchw"
    capture: str = "script"
    format: str = "pt"
    fuse: bool = False
    optimize: bool = False
    preference: str = "none"
    """NNAPI's compilation preference: `sustained_speed`, `fast_single_answer`, `low_power`."""
    relaxed_fp16: bool = False
    """NNAPI may compute float32 as float16."""
    flexible_batch: bool = False
    """The NNAPI model accepts any batch size."""
    reduced_range: bool = False
    """int8 weights of 7 bits, for a CPU on which sums of 8-bit products saturate. Derived from the device."""

    @property
    def label(self) -> str:
        """Short text for people, e.g. `cpu int8-x86 nhwc trace fused optimized`. It names every value that is not the
        usual one, so different variants have different labels."""
        usual = DEFAULT_GRANULARITY.get(self.qengine, "none")
        unsaid = _FIXED_AXES.get(self.backend, {})
        # An eager model has `eager` in the place of a capture method.
        words = [self.runtime] * (self.runtime not in ("torchscript", self.capture))
        words += [self.backend, self.precision if self.qengine == "none" else f"{self.precision}-{self.qengine}"]
        words += [self.quantization] * (self.quantization not in ("none", "static_fx"))
        words += [self.granularity] * (self.granularity not in ("none", usual))
        words += ["reduced-range"] * self.reduced_range
        words += [f"calibrated-on-{self.calibration_images}"] * (self.calibration_images > 0)
        words += [self.interface] * (self.interface not in ("none", "core"))
        words += [self.layout]
        words += [self.capture] * ("capture" not in unsaid)
        words += ["fused"] * (self.fuse and "fuse" not in unsaid)
        words += ["optimized"] * (self.optimize and "optimize" not in unsaid)
        words += [self.format] * (self.format != unsaid.get("format", "pt"))
        words += [self.preference] * (self.preference not in ("none", "sustained_speed"))
        words += ["relaxed-fp16"] * self.relaxed_fp16 + ["any-batch"] * self.flexible_batch
        return " ".join(words)

    def axes(self) -> dict[str, str | bool | int]:
        """The axes by name. `reduced_range` only if it is true, so that build keys from before this axis stay valid."""
        axes = asdict(self)
        if not self.reduced_range:
            del axes["reduced_range"]
        return axes


@dataclass(frozen=True, slots=True, kw_only=True)
class RunAxes:
    """How an artifact is run, as far as the user chooses it. `cpus`: `all`, `big`, `little` or a list such as `0,1`."""

    threads: int = 1
    cpus: str = "all"
    reuse_input: bool = True
