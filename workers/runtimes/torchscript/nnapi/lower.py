"""The NNAPI backend of PyTorch Mobile: converts a model to one NNAPI model inside a TorchScript module.

The recipe and Arm's article use `torch.backends._nnapi`. This module uses its runtime half (`NnapiModule`) unchanged,
and replaces its serializer by one that converts more operators and lists all that it cannot convert.
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch.backends._nnapi import prepare

from sweeps.errors import BuildError
from workers.runtimes.library_errors import first_words
from workers.runtimes.torchscript import capture
from workers.runtimes.torchscript.interfaces import Core, FloatEnds, with_numbers, wrap_core
from workers.runtimes.torchscript.nnapi.coverage import Coverage, coverage
from workers.runtimes.torchscript.nnapi.model import parse
from workers.runtimes.torchscript.nnapi.operators import CONVERTERS
from workers.runtimes.torchscript.nnapi.serializer import Refusal, Serializer

PREFERENCES = {
    "low_power": prepare.ANEURALNETWORKS_PREFER_LOW_POWER,
    "fast_single_answer": prepare.ANEURALNETWORKS_PREFER_FAST_SINGLE_ANSWER,
    "sustained_speed": prepare.ANEURALNETWORKS_PREFER_SUSTAINED_SPEED,
}

FLEXIBLE_TRACE = 2
"""The batch size with which a flexible batch is traced. It is not 1, because other dimensions may also have the size
1."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """The options for converting and compiling a model.

    `preference` and `relaxed_fp16` are hints to the phone's driver: the goal of optimization, and whether float32 may
    be computed in float16. With `flexible_batch` an artifact takes any batch size, and is recompiled when it changes.
    """

    nhwc: bool
    preference: str
    relaxed_fp16: bool
    flexible_batch: bool


@dataclass(frozen=True, slots=True)
class Lowered:
    """A scripted module that runs the model through NNAPI, and its coverage."""

    module: torch.jit.ScriptModule
    coverage: Coverage


class Nnapi(torch.nn.Module):
    """The converted model, with one NCHW-shaped input and output tensor in either layout. Compiled at its first run."""

    batch: int

    def __init__(self, nnapi: prepare.NnapiModule, *, channels_last: bool, flexible_batch: bool) -> None:
        super().__init__()
        self.nnapi = nnapi
        self.channels_last = channels_last
        self.flexible_batch = flexible_batch
        self.batch = 0

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        if self.channels_last:
            x = x.contiguous(memory_format=torch.channels_last)
        if self.flexible_batch and x.size(0) != self.batch:
            # PyTorch sets the shapes when it compiles, and compiles only once: force it for another batch size.
            self.nnapi.comp = None
            self.batch = x.size(0)
        answers: list[torch.Tensor] = self.nnapi([x])
        return answers[0]


def lower(
    core: torch.nn.Module, example: torch.Tensor, options: Options, interface: str, quantized: Core | None
) -> Lowered:
    """Trace, convert and wrap a model for NNAPI.

    `example` holds float images (B, C, H, W) for every interface. `interface` is `none` or `inside`, with the whole
    model as `core` (float in and out), or `core` or `full`, with `quantized` and its core. For `full` the module takes
    and returns quantized tensors, otherwise floats.

    Raises `BuildError`: the errors of tracing; `unsupported_operator` with every operator that cannot be converted and
    the reason; `invalid_output`; `interface_not_possible`; `nnapi_conversion`.
    """
    if interface == "full" and quantized is not None and quantized.output is None:
        raise BuildError(
            "interface_not_possible",
            "the model's last operator is not quantized, so the output cannot be a quantized tensor",
            "give interface: [core] or [inside]",
        )
    if options.flexible_batch:
        example = example[[index % len(example) for index in range(max(len(example), FLEXIBLE_TRACE))]]
    traced = _traced(core, example, quantized)
    if quantized is not None:
        ends = quantized.input
        example = torch.quantize_per_tensor(example, ends.scale, ends.zero_point, ends.dtype)
    like = template(example, flexible_batch=options.flexible_batch, nhwc=options.nhwc)
    nnapi, covered = converted(traced, [like], options)
    module: torch.nn.Module = Nnapi(nnapi, channels_last=options.nhwc, flexible_batch=options.flexible_batch)
    if interface == "core" and quantized is not None:
        module = FloatEnds(module, quantized.input, dequantizes=quantized.output is not None)
    return Lowered(capture.script(module.eval()), covered)


def _traced(core: torch.nn.Module, example: torch.Tensor, quantized: Core | None) -> torch.jit.ScriptModule:
    """Return the traced model. An int8 core is traced with float ends, so that the trace can be compared with eager."""
    if quantized is None:
        return capture.trace(numbered(core), example)
    traced: torch.jit.ScriptModule = capture.trace(wrap_core(core, quantized), example).core
    return traced


def numbered(core: torch.nn.Module) -> torch.nn.Module:
    """Return the model in the form in which it is traced."""
    return with_numbers(core) if isinstance(core, torch.fx.GraphModule) else core


def template(example: torch.Tensor, *, flexible_batch: bool, nhwc: bool) -> torch.Tensor:
    """Return a template from which torch's serializer reads shape (0: flexible), type and layout of an input."""
    shape = (0 if flexible_batch else example.shape[0], *example.shape[1:])
    like = capture.quantized_as(example, torch.zeros(shape))
    like.nnapi_nhwc = nhwc  # type: ignore[attr-defined]  # torch's serializer reads the layout from this
    return like


