"""The common part of runtimes that export with `torch.export`: the example, and the meaning of its errors."""

import re

import torch

from sweeps.errors import BuildError
from workers.runtimes.library_errors import chain_of, first_words

# The sizes of tensors are among the unknown numbers, or a number of the user's code is.
_SHAPE = re.compile(r"Could not extract specialized integer|Size-like symbols: (?!none)", re.IGNORECASE)
_CONTROL_FLOW = re.compile(r"data-dependent|GuardOnDataDependent|Could not guard|Dynamic control flow", re.IGNORECASE)


def example_of(shape: tuple[int, ...]) -> torch.Tensor:
    """An input of the model's shape; the same in every process."""
    return torch.rand(shape, generator=torch.Generator().manual_seed(0))


def not_exportable(error: BaseException, to: str) -> BuildError:
    """The error of a model that cannot be exported. `to`: the format that it is exported to."""
    why = first_words(chain_of(error)[-1])
    return values_decide(error, to) or BuildError(
        "not_exportable", f"torch {torch.__version__} cannot export the model to {to}: {why}"
    )


def values_decide(error: BaseException, to: str) -> BuildError | None:
    """The error about a shape or a way through the model that depends on values; `None` for another error."""
    text = "\n".join(map(str, chain_of(error)))
    if _SHAPE.search(text):
        return shape_of_values(to)
    if _CONTROL_FLOW.search(text):
        return BuildError(
            "not_exportable",
            f"torch {torch.__version__} exports no control flow to {to} that depends on the values of tensors: the "
            "model branches on what a tensor holds",
            "rewrite that part with torch.where or torch.cond",
        )
    return None


def shape_of_values(to: str, evidence: str = "") -> BuildError:
    """The error of a tensor that has as many elements as its input's values say, or the values of another tensor.
    `evidence`: what shows it."""
    shown = f": {evidence}" if evidence else ""
    return BuildError(
        "not_exportable",
        f"torch {torch.__version__} exports no shape to {to} that depends on the values of tensors{shown}",
        "give every tensor a size that follows from the input's: torch.where instead of a mask, torch.topk, padding",
    )


def check_ends(inputs: int, outputs: int) -> None:
    """Raises `BuildError("bad_output")` unless there is one input and one output."""
    if (inputs, outputs) != (1, 1):
        raise BuildError(
            "bad_output",
            f"the model has {inputs} inputs and {outputs} outputs, not one of each",
            "return one tensor of (batch, classes)",
        )
