"""Converts models with several input tensors, or several answers, for NNAPI. Sweeps have models of one input and one
answer."""

from collections.abc import Sequence

import torch
from torch.backends._nnapi import prepare

from workers.runtimes.torchscript import capture
from workers.runtimes.torchscript.nnapi.lower import FLEXIBLE_TRACE, Lowered, Options, converted, numbered, template
from workers.runtimes.torchscript.nnapi.views import MOST_DIMENSIONS


class Several(torch.nn.Module):
    """The converted model, with NCHW-shaped tensors in either layout. Compiled at its first run."""

    batch: int

    def __init__(self, nnapi: prepare.NnapiModule, *, channels_last: bool, flexible: Sequence[bool]) -> None:
        """`flexible`: for each input, whether its batch size is flexible. If any input's is, the first one's is, and
        sets the batch size."""
        super().__init__()
        self.nnapi = nnapi
        self.channels_last = channels_last
        self.flexible = list(flexible)
        self.batch = 0

    @torch.jit.export
    def run(self, args: list[torch.Tensor]) -> list[torch.Tensor]:
        tensors: list[torch.Tensor] = []
        for index in range(len(args)):
            arg = args[index]
            if self.flexible[index] and arg.size(0) != args[0].size(0):
                raise ValueError("the inputs have different batch sizes")
            if self.channels_last and arg.dim() == 4:
                arg = arg.contiguous(memory_format=torch.channels_last)
            tensors.append(arg)
        if self.flexible[0] and args[0].size(0) != self.batch:
            # A compilation is for one batch size, as in `Nnapi`.
            self.nnapi.comp = None
            self.batch = args[0].size(0)
        answers: list[torch.Tensor] = self.nnapi(tensors)
        return answers


def lower_several(model: torch.nn.Module, examples: Sequence[torch.Tensor], options: Options) -> Lowered:
    """Trace, convert and wrap a model that takes several tensors and returns one, or a tuple.

    `examples`: one per argument, float or quint8 as the model takes them, of one to four dimensions. Those of four have
    the layout of `options`. With `flexible_batch`, the batch is flexible in all examples whose batch size is the first
    one's.

    Raises `BuildError` as `lower` does.
    """
    flexible = [options.flexible_batch and example.shape[0] == examples[0].shape[0] for example in examples]
    examples = [_repeated(example) if free else example for example, free in zip(examples, flexible, strict=True)]
    traced = capture.trace(numbered(model), *examples)
    templates = [
        template(example, flexible_batch=free, nhwc=options.nhwc and example.ndim == MOST_DIMENSIONS)
        for example, free in zip(examples, flexible, strict=True)
    ]
    answer = traced.graph.return_node().inputsAt(0)
    answers = answer.node().inputsSize() if answer.node().kind() == "prim::TupleConstruct" else None
    nnapi, covered = converted(traced, templates, options, answers=answers)
    core = Several(nnapi, channels_last=options.nhwc, flexible=flexible)
    return Lowered(_with_arguments(core, len(examples), answers), covered)


def _repeated(example: torch.Tensor) -> torch.Tensor:
    count = max(len(example), FLEXIBLE_TRACE)
    repeated = example.dequantize()[[index % len(example) for index in range(count)]]
    return capture.quantized_as(example, repeated)


def _with_arguments(core: Several, arguments: int, answers: int | None) -> torch.jit.ScriptModule:
    """Return a module with this number of arguments: TorchScript has no variable number. `answers`: the length of the
    tuple that it returns; `None`: one tensor."""

    class Ends(torch.nn.Module):
        # A new class for each model, because `define` adds the method to the class.
        def __init__(self) -> None:
            super().__init__()
            self.core = core

    module = capture.script(Ends().eval())
    names = [f"x{number}" for number in range(arguments)]
    returned = "found[0]" if answers is None else f"({' '.join(f'found[{number}],' for number in range(answers))})"
    kind = "Tensor" if answers is None else f"Tuple[{', '.join(['Tensor'] * answers)}]"
    module.define(
        f"def forward(self, {', '.join(f'{name}: Tensor' for name in names)}) -> {kind}:\n"
        f"    found = self.core.run([{', '.join(names)}])\n"
        f"    return {returned}\n"
    )
    return module
