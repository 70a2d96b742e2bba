"""A first look at a model that has no sweep file yet, in a separate process: its input, its size, and which conversions
work.

    python -P -m workers.first_look      as `workers.forks.server` says
"""

import ast
import atexit
import sys
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from sweeps.spec.model_inputs import ModelSpec
from sweeps.temporary import temporary_folder
from sweeps.workspace import Workspace
from workers.forks.fork_client import Forks
from workers.forks.server import Program, serve
from workers.models import model_process
from workers.models.images import InputShape
from workers.models.model_code import OwnCode, check_not_hidden, own_code
from workers.models.request_folder import Request, has_types, overwritten

LIMITS = replace(model_process.LIMITS, silent_s=120.0)
FORKS = Forks("workers.first_look")
atexit.register(FORKS.close)


@dataclass(frozen=True, slots=True, kw_only=True)
class Model:
    """The facts of a model. Each way to capture the model has an empty text, or the reason why it does not work."""

    input_shape: InputShape
    other_sizes: tuple[int, ...]
    """Further heights and widths that the model accepts: if there are any, only its author knows with which size it was
    trained."""
    weights_text: str
    """How the checkpoint was converted as it was loaded, for people; empty if it was not converted."""
    classes: int
    parameters: int
    convolutions: int
    linears: int
    script: str
    trace: str
    graph: str
    """Whether torch.fx can trace the model, which fusing and static int8 need: empty, or the reason why not."""


def look_at(model: ModelSpec, roots: Sequence[Path], shapes: Sequence[InputShape]) -> Model:
    """Look at a model. Its input is the first of `shapes` that it accepts. Raises `ModelError`."""
    code = own_code(model.source, roots) if ":" in model.source else None
    if code is not None:
        check_not_hidden(model.source, code, roots)
    with temporary_folder() as folder:
        request = Request(folder)
        request.write(model, code, Workspace(folder))
        request.ask({"shapes": [list(shape) for shape in shapes]})
        answer = model_process.ask("look", folder, model.source, limits=LIMITS, forks=FORKS)
    texts = ("weights_text", "script", "trace", "graph")
    counts = ("classes", "parameters", "convolutions", "linears")
    types: dict[str, type] = dict.fromkeys(texts, str) | dict.fromkeys(counts, int)
    match answer:
        case {
            "input_shape": [int(batch), int(channels), int(height), int(width)],
            "other_sizes": [*sizes],
        } if has_types(answer, types) and all(type(size) is int for size in sizes):
            shape = (batch, channels, height, width)
            return Model(input_shape=shape, other_sizes=tuple(sizes), **{name: answer[name] for name in types})
    raise overwritten(model.source)


def needed_arguments(source: str, code: OwnCode) -> tuple[str, ...]:
    """Return the arguments without a default of the function or class, read from the source of its module. Runs
    nothing.

    Empty if the module does not define it itself, for instance because the module imports it.
    """
    module, _, function = source.partition(":")
    base = module.replace(".", "/")
    content = code.files.get(f"{base}/__init__.py", code.files.get(f"{base}.py", b""))
    named: list[ast.stmt] = [
        statement for statement in ast.parse(content).body if getattr(statement, "name", None) == function
    ]
    skipped = 0
    if named and isinstance(named[-1], ast.ClassDef):
        named = [statement for statement in named[-1].body if getattr(statement, "name", None) == "__init__"]
        skipped = 1  # self
    if not named or not isinstance(named[-1], ast.FunctionDef):
        return ()
    arguments = named[-1].args
    by_place = [*arguments.posonlyargs, *arguments.args]
    needed = by_place[skipped : len(by_place) - len(arguments.defaults)]
    by_name = [
        argument
        for argument, default in zip(arguments.kwonlyargs, arguments.kw_defaults, strict=True)
        if default is None
    ]
    return tuple(argument.arg for argument in (*needed, *by_name))


def _programs() -> dict[str, Program]:
    from workers.first_look_process import PROGRAMS  # imports torch

    return PROGRAMS


if __name__ == "__main__":
    serve(_programs, sys.stdin.buffer, sys.stdout.buffer)
