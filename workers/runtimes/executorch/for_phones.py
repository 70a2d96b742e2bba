"""Compiles the runner of ExecuTorch for phones, against the files that `cmake --install` installed of ExecuTorch's
sources."""

import re
from pathlib import Path

from sweeps.errors import BuildError
from workers.native.android import Choice, Recipe
from workers.runtimes.executorch.native_runner import version
from workers.runtimes.executorch.programs import RUNNER

GET = "compile ExecuTorch with the NDK and install it: edgesweep explain runtimes has the commands"
_HEADER = "include/executorch/extension/module/module.h"
_PARTS = {
    "executorch": "",
    "extension_module": "EXECUTORCH_BUILD_EXTENSION_MODULE",
    "extension_data_loader": "EXECUTORCH_BUILD_EXTENSION_DATA_LOADER",
    "extension_flat_tensor": "EXECUTORCH_BUILD_EXTENSION_FLAT_TENSOR",
    "extension_tensor": "EXECUTORCH_BUILD_EXTENSION_TENSOR",
    "extension_threadpool": "EXECUTORCH_BUILD_PTHREADPOOL and EXECUTORCH_BUILD_CPUINFO",
    "optimized_native_cpu_ops_lib": "EXECUTORCH_BUILD_KERNELS_OPTIMIZED",
    "quantized_ops_lib": "EXECUTORCH_BUILD_KERNELS_QUANTIZED",
    "xnnpack_backend": "EXECUTORCH_BUILD_XNNPACK",
}
"""Static libraries, and the CMake options that build them."""
_VERSION = re.compile(r"[0-9]+(\.[0-9]+){1,3}[A-Za-z0-9.+-]{0,40}")
# The API level that ExecuTorch's own script for Android uses.
_LEVEL = 26


def recipe(library: Path, abi: str, choice: Choice, folder: Path) -> Recipe:
    """Return how the runner is compiled. `library`: the folder of the installed ExecuTorch, with include/ and lib/.
    Raises `BuildError`."""
    if library.suffix == ".aar":
        raise BuildError(
            "no_library",
            f"{library} is an app's archive: ExecuTorch's have Java classes and one library for them, and no headers "
            "to compile against",
            GET,
        )
    if not (library / _HEADER).is_file():
        raise BuildError("no_library", f"{library} is no installed ExecuTorch: it has no {_HEADER}", GET)
    shared = (library / "lib" / "libexecutorch.so").is_file()
    missing = [name for name in _PARTS if not shared and not (library / "lib" / f"lib{name}.a").is_file()]
    if missing:
        options = ", ".join(option for name in missing if (option := _PARTS[name]))
        raise BuildError(
            "no_library",
            f"{library}/lib lacks {', '.join(f'lib{name}.a' for name in missing)}",
            f"switch on {options}, and install again. {GET}" if options else GET,
        )
    of_library = choice.version or _version(library)
    if of_library is None or not _VERSION.fullmatch(of_library):
        raise BuildError(
            "no_library",
            f"{library} does not say which version it is, and the runner reports it"
            if of_library is None
            else f"{of_library!r} is no version",
            "give --library-version, for example 1.5.1",
        )
    return Recipe(
        definitions=(
            f"-DEXECUTORCH={library.resolve()}",
            f"-DEXECUTORCH_VERSION={of_library}",
            f"-DRUNNER_VERSION={version()}",
        ),
        programs={RUNNER: RUNNER},
        level=_LEVEL,
        shared=library / "lib" if shared else None,
    )


def _version(library: Path) -> str | None:
    """Return ExecuTorch's version from the header, else from the source folder in which it was installed; `None`
    without either."""
    try:
        header = library / "include/executorch/runtime/core/version.h"
        if header.is_file():
            match = re.search(r'#define ET_VERSION "([^"\n]{1,60})"', header.read_text(encoding="utf-8"))
            return match and match[1]
        for parent in library.resolve().parents[:2]:
            if (parent / "version.txt").is_file() and (parent / "runtime" / "executor").is_dir():
                return (parent / "version.txt").read_text(encoding="utf-8").strip()
    except (OSError, UnicodeDecodeError):
        pass
    return None
