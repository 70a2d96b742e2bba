"""What ExecuTorch says when it refuses to load or run a file: a code for the caller, and the operator on stderr."""

import re
from collections.abc import Iterable

import torch

from sweeps.errors import BuildError
from workers.runtimes.executorch.export import version
from workers.runtimes.failures import chain_of, place_in
from workers.runtimes.verify import RunRefused
from workers.runtimes.work import operator_of

_DELEGATE = re.compile(r"Failed to create (?:static )?([\w-]+(?: [\w-]+)*?) node")
_KERNEL = re.compile(r"in operator (\w+::\w+)")
_WHY = re.compile(r"Check failed \([^\n]*\): (\S[^\n]*)")
_ALSO = {"transpose": ("permute", "transpose"), "constant pad": ("pad",), "fully connected": ("linear",)}
"""By XNNPACK's name of an operator, torch's, where neither contains the other."""


def named(error: BuildError, graph: torch.fx.Graph, files: Iterable[str]) -> BuildError:
    """The error with the operator that ExecuTorch refused, and the line of the user's `files` that it comes from, if
    its log names one; else as it is. `graph`: the exported model's."""
    log = next((cause.log for cause in chain_of(error) if isinstance(cause, RunRefused)), "")
    kernel, delegate = _KERNEL.search(log), _DELEGATE.search(log)
    if kernel is None and delegate is None:
        return error
    operator = kernel[1] if kernel else f"XNNPACK's {delegate[1]}" if delegate else ""
    places = _places(_names(kernel[1] if kernel else delegate[1] if delegate else ""), graph, [*files])
    why = f": {found[1]}" if (found := _WHY.search(log)) else ""
    among = f", one of those at {', '.join(f'{file}:{line}' for file, line in places)}" if len(places) > 1 else ""
    file, line = places[0] if len(places) == 1 else ("", 0)
    does = "load" if error.kind.endswith(("load", "load_failed")) else "run"
    return BuildError(
        error.kind,
        f"{version()} cannot {does} what it exported: it refuses {operator}{among}{why}",
        "write that operator otherwise in the model, or take another backend, precision or runtime",
        operator=operator,
        file=file,
        line=line,
    )


def _names(operator: str) -> tuple[str, ...]:
    bare = operator.rpartition("::")[2]
    return _ALSO.get(bare, (bare.replace(" ", "_"),))


def _places(names: tuple[str, ...], graph: torch.fx.Graph, files: list[str]) -> list[tuple[str, int]]:
    """The lines of the user's code with such an operator, in order; a decomposed one has a longer name."""
    found = []
    for node in graph.nodes:
        bare = operator_of(node).rpartition("::")[2] if node.op == "call_function" else ""
        if bare and any(bare in name or name in bare for name in names):
            found.append(place_in(str(node.meta.get("stack_trace", "")), files))
    return [*dict.fromkeys(filter(None, found))]
