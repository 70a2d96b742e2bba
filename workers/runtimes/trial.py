"""Whether the libraries of a runtime work together here: a tiny model is built with them before the first of a user's.

Releases exist that export, and cannot run what they exported (executorch 1.5.1 beside torch 2.12). Found here, that is
one error with their versions, instead of a failure of each model after minutes.
"""

import io
import sys
from typing import TYPE_CHECKING

import numpy as np

from sweeps.device_facts import canonical_key
from sweeps.errors import BuildError, EdgeSweepError, in_one_line
from sweeps.planning.axes import resolve_variant
from sweeps.spec import catalog
from sweeps.temporary import temporary_folder
from sweeps.variant import Variant
from workers.models.package import BuildInputs, ModelPackage
from workers.native.compiler import cache_folder
from workers.native.file_lock import locked
from workers.runtimes.interface import Runtime

if TYPE_CHECKING:
    import torch

_SHAPE = (1, 3, 8, 8)
_IMAGES = 4

_OF_THE_MACHINE = ("timeout", "out_of_memory", "worker_lost")
"""Failures that say nothing of the libraries."""
_broken: dict[str, str] = {}
"""By set of versions, what this process has found."""


def check(runtime: Runtime, toolchain: str) -> None:
    """Build the tiny model in fp32 with `toolchain`, which this process has entered, and run it in a fresh process;
    once per machine and set of versions. PyTorch's own runtimes have no library that could fit another torch.

    Raises `BuildError("runtime_broken")` with the versions.
    """
    entry = catalog.runtimes().get(runtime.name)
    if entry is None or not entry.extra:
        return
    versions = runtime.versions()
    key = canonical_key({"versions": versions, "environment": sys.prefix, "python": sys.version})
    worked = cache_folder() / "tried" / f"{runtime.name}-{key[:16]}"
    with locked(worked.with_suffix(".lock")):
        if worked.is_file():
            return
        why = _broken[key] = _broken.get(key) or _failure(runtime, toolchain)
        if not why:
            worked.touch()
            return
    named = ", ".join(f"{name} {version}" for name, version in versions.items() if name != "builder")
    raise BuildError("runtime_broken", f"{named}: together they cannot build and run even a tiny model: {why}")


def net() -> "torch.nn.Module":
    """(N, 3, 8, 8) to (N, 2)."""
    import torch

    torch.manual_seed(0)
    convolution = torch.nn.Conv2d(3, 4, 3)
    return torch.nn.Sequential(convolution, torch.nn.ReLU(), torch.nn.Flatten(), torch.nn.Linear(4 * 6 * 6, 2))


def _failure(runtime: Runtime, toolchain: str) -> str:
    """Why it cannot be built; empty if it was."""
    variant = Variant(runtime=runtime.name, toolchain=toolchain, runner_toolchain=toolchain)
    try:
        with temporary_folder() as out:
            runtime.build(resolve_variant(variant, "any"), "trial", _inputs(runtime), out)
    except (MemoryError, OSError):
        raise
    except BuildError as error:
        if error.kind in _OF_THE_MACHINE:
            raise
        return error.message
    except EdgeSweepError as error:
        return error.message
    except Exception as error:  # noqa: BLE001  # libraries that do not fit raise any exception
        return in_one_line(error)
    return ""


def _inputs(runtime: Runtime) -> BuildInputs:
    import torch

    from workers.models.eager import eager_logits

    with torch.random.fork_rng():
        made = net().eval()
    state = io.BytesIO()
    torch.save(made.state_dict(), state)
    source = f"{__name__}:{net.__name__}"
    package = ModelPackage(
        name="trial",
        source=source,
        arguments={},
        files={},
        state=state.getvalue(),
        weights_id="random:0",
        model_source=source,
        input_shape=_SHAPE,
    )
    images = np.random.default_rng(0).standard_normal((_IMAGES, *_SHAPE[1:]), dtype=np.float32)
    return BuildInputs(
        package=package,
        calibration=images[:0],
        calibration_id="",
        verification=images,
        verification_labels=None,
        verification_logits=eager_logits(made, images),
        versions=runtime.versions(),
    )
