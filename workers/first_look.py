"""A first look at a model that has no sweep file yet, in a process of its own: its input, its size, what will convert.

python -P -m workers.first_look      as `workers.forks.server` says
"""

import ast
import atexit
import sys
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from sweeps.spec.inputs import ModelSpec
from sweeps.temporary import temporary_folder
from sweeps.workspace import Workspace
from workers.forks.client import Forks
from workers.forks.server import Program, serve
from workers.models import apart
from workers.models.code import OwnCode, check_not_hidden, own_code
from workers.models.images import InputShape
from workers.models.request_folder import Request, has_types, overwritten

LIMITS = replace(apart.LIMITS, silent_s=120.0)
FORKS = Forks("workers.first_look")
atexit.register(FORKS.close)


@dataclass(frozen=True, slots=True, kw_only=True)
class Model:
    """What a model is like. Of each way to capture it: empty, or why it is closed."""

    input_shape: InputShape
    other_sizes: tuple[int, ...]
    """Heights and widths that it takes as well: then only its author knows which it was trained with."""
    weights_text: str
    """What was done to load the checkpoint, for people; empty if that is nothing."""
    classes: int
    parameters: int
    convolutions: int
    linears: int
    script: str
    trace: str
    graph: str
    """That of torch.fx, which fusing and static int8 need."""


def look_at(model: ModelSpec, roots: Sequence[Path], shapes: Sequence[InputShape]) -> Model:
    """The first of `shapes` that it takes is its input. Raises `ModelError`."""
    code = own_code(model.source, roots) if ":" in model.source else None
    if code is not None:
        check_not_hidden(model.source, code, roots)
    with temporary_folder() as folder:
        request = Request(folder)
        request.write(model, code, Workspace(folder))
        request.ask({"shapes": [list(shape) for shape in shapes]})
        found = apart.asked("look", folder, model.source, limits=LIMITS, forks=FORKS)
    texts = ("weights_text", "script", "trace", "graph")
    counts = ("classes", "parameters", "convolutions", "linears")
    types: dict[str, type] = dict.fromkeys(texts, str) | dict.fromkeys(counts, int)
    match found:
        case {
            "input_shape": [int(batch), int(channels), int(height), int(width)],
            "other_sizes": [*sizes],
        } if has_types(found, types) and all(type(size) is int for size in sizes):
            shape = (batch, channels, height, width)
            return Model(input_shape=shape, other_sizes=tuple(sizes), **{name: found[name] for name in types})
    raise overwritten(model.source)


def needed_arguments(source: str, code: OwnCode) -> tuple[str, ...]:
    """The arguments without a default of the function or class, as its own module writes it. Runs nothing.

    None where it is not written there as such, for instance where the module imports it.
    """
    module, _, function = source.partition(":")
    base = module.replace(".", "/")
    content = code.files.get(f"{base}/__init__.py", code.files.get(f"{base}.py", b""))
    named: list[ast.stmt] = [one for one in ast.parse(content).body if getattr(one, "name", None) == function]
    skipped = 0
    if named and isinstance(named[-1], ast.ClassDef):
        named = [one for one in named[-1].body if getattr(one, "name", None) == "__init__"]
        skipped = 1  # self
    if not named or not isinstance(named[-1], ast.FunctionDef):
        return ()
    found = named[-1].args
    by_place = [*found.posonlyargs, *found.args]
    needed = by_place[skipped : len(by_place) - len(found.defaults)]
    by_name = [one for one, default in zip(found.kwonlyargs, found.kw_defaults, strict=True) if default is None]
    return tuple(one.arg for one in (*needed, *by_name))


def _programs() -> dict[str, Program]:
    from workers.first_look_process import PROGRAMS  # imports torch

    return PROGRAMS


if __name__ == "__main__":
    serve(_programs, sys.stdin.buffer, sys.stdout.buffer)
