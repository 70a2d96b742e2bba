"""Finds the program that runs ONNX files on a device that is not this host."""

import re

from sweeps.device_facts import BOARD, VIRTUAL_PHONE, DeviceFacts
from sweeps.errors import BuildError
from sweeps.spec.toolchains import word
from sweeps.variant import INSTALLED
from workers.runtimes.interface import Program
from workers.runtimes.onnxruntime import native_runner
from workers.runtimes.torchscript.programs import check_machine, runners_folder

RUNNER, LIBRARY = "edgesweep_runner_onnxruntime", "libonnxruntime.so"
_HINT = "edgesweep explain runtimes says how to get both"


def programs(facts: DeviceFacts, toolchain: str = INSTALLED) -> dict[str, Program]:
    """As `workers.runtimes.torchscript.programs.programs`: the C++ runner, from the ABI's sub-folder, where the user
    puts it with the library that it opens: `libonnxruntime.so`, or `libonnxruntime-1.31.1.so` of another release. A
    virtual phone gets the one that is compiled here.

    Raises `BuildError`: `no_runner`, and the errors of compiling.
    """
    if not re.fullmatch(r"[A-Za-z0-9_-]{1,32}", facts.abi):
        raise BuildError("no_runner", f"{facts.abi[:100]!r} is no ABI's name", _HINT)
    folder = runners_folder(f"linux-{facts.abi}" if facts.exec_context == BOARD else facts.abi)
    release = word(toolchain).removeprefix("onnxruntime") if toolchain != INSTALLED else ""
    runner, library = folder / RUNNER, folder / LIBRARY.replace(".so", f"{release}.so")
    if runner.is_file() and library.is_file():
        for file in (runner, library):
            check_machine(file, facts.abi, _HINT)
        return {"onnx": Program(path=str(native_runner.with_library(runner, library)))}
    if facts.exec_context == VIRTUAL_PHONE:
        program = native_runner.program()
        if toolchain != INSTALLED:
            program = native_runner.with_library(program, native_runner.library(toolchain))
        return {"onnx": Program(path=str(program))}
    raise BuildError(
        "no_runner",
        f"there is no runner of ONNX Runtime for {facts.abi}: {folder} lacks {RUNNER} or {library.name}",
        _HINT,
    )
