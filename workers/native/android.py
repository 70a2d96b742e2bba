"""Compiles the C++ runners for Android phones with a NDK and libraries of the user's, and checks what came out."""

import os
import re
import shutil
import subprocess
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType

from sweeps.errors import BuildError
from sweeps.whole_file import whole_file
from workers.native.compiler import FOLDER
from workers.native.elf import Elf, problems, read_elf, too_small_pages

ABIS = {
    "arm64-v8a": "aarch64-linux-android",
    "armeabi-v7a": "arm-linux-androideabi",
    "x86_64": "x86_64-linux-android",
    "x86": "i686-linux-android",
}
"""The ABIs, each with its folder in the NDK's system root."""
SYSTEM = ("libc.so", "libm.so", "libdl.so", "liblog.so", "libandroid.so", "libz.so", "libneuralnetworks.so")
"""Libraries that are on every phone."""
BESIDE = ".libraries"
"""The end of a program's name that names the folder with the shared libraries beside it on a device."""
_TOOLCHAIN = Path("build") / "cmake" / "android.toolchain.cmake"
_NDK_VARIABLES = ("ANDROID_NDK_HOME", "ANDROID_NDK_ROOT", "ANDROID_NDK")
_SDK_VARIABLES = ("ANDROID_HOME", "ANDROID_SDK_ROOT")
_STUDIO = ("Android/Sdk", "Library/Android/sdk")
_GET_NDK = (
    "download android-ndk-r28c-linux.zip from developer.android.com/ndk/downloads, unzip it, and set ANDROID_NDK_HOME "
    "to its folder; or in Android Studio: Settings, Android SDK, SDK Tools, NDK (Side by side)"
)
_DEADLINE_S = 3600.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Choice:
    """The choices of the user for a library."""

    interpreter: str | None = None
    """The interpreter of PyTorch Mobile: full or lite; `None`: the one that the library has."""
    version: str | None = None
    """The version; `None`: the one that the library reports."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Recipe:
    """The way in which the programs of one runtime are compiled against a library of the user's."""

    definitions: tuple[str, ...]
    """Arguments of CMake."""
    programs: Mapping[str, str]
    """The names under which phones get the programs, by target of CMakeLists.txt. The first one is the runner."""
    level: int
    """The API level of Android that the library asks for."""
    shared: Path | None = None
    """The folder of the shared libraries that the programs are linked to; `None`: they are linked in."""
    opened: Mapping[str, Path] = field(default_factory=lambda: MappingProxyType({}))
    """The libraries, by name, that the runner opens when it runs: they are put beside it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Toolchain:
    """The programs that compile and strip, with the libraries of the system."""

    arguments: tuple[str, ...]
    strip: str
    system: tuple[str, ...] = SYSTEM
    """Libraries that are on every device."""
    libraries: Path | None = None
    """The folder of some of those, with their symbols."""
    shared: Path | None = None
    """The folder of shared libraries that come with the compiler, as that of C++."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Built:
    """The files that a build made on this host."""

    programs: Mapping[str, Path]
    """The programs by the name under which phones get them."""
    libraries: tuple[Path, ...]
    """Shared libraries that all of the programs need, and no phone has."""
    opened: Mapping[str, Path]
    """The libraries of the recipe's `opened`."""


def find_ndk(environment: Mapping[str, str], home: Path) -> Path:
    """The NDK that a variable names, else the newest of Android Studio's. Raises `BuildError`."""
    for name in _NDK_VARIABLES:
        if named := environment.get(name):
            if not (Path(named) / _TOOLCHAIN).is_file():
                raise BuildError("no_ndk", f"{name}={named} is no NDK: it has no {_TOOLCHAIN}", _GET_NDK)
            return Path(named)
    studios = [Path(environment[name]) for name in _SDK_VARIABLES if environment.get(name)]
    studios += [home / place for place in _STUDIO]
    ndks = [ndk for studio in studios for ndk in (studio / "ndk").glob("*") if (ndk / _TOOLCHAIN).is_file()]
    if not ndks:
        looked = ", ".join((*_NDK_VARIABLES, *(f"{studio}/ndk" for studio in studios)))
        raise BuildError("no_ndk", f"there is no Android NDK (looked at {looked})", _GET_NDK)
    return max(ndks, key=lambda ndk: tuple(map(int, re.findall(r"\d+", ndk.name))))


