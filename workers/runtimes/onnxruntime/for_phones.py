"""Compiles the runner of ONNX Runtime for phones, without the library, which is put beside the runner."""

from pathlib import Path

from sweeps.errors import BuildError
from workers.native import aar
from workers.native.android import Choice, Recipe
from workers.native.elf import read_elf
from workers.runtimes.onnxruntime.native_runner import version
from workers.runtimes.onnxruntime.programs import LIBRARY, RUNNER

GET = (
    "download the .aar of com.microsoft.onnxruntime:onnxruntime-android (1.12 or newer; 1.24.2 is one), or name the "
    "folder that build.sh --android --build_shared_lib made"
)
_ENTRY = "OrtGetApiBase"
# The API level of the AARs.
_LEVEL = 24


def recipe(library: Path, abi: str, choice: Choice, folder: Path) -> Recipe:
    """Return how the runner is compiled. `library`: the library itself, a folder with it, or an AAR, which is unpacked
    into `folder`. Raises `BuildError`."""
    file = library if library.is_file() and library.suffix != ".aar" else _library(library, abi, folder)
    try:
        elf = read_elf(file)
    except (OSError, ValueError) as error:
        raise BuildError("no_library", f"{file} cannot be read: {error}", GET) from error
    if _ENTRY not in elf.defined:
        raise BuildError("no_library", f"{file} is not ONNX Runtime: it has no {_ENTRY}", GET)
    return Recipe(
        definitions=("-DONNXRUNTIME=ON", f"-DRUNNER_VERSION={version()}"),
        programs={RUNNER: RUNNER},
        level=_LEVEL,
        opened={LIBRARY: file},
    )


def _library(library: Path, abi: str, folder: Path) -> Path:
    tree = aar.tree(library, abi, folder)
    # build.sh makes a separate folder for each kind of build.
    files = sorted({file.resolve() for where in ("", "lib", "*") for file in tree.glob(str(Path(where) / LIBRARY))})
    if not files:
        raise BuildError("no_library", f"{library} has no {LIBRARY}", GET)
    if len(files) > 1:
        raise BuildError("no_library", f"{library} has {len(files)} of {LIBRARY}", f"name one of them: {files[0]}")
    return files[0]
