"""Exports the fp32 eager model to ONNX, as bytes."""

import re
import warnings
from contextlib import suppress

import torch

from sweeps.errors import BuildError
from workers.models.normal_form import load_normal
from workers.models.one_thread import one_thread
from workers.models.package import ModelPackage
from workers.runtimes.exporting import check_ends, example_of, not_exportable, shape_of_values
from workers.runtimes.library_errors import chain_of, first_words
from workers.runtimes.multiply_adds import lines_of, with_shares

INPUT, OUTPUT = "input", "output"
_NO_FUNCTION = re.compile(
    r"No (?:ONNX function|decompositions?[^<]*) (?:found |registered )?for <OpOverload\(op='([\w.]+)'"
)


def export(package: ModelPackage, opset: int) -> bytes:
    """Export the model for inputs of the package's shape, with its weights in the file. `opset` 0: the exporter's
    default.

    Raises `BuildError`: `unsupported_operator`, `not_exportable`, `bad_output` or `too_large`.
    """
    with warnings.catch_warnings(), torch.no_grad(), one_thread():
        # torch's exporter warns about deprecations in its own code.
        warnings.simplefilter("ignore")
        model = load_normal(package)
        try:
            program = torch.onnx.export(
                model,
                (example_of(package.input_shape),),
                dynamo=True,
                external_data=False,
                opset_version=opset or None,
                input_names=[INPUT],
                output_names=[OUTPUT],
                verbose=False,
            )
        except Exception as error:  # torch raises any exception if it cannot export
            raise _failure(error, model, package) from error
    assert program is not None
    proto = program.model_proto
    check_ends(len(proto.graph.input), len(proto.graph.output))
    sizes = [size.dim_param or size.dim_value for size in proto.graph.output[0].type.tensor_type.shape.dim]
    if any(isinstance(size, str) for size in sizes):
        raise shape_of_values("ONNX", f"the answer has the shape [{', '.join(map(str, sizes))}]")
    # The exporter's notes about each node have paths of this machine.
    for part in (*proto.graph.node, *proto.graph.value_info, *proto.graph.initializer, *proto.functions):
        part.ClearField("metadata_props")
        part.ClearField("doc_string")
    proto.graph.ClearField("metadata_props")
    try:
        return bytes(proto.SerializeToString(deterministic=True))
    except ValueError as error:
        raise BuildError("too_large", f"an ONNX file holds at most 2 GB: {first_words(error)}") from error


def _failure(error: Exception, model: torch.nn.Module, package: ModelPackage) -> BuildError:
    text = "\n".join(map(str, chain_of(error)))
    if operators := sorted(set(_NO_FUNCTION.findall(text))):
        named, lines = ", ".join(operators), list[tuple[str, int]]()
        # torch raises any exception if it cannot export.
        with suppress(Exception), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            exported = torch.export.export(model, (example_of(package.input_shape),))
            lines = lines_of(operators[0], exported.graph, package.files)
            # The exporter decomposes operators that it does not know as far as torch can.
            usual = torch.export.default_decompositions().items()  # type: ignore[no-untyped-call]
            table = dict(usual) | torch._decomp.decomposition_table
            named = with_shares(operators, exported.run_decompositions(table).graph)
        file, line = lines[0] if lines else ("", 0)
        return BuildError(
            "unsupported_operator",
            f"the ONNX exporter of torch {torch.__version__} has nothing for {named}",
            "replace these operators in the model, or ship it with another runtime",
            operator=operators[0],
            file=file,
            line=line,
        )
    return not_exportable(error, "ONNX")