def ndk_toolchain(ndk: Path, abi: str, recipe: Recipe) -> Toolchain:
    """The toolchain of a NDK. Raises `BuildError` if the NDK lacks its programs."""
    hosts = sorted((ndk / "toolchains" / "llvm" / "prebuilt").glob("*/bin/llvm-strip"))
    if not hosts:
        raise BuildError("no_ndk", f"the NDK {ndk} has no toolchains/llvm/prebuilt/*/bin/llvm-strip", _GET_NDK)
    everything = hosts[0].parents[1] / "sysroot" / "usr" / "lib" / ABIS[abi]
    system = everything / str(recipe.level)
    arguments = (
        f"-DCMAKE_TOOLCHAIN_FILE={ndk / _TOOLCHAIN}",
        f"-DANDROID_ABI={abi}",
        f"-DANDROID_PLATFORM=android-{recipe.level}",
        # A process has one C++ library: that of the shared libraries, where there are some.
        f"-DANDROID_STL={'c++_static' if recipe.shared is None else 'c++_shared'}",
        # Pages of 16 KiB are the NDK's default from r28 on.
        "-DCMAKE_EXE_LINKER_FLAGS=-Wl,-z,max-page-size=16384",
    )
    return Toolchain(
        arguments=arguments,
        strip=str(hosts[0]),
        libraries=system if system.is_dir() else None,
        shared=everything if everything.is_dir() else None,
    )


def build(
    toolchain: Toolchain, abi: str, recipe: Recipe, folder: Path, tell: Callable[[str], object], sources: Path = FOLDER
) -> Built:
    """Run CMake in `folder`, strip and check the programs. Raises `BuildError`."""
    cmake = shutil.which("cmake")
    if cmake is None:
        raise BuildError("no_cmake", "there is no cmake on PATH", "apt-get install cmake (3.18 or newer)")
    tell(f"CMake configures {' and '.join(recipe.programs)} for {abi}")
    _run([cmake, "-S", str(sources), "-B", str(folder), *toolchain.arguments, *recipe.definitions], "cmake")
    tell("CMake compiles")
    _run([cmake, "--build", str(folder), "--parallel"], "the compiler")
    programs = {name: folder / target for target, name in recipe.programs.items()}
    beside: dict[str, Path] = {}
    folders = [shared for shared in (recipe.shared, toolchain.shared) if shared is not None]
    for program in programs.values():
        _run([toolchain.strip, str(program)], "strip")
        tell(f"checking {program.name}: {program.stat().st_size / 1e6:.1f} MB")
        beside |= libraries_of(program, folders, toolchain.system)
    checked = [(path, check(path, abi, toolchain, beside)) for path in programs.values()]
    # The user's libraries are taken as they are: a phone with pages of 4 KiB loads them.
    for path in (*beside.values(), *recipe.opened.values()):
        checked.append((path, check(path, abi, toolchain, beside, own=False)))
        if reason := _pages_of(path):
            tell(f"{path.name} comes along: {reason}")
    if faults := [f"{path.name}: {problem}" for path, reasons in checked for problem in reasons]:
        raise BuildError(
            "not_for_phones", f"this does not run on phones: {'; '.join(faults)}", "edgesweep explain android-runtime"
        )
    return Built(programs=programs, libraries=tuple(beside.values()), opened=recipe.opened)


def libraries_of(program: Path, folders: Sequence[Path], system: Collection[str]) -> dict[str, Path]:
    """The shared libraries, by name, of these folders that a program needs, directly or not, and that are not of the
    `system`. Raises `BuildError`."""
    libraries: dict[str, Path] = {}
    pending = [program]
    while pending:
        for name in _elf(pending.pop()).needed:
            file = next((folder / name for folder in folders if (folder / name).is_file()), None)
            if file is not None and name == file.name and name not in libraries and name not in system:
                libraries[name] = file
                pending.append(file)
    return libraries


