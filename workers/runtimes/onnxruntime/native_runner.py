"""The C++ runner of ONNX Runtime (`workers/native/onnxruntime_runner.cpp`): its version, and its programs. Torch-free.

It takes the arguments of the Python runner and prints the same events. When it starts, it opens the library at the end
of its own file (`with_library`), or the one beside it, else that of the wheel on this machine, for which it was
compiled.
"""

import hashlib
from pathlib import Path

from sweeps.errors import BuildError
from sweeps.variant import INSTALLED
from sweeps.whole_file import whole_file
from workers.native import compiler
from workers.runtimes import registry
from workers.toolchains import environments

NAME = "native-onnxruntime"
SOURCE = "onnxruntime_runner.cpp"
_MAGIC = b"EDGEORT1"
"""The last bytes of a program with a library at its end; before them the library's length, 8 bytes, little-endian."""


def version() -> str:
    """Return the first 12 hex digits of the sha256 over the sources: part of every job key and of every report."""
    return compiler.source_id(SOURCE)


def runner() -> str:
    """Return name and version, as in the runner's reports."""
    return f"{NAME} {version()}"


def program() -> Path:
    """Return the runner for this machine and the library of its wheel, compiled on first use (4 s) and cached.

    Raises `BuildError`: `no_compiler` or `not_compilable`; `EdgeSweepError` if ONNX Runtime is not installed.
    """
    named = f'-DEDGESWEEP_RUNNER_VERSION="{version()}"'
    return compiler.program(SOURCE, "edgesweep_runner_onnxruntime", (named, *flags()), link())


def flags() -> tuple[str, ...]:
    """Return the flags that tell a program the path of the wheel's library. Raises `EdgeSweepError`."""
    return (f'-DEDGESWEEP_ONNXRUNTIME="{library()}"',)


def link() -> tuple[str, ...]:
    """Return the flags for a program that opens the library when it starts."""
    return ("-ldl",)


def library(toolchain: str = INSTALLED) -> Path:
    """Return the path of `libonnxruntime.so` of the installed wheel, or of another release. Raises `EdgeSweepError`."""
    folder = environments.package_folder("onnxruntime", toolchain)
    libraries = sorted((folder / "capi").glob("libonnxruntime.so*")) if folder is not None else []
    if not libraries and toolchain != INSTALLED:
        environments.check(toolchain)
    if not libraries:
        raise registry.not_installed("onnxruntime", "onnxruntime")
    return libraries[0]


def with_library(runner: Path, library: Path) -> Path:
    """Write runner and library into one file in the cache: a device gets one program for a format. Raises
    `BuildError`."""
    try:
        code, content = runner.read_bytes(), library.read_bytes()
        whole = code + content + len(content).to_bytes(8, "little") + _MAGIC
        target = compiler.cache_folder() / "native" / hashlib.sha256(whole).hexdigest()[:16] / runner.name
        if not target.is_file():
            target.parent.mkdir(parents=True, exist_ok=True)
            with whole_file(target) as part:
                part.write_bytes(whole)
                part.chmod(0o755)
    except OSError as error:
        raise BuildError("os_error", f"{runner.name} and {library.name} cannot be put together: {error}") from error
    return target
