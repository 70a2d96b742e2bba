"""Computes in PyTorch what Vulkan would compute: no wheel has ExecuTorch's library for Vulkan.

A build for Vulkan keeps the exported model beside its file, with its hash in the manifest. That model is lowered again,
which must give a file with the same inputs, outputs, delegates and operators; then the lowered graph runs here, and the
operators that a delegate took compute its results. This finds errors of lowering, and none of kernels. Torch-free but
for `opened`.
"""

import argparse
import hashlib
import time
from pathlib import Path
from typing import Any

from sweeps.errors import BuildError
from sweeps.variant import Variant
from workers.runtimes.executorch import pte
from workers.runtimes.torchscript.runner.events import GiveUp

FILE = "eval.pt2"


def version() -> str:
    """Return the first 12 hex digits of the sha256 over the sources that affect the answers."""
    sources = (Path(__file__), *(Path(__file__).with_name(name) for name in ("lowering.py", "tracing.py")))
    return hashlib.sha256(b"".join(source.read_bytes() for source in sources)).hexdigest()[:12]


def opened(arguments: argparse.Namespace, head: pte.Head) -> tuple[Any, int]:
    """Return the lowered graph as a module, and the nanoseconds that this took. `head`: the head of the artifact's
    file. Raises `GiveUp`."""
    from workers.runtimes.executorch.export import loaded
    from workers.runtimes.executorch.lowering import lower

    started = time.perf_counter_ns()
    try:
        lowered = lower(
            loaded(Path(arguments.reference).read_bytes()), Variant(runtime="executorch", backend=arguments.backend)
        )
    except (OSError, BuildError) as error:
        raise GiveUp(
            "bad_reference", f"{arguments.reference} cannot stand in for {arguments.backend}: {error}"
        ) from error
    if pte.of_bytes(lowered.file) != head:
        raise GiveUp("bad_reference", f"{arguments.reference} is lowered to something else than {arguments.model}")
    return lowered.runs(), time.perf_counter_ns() - started
