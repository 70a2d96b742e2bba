"""What runtimes share that export with `torch.export`: the example, and the meaning of its errors."""

import re

import torch

from sweeps.errors import BuildError
from workers.runtimes.failures import first_words

_CONTROL_FLOW = re.compile(r"data-dependent|GuardOnDataDependent|Could not guard|Dynamic control flow", re.IGNORECASE)


def example_of(shape: tuple[int, ...]) -> torch.Tensor:
    """An input of the model's shape; the same in every process."""
    return torch.rand(shape, generator=torch.Generator().manual_seed(0))


def chain_of(error: BaseException) -> list[BaseException]:
    """The error and its causes, of which the last one is where it began."""
    causes: list[BaseException] = []
    cause: BaseException | None = error
    while cause is not None:
        causes.append(cause)
        cause = cause.__cause__
    return causes


def not_exportable(error: BaseException, to: str) -> BuildError:
    """`to`: what it is exported to."""
    causes = chain_of(error)
    why = first_words(causes[-1])
    if _CONTROL_FLOW.search("\n".join(map(str, causes))):
        return BuildError(
            "not_exportable",
            f"torch.export of torch {torch.__version__} takes no control flow that depends on values of tensors: {why}",
            "rewrite that part with torch.where or torch.cond",
        )
    return BuildError("not_exportable", f"torch {torch.__version__} cannot export the model to {to}: {why}")


def check_ends(inputs: int, outputs: int) -> None:
    """Raises `BuildError("bad_output")` unless there is one of each."""
    if (inputs, outputs) != (1, 1):
        raise BuildError(
            "bad_output",
            f"the model has {inputs} inputs and {outputs} outputs, not one of each",
            "return one tensor of (batch, classes)",
        )
