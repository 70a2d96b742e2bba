"""Exports the fp32 eager model with `torch.export`, and quantizes it, as bytes that `torch.export.load` reads.

Quantization is PT2E with the XNNPACKQuantizer: observers are put into the exported graph, see the calibration images,
and become pairs of quantize and dequantize, which XNNPACK takes.
"""

import io
import re
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import metadata
from typing import Any

import numpy as np
import torch
from torch.export import ExportedProgram

from sweeps.errors import BuildError
from sweeps.variant import Variant
from workers.models.eager import load_eager
from workers.models.one_thread import one_thread
from workers.models.package import Images, ModelPackage
from workers.runtimes.executorch.tracing import quick, quiet
from workers.runtimes.exporting import check_ends, example_of, not_exportable
from workers.runtimes.failures import first_words


def export(package: ModelPackage, layout: str) -> bytes:
    """The model for inputs of the package's shape and this layout; its weights stay contiguous, as XNNPACK's passes
    ask for. Raises `BuildError`: `not_exportable` or `bad_output`."""
    with quiet(), one_thread():
        program = exported(load_eager(package), package.input_shape, layout)
        return saved(program)


def exported(model: torch.nn.Module, shape: tuple[int, ...], layout: str) -> ExportedProgram:
    """Raises `BuildError`."""
    try:
        program = torch.export.export(model, (example(shape, layout),))
    except Exception as error:  # torch raises any exception if it cannot export
        raise not_exportable(error, version()) from error
    signature = program.graph_signature
    check_ends(len(signature.user_inputs), len(signature.user_outputs))
    if changed := sorted({*signature.buffers_to_mutate.values(), *signature.user_inputs_to_mutate.values()}):
        raise BuildError(
            "not_exportable",
            f"the model changes {', '.join(changed)} as it runs: two runs of one input would answer differently",
            "put it into eval mode, or take that state out of forward()",
        )
    _name_weights(program)
    return program


def _name_weights(program: ExportedProgram) -> None:
    """Rename its weights, if ExecuTorch 1.3.1 would not find them again.

    To fuse a convolution with its batch norm, it adds a node that is named after the weight, and then looks for that
    name. Where fx has changed it (`0.weight` of a bare `Sequential`, `block1-0.weight` of a RegNet), it fails:
    `'0_weight_fused_bn' is not in list`.
    """
    weights = dict(program.state_dict)
    names: dict[str, str] = {}
    taken = set(program.constants)
    for name in weights:
        found = re.sub(r"\W", "_", name, flags=re.ASCII)
        found = f"w{found}" if found[:1].isdigit() else found
        while found in taken:
            found += "_"
        names[name] = found
        taken.add(found)
    if all(found == name.replace(".", "_") for name, found in names.items()):
        return
    # All at once: a new name may be the old one of another weight.
    program.state_dict.clear()
    program.state_dict.update({names[name]: weight for name, weight in weights.items()})
    for spec in program.graph_signature.input_specs:
        if spec.target in names:
            spec.target = names[spec.target]


def example(shape: tuple[int, ...], layout: str) -> torch.Tensor:
    """In this layout, which becomes that of the file's input."""
    return in_layout(example_of(shape), layout)


def in_layout(x: torch.Tensor, layout: str) -> torch.Tensor:
    return x.contiguous(memory_format=torch.channels_last) if layout == "nhwc" else x


def saved(program: ExportedProgram) -> bytes:
    file = io.BytesIO()
    torch.export.save(program, file)
    return file.getvalue()


def loaded(content: bytes) -> ExportedProgram:
    with quiet():
        return torch.export.load(io.BytesIO(content))


def calibrate(program: bytes, images: Images, shape: tuple[int, ...], variant: Variant) -> bytes:
    """What the observers of activations saw of all images, for `to_int8`, whatever the weights' granularity. Raises
    `BuildError("not_quantizable")`."""
    with _quantizing():
        prepared = _prepared(program, variant)
        batch = shape[0]
        for start in range(0, len(images), batch):
            # The last batch is filled with images from the start.
            chosen = images[[index % len(images) for index in range(start, start + batch)]]
            prepared(in_layout(torch.from_numpy(np.ascontiguousarray(chosen)), variant.layout))
        file = io.BytesIO()
        torch.save(_of_activations(prepared), file)
        return file.getvalue()


def to_int8(program: bytes, calibration: bytes | None, shape: tuple[int, ...], variant: Variant) -> bytes:
    """Without a `calibration` dynamic: linear layers only. Raises `BuildError`: `not_quantizable`,
    `nothing_to_quantize`."""
    from torchao.quantization.pt2e.quantize_pt2e import convert_pt2e

    with _quantizing():
        prepared = _prepared(program, variant)
        # Weights are observed as the model runs.
        prepared(example(shape, variant.layout))
        if calibration is not None:
            prepared.load_state_dict(torch.load(io.BytesIO(calibration), weights_only=True), strict=False)
        converted = convert_pt2e(prepared)
        if not any("quantize" in str(node.target) for node in converted.graph.nodes):
            raise BuildError("nothing_to_quantize", f"the model has no layer that {_quantizer()} takes in this way")
        return saved(exported(converted, shape, variant.layout))


def _prepared(program: bytes, variant: Variant) -> Any:
    from executorch.backends.xnnpack.quantizer.xnnpack_quantizer import (
        XNNPACKQuantizer,
        get_symmetric_quantization_config,
    )
    from torchao.quantization.pt2e.quantize_pt2e import prepare_pt2e

    dynamic = variant.quantization == "dynamic"
    config = get_symmetric_quantization_config(is_per_channel=variant.granularity == "per_channel", is_dynamic=dynamic)
    quantizer = XNNPACKQuantizer()
    if dynamic:
        quantizer.set_operator_type(torch.ops.aten.linear.default, config)
    else:
        quantizer.set_global(config)
    return prepare_pt2e(loaded(program).module(), quantizer)


def _of_activations(prepared: Any) -> dict[str, torch.Tensor]:
    from torchao.quantization.pt2e import HistogramObserver

    observers = {name for name, part in prepared.named_modules() if isinstance(part, HistogramObserver)}
    return {name: value for name, value in prepared.state_dict().items() if name.rpartition(".")[0] in observers}


def _quantizer() -> str:
    return f"XNNPACK's quantizer of {version()}"


@contextmanager
def _quantizing() -> Iterator[None]:
    with quiet(), quick(), one_thread(), torch.no_grad():
        try:
            yield
        except BuildError:
            raise
        except Exception as error:  # torchao raises any exception
            raise BuildError(
                "not_quantizable", f"{_quantizer()} cannot quantize the model: {first_words(error)}"
            ) from error


def version() -> str:
    """For messages: what can be built depends on it."""
    return f"executorch {metadata.version('executorch')}"
