"""Finds the program that runs pte files on a device that is not this host."""

from sweeps.device_facts import VIRTUAL_PHONE, DeviceFacts
from sweeps.errors import BuildError
from workers.runtimes.executorch import executor_runner, native_runner
from workers.runtimes.executorch.executor_runner import ExecutorRunner
from workers.runtimes.interface import Program
from workers.runtimes.torchscript.programs import check_machine, folder_for, libraries_of, megabytes

RUNNER = "edgesweep_runner_executorch"
STOCK_TOOL = executor_runner.NAME
_HINT = "edgesweep explain runtimes says how to compile it"


def programs(facts: DeviceFacts) -> dict[str, Program]:
    """Return the programs for a device, as `workers.runtimes.torchscript.programs.programs` does: the C++ runner or
    else ExecuTorch's own tool, from the ABI's sub-folder, into which the user puts them. A virtual phone gets the
    runner that is compiled on this machine.

    Raises `BuildError`: `no_runner`, and the errors of compiling.
    """
    folder = folder_for(facts, _HINT)
    runner, tool = folder / RUNNER, folder / STOCK_TOOL
    if runner.is_file():
        check_machine(runner, facts.abi, _HINT)
        return {"pte": Program(path=str(runner), libraries=libraries_of(runner, facts.abi, _HINT))}
    if tool.is_file():
        check_machine(tool, facts.abi, _HINT)
        return {"pte": Program(path=str(tool), tool=ExecutorRunner.from_file(tool), library_mb=megabytes(tool))}
    if facts.exec_context == VIRTUAL_PHONE:
        return {"pte": Program(path=str(native_runner.program()))}
    raise BuildError(
        "no_runner",
        f"there is no runner of ExecuTorch for {facts.abi}: {folder} has neither {RUNNER} nor {STOCK_TOOL}",
        _HINT,
    )
