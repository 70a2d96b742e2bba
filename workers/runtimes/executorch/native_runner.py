"""The C++ runner of ExecuTorch (`workers/native/executorch_runner.cpp`): its version, and how its program is compiled.
Torch-free.

It takes the arguments of the Python runner and prints the same events. It is compiled against the headers and shared
libraries of a wheel that is unpacked into the cache and not installed: the wheel of the release that exports has none.
Each of the two releases runs files of the other.
"""

import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path

from sweeps.errors import BuildError
from sweeps.locks import locked
from workers.native import compiler

NAME = "native-executorch"
SOURCE = "executorch_runner.cpp"
LIBRARIES = "1.5.1"
"""The release whose libraries the runner is linked to."""

_LINKED = ("executorch", "executorch_backend_xnnpack", "executorch_kernels_optimized", "executorch_kernels_quantized")
_THREADS = "executorch_threadpool"
_KEPT = ("executorch/include/", "executorch/lib/lib")
_DEADLINE_S = 600.0
_HINT = "edgesweep explain runtimes says how to get it"


def version() -> str:
    """Return the first 12 hex digits of the sha256 over the sources: part of every job key and of every report."""
    return compiler.source_id(SOURCE)


def runner() -> str:
    """Return name and version, as in the runner's reports."""
    return f"{NAME} {version()}"


def program() -> Path:
    """Return the runner for this machine, compiled on first use (12 s, after a download of 19 MB) and cached.

    Raises `BuildError`: `no_compiler`, `not_compilable` or `runtime_missing`.
    """
    named = f'-DEDGESWEEP_RUNNER_VERSION="{version()}"', f'-DEDGESWEEP_EXECUTORCH_VERSION="{LIBRARIES}"'
    return compiler.program(SOURCE, "edgesweep_runner_executorch", (*named, *flags()), link())


def flags() -> tuple[str, ...]:
    """Return the compiler flags for ExecuTorch's headers. Raises `BuildError("runtime_missing")`."""
    include = wheel() / "include"
    inner = include / "executorch/runtime/core/portable_type/c10"
    return "-DC10_USING_CUSTOM_GENERATED_MACROS", "-isystem", str(include), "-isystem", str(inner)


def link() -> tuple[str, ...]:
    """Return the flags that link a program to ExecuTorch's libraries, also to those that it does not refer to: kernels
    and backends register themselves when the program starts. Raises `BuildError("runtime_missing")`."""
    lib = wheel() / "lib"
    libraries = [f"-l{name}" for name in (*_LINKED, _THREADS)]
    return f"-L{lib}", f"-Wl,-rpath,{lib}", "-Wl,--no-as-needed", *libraries, "-Wl,--as-needed"


_WHEELS = (
    "274c28c2fe2b76acb03f9fa381537425c40e0098dcf886baf6d97a1a55ffe300",  # Linux, x86_64
    "8ee02348a3ea80ddf770822911ebf78da616b73afce0fbaaa79f23311c88c66a",  # Linux, aarch64
    "e747dacb39950a2d234e08f230c1e5540f7b297fd32bc8c8f4296a953bb40dc0",  # macOS, arm64
)
"""sha256 of the wheels of `LIBRARIES` for Python 3.11."""


def wheel() -> Path:
    """Return the folder with `include` and `lib`, in the cache, downloaded if necessary. Raises
    `BuildError("runtime_missing")`."""
    folder = compiler.cache_folder() / "native" / f"executorch-{LIBRARIES}"
    package = folder / "executorch"
    if not package.is_dir():
        folder.mkdir(parents=True, exist_ok=True)
        with locked(folder / "lock"):
            if not package.is_dir():
                with tempfile.TemporaryDirectory(dir=folder) as partial:
                    _unpack(_download(Path(partial)), Path(partial))
                    Path(partial, "executorch").replace(package)
    return package


def _download(folder: Path) -> Path:
    pinned = folder / "pinned.txt"
    hashes = " ".join(f"--hash=sha256:{sha256}" for sha256 in _WHEELS)
    pinned.write_text(f"executorch=={LIBRARIES} {hashes}\n", encoding="utf-8")
    argv = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--only-binary=:all:"]
    argv += ["--disable-pip-version-check", "--dest", str(folder), "--require-hashes", "--requirement", str(pinned)]
    try:
        ended = subprocess.run(argv, capture_output=True, text=True, timeout=_DEADLINE_S, check=False)  # noqa: S603  # pip
    except (OSError, subprocess.TimeoutExpired) as error:
        raise BuildError("runtime_missing", f"pip cannot download executorch {LIBRARIES}: {error}", _HINT) from error
    wheels = sorted(folder.glob("executorch-*.whl"))
    if ended.returncode != 0 or not wheels:
        last = (ended.stderr.strip().splitlines() or ["nothing was said"])[-1]
        raise BuildError("runtime_missing", f"pip cannot download executorch {LIBRARIES}: {last[:300]}", _HINT)
    return wheels[0]


def _unpack(file: Path, folder: Path) -> None:
    try:
        with zipfile.ZipFile(file) as archive:
            archive.extractall(folder, [name for name in archive.namelist() if name.startswith(_KEPT)])
    except (OSError, zipfile.BadZipFile) as error:
        raise BuildError("runtime_missing", f"{file.name} cannot be unpacked: {error}", _HINT) from error
