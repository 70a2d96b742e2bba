"""Checks that the libraries of a runtime work together on this machine: builds a tiny model with them before the user's
first one.

Some releases export a model, but cannot run the exported file (executorch 1.5.1 with torch 2.12). This check reports
that as one error with the versions, instead of a failure of each model after minutes.
"""

import io
import json
import signal
import subprocess
import sys
from typing import TYPE_CHECKING

import numpy as np

from sweeps.device_facts import canonical_key
from sweeps.errors import BuildError, EdgeSweepError, in_one_line
from sweeps.locks import locked
from sweeps.planning.axes import resolve_variant
from sweeps.spec import catalog
from sweeps.spec.entries import RuntimeEntry
from sweeps.spec.toolchains import Toolchain, toolchain
from sweeps.temporary import temporary_folder
from sweeps.variant import Variant
from sweeps.with_parent import run_with_parent
from workers.models.package import BuildInputs, ModelPackage
from workers.native.compiler import cache_folder
from workers.runtimes import registry
from workers.runtimes.interface import Runtime
from workers.toolchains.environments import command_within

if TYPE_CHECKING:
    import torch

_MODULE = "workers.runtimes.library_check"
_DEADLINE_S = 1800.0
_SHAPE = (1, 3, 8, 8)
_IMAGES = 4
_METHOD = "static"
"""The quantization of the tiny model in int8, if the runtime has it."""

_OF_THE_MACHINE = ("timeout", "out_of_memory", "worker_lost")
"""Kinds of failures that say nothing about the libraries."""
_broken: dict[str, str] = {}
"""The errors that this process has found, by set of versions; empty for a set that works."""


def check(runtime: Runtime, toolchain: str, precision: str) -> None:
    """Build the tiny model in this precision with `toolchain`, which this process has entered, and run it in a fresh
    process. This is done once per machine, set of versions, precision and quantization, because each uses other parts
    of the libraries. PyTorch's own runtimes are not checked: they have no library that could need another torch.

    Raises `BuildError("runtime_broken")` with the versions.
    """
    entry = catalog.runtimes().get(runtime.name)
    if entry is None or not entry.extra:
        return
    versions = runtime.versions()
    variant = _variant(entry, toolchain, precision)
    key = canonical_key(
        {
            "versions": versions,
            "environment": sys.prefix,
            "python": sys.version,
            "precision": precision,
            "quantization": variant.quantization,
        }
    )
    worked = cache_folder() / "tried" / f"{runtime.name}-{key[:16]}"
    with locked(worked.with_suffix(".lock")):
        if worked.is_file():
            return
        why = _broken[key] = _broken.get(key) or _failure(runtime, variant)
        if not why:
            worked.touch()
            return
    named = ", ".join(f"{name} {version}" for name, version in versions.items() if name != "builder")
    raise BuildError(
        "runtime_broken", f"{named}: together they cannot build and run even a tiny model in {precision}: {why}"
    )


def check_release(chosen: Toolchain) -> None:
    """Check a release whose environment is on this machine as `check` does, in fp32 and in a separate process.

    Raises `BuildError("runtime_broken")`, also if that process crashes, and `EdgeSweepError` if it cannot be tried.
    """
    argv = command_within([sys.executable, "-m", _MODULE, chosen.text], chosen.text)
    try:
        ended = run_with_parent([argv[0], "-P", *argv[1:]], _DEADLINE_S)
    except subprocess.TimeoutExpired as error:
        raise EdgeSweepError(
            f"{chosen.text} needs more than {_DEADLINE_S:.0f} s for a tiny model", "try again"
        ) from error
    if ended.returncode == 0:
        return
    if ended.returncode == -signal.SIGKILL:
        raise EdgeSweepError(f"{chosen.text}: its process was killed on a tiny model", "free memory, and try again")
    try:
        kind, message, next_step = map(str, json.loads(ended.stdout.splitlines()[-1]))
    except (IndexError, ValueError, TypeError) as error:
        last_line = (ended.stderr.strip().splitlines() or ["it says nothing"])[-1][:300]
        ended_so = f"{chosen.text}: its process ended with {ended.returncode} on a tiny model: {last_line}"
        raise BuildError("runtime_broken", ended_so) from error
    raise BuildError("runtime_broken", message) if kind == "runtime_broken" else EdgeSweepError(message, next_step)


def net() -> "torch.nn.Module":
    """Return a network from (N, 3, 8, 8) to (N, 2)."""
    import torch

    torch.manual_seed(0)
    convolution = torch.nn.Conv2d(3, 4, 3)
    return torch.nn.Sequential(convolution, torch.nn.ReLU(), torch.nn.Flatten(), torch.nn.Linear(4 * 6 * 6, 2))


def _variant(entry: RuntimeEntry, toolchain: str, precision: str) -> Variant:
    """Return a variant that the runtime has: on the CPU and in static int8, if the runtime has these."""
    methods = entry.values.get("quantization", (_METHOD,))
    variant = Variant(
        runtime=entry.name,
        backend=(entry.backend("cpu") or entry.backends[0]).name,
        precision=precision,
        quantization=_METHOD if _METHOD in methods else methods[0],
        granularity="auto",
        toolchain=toolchain,
        runner_toolchain=toolchain,
    )
    return resolve_variant(variant, "any")


def _failure(runtime: Runtime, variant: Variant) -> str:
    """Return the reason why the variant cannot be built; empty if it was."""
    try:
        with temporary_folder() as out:
            runtime.build(variant, "trial", _inputs(runtime), out)
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

    from workers.models.eager_model import eager_logits

    with torch.random.fork_rng():
        network = net().eval()
    state = io.BytesIO()
    torch.save(network.state_dict(), state)
    source = f"{_MODULE}:{net.__name__}"
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
        calibration=images,
        calibration_id="trial",
        verification=images,
        verification_labels=None,
        verification_logits=eager_logits(network, images),
        versions=runtime.versions(),
    )


def main(text: str) -> int:
    """Run the process of `check_release`. Its last line is the error as JSON: kind, message, next step. Returns the
    exit code."""
    try:
        check(registry.get(toolchain(text).package), text, "fp32")
    except EdgeSweepError as error:
        kind = error.kind if isinstance(error, BuildError) else ""
        print(json.dumps([kind, error.message, error.next_step]))  # noqa: T201  # `check_release` reads it
        return 1
    except (MemoryError, OSError) as error:
        answer = ["", f"{text} could not be tried: {in_one_line(error)}", "free memory or disk, and try again"]
        print(json.dumps(answer))  # noqa: T201
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
