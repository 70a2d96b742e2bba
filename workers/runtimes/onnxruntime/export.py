"""Exports the fp32 eager model to ONNX, as bytes."""

import re
import warnings

import torch

from sweeps.errors import BuildError
from workers.models.eager import load_eager
from workers.models.one_thread import one_thread
from workers.models.package import ModelPackage
from workers.runtimes.torchscript.failures import first_words

INPUT, OUTPUT = "input", "output"
_NO_FUNCTION = re.compile(
    r"No (?:ONNX function|decompositions?[^<]*) (?:found |registered )?for <OpOverload\(op='([\w.]+)'"
)
_CONTROL_FLOW = re.compile(r"data-dependent|GuardOnDataDependent|Could not guard|Dynamic control flow", re.IGNORECASE)


def export(package: ModelPackage, opset: int) -> bytes:
    """The model for inputs of the package's shape, with its weights inside. `opset` 0: the exporter's own.

    Raises `BuildError`: `unsupported_operator`, `not_exportable`, `bad_output` or `too_large`.
    """
    example = torch.rand(package.input_shape, generator=torch.Generator().manual_seed(0))
    with warnings.catch_warnings(), torch.no_grad(), one_thread():
        # Of torch's own code that exports, about its own deprecations.
        warnings.simplefilter("ignore")
        try:
            program = torch.onnx.export(
                load_eager(package),
                (example,),
                dynamo=True,
                external_data=False,
                opset_version=opset or None,
                input_names=[INPUT],
                output_names=[OUTPUT],
                verbose=False,
            )
        except Exception as error:  # torch raises any exception if it cannot export
            raise _failure(error) from error
    assert program is not None
    model = program.model_proto
    if len(model.graph.output) != 1 or len(model.graph.input) != 1:
        raise BuildError(
            "bad_output",
            f"the model has {len(model.graph.input)} inputs and {len(model.graph.output)} outputs, not one of each",
            "return one tensor of (batch, classes)",
        )
    # What the exporter notes of each node has paths of this machine in it.
    for part in (*model.graph.node, *model.graph.value_info, *model.graph.initializer, *model.functions):
        part.ClearField("metadata_props")
        part.ClearField("doc_string")
    model.graph.ClearField("metadata_props")
    try:
        return bytes(model.SerializeToString(deterministic=True))
    except ValueError as error:
        raise BuildError("too_large", f"an ONNX file holds at most 2 GB: {first_words(error)}") from error


def _failure(error: Exception) -> BuildError:
    causes: list[BaseException] = []
    cause: BaseException | None = error
    while cause is not None:
        causes.append(cause)
        cause = cause.__cause__
    text = "\n".join(map(str, causes))
    if operators := sorted(set(_NO_FUNCTION.findall(text))):
        return BuildError(
            "unsupported_operator",
            f"the ONNX exporter of torch {torch.__version__} has nothing for {', '.join(operators)}",
            "replace these operators in the model, or ship it with another runtime",
        )
    why = first_words(causes[-1])
    if _CONTROL_FLOW.search(text):
        return BuildError(
            "not_exportable",
            f"torch.export takes no control flow that depends on the values of tensors: {why}",
            "rewrite that part with torch.where or torch.cond",
        )
    return BuildError("not_exportable", f"the model cannot be exported to ONNX: {why}")
