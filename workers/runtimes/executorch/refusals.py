"""Finds the operator that ExecuTorch refuses, and its line in the user's code: errors have only codes, and the log
names operators."""

import re
from collections.abc import Collection

import torch

from sweeps.errors import BuildError
from workers.runtimes.artifact_check import RunRefused
from workers.runtimes.executorch.export import version
from workers.runtimes.library_errors import chain_of
from workers.runtimes.multiply_adds import lines_of

_DELEGATE = re.compile(r"Failed to create (?:static )?([\w-]+(?: [\w-]+)*?) node")
_KERNEL = re.compile(r"in operator (\w+::\w+)")
_WHY = re.compile(r"Check failed \([^\n]*\): (\S[^\n]*)")
_OF_DELEGATE = {"fully connected": ("linear",), "transpose": ("transpose", "permute")}
"""torch's name by XNNPACK's name of an operator, if neither is a part of the other."""


def named(error: BuildError, graph: torch.fx.Graph, files: Collection[str]) -> BuildError:
    """Return the error with the refused operator and its line in the user's `files`, as far as the error or
    ExecuTorch's log names the operator. `graph`: the exported model's."""
    log = next((cause.log for cause in chain_of(error) if isinstance(cause, RunRefused)), "")
    operator, message, next_step = error.operator, error.message, error.next_step
    names: tuple[str, ...] = (operator,)
    if kernel := _KERNEL.search(log):
        operator = kernel[1]
        names = (operator,)
    elif delegate := _DELEGATE.search(log):
        operator = f"XNNPACK's {delegate[1]}"
        names = _OF_DELEGATE.get(delegate[1], (delegate[1].replace(" ", "_"),))
    if not operator:
        return error
    lines = [line for name in names for line in lines_of(name, graph, files)]
    if operator != error.operator:
        why = f": {match[1]}" if (match := _WHY.search(log)) else ""
        message = f"{version()} refuses {operator} in the file that it made{why}"
        next_step = "write that part otherwise in the model, or take another backend, precision or runtime"
    if len(lines) > 1:
        message += f" (it may be any of {', '.join(f'{file}:{line}' for file, line in lines)})"
    file, line = lines[0] if len(lines) == 1 else ("", 0)
    return BuildError(error.kind, message, next_step, operator=operator, file=file, line=line)
