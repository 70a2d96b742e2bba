"""Exports the fp32 eager model with `torch.export`, as bytes that `torch.export.load` reads."""

import io
import re
from importlib import metadata

import torch
from torch.export import ExportedProgram

from sweeps.errors import BuildError
from workers.models.normal_form import load_normal
from workers.models.one_thread import one_thread
from workers.models.package import ModelPackage
from workers.runtimes.executorch.tracing import quiet
from workers.runtimes.exporting import check_ends, example_of, not_exportable

_MAX_POOLS = frozenset(
    (
        *(torch.ops.aten.max_pool1d.default, torch.ops.aten.max_pool2d.default, torch.ops.aten.max_pool3d.default),
        *(torch.ops.aten.max_pool2d_with_indices.default, torch.ops.aten.max_pool3d_with_indices.default),
    )
)


def export(package: ModelPackage, layout: str) -> bytes:
    """Export the model for inputs of the package's shape and this layout; its weights stay contiguous, as XNNPACK's
    passes require. Raises `BuildError`: `not_exportable` or `bad_output`."""
    with quiet(), one_thread():
        program = exported(load_normal(package), package.input_shape, layout)
        return saved(program)


def exported(model: torch.nn.Module, shape: tuple[int, ...], layout: str) -> ExportedProgram:
    """Export the model for inputs of this shape and layout. Raises `BuildError`."""
    try:
        program = torch.export.export(model, (example(shape, layout),))
    except Exception as error:  # torch raises any exception if it cannot export
        raise not_exportable(error, version()) from error
    signature = program.graph_signature
    if changed := sorted({*signature.buffers_to_mutate.values(), *signature.user_inputs_to_mutate.values()}):
        raise BuildError(
            "not_exportable",
            f"the model changes {', '.join(changed)} as it runs: two runs of one input would answer differently",
            "put it into eval mode, or take that state out of forward()",
        )
    check_ends(len(signature.user_inputs), len(signature.user_outputs))
    _name_weights(program)
    _spell_out_strides(program.graph)
    return program


def _spell_out_strides(graph: torch.fx.Graph) -> None:
    """Give each max pooling its stride, by default its window: XNNPACK's passes read it without a check, and fail with
    `tuple index out of range` (executorch 1.3.1)."""
    for node in graph.nodes:
        if node.target in _MAX_POOLS and (len(node.args) < 3 or not node.args[2]):
            node.args = (*node.args[:2], node.args[1], *node.args[3:])


def _name_weights(program: ExportedProgram) -> None:
    """Rename the program's weights, if ExecuTorch 1.3.1 would not find them again.

    To fuse a convolution with its batch norm, ExecuTorch adds a node that is named after the weight, and then looks for
    that name. If fx has changed the name (`0.weight` of a bare `Sequential`, `block1-0.weight` of a RegNet), it fails:
    `'0_weight_fused_bn' is not in list`.
    """
    weights = dict(program.state_dict)
    names: dict[str, str] = {}
    used = set(program.constants)
    for name in weights:
        new_name = re.sub(r"\W", "_", name, flags=re.ASCII)
        new_name = f"w{new_name}" if new_name[:1].isdigit() else new_name
        while new_name in used:
            new_name += "_"
        names[name] = new_name
        used.add(new_name)
    if all(new_name == name.replace(".", "_") for name, new_name in names.items()):
        return
    # The weights are renamed all at once: a new name may be the old one of another weight.
    program.state_dict.clear()
    program.state_dict.update({names[name]: weight for name, weight in weights.items()})
    for spec in program.graph_signature.input_specs:
        if spec.target in names:
            spec.target = names[spec.target]


def example(shape: tuple[int, ...], layout: str) -> torch.Tensor:
    """Return an example input in this layout, which becomes the layout of the file's input."""
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


def version() -> str:
    """Return ExecuTorch's version, for messages: it decides what can be built."""
    return f"executorch {metadata.version('executorch')}"
