"""Finds the programs that run PyTorch Mobile's artifacts on a device that is not this host."""

import os
import re
from pathlib import Path
from typing import Literal

from sweeps.device_facts import BOARD, VIRTUAL_PHONE, DeviceFacts
from sweeps.errors import BuildError
from workers.native.android import BESIDE
from workers.native.compiler import cache_folder
from workers.native.elf import MACHINES
from workers.runtimes.interface import Program
from workers.runtimes.torchscript import native_runner, python_program
from workers.runtimes.torchscript.speed_benchmark import SpeedBenchmark

FOLDER_VARIABLE = "EDGESWEEP_RUNNERS"
RUNNERS = {"pt": "edgesweep_runner_full", "ptl": "edgesweep_runner_lite"}
PROFILERS = {"pt": "edgesweep_profiler_full", "ptl": "edgesweep_profiler_lite"}
STOCK_TOOLS = {"pt": "speed_benchmark_torch", "ptl": "speed_benchmark_torch_lite"}
_ANDROID = "edgesweep explain android-runtime says how to compile it"
_BOARD = "install torch there (python3 -m venv ~/edgesweep-venv), or compile the C++ runner: edgesweep explain boards"


def programs(facts: DeviceFacts) -> dict[str, Program]:
    """Return the programs of this host, by format (`pt`, `ptl`), that run such artifacts on the device.

    A device that has Python and torch gets the Python runner. For other devices, programs come from the ABI's
    sub-folder of `EDGESWEEP_RUNNERS` (default: `runners` in the cache), where the user puts them; for boards the
    sub-folder is named `linux-ABI`, because a program for Android runs on no other Linux. For each format, EdgeSweep's
    runner is preferred to PyTorch's `speed_benchmark_torch`. If there is none, a virtual phone gets the C++ runner,
    compiled on first use; a real phone cannot run it, because it is linked to the host's libraries. Raises
    `BuildError`: `no_runner`, and the errors of compiling.
    """
    if facts.python:
        return dict.fromkeys(RUNNERS, Program(path=str(python_program.program(facts.python))))
    abi, is_board = facts.abi, facts.exec_context == BOARD
    hint = _BOARD if is_board else _ANDROID
    folder = folder_for(facts, hint)
    chosen: dict[str, Program] = {}
    for kind in RUNNERS:
        runner, tool = folder / RUNNERS[kind], folder / STOCK_TOOLS[kind]
        if runner.is_file():
            check_machine(runner, abi, hint)
            beside = libraries_of(runner, abi, hint)
            chosen[kind] = Program(path=str(runner), libraries=beside, library_mb=megabytes(runner, *map(Path, beside)))
        elif tool.is_file():
            check_machine(tool, abi, hint)
            chosen[kind] = Program(path=str(tool), tool=SpeedBenchmark.of(tool, abi), library_mb=megabytes(tool))
    if chosen:
        return chosen
    if facts.exec_context == VIRTUAL_PHONE:
        runner = native_runner.program()
        size = megabytes(runner, *native_runner.libraries())
        return dict.fromkeys(RUNNERS, Program(path=str(runner), library_mb=size))
    lack = "no Python 3.10 with torch was found on the board, and " if is_board else ""
    names = ", ".join((*RUNNERS.values(), *STOCK_TOOLS.values()))
    raise BuildError("no_runner", f"{lack}there is no runner for {abi}: {folder} holds none of {names}", hint)


def profilers(facts: DeviceFacts) -> dict[str, Program]:
    """Return the programs, as `programs` does, that report the time of each operator: the Python runner, or a C++
    program beside the C++ runner. Raises `BuildError`: `no_runner`, and the errors of compiling."""
    if facts.python:
        return programs(facts)
    folder = folder_for(facts, _ANDROID)
    files = {kind: folder / name for kind, name in PROFILERS.items() if (folder / name).is_file()}
    if files:
        for file in files.values():
            check_machine(file, facts.abi, _ANDROID)
        return {
            kind: Program(path=str(file), libraries=libraries_of(file, facts.abi, _ANDROID))
            for kind, file in files.items()
        }
    if facts.exec_context == VIRTUAL_PHONE:
        return dict.fromkeys(PROFILERS, Program(path=str(native_runner.profiler())))
    names = ", ".join(PROFILERS.values())
    raise BuildError("no_runner", f"there is no profiler for {facts.abi}: {folder} holds none of {names}", _ANDROID)


def folder_for(facts: DeviceFacts, hint: str) -> Path:
    """Return the sub-folder for programs for such a device; `hint`: the next step in the error. Raises
    `BuildError("no_runner")`."""
    if not re.fullmatch(r"[A-Za-z0-9_-]{1,32}", facts.abi):
        # The name comes from the device, and is used as a folder's name.
        raise BuildError("no_runner", f"{facts.abi[:100]!r} is no ABI's name", hint)
    return runners_folder(f"linux-{facts.abi}" if facts.exec_context == BOARD else facts.abi)


def runners_folder(name: str) -> Path:
    """Return the sub-folder for programs of one kind of device."""
    return Path(os.environ.get(FOLDER_VARIABLE) or cache_folder() / "runners") / name


def libraries_of(program: Path, abi: str, hint: str) -> tuple[str, ...]:
    """Return the shared libraries that a program needs beside it on the device. Raises `BuildError`."""
    files = sorted(program.with_name(program.name + BESIDE).glob("*.so"))
    for file in files:
        check_machine(file, abi, hint)
    return tuple(map(str, files))


def megabytes(*files: Path) -> float:
    """Return the size of files of this host together, in MB: the space that an app needs beside a model, if a program
    is linked to no other libraries."""
    return sum(file.stat().st_size for file in files) / 1e6


def check_machine(file: Path, abi: str, hint: str) -> None:
    """Raises `BuildError` for a program of another processor: a shell would run it as a shell script."""
    with file.open("rb") as content:
        head = content.read(20)
    order: Literal["little", "big"] = "little" if head[5:6] == b"\x01" else "big"
    machine = MACHINES.get(int.from_bytes(head[18:20], order)) if head[:4] == b"\x7fELF" and len(head) == 20 else abi
    if machine != abi:
        raise BuildError("no_runner", f"{file} is a program for {machine or 'another processor'}, not for {abi}", hint)
