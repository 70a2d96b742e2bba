"""Runs a Python program with a toolchain's packages before those of this environment.

    python -m workers.toolchains.run_with_packages FOLDER -m MODULE ARGUMENTS ...

This module imports only the standard library, because the program sets CPUs and threads before it imports anything
else. Without the folder the program ends like a runner that gives up: with a line of JSON of the kind
`runtime_missing`, and the exit code 3.
"""

import importlib
import json
import os
import runpy
import sys

MARKER = "toolchain.json"
"""The file that is written last: a folder without it is incomplete."""
KIND = "runtime_missing"
ERROR_EXIT = 3


def enter(folder: str) -> str:
    """Put a toolchain's packages first on `sys.path`. Returns the reason why that is not possible, empty if it was
    done."""
    if not os.path.isfile(os.path.join(folder, MARKER)):  # noqa: PTH113, PTH118  # pathlib takes longer to import
        return f"there is no toolchain in {folder} (edgesweep toolchain add makes it)"
    sys.path.insert(0, folder)
    importlib.invalidate_caches()
    return ""


def given_up(message: str) -> int:
    print(json.dumps({"event": "error", "kind": KIND, "message": message}))  # noqa: T201  # the report of a runner
    return ERROR_EXIT


def main(argv: list[str]) -> int:
    folder, _, module, *arguments = argv
    if message := enter(folder):
        return given_up(message)
    sys.argv = [module, *arguments]
    runpy.run_module(module, run_name="__main__", alter_sys=True)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
