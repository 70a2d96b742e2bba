"""Identifies builds that are one program: the same operators on tensors of the same shapes, whatever the weights'
values.

Fusing and then optimising gives the same program as optimising alone, but for rounding. Two such builds take the same
time, and no number of measurements can tell them apart.
"""

import hashlib
import re
from collections.abc import Iterator
from pathlib import Path

import torch

_MANGLED = re.compile(r"___torch_mangle_\d+\.")


class _NotComparableError(Exception):
    """The graph has a part that this module cannot describe."""


def program_id(file: Path) -> str | None:
    """Return a hash of the program in a saved model; `None` for a model that keeps its weights as attributes, because
    it was not frozen, or that contains anything unknown.

    Numbers outside of tensors are part of the hash, and so are the values of integer tensors, which may be indices.
    """
    # The module is loaded from the file, as in a runner: a module that was never saved may still have other strides.
    module: torch.jit.ScriptModule = torch.jit.load(str(file), map_location="cpu")  # type: ignore[no-untyped-call]  # torch has no types for it
    digest = hashlib.sha256()
    try:
        for line in _lines(module.inlined_graph, {}):
            digest.update(f"{line}\n".encode())
    except _NotComparableError:
        return None
    return digest.hexdigest()


def _lines(block: torch.Graph | torch.Block, numbers: dict[str, int]) -> Iterator[str]:
    """Yield the lines of a block, one per node, in their order. `numbers`: the number of each value, by its name.
    Numbers replace the names, which depend on the source code."""

    def number(value: torch.Value) -> str:
        # A value of a class is the graph's own module, of which nothing is read, or prepacked weights, which
        # `_described` describes.
        kind = "module" if isinstance(value.type(), torch._C.ClassType) else _MANGLED.sub("", str(value.type()))
        return f"%{numbers.setdefault(value.debugName(), len(numbers))} {kind}"

    yield f"given {[number(value) for value in block.inputs()]}"
    for node in block.nodes():
        kind = node.kind()
        if kind == "prim::GetAttr" or (kind != "prim::Constant" and node.attributeNames()):
            raise _NotComparableError
        constant = f" {_described(_constant(node))}" if kind == "prim::Constant" else ""
        inputs = [number(value) for value in node.inputs()]
        yield f"{[number(value) for value in node.outputs()]} = {kind} {node.schema()}{constant} {inputs}"
        for inner in node.blocks():
            yield from _lines(inner, numbers)
    yield f"gives {[number(value) for value in block.outputs()]}"


def _constant(node: torch.Node) -> object:
    try:
        return node.output().toIValue()
    except RuntimeError as error:  # a function, or another value that Python does not know
        raise _NotComparableError from error


def _described(value: object) -> str:
    """Return the description of a value. Raises `_NotComparableError`."""
    match value:
        case None | bool() | int() | float() | str() | torch.device() | torch.dtype():
            return repr(value)
        case list() | tuple():
            return f"[{', '.join(map(_described, value))}]"
        case torch.Tensor():
            layout = f"{value.dtype} {tuple(value.shape)} {value.stride()}"
            if value.is_quantized or value.is_floating_point():
                return layout
            return f"{layout} {value.flatten().tolist()}"
        case torch.ScriptObject():
            # Prepacked weights: the state has the tensors that were packed, and how.
            try:
                state = value.__getstate__()
            except RuntimeError as error:
                raise _NotComparableError from error
            return f"{value._type().qualified_name()} {_described(state)}"
    raise _NotComparableError
