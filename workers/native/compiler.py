"""Compiles the C++ in this folder against the installed torch on first use, and caches the results.

Torch itself is not imported: a plan only checks for a compiler, and a device host compiles without a model.
"""

import hashlib
import importlib.util
import logging
import os
import re
import shlex
import shutil
import subprocess
from functools import cache
from importlib import metadata
from pathlib import Path

from sweeps.device_facts import canonical_key
from sweeps.errors import BuildError
from sweeps.extras import install_line
from sweeps.locks import locked
from sweeps.whole_file import whole_file
from sweeps.with_parent import run_with_parent

_log = logging.getLogger(__name__)

FOLDER = Path(__file__).parent
INSTALL = "apt-get install g++ (or name a C++17 compiler in CXX)"
DEADLINE_S = 900.0

_FLAGS = ("-std=c++17", "-O2", "-D_GLIBCXX_USE_CXX11_ABI=1", "-w")
_LIBRARY = ("-fPIC", "-shared", "-fvisibility=hidden")
_LIBRARY_LINK = ("-ltorch", "-ltorch_cpu", "-lc10")
_PROGRAM = ("-fPIE", "-pie")
# The link leaves out libtorch.so, which loads all of CUDA on the stock wheel.
_PROGRAM_LINK = ("-Wl,--no-as-needed", "-ltorch_cpu", "-lc10", "-Wl,--as-needed")


def compiler() -> str | None:
    """The C++ compiler of this machine: `CXX`, else the first of c++, g++, clang++ on PATH; `None` if there is none."""
    # `CXX` may have several words, as in `ccache g++`: the last one is the compiler.
    named = shlex.split(os.environ.get("CXX", ""))
    candidates = named[-1:] or ["c++", "g++", "clang++"]
    return next((path for name in candidates if (path := shutil.which(name))), None)


def source_id(source: str) -> str:
    """The version of `source` in results: the first 12 hex digits of a sha256 of the file and of those it includes."""
    return _digest(source)[:12]


def shared_library(source: str, soname: str) -> Path:
    """The shared library of the file `source` in this folder, compiled if it is not cached.

    Cached in `cache_folder()`, by a key of source, flags, compiler and torch. Raises `BuildError`: `no_compiler`,
    `no_torch` or `not_compilable`.
    """
    return _cached(source, soname, (*_FLAGS, *_LIBRARY, f"-Wl,-soname,{soname}"), _LIBRARY_LINK)


def program(source: str, name: str, flags: tuple[str, ...] = (), link: tuple[str, ...] = _PROGRAM_LINK) -> Path:
    """The program of the file `source`, in this folder or elsewhere, as `name`. Cache and errors as above."""
    return _cached(source, name, (*_FLAGS, *_PROGRAM, *flags), link)


def _cached(source: str, name: str, flags: tuple[str, ...], link: tuple[str, ...]) -> Path:
    cxx = compiler()
    if cxx is None:
        raise BuildError("no_compiler", f"there is no C++ compiler to compile {source} with", INSTALL)
    target = cache_folder() / "native" / _key(source, cxx, (*flags, *link)) / name
    if not target.is_file():
        # Compiling occupies a core for half a minute: a second process waits for the first.
        with locked(target.parent / "lock"):
            if not target.is_file():
                _log.warning("compiling %s for this machine, once: about half a minute", source)
                with whole_file(target) as part:
                    _compile(cxx, flags, link, FOLDER / source, part)
    return target


def cache_folder() -> Path:
    """The cache folder: `EDGESWEEP_CACHE`, else `XDG_CACHE_HOME/edgesweep`, else `~/.cache/edgesweep`."""
    if named := os.environ.get("EDGESWEEP_CACHE"):
        return Path(named)
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "edgesweep"


def _key(source: str, program: str, flags: tuple[str, ...]) -> str:
    return canonical_key(
        {
            "source": _digest(source),
            "flags": list(flags),
            "compiler": _version(program),
            "torch": metadata.version("torch"),
            "torch_at": str(_torch()),  # the rpath of torch's libraries
        }
    )[:16]


def _digest(source: str) -> str:
    """Sha256 of `source` and of every file of this folder that it includes, directly or not."""
    digest = hashlib.sha256()
    pending, queued = [source], {source}
    while pending:
        content = (FOLDER / pending.pop()).read_bytes()
        digest.update(content)
        for name in re.findall(r'^#include "([^"]+)"', content.decode(), re.MULTILINE):
            if name not in queued:
                queued.add(name)
                pending.append(name)
    return digest.hexdigest()


@cache
def _version(program: str) -> str:
    return subprocess.run([program, "--version"], capture_output=True, text=True, check=False).stdout  # noqa: S603  # the user's compiler


@cache
def _torch() -> Path:
    spec = importlib.util.find_spec("torch")
    if spec is None or spec.origin is None:
        raise BuildError("no_torch", "torch is not installed", install_line("workers"))
    return Path(spec.origin).parent


def _compile(program: str, flags: tuple[str, ...], link: tuple[str, ...], source: Path, target: Path) -> None:
    torch = _torch()
    argv = [program, *flags, str(source), "-o", str(target)]
    argv += ["-isystem", str(torch / "include"), "-isystem", str(torch / "include/torch/csrc/api/include")]
    argv += [f"-L{torch / 'lib'}", f"-Wl,-rpath,{torch / 'lib'}", *link]
    try:
        # The compiler ends with this process: half a minute is long beside a measurement.
        ended = run_with_parent(argv, DEADLINE_S)
    except subprocess.TimeoutExpired as error:
        raise BuildError("not_compilable", f"compiling {source.name} took longer than {DEADLINE_S:.0f} s") from error
    if ended.returncode != 0:
        reason = next((line for line in ended.stderr.splitlines() if "error" in line), ended.stderr[-300:])
        raise BuildError(
            "not_compilable",
            f"{program} cannot compile {source.name}: {reason[:300]}",
            "a C++17 compiler such as g++ 9 or newer is needed",
        )
