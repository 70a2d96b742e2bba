"""Compiles the C++ runner for Android phones with a NDK and a libtorch of the user's, and checks what came out."""

import os
import re
import shutil
import subprocess
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from sweeps.errors import BuildError
from workers.native.compiler import FOLDER
from workers.native.elf import problems, read_elf

Interpreter = Literal["full", "lite"]
ABIS = {
    "arm64-v8a": "aarch64-linux-android",
    "armeabi-v7a": "arm-linux-androideabi",
    "x86_64": "x86_64-linux-android",
    "x86": "i686-linux-android",
}
"""Each with its folder in the NDK's system root."""
LEVEL = 21
"""Android's API level, as build_android.sh has it."""
SYSTEM = ("libc.so", "libm.so", "libdl.so", "liblog.so", "libandroid.so", "libz.so", "libneuralnetworks.so")
"""Libraries that are on every phone."""
PROGRAM = "edgesweep_runner"
_TOOLCHAIN = Path("build") / "cmake" / "android.toolchain.cmake"
_NDK_VARIABLES = ("ANDROID_NDK_HOME", "ANDROID_NDK_ROOT", "ANDROID_NDK")
_SDK_VARIABLES = ("ANDROID_HOME", "ANDROID_SDK_ROOT")
_STUDIO = ("Android/Sdk", "Library/Android/sdk")
_GET_NDK = (
    "download android-ndk-r28c-linux.zip from developer.android.com/ndk/downloads, unzip it, and set ANDROID_NDK_HOME "
    "to its folder; or in Android Studio: Settings, Android SDK, SDK Tools, NDK (Side by side)"
)
GET_LIBTORCH = "edgesweep explain android-runtime has the commands: build_android.sh of PyTorch v2.8.0 installs it"
_DEADLINE_S = 3600.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Toolchain:
    """What compiles and strips. `libraries`: those of the system, with their symbols; empty if there are none."""

    arguments: tuple[str, ...]
    strip: str
    libraries: Path | None = None


def find_ndk(environment: Mapping[str, str], home: Path) -> Path:
    """The NDK that a variable names, else the newest of Android Studio's. Raises `BuildError`."""
    for name in _NDK_VARIABLES:
        if named := environment.get(name):
            if not (Path(named) / _TOOLCHAIN).is_file():
                raise BuildError("no_ndk", f"{name}={named} is no NDK: it has no {_TOOLCHAIN}", _GET_NDK)
            return Path(named)
    studios = [Path(environment[name]) for name in _SDK_VARIABLES if environment.get(name)]
    studios += [home / place for place in _STUDIO]
    there = [ndk for studio in studios for ndk in (studio / "ndk").glob("*") if (ndk / _TOOLCHAIN).is_file()]
    if not there:
        looked = ", ".join((*_NDK_VARIABLES, *(f"{studio}/ndk" for studio in studios)))
        raise BuildError("no_ndk", f"there is no Android NDK (looked at {looked})", _GET_NDK)
    return max(there, key=lambda ndk: tuple(map(int, re.findall(r"\d+", ndk.name))))


def ndk_toolchain(ndk: Path, abi: str) -> Toolchain:
    """Raises `BuildError` if the NDK lacks its programs."""
    hosts = sorted((ndk / "toolchains" / "llvm" / "prebuilt").glob("*/bin/llvm-strip"))
    if not hosts:
        raise BuildError("no_ndk", f"the NDK {ndk} has no toolchains/llvm/prebuilt/*/bin/llvm-strip", _GET_NDK)
    system = hosts[0].parents[1] / "sysroot" / "usr" / "lib" / ABIS[abi] / str(LEVEL)
    arguments = (
        f"-DCMAKE_TOOLCHAIN_FILE={ndk / _TOOLCHAIN}",
        f"-DANDROID_ABI={abi}",
        f"-DANDROID_PLATFORM=android-{LEVEL}",
        "-DANDROID_STL=c++_static",
        # By default from r28 on.
        "-DCMAKE_EXE_LINKER_FLAGS=-Wl,-z,max-page-size=16384",
    )
    return Toolchain(arguments=arguments, strip=str(hosts[0]), libraries=system if system.is_dir() else None)


