"""Compiles the runner of PyTorch Mobile for phones: against static libraries, or the shared ones of an AAR."""

from pathlib import Path

from sweeps.errors import BuildError
from workers.native import aar
from workers.native.android import Choice, Recipe
from workers.runtimes.torchscript.native_runner import version
from workers.runtimes.torchscript.programs import PROFILERS, RUNNERS

GET = (
    "download the .aar of org.pytorch:pytorch_android 2.1.0 (for ptl: pytorch_android_lite), or compile libtorch with "
    "build_android.sh of PyTorch v2.8.0: edgesweep explain android-runtime has the commands"
)
_FORMATS = {"full": "pt", "lite": "ptl"}
_OF_AAR = {"full": "libpytorch_jni.so", "lite": "libpytorch_jni_lite.so"}
# The API level of build_android.sh and the AARs.
_LEVEL = 21


def recipe(library: Path, abi: str, choice: Choice, folder: Path) -> Recipe:
    """Return how the runner is compiled. `library`: a folder with include/ and lib/, or an AAR, which is unpacked into
    `folder`. Raises `BuildError`."""
    tree = aar.tree(library, abi, folder)
    has = [name for name, file in _OF_AAR.items() if (tree / "lib" / file).is_file()]
    interpreter = choice.interpreter or (has or ["full"])[0]
    if has and interpreter not in has:
        raise BuildError(
            "no_library",
            f"{library} has the interpreter {has[0]}, not {interpreter}",
            f"leave --interpreter out. {GET}",
        )
    for part in ("include/torch/script.h", "lib/" + (_OF_AAR[interpreter] if has else "libtorch_cpu.a")):
        if not (tree / part).is_file():
            raise BuildError("no_library", f"{library} is no libtorch for Android: it has no {part}", GET)
    form = _FORMATS[interpreter]
    return Recipe(
        definitions=(f"-DLIBTORCH={tree.resolve()}", f"-DINTERPRETER={interpreter}", f"-DRUNNER_VERSION={version()}"),
        programs={"edgesweep_runner": RUNNERS[form], "edgesweep_profiler": PROFILERS[form]},
        level=_LEVEL,
        shared=tree / "lib" if has else None,
    )
