"""The environments of toolchains: makes, lists and removes them, and puts a process into one.

An environment is a folder in the cache into which pip installs a release, and those of its requirements that are
missing in this Python's own environment. A release is refused if a requirement is installed there in a version that
does not fit. The folder gets its final name after everything was installed and imported once, so an interrupted `add`
leaves nothing that is used.
"""

import importlib.util
import json
import re
import shutil
import subprocess
import sys
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path

from sweeps.errors import BuildError, EdgeSweepError
from sweeps.extras import install_line
from sweeps.locks import locked
from sweeps.spec.toolchains import LIBRARIES, Toolchain, refusal, refusal_of_installed, toolchain
from sweeps.temporary import temporary_folder
from sweeps.variant import INSTALLED
from sweeps.with_parent import run_with_parent
from workers.native.compiler import cache_folder
from workers.toolchains import run_with_packages

_DEADLINE_S = 1800.0
_PIP = (sys.executable, "-m", "pip", "--disable-pip-version-check", "--no-input", "install")
_WHEELS = ("--only-binary=:all:", "--no-deps", "--no-compile", "--no-cache-dir")
_TRIED = """
import os, sys
os.environ["ORT_DISABLE_TELEMETRY"] = "1"  # as wherever ONNX Runtime is loaded (workers/runtimes/onnxruntime)
sys.path.insert(0, sys.argv[1])
[__import__(name) for name in sys.argv[2:]]
"""
_MANY = 8
"""The number of the registry's releases that an error message lists."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Environment:
    """A toolchain's environment on this machine."""

    toolchain: Toolchain
    folder: Path
    mb: float
    wrong: str = ""
    """The reason why the environment cannot be used; empty if it can."""


def folder_of(chosen: Toolchain) -> Path:
    """Return the folder of a toolchain, which may not exist. Its name has the version of Python, for which libraries
    are compiled."""
    python = f"cp{sys.version_info.major}{sys.version_info.minor}"
    return _root() / f"{chosen.word}-{python}"


def check(text: str) -> Toolchain:
    """Return the toolchain of that name, if it can be used now. Raises `EdgeSweepError` with the command to run if it
    cannot."""
    chosen = _parsed(text)
    _check_pair(chosen)
    if wrong := _wrong(folder_of(chosen)):
        raise EdgeSweepError(f"the toolchain {text} {wrong}", chosen.to_add)
    return chosen


def check_installed(runtime: str) -> None:
    """Raises `EdgeSweepError` if the installed release of the runtime's library is known to belong to another torch
    than the installed one."""
    if runtime not in LIBRARIES:
        return
    with suppress(metadata.PackageNotFoundError):  # The caller that asks for versions reports it.
        chosen = Toolchain(package=runtime, version=metadata.version(runtime))
        if reason := refusal_of_installed(chosen, metadata.version("torch")):
            raise EdgeSweepError(*reason)


def add(chosen: Toolchain, tell: Callable[[str], object]) -> Environment:
    """Make a toolchain's environment, unless a complete one exists. `tell` is called with each step, with sizes.

    Raises `EdgeSweepError` if the registry lacks the release or cannot be reached, if the release does not fit the
    installed packages, or if the disk is full.
    """
    _check_pair(chosen)
    folder = folder_of(chosen)
    try:
        with locked(_root() / f"{folder.name}.lock"):
            if _wrong(folder):
                tell(f"{chosen.text}: about {chosen.library.mb} MB in {folder}")
                _make(chosen, folder, tell)
    except OSError as error:
        next_step = "make room there, or name another EDGESWEEP_CACHE"
        raise EdgeSweepError(f"{folder} cannot be made: {error}", next_step) from error
    return _environment(chosen, folder)


def remove(chosen: Toolchain) -> Environment:
    """Remove an environment. Raises `EdgeSweepError` if it does not exist, or cannot be removed completely."""
    folder = folder_of(chosen)
    if not folder.is_dir():
        raise EdgeSweepError(f"the toolchain {chosen.text} is not on this machine", "edgesweep toolchain list")
    try:
        with locked(_root() / f"{folder.name}.lock"):
            removed = _environment(chosen, folder)
            (folder / run_with_packages.MARKER).unlink(missing_ok=True)
            shutil.rmtree(folder)
    except OSError as error:
        raise EdgeSweepError(f"{folder} cannot be removed: {error.strerror}", "delete it by hand") from error
    return removed


