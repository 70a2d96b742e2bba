"""The stages of a build and their dependencies. Torch-free, so that keys are known before any model is loaded.

    load ─┬─> graph ─┬─> fuse ──────────────────────────────┐
          │          └─> prepare ─> calibrate ─> convert ───┼─> capture ─> lower
          └──────────────────────────────────────────────────┘

A stage's key is made of its own flags and the keys of the stages before it. So two variants share exactly the stages
with equal inputs, and a change of an input changes the stages after it and no others.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from sweeps.device_facts import canonical_key
from sweeps.spec.model_inputs import Argument
from sweeps.variant import Variant
from workers.runtimes.builder_code import code_of


@dataclass(frozen=True, slots=True, kw_only=True)
class Sources:
    """The inputs of all variants of one model."""

    model_source: str
    arguments: Mapping[str, Argument]
    weights_id: str
    input_shape: tuple[int, ...]
    calibration_id: str
    versions: Mapping[str, str]
    code: str
    """sha256 over EdgeSweep's own code that builds, and that creates random weights."""


def code_id() -> str:
    """Return the hash of this package's code."""
    return code_of(Path(__file__).parent)


def stage_keys(variant: Variant, sources: Sources) -> dict[str, str]:
    """Return the key of each stage that `variant` goes through, in order. The variant's axes are resolved."""
    keys: dict[str, str] = {}

    def stage(name: str, *after: str, **flags: object) -> str:
        keys[name] = canonical_key(
            {
                "stage": name,
                "after": [keys[earlier] for earlier in after],
                "flags": flags,
                "versions": dict(sources.versions),
                "code": sources.code,
            }
        )
        return name

    nnapi = variant.backend == "nnapi"
    last = stage(
        "load",
        model_source=sources.model_source,
        arguments=dict(sources.arguments),
        weights_id=sources.weights_id,
    )
    if variant.fuse or variant.quantization in ("static_fx", "static_eager", "qat"):
        # NNAPI's converter supports few operators, so the graph is rewritten first.
        last = stage("graph", "load", fit=variant.backend if nnapi else "")
    if variant.precision == "fp32" and variant.fuse:
        last = stage("fuse", "graph")
    if variant.precision == "int8":
        if variant.quantization == "dynamic" and variant.fuse:
            last = stage("fuse", "graph")
        stage(
            "prepare",
            last,
            method=variant.quantization,
            engine=variant.qengine,
            granularity=variant.granularity,
            reduced_range=variant.reduced_range,
            input_shape=list(sources.input_shape),
        )
        calibrated: tuple[str, ...] = ()
        if variant.quantization != "dynamic":
            teacher = ("load",) if variant.quantization == "qat" else ()
            stage(
                "calibrate",
                "prepare",
                *teacher,
                calibration_id=sources.calibration_id,
                images=variant.calibration_images,
            )
            calibrated = ("calibrate",)
        last = stage("convert", "prepare", *calibrated)
    shown: dict[str, object] = {"input_shape": list(sources.input_shape)}
    if variant.capture != "script":
        # A trace records one run on calibration images.
        shown |= {"example": sources.calibration_id}
    if not nnapi:
        last = stage(
            "capture", last, capture=variant.capture, layout=variant.layout, interface=variant.interface, **shown
        )
        stage("lower", last, backend=variant.backend, optimize=variant.optimize)
    else:
        stage(
            "lower",
            last,
            backend=variant.backend,
            layout=variant.layout,
            interface=variant.interface,
            preference=variant.preference,
            relaxed_fp16=variant.relaxed_fp16,
            flexible_batch=variant.flexible_batch,
            **shown,
        )
    return keys