def converted(
    traced: torch.jit.ScriptModule, templates: Sequence[torch.Tensor], options: Options, answers: int | None = None
) -> tuple[prepare.NnapiModule, Coverage]:
    """Convert a traced model with one template per input. `answers`: the length of the tuple that it returns; `None`:
    one tensor. Raises `BuildError` as `lower` does."""
    output_type = traced.graph.return_node().inputsAt(0).type().kind()
    if output_type != ("TensorType" if answers is None else "TupleType"):
        raise BuildError(
            "invalid_output", f"the model returns a {output_type.removesuffix('Type').lower()} instead of one tensor"
        )
    serializer = Serializer(CONVERTERS, nhwc=options.nhwc, flexible_batch=options.flexible_batch)
    try:
        words, weights, inputs, outputs, shape_lines, _ = serializer.serialize_traced(traced, templates)
    except Exception as error:
        if serializer.refusals:
            raise _unsupported(serializer) from error
        raise BuildError("nnapi_conversion", f"the NNAPI converter fails: {first_words(error)}") from error
    if serializer.refusals:
        raise _unsupported(serializer)
    model = torch.tensor(words, dtype=torch.int32)
    nnapi = prepare.NnapiModule(
        _shape_module(shape_lines),
        model,
        weights,
        inputs,
        outputs,
        PREFERENCES[options.preference],
        options.relaxed_fp16,
    )
    return nnapi, coverage(parse(model.numpy().tobytes()), serializer.mult_adds, serializer.mult_adds)


def _shape_module(lines: list[str]) -> torch.jit.ScriptModule:
    """Return a TorchScript module that writes the flexible shapes into the serialized model at the first run."""

    class Shapes(torch.nn.Module):
        # A new class for each model, because `define` adds the method to the class.
        pass

    module = torch.jit.script(Shapes())
    body = "".join(f"    {line}\n" for line in lines)
    module.define(
        f"def prepare(self, ser_model: torch.Tensor, args: List[torch.Tensor]) -> List[torch.Tensor]:\n{body}"
    )
    return module


def _unsupported(serializer: Serializer) -> BuildError:
    refusals: Counter[Refusal] = Counter(serializer.refusals)
    listed = "; ".join(
        f"{refusal.kind}{f' ({count} times)' if count > 1 else ''}: {refusal.reason}"
        for refusal, count in refusals.most_common()
    )
    total = serializer.mult_adds
    share = 1.0 - serializer.mult_adds_refused / total if total else 0.0
    return BuildError(
        "unsupported_operator",
        f"NNAPI cannot take all of the model (it can take {share:.1%} of the multiply-adds): {listed}",
        "give backend: [cpu], or write the model without these operators",
    )
