"""The common part of runtimes that export with `torch.export`: the example input, and the meaning of its errors."""

import re

import torch

from sweeps.errors import BuildError
from workers.runtimes.library_errors import chain_of, first_words

# The unknown numbers are sizes of tensors, or numbers in the user's code.
_SHAPE = re.compile(r"Could not extract specialized integer|Size-like symbols: (?!none)", re.IGNORECASE)
_CONTROL_FLOW = re.compile(r"data-dependent|GuardOnDataDependent|Could not guard|Dynamic control flow", re.IGNORECASE)


def example_of(shape: tuple[int, ...]) -> torch.Tensor:
    """Return an input of the model's shape; it is the same in every process."""
    return torch.rand(shape, generator=torch.Generator().manual_seed(0))


def not_exportable(error: BaseException, to: str) -> BuildError:
    """Return the error for a model that cannot be exported. `to`: the format of the export."""
    why = first_words(chain_of(error)[-1])
    return values_decide(error, to) or BuildError(
        "not_exportable", f"torch {torch.__version__} cannot export the model to {to}: {why}"
    )


def values_decide(error: BaseException, to: str) -> BuildError | None:
    """Return the error for a shape or a branch of the model that depends on values; `None` for another error."""
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
    """Return the error for a tensor whose number of elements depends on the values of tensors. `evidence`: the words
    that show it."""
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