def check_libtorch(folder: Path) -> None:
    """Raises `BuildError` unless it has headers and static libraries for the runner, which is one file on a phone."""
    if folder.suffix == ".aar":
        raise BuildError(
            "no_libtorch",
            f"{folder} has shared libraries only, and the runner is one file on a phone",
            f"name a folder with static libraries. {GET_LIBTORCH}",
        )
    for part in ("include/torch/script.h", "lib/libtorch_cpu.a"):
        if not (folder / part).is_file():
            raise BuildError("no_libtorch", f"{folder} is no libtorch for Android: it has no {part}", GET_LIBTORCH)


def build(
    toolchain: Toolchain,
    abi: str,
    libtorch: Path,
    interpreter: Interpreter,
    version: str,
    folder: Path,
    tell: Callable[[str], object],
    sources: Path = FOLDER,
) -> Path:
    """Run CMake in `folder`, strip and check the program. Returns it. Raises `BuildError`."""
    cmake = shutil.which("cmake")
    if cmake is None:
        raise BuildError("no_cmake", "there is no cmake on PATH", "apt-get install cmake (3.18 or newer)")
    given = [f"-DLIBTORCH={libtorch.resolve()}", f"-DINTERPRETER={interpreter}", f"-DRUNNER_VERSION={version}"]
    tell(f"CMake configures the runner for {abi}")
    _run([cmake, "-S", str(sources), "-B", str(folder), *toolchain.arguments, *given], "cmake")
    tell("CMake compiles it")
    _run([cmake, "--build", str(folder), "--parallel"], "the compiler")
    program = folder / PROGRAM
    _run([toolchain.strip, str(program)], "strip")
    tell(f"checking {program.name}: {program.stat().st_size / 1e6:.1f} MB")
    if found := list(check(program, abi, toolchain.libraries)):
        raise BuildError(
            "not_for_phones",
            f"{program} does not run on phones: {'; '.join(found)}",
            "edgesweep explain android-runtime",
        )
    return program


def check(program: Path, abi: str, libraries: Path | None = None) -> Iterator[str]:
    """What keeps a program from running on phones of an ABI."""
    try:
        elf = read_elf(program)
        symbols = None
        if libraries is not None:
            there = [libraries / name for name in elf.needed if (libraries / name).is_file()]
            symbols = frozenset(name for library in there for name in read_elf(library).defined)
    except (OSError, ValueError) as error:
        yield f"it cannot be read: {error}"
        return
    yield from problems(elf, abi, SYSTEM, symbols)


def place(program: Path, runners: Path, name: str) -> Path:
    """Put it where phones are looked after: whole, or not at all. Raises `BuildError`."""
    file = runners / name
    part = runners / f".{name}.part"
    try:
        runners.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(program, part)
        part.chmod(0o755)
        part.replace(file)
    except OSError as error:
        part.unlink(missing_ok=True)
        raise BuildError(
            "not_placed", f"{file} cannot be written: {error.strerror}", "set EDGESWEEP_RUNNERS"
        ) from error
    return file


def _run(argv: Sequence[str], what: str) -> None:
    environment = {**os.environ, "LC_ALL": "C"}
    try:
        ended = subprocess.run(  # noqa: S603  # our own argument list
            argv, capture_output=True, env=environment, timeout=_DEADLINE_S, stdin=subprocess.DEVNULL, check=False
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise BuildError("not_compilable", f"{what} did not end: {error}", "try it by hand") from error
    if ended.returncode:
        lines = (ended.stdout + ended.stderr).decode("utf-8", "replace").strip().splitlines()
        errors = [line for line in lines if "error" in line.casefold()] or lines[-1:]
        said = " / ".join(line.strip() for line in errors[:3])[:600]
        raise BuildError("not_compilable", f"{what} failed: {said}", f"try it by hand: {' '.join(argv[:6])} ...")
