"""Runs a variant through its stages (see `stage_keys`). Each stage runs once for all variants that share it."""

import copy
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TypeVar

import torch
from torch.fx import GraphModule
from torch.utils.mobile_optimizer import optimize_for_mobile

from sweeps.errors import BuildError
from sweeps.manifest import Coverage, TensorSpec
from sweeps.variant import Variant
from workers.models.normal_form import load_normal
from workers.models.package import BuildInputs
from workers.runtimes.calibration_images import calibration_images
from workers.runtimes.library_errors import first_words
from workers.runtimes.stages import Stages
from workers.runtimes.torchscript import capture, metal, quantize
from workers.runtimes.torchscript.fuse import fuse, symbolic
from workers.runtimes.torchscript.interfaces import Core, QParams, split
from workers.runtimes.torchscript.nnapi import lower as nnapi
from workers.runtimes.torchscript.nnapi.rewrite import fit
from workers.runtimes.torchscript.stage_keys import Sources, code_id, stage_keys

_CALIBRATION_BATCH = 16

Made = TypeVar("Made")
Body = tuple[torch.nn.Module, tuple[str, ...]]
"""A module, and its fused groups."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Lowered:
    """A model in the form for its backend, not saved yet."""

    module: torch.jit.ScriptModule
    fused: tuple[str, ...]
    input: QParams | None
    """The input's parameters, only for the interface `full`; otherwise the input is float."""
    output: QParams | None
    coverage: Coverage | None
    """The coverage, only for NNAPI."""


def lower(variant: Variant, inputs: BuildInputs, stages: Stages) -> Lowered:
    """Run all stages of `variant`; its engine must be set. Raises `BuildError` with the step that failed."""
    return _Build(variant, inputs, stages).lowered()


def sources(inputs: BuildInputs) -> Sources:
    """Return the dependencies of the stages of all variants of `inputs`."""
    package = inputs.package
    return Sources(
        model_source=package.model_source,
        arguments=package.arguments,
        weights_id=package.weights_id,
        input_shape=package.input_shape,
        calibration_id=inputs.calibration_id,
        versions=inputs.versions,
        code=code_id(),
    )


