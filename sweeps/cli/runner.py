"""`edgesweep runner`: compiles the C++ runners for phones with the user's NDK and library."""

import os
import tempfile
from pathlib import Path

import click

from sweeps.cli.options import json_option, print_json
from sweeps.errors import EdgeSweepError
from sweeps.operations.notices import notify
from sweeps.spec import catalog
from sweeps.text import plain
from workers.native import android
from workers.runtimes import registry
from workers.runtimes.torchscript.programs import runners_folder

_RUNTIMES = [runtime.name for runtime in catalog.runtimes().values() if runtime.for_phones]


@click.group()
def runner() -> None:
    """Compile the programs that run builds on phones.

    \b
    Example: edgesweep runner build --abi arm64-v8a --library pytorch_android-2.1.0.aar
    """


@runner.command()
@click.option("--runtime", type=click.Choice(_RUNTIMES), default="torchscript", show_default=True)
@click.option("--abi", type=click.Choice(list(android.ABIS)), default="arm64-v8a", show_default=True)
@click.option(
    "--library",
    "--libtorch",
    "library",
    type=click.Path(path_type=Path),
    help="An AAR of PyTorch Mobile or ONNX Runtime, or a folder: what PyTorch's build_android.sh or ExecuTorch's cmake "
    "--install made, or ONNX Runtime's build.sh.",
)
@click.option(
    "--interpreter",
    type=click.Choice(["full", "lite"]),
    help="Of PyTorch Mobile: full runs pt files, lite ptl files.  [default: what an AAR has, else full]",
)
@click.option("--library-version", help="Of ExecuTorch, where the folder does not say it.")
@json_option
def build(
    runtime: str,
    abi: str,
    library: Path | None,
    interpreter: str | None,
    library_version: str | None,
    as_json: bool,
) -> None:
    """Compile a runtime's runner for an ABI, check it, and put it where phones get it from.

    \b
    The NDK is that of ANDROID_NDK_HOME, else the newest of Android Studio's.
    Checked: ABI, pages of 16 KiB, libraries and symbols that phones have, no text relocations.
    Shared libraries that it needs are put beside it, and go to phones with it.
    Example: edgesweep runner build --abi arm64-v8a --library pytorch_android-2.1.0.aar
    Example: edgesweep runner build --runtime onnxruntime --library onnxruntime-android-1.24.2.aar
    """
    maker = registry.for_phones(runtime)
    choice = android.Choice(interpreter=interpreter, version=library_version)
    missing: list[EdgeSweepError] = []
    ndk: Path | None = None
    recipe: android.Recipe | None = None
    with tempfile.TemporaryDirectory(prefix="edgesweep-runner-") as folder:
        try:
            ndk = android.find_ndk(os.environ, Path.home())
        except EdgeSweepError as error:
            missing.append(error)
        try:
            if library is None:
                raise EdgeSweepError(f"no library of {runtime} is named", f"give --library. {maker.GET}")
            recipe = maker.recipe(library, abi, choice, Path(folder) / "library")
        except EdgeSweepError as error:
            missing.append(error)
        if ndk is None or recipe is None:
            # One error names everything that is missing, because each part takes a while to get.
            steps = "\n  and: ".join(lack.next_step for lack in missing)
            raise EdgeSweepError("; ".join(lack.message for lack in missing), steps)
        toolchain = android.ndk_toolchain(ndk, abi, recipe)
        built = android.build(toolchain, abi, recipe, Path(folder) / "build", notify)
        placed = android.place(built, runners_folder(abi))
    if as_json:
        files = [str(file) for file in placed]
        print_json({"runtime": runtime, "abi": abi, "files": files, "ndk": str(ndk)})
    else:
        for file in placed:
            click.echo(plain(str(file)))
        click.echo(plain(f"Phones of {abi} get this from now on: edgesweep devices"))