def check(
    file: Path, abi: str, toolchain: Toolchain, beside: Mapping[str, Path] = MappingProxyType({}), *, own: bool = True
) -> Iterator[str]:
    """The reasons that keep a program or library from running on phones of an ABI, with those libraries `beside` it.
    `own`: it was compiled here."""
    try:
        elf = read_elf(file)
        symbols = None
        if own and toolchain.libraries is not None:
            stubs = [toolchain.libraries / name for name in elf.needed if (toolchain.libraries / name).is_file()]
            symbols = frozenset(name for library in (*stubs, *beside.values()) for name in read_elf(library).defined)
    except (OSError, ValueError) as error:
        yield f"it cannot be read: {error}"
        return
    if own and (reason := too_small_pages(elf)):
        yield f"{reason}; link with -Wl,-z,max-page-size=16384"
    yield from problems(elf, abi, (*toolchain.system, *beside), symbols)
    if own and beside and not elf.looks_beside:
        yield "it does not look for its libraries in its own folder: link with -Wl,-rpath,$ORIGIN"


def place(built: Built, runners: Path) -> list[Path]:
    """Put everything where phones are looked after, each file whole or not at all. Raises `BuildError`."""
    _same_beside_others(built, runners)
    placed = []
    libraries = {library.name: library for library in built.libraries}
    for name, program in built.programs.items():
        beside = runners / f"{name}{BESIDE}"
        try:
            if beside.is_dir():
                shutil.rmtree(beside)
        except OSError as error:
            raise _not_placed(beside, error) from error
        placed += [_placed(file, beside / called) for called, file in libraries.items()]
        placed.append(_placed(program, runners / name))
    placed += [_placed(file, runners / called) for called, file in built.opened.items()]
    return placed


def _same_beside_others(built: Built, runners: Path) -> None:
    """Raises `BuildError` if another program's library has the same name and other bytes: a device has one folder for
    all."""
    for library in built.libraries:
        for folder in sorted(runners.glob(f"*{BESIDE}")):
            program, other = folder.name.removesuffix(BESIDE), folder / library.name
            if program not in built.programs and other.is_file() and other.read_bytes() != library.read_bytes():
                raise BuildError(
                    "not_placed",
                    f"{program} has another {library.name} beside it, and a phone has one folder for both",
                    f"build both from one release, delete {folder} and {program}, or set EDGESWEEP_RUNNERS",
                )


def _placed(source: Path, file: Path) -> Path:
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        with whole_file(file) as part:
            shutil.copyfile(source, part)
            part.chmod(0o755)
    except OSError as error:
        raise _not_placed(file, error) from error
    return file


def _not_placed(file: Path, error: OSError) -> BuildError:
    return BuildError("not_placed", f"{file} cannot be written: {error.strerror}", "set EDGESWEEP_RUNNERS")


def _elf(file: Path) -> Elf:
    try:
        return read_elf(file)
    except (OSError, ValueError) as error:
        raise BuildError("not_for_phones", f"{file} cannot be read: {error}", "name another library") from error


def _pages_of(library: Path) -> str | None:
    return too_small_pages(_elf(library))


def _run(argv: Sequence[str], tool: str) -> None:
    environment = {**os.environ, "LC_ALL": "C"}
    try:
        ended = subprocess.run(  # noqa: S603  # our own argument list
            argv, capture_output=True, env=environment, timeout=_DEADLINE_S, stdin=subprocess.DEVNULL, check=False
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise BuildError("not_compilable", f"{tool} did not end: {error}", "try it by hand") from error
    if ended.returncode:
        lines = (ended.stdout + ended.stderr).decode("utf-8", "replace").strip().splitlines()
        errors = [line for line in lines if "error" in line.casefold()] or lines[-1:]
        reason = " / ".join(line.strip() for line in errors[:3])[:600]
        raise BuildError("not_compilable", f"{tool} failed: {reason}", f"try it by hand: {' '.join(argv[:6])} ...")
