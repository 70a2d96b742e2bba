"""The C++ runner of PyTorch Mobile (`workers/native/runner.cpp`): its version, and its program on this machine.

It takes the arguments of the Python runner and prints the same events. The program is compiled from `runner_batch.cpp`,
which includes `runner.cpp` and adds batches. This module does not import torch.
"""

from pathlib import Path

from sweeps.variant import INSTALLED
from workers.native import compiler
from workers.runtimes.torchscript.runner.load import LIBRARIES
from workers.toolchains.environments import package_folder

NAME = "native-torchscript"
SOURCE = "runner.cpp"
"""The source that times one artifact. Its hash is in job keys, so code that only batches need is not in it."""
PROGRAM_SOURCE = "runner_batch.cpp"
PROFILER_SOURCE = "torchscript_profiler.cpp"


def version() -> str:
    """Return the first 12 hex digits of the sha256 over the sources that time one artifact: part of every job key and
    of every report."""
    return compiler.source_id(SOURCE)


def runner() -> str:
    """Return name and version, as in the runner's reports."""
    return f"{NAME} {version()}"


def program() -> Path:
    """Return the runner for this machine, compiled against the installed torch on first use (20 s) and cached.

    Raises `BuildError`: `no_compiler`, `no_torch` or `not_compilable`.
    """
    return compiler.program(PROGRAM_SOURCE, "edgesweep_runner", (f'-DEDGESWEEP_RUNNER_VERSION="{version()}"',))


def libraries() -> tuple[Path, ...]:
    """Return the libraries of the installed torch that the program is linked to."""
    folder = package_folder("torch", INSTALLED)
    return () if folder is None else tuple(file for name in LIBRARIES for file in folder.glob(f"lib/{name}.*"))


def profiler() -> Path:
    """Return the program that reports the time of each operator, for this machine; compiled and cached as `program`
    is."""
    flags = (f'-DEDGESWEEP_RUNNER_VERSION="{compiler.source_id(PROFILER_SOURCE)}"',)
    return compiler.program(PROFILER_SOURCE, "edgesweep_profiler", flags)
