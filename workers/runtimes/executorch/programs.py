"""Finds the program that runs pte files on a device that is not this host."""

import re

from sweeps.device_facts import BOARD, VIRTUAL_PHONE, DeviceFacts
from sweeps.errors import BuildError
from workers.runtimes.executorch import native_runner
from workers.runtimes.interface import Program
from workers.runtimes.torchscript.programs import check_machine, libraries_of, runners_folder

RUNNER = "edgesweep_runner_executorch"
_HINT = "edgesweep explain runtimes says how to compile it"


def programs(facts: DeviceFacts) -> dict[str, Program]:
    """As `workers.runtimes.torchscript.programs.programs`: the C++ runner, from the ABI's sub-folder, where the user
    puts it. A virtual phone gets the one that is compiled here.

    Raises `BuildError`: `no_runner`, and the errors of compiling.
    """
    if not re.fullmatch(r"[A-Za-z0-9_-]{1,32}", facts.abi):
        raise BuildError("no_runner", f"{facts.abi[:100]!r} is no ABI's name", _HINT)
    runner = runners_folder(f"linux-{facts.abi}" if facts.exec_context == BOARD else facts.abi) / RUNNER
    if runner.is_file():
        check_machine(runner, facts.abi, _HINT)
        return {"pte": Program(path=str(runner), libraries=libraries_of(runner, facts.abi, _HINT))}
    if facts.exec_context == VIRTUAL_PHONE:
        return {"pte": Program(path=str(native_runner.program()))}
    raise BuildError("no_runner", f"there is no runner of ExecuTorch for {facts.abi}: {runner} is missing", _HINT)