def installed() -> list[Environment]:
    """Return all environments on this machine for this version of Python, complete or not."""
    environments = []
    for folder in sorted(_root().glob("*-*-cp*")):
        package, _, version = folder.name.rpartition("-")[0].partition("-")
        with suppress(ValueError):
            chosen = toolchain(f"{package}=={version}")
            if folder == folder_of(chosen) and folder.is_dir():
                environments.append(_environment(chosen, folder))
    return environments


def enter(text: str) -> None:
    """Make this process build with that toolchain from now on. Raises `BuildError`.

    A process can use only one toolchain: modules that it has imported from another one stay imported.
    """
    chosen = None if text == INSTALLED else _parsed(text)
    folder = "" if chosen is None else str(folder_of(chosen))
    entered = [path for path in sys.path if Path(path).parent == _root()]
    if entered == ([folder] if folder else []):
        return
    if chosen is None or entered or chosen.package in sys.modules:
        raise BuildError(
            "not_possible", f"this process has begun with another toolchain than {text}", "a bug: please report it"
        )
    if run_with_packages.enter(folder):
        raise BuildError(
            run_with_packages.KIND, f"the toolchain {text} is not on the computer that builds: {chosen.to_add}"
        )


def command_within(argv: Sequence[str], text: str) -> list[str]:
    """Return the command that runs a Python program of this host, `python -m MODULE ...`, with that toolchain."""
    if text == INSTALLED:
        return list(argv)
    if tuple(argv[:2]) != (sys.executable, "-m"):
        raise EdgeSweepError(f"{Path(argv[0]).name} cannot be run with the toolchain {text}")
    return [sys.executable, "-m", run_with_packages.__name__, str(folder_of(_parsed(text))), *argv[1:]]


def package_folder(package: str, text: str) -> Path | None:
    """Return the folder of a package in a toolchain, or of the installed package; `None` if the package is not
    there."""
    if text != INSTALLED:
        folder = folder_of(_parsed(text)) / package
        return folder if folder.is_dir() else None
    spec = importlib.util.find_spec(package)
    return Path(spec.origin).parent if spec is not None and spec.origin is not None else None


def _root() -> Path:
    return cache_folder() / "toolchains"


def _parsed(text: str) -> Toolchain:
    try:
        return toolchain(text)
    except ValueError as error:
        raise EdgeSweepError(str(error)) from error


def _check_pair(chosen: Toolchain) -> None:
    try:
        torch = metadata.version("torch")
    except metadata.PackageNotFoundError as error:
        raise EdgeSweepError("torch is not installed", install_line("workers")) from error
    if reason := refusal(chosen, torch):
        raise EdgeSweepError(*reason)


def _wrong(folder: Path) -> str:
    """Return the reason why an environment cannot be used, as the end of a sentence; empty if it can."""
    if not folder.is_dir():
        return "is not on this machine"
    try:
        files = json.loads((folder / run_with_packages.MARKER).read_text("utf-8"))["files"]
        lacking = [name for name, size in files.items() if (folder / name).stat().st_size != size]
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        return f"is damaged ({type(error).__name__}: {error})"[:200]
    return f"is damaged: {lacking[0]} has another size" if lacking else ""


def _environment(chosen: Toolchain, folder: Path) -> Environment:
    used = sum(file.stat().st_size for file in folder.rglob("*") if file.is_file())
    return Environment(toolchain=chosen, folder=folder, mb=used / 1e6, wrong=_wrong(folder))


