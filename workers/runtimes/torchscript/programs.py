"""Finds the programs that run PyTorch Mobile's artifacts on a device without Python."""

import os
import re
from pathlib import Path

from sweeps.device_facts import VIRTUAL_PHONE, DeviceFacts
from sweeps.errors import BuildError
from workers.native.compiler import cache_folder
from workers.runtimes.interface import Program
from workers.runtimes.torchscript import native_runner
from workers.runtimes.torchscript.speed_benchmark import SpeedBenchmark

FOLDER_VARIABLE = "EDGESWEEP_RUNNERS"
RUNNERS = {"pt": "edgesweep_runner_full", "ptl": "edgesweep_runner_lite"}
STOCK_TOOLS = {"pt": "speed_benchmark_torch", "ptl": "speed_benchmark_torch_lite"}
_ANDROID = "infra/android-runtime.md says how to compile it"


def programs(facts: DeviceFacts) -> dict[str, Program]:
    """By format (`pt`, `ptl`), the program of this host that runs such artifacts on a device without Python.

    Programs come from the ABI's sub-folder of `EDGESWEEP_RUNNERS` (default: `runners` in the cache), where the user
    puts them. For each format, EdgeSweep's runner is preferred to PyTorch's `speed_benchmark_torch`. If there is none,
    a virtual phone gets the C++ runner, compiled on first use; a real phone cannot run it, because it is linked to the
    host's libraries. Raises `BuildError`: `no_runner`, and the errors of compiling.
    """
    abi = facts.abi
    if not re.fullmatch(r"[A-Za-z0-9_-]{1,32}", abi):
        # The name comes from the device, and is used as a folder's name.
        raise BuildError("no_runner", f"{abi[:100]!r} is no ABI's name", _ANDROID)
    folder = Path(os.environ.get(FOLDER_VARIABLE) or cache_folder() / "runners") / abi
    found: dict[str, Program] = {}
    for kind in RUNNERS:
        runner, tool = folder / RUNNERS[kind], folder / STOCK_TOOLS[kind]
        if runner.is_file():
            found[kind] = Program(path=str(runner))
        elif tool.is_file():
            found[kind] = Program(path=str(tool), tool=SpeedBenchmark.of(tool, abi))
    if found:
        return found
    if facts.exec_context == VIRTUAL_PHONE:
        return dict.fromkeys(RUNNERS, Program(path=str(native_runner.program())))
    raise BuildError(
        "no_runner",
        f"there is no runner for {abi}: {folder} holds none of {', '.join((*RUNNERS.values(), *STOCK_TOOLS.values()))}",
        _ANDROID,
    )
