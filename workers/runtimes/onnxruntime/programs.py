"""Finds the program that runs ONNX files on a device that is not this host."""

from sweeps.device_facts import VIRTUAL_PHONE, DeviceFacts
from sweeps.errors import BuildError
from sweeps.spec.toolchains import word
from sweeps.variant import INSTALLED
from workers.runtimes.interface import Program
from workers.runtimes.onnxruntime import native_runner, perf_test
from workers.runtimes.onnxruntime.perf_test import PerfTest
from workers.runtimes.torchscript.programs import check_machine, folder_for, megabytes
from workers.toolchains import environments

STOCK_TOOL = perf_test.NAME
RUNNER, LIBRARY = "edgesweep_runner_onnxruntime", "libonnxruntime.so"
_HINT = "edgesweep explain runtimes says how to get both"


def programs(facts: DeviceFacts, toolchain: str = INSTALLED) -> dict[str, Program]:
    """Return the programs for a device, as `workers.runtimes.torchscript.programs.programs` does: the C++ runner, from
    the ABI's sub-folder, into which the user puts it with the library that it opens (`libonnxruntime.so`, or
    `libonnxruntime-1.31.1.so` of another release), or else ONNX Runtime's own tool. A virtual phone gets the runner
    that is compiled on this machine.

    Raises `BuildError`: `no_runner`, and the errors of compiling.
    """
    folder = folder_for(facts, _HINT)
    release = word(toolchain).removeprefix("onnxruntime") if toolchain != INSTALLED else ""
    runner, library, tool = folder / RUNNER, folder / _library(release), folder / STOCK_TOOL
    if runner.is_file() and library.is_file():
        for file in (runner, library):
            check_machine(file, facts.abi, _HINT)
        return {"onnx": Program(path=str(native_runner.with_library(runner, library)))}
    # The tool does not report its release.
    if tool.is_file() and toolchain == INSTALLED:
        check_machine(tool, facts.abi, _HINT)
        return {"onnx": Program(path=str(tool), tool=PerfTest.from_file(tool), library_mb=megabytes(tool))}
    if facts.exec_context == VIRTUAL_PHONE:
        program = native_runner.program()
        if toolchain != INSTALLED:
            program = native_runner.with_library(program, native_runner.library(toolchain))
        return {"onnx": Program(path=str(program))}
    raise BuildError(
        "no_runner",
        f"there is no runner of ONNX Runtime for {facts.abi}: {folder} has neither {RUNNER} with {library.name} "
        f"nor {STOCK_TOOL}",
        _HINT,
    )


def releases(facts: DeviceFacts) -> tuple[str, ...]:
    """Return the releases whose library lies beside the runner; for a virtual phone also those on this machine."""
    folder = folder_for(facts, _HINT)
    before, _, after = _library("-*").partition("*")
    files = folder.glob(before + "*" + after) if (folder / RUNNER).is_file() else ()
    texts = {f"onnxruntime=={file.name.removeprefix(before).removesuffix(after)}" for file in files}
    if facts.exec_context == VIRTUAL_PHONE:
        texts |= {
            entry.toolchain.text for entry in environments.installed() if entry.toolchain.package == "onnxruntime"
        }
    return tuple(sorted(texts))


def _library(release: str) -> str:
    return LIBRARY.replace(".so", f"{release}.so")
