"""`edgesweep runner`: the C++ runner for phones, compiled with what the user has."""

import os
import tempfile
from pathlib import Path

import click

from sweeps.cli.options import json_option, print_json
from sweeps.errors import EdgeSweepError
from sweeps.operations.telling import tell
from sweeps.text import plain
from workers.native import android
from workers.runtimes.torchscript.native_runner import version
from workers.runtimes.torchscript.programs import RUNNERS, runners_folder


@click.group()
def runner() -> None:
    """Compile the program that runs builds on phones.

    \b
    Example: edgesweep runner build --abi arm64-v8a --libtorch pytorch/build_full/install
    """


@runner.command()
@click.option("--abi", type=click.Choice(list(android.ABIS)), default="arm64-v8a", show_default=True)
@click.option(
    "--libtorch",
    type=click.Path(path_type=Path),
    help="The folder with include/ and lib/ that PyTorch's build_android.sh installed.",
)
@click.option(
    "--interpreter",
    type=click.Choice(["full", "lite"]),
    default="full",
    show_default=True,
    help="What that libtorch has: full runs pt files, lite ptl files.",
)
@json_option
def build(abi: str, libtorch: Path | None, interpreter: android.Interpreter, as_json: bool) -> None:
    """Compile the runner for an ABI, check it, and put it where phones get it from.

    \b
    The NDK is that of ANDROID_NDK_HOME, else the newest of Android Studio's.
    Checked: ABI, pages of 16 KiB, libraries and symbols that phones have, no text relocations.
    Example: edgesweep runner build --abi arm64-v8a --libtorch pytorch/build_full/install
    """
    missing: list[EdgeSweepError] = []
    ndk = None
    try:
        ndk = android.find_ndk(os.environ, Path.home())
    except EdgeSweepError as error:
        missing.append(error)
    try:
        if libtorch is None:
            raise EdgeSweepError("no libtorch is named", f"give --libtorch FOLDER. {android.GET_LIBTORCH}")
        android.check_libtorch(libtorch)
    except EdgeSweepError as error:
        missing.append(error)
    if missing or ndk is None or libtorch is None:
        # All that is missing at once: each takes a while to get.
        raise EdgeSweepError("; ".join(one.message for one in missing), "\n  and: ".join(o.next_step for o in missing))
    with tempfile.TemporaryDirectory(prefix="edgesweep-runner-") as folder:
        toolchain = android.ndk_toolchain(ndk, abi)
        program = android.build(toolchain, abi, libtorch, interpreter, version(), Path(folder), tell)
        name = RUNNERS["pt" if interpreter == "full" else "ptl"]
        file = android.place(program, runners_folder(abi), name)
    if as_json:
        print_json({"file": str(file), "abi": abi, "interpreter": interpreter, "ndk": str(ndk), "version": version()})
    else:
        click.echo(plain(f"{file}  for {abi}; phones get it from now on: edgesweep devices"))