def _make(chosen: Toolchain, folder: Path, tell: Callable[[str], object]) -> None:
    """Make an environment in a temporary folder beside it, which the next `add` deletes if this process is killed."""
    with temporary_folder(_root()) as partial:
        pinned = partial.with_name("pinned.txt")
        pinned.write_text("".join(f"{line}\n" for line in _installed(chosen.package)), encoding="utf-8")
        report = partial.with_name("report.json")
        # pip lists the requirements that are missing in this environment. No installed package may change.
        options = ("--dry-run", "--only-binary=:all:", "--constraint", str(pinned), "--report", str(report))
        _pip(chosen, (*options, chosen.text))
        lines = [f"{package['name']}=={package['version']}" for package in _resolved(report)]
        # If pip would install nothing, the release is the installed one; it gets a separate environment all the same.
        lines = [line for line in lines if not line.lower().startswith(f"{chosen.package}==")] + [chosen.text]
        if lines[:-1]:
            tell(f"with it, since they are not here: {', '.join(lines[:-1])}")
        _pip(chosen, (*_WHEELS, "--target", str(partial), *lines))
        _try(chosen, partial)
        # Python may rewrite its compiled files at any time.
        paths = (path for path in partial.rglob("*") if path.is_file() and path.suffix != ".pyc")
        files = {str(path.relative_to(partial)): path.stat().st_size for path in paths}
        content = {"toolchain": chosen.text, "files": files}
        (partial / run_with_packages.MARKER).write_text(json.dumps(content), encoding="utf-8")
        shutil.rmtree(folder, ignore_errors=True)
        partial.rename(folder)


def _installed(package: str) -> list[str]:
    """Return the installed packages with their versions, which pip may not change."""
    requirements: dict[str, str] = {}
    for distribution in metadata.distributions():
        name = str(distribution.metadata["Name"] or "").lower()
        if name != package and re.fullmatch(r"[a-z0-9._-]+", name):
            # The first on sys.path is the one that is imported.
            requirements.setdefault(name, f"{name}=={distribution.version}")
    return list(requirements.values())


def _resolved(report: Path) -> list[dict[str, str]]:
    return [item["metadata"] for item in json.loads(report.read_text("utf-8")).get("install", [])]


def _pip(chosen: Toolchain, arguments: Sequence[str]) -> None:
    try:
        ended = run_with_parent([*_PIP, *arguments], _DEADLINE_S)
    except subprocess.TimeoutExpired as error:
        raise EdgeSweepError(f"pip needed more than {_DEADLINE_S:.0f} s for {chosen.text}", "try again") from error
    if ended.returncode != 0:
        raise _refused(chosen, ended.stdout, ended.stderr)


def _refused(chosen: Toolchain, output: str, errors: str) -> EdgeSweepError:
    """Return the error for what pip printed. `errors`: its stderr; `output`: its stdout, which has the reasons of
    conflicts."""
    if "No module named pip" in errors:
        return EdgeSweepError("this Python has no pip", "python -m ensurepip")
    if match := re.search(r"satisfies the requirement \S+ \(from versions: ([^)]*)\)", errors):
        releases = [release for release in match[1].split(", ") if re.fullmatch(r"[0-9.]+", release)]
        if not releases:
            return EdgeSweepError(
                f"pip finds no release of {chosen.package}",
                "is there a network, and is the registry of pip's settings right?",
            )
        return EdgeSweepError(
            f"the registry has no {chosen.text} for this computer and this Python",
            f"take one that it has: {', '.join(releases[-_MANY:])}",
        )
    if "conflicting dependencies" in errors:
        needs = re.findall(rf"{chosen.package} \S+ depends on .*", output)
        return EdgeSweepError(
            f"{chosen.text} needs another version of what is installed here: {''.join(needs[:1])[:200]}",
            "take a release that fits it",
        )
    lines = [line.removeprefix("ERROR: ") for line in errors.splitlines() if line.strip()]
    return EdgeSweepError(f"pip cannot install {chosen.text}: {(lines or ['it says nothing'])[-1][:300]}", "try again")


def _try(chosen: Toolchain, folder: Path) -> None:
    """Import a release once: it may be installed without an error and still not run beside the installed packages."""
    argv = [sys.executable, "-P", "-c", _TRIED, str(folder), *chosen.library.modules]
    try:
        ended = run_with_parent(argv, _DEADLINE_S)
    except subprocess.TimeoutExpired as error:
        raise EdgeSweepError(f"{chosen.text} cannot be imported: it takes too long") from error
    if ended.returncode != 0:
        last = (ended.stderr.strip().splitlines() or ["it says nothing"])[-1]
        raise EdgeSweepError(
            f"{chosen.text} does not run beside what is installed here: {last[:300]}", "take another release"
        )