class _Build:
    """The build of one variant. Each stage is a method, which calls the stages before it only if it is not cached."""

    def __init__(self, variant: Variant, inputs: BuildInputs, stages: Stages) -> None:
        self._variant = variant
        self._inputs = inputs
        self._stages = stages
        self._keys = stage_keys(variant, sources(inputs))

    def lowered(self) -> Lowered:
        return self._stage("lower", self._nnapi if self._variant.backend == "nnapi" else self._cpu_or_metal)

    def _stage(self, name: str, make: Callable[[], Made]) -> Made:
        return self._stages.module(name, self._keys[name], make)

    def _load(self) -> torch.nn.Module:
        return self._stage("load", lambda: load_normal(self._inputs.package))

    def _graph(self) -> GraphModule:
        def make() -> GraphModule:
            graph = symbolic(self._load(), self._images())
            return fit(graph) if self._variant.backend == "nnapi" else graph

        return self._stage("graph", make)

    def _fused(self) -> Body:
        return self._stage("fuse", lambda: fuse(self._graph()))

    def _float(self) -> Body:
        """Return the float model that is captured, or that dynamic quantization starts from."""
        return self._fused() if self._variant.fuse else (self._load(), ())

    def _prepared(self) -> quantize.Prepared:
        def make() -> quantize.Prepared:
            dynamic = self._variant.quantization == "dynamic"
            return quantize.prepare(self._float()[0] if dynamic else self._graph(), self._scheme(), self._images())

        return self._stage("prepare", make)

    def _calibration(self) -> Mapping[str, torch.Tensor]:
        if "calibrate" not in self._keys:
            return {}

        def make() -> Mapping[str, torch.Tensor]:
            return quantize.calibrate(
                self._prepared(),
                calibration_images(self._variant, self._inputs),
                self._scheme(),
                max(_CALIBRATION_BATCH, self._inputs.package.input_shape[0]),
                self._load() if self._variant.quantization == "qat" else None,
            )

        return self._stages.tensors("calibrate", self._keys["calibrate"], make)

    def _converted(self) -> Body:
        def make() -> Body:
            fused = self._prepared().fused
            if self._variant.quantization == "dynamic":
                fused = self._float()[1]
            return quantize.convert(self._prepared(), self._calibration(), self._scheme()), fused

        return self._stage("convert", make)

    def _body(self) -> Body:
        return self._converted() if self._variant.precision == "int8" else self._float()

    def _core(self) -> Core | None:
        """Return the int8 model without its float ends, if the interface needs it; else `None`."""
        interfaces = ("core", "full") if self._variant.backend == "nnapi" else ("full",)
        if self._variant.interface not in interfaces:
            return None
        body = self._body()[0]
        assert isinstance(body, GraphModule)
        return split(body)

    def _captured(self) -> torch.jit.ScriptModule:
        def make() -> torch.jit.ScriptModule:
            core = self._core()
            model = self._body()[0] if core is None else core.core
            example = self._images()
            if core is not None:
                example = torch.quantize_per_tensor(example, core.input.scale, core.input.zero_point, core.input.dtype)
            if self._variant.layout == "nhwc":
                # The model is copied, because the layout of the weights changes in place.
                inner = copy.deepcopy(model).to(memory_format=torch.channels_last)  # type: ignore[call-overload]  # typed for 4-D tensors only
                model = capture.ChannelsLast(inner).eval()
            match self._variant.capture:
                case "script":
                    return capture.script(model)
                case "trace":
                    return capture.trace(model, example)
                case _:
                    return capture.mixed(model, example)

        return self._stage("capture", make)

    def _cpu_or_metal(self) -> Lowered:
        module = self._captured()
        if self._variant.backend == "metal":
            module = metal.lower(module)
            if refused := metal.unsupported(module, self._inputs.package.input_shape[0]):
                raise BuildError(
                    "unsupported_operator",
                    f"PyTorch's Metal backend has no kernel for {', '.join(refused)}",
                    "replace these operators in the model, or ship it for the cpu",
                )
        elif self._variant.optimize:
            module = _optimized(module)
        core = self._core()
        return Lowered(
            module=module,
            fused=self._body()[1],
            input=core.input if core else None,
            output=core.output if core else None,
            coverage=None,
        )

    def _nnapi(self) -> Lowered:
        core = self._core()
        options = nnapi.Options(
            nhwc=self._variant.layout == "nhwc",
            preference=self._variant.preference,
            relaxed_fp16=self._variant.relaxed_fp16,
            flexible_batch=self._variant.flexible_batch,
        )
        body, fused = self._body()
        lowered = nnapi.lower(
            body if core is None else core.core, self._images(), options, self._variant.interface, core
        )
        full = core if self._variant.interface == "full" else None
        return Lowered(
            module=lowered.module,
            fused=fused,
            input=full.input if full else None,
            output=full.output if full else None,
            coverage=Coverage(
                operations=dict(lowered.coverage.operations),
                multiply_adds=lowered.coverage.mult_adds,
                multiply_adds_covered_percent=100.0 * lowered.coverage.share,
                feature_level=lowered.coverage.feature_level,
            ),
        )

    def _scheme(self) -> quantize.Scheme:
        variant = self._variant
        return quantize.Scheme(
            method=variant.quantization,
            engine=variant.qengine,
            granularity=variant.granularity,
            reduced_range=variant.reduced_range,
        )

    def _images(self) -> torch.Tensor:
        """Return one batch of calibration images, of the size that the runner passes; seeded noise if there are
        none."""
        shape, images = self._inputs.package.input_shape, self._inputs.calibration
        if len(images) == 0:
            return torch.rand(shape, generator=torch.Generator().manual_seed(0))
        return torch.from_numpy(images[[index % len(images) for index in range(shape[0])]])


def tensor_spec(shape: tuple[int, ...], qparams: QParams | None) -> TensorSpec:
    """Return the description of an input or output for the manifest."""
    if qparams is None:
        return TensorSpec(shape=shape, dtype="float32")
    dtype = str(qparams.dtype).removeprefix("torch.")
    return TensorSpec(shape=shape, dtype=dtype, scale=qparams.scale, zero_point=qparams.zero_point)


def _optimized(module: torch.jit.ScriptModule) -> torch.jit.ScriptModule:
    try:
        # The model is frozen first, because optimize_for_mobile's folding of Conv+BN drops the resulting bias (pytorch
        # issue 76807, still in 2.12.1). Without freezing, models that are traced, or scripted with control flow, have a
        # signal-to-noise ratio of 1 dB.
        optimized: torch.jit.ScriptModule = optimize_for_mobile(torch.jit.freeze(module))
    except Exception as error:
        raise BuildError(
            "not_optimizable", f"optimize_for_mobile fails: {first_words(error)}", "try optimize: [false]"
        ) from error
    return optimized
