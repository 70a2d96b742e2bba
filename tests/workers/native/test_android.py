"""The runner for phones: what compiles it is found, what is missing is named, and what came out is checked.

Without a NDK: Debian's cross compiler makes programs for the same processor.
"""

import re
import shutil
import subprocess
from dataclasses import replace
from pathlib import Path

import pytest
from click.testing import CliRunner

from sweeps.cli.main import main
from sweeps.errors import BuildError
from tests.workers.native.archives import archived
from workers.devices.local import LocalDevice, local_facts
from workers.measure.attach import push_program
from workers.native import android
from workers.native.compiler import FOLDER
from workers.native.elf import problems, read_elf, too_small_pages
from workers.runtimes.executorch import for_phones as executorch
from workers.runtimes.interface import Program
from workers.runtimes.onnxruntime import for_phones as onnxruntime
from workers.runtimes.onnxruntime.native_runner import version as onnxruntime_version
from workers.runtimes.torchscript import for_phones as torchscript
from workers.runtimes.torchscript import programs
from workers.runtimes.torchscript.programs import runners_folder

CROSS = "aarch64-linux-gnu-g++"
PAGES = "-Wl,-z,max-page-size=16384"
BARE = ("-nostdlib", "-pie", PAGES)
"""Without a libc, which Debian's compiler has for no phone."""
COMPILERS = {"arm64-v8a": (CROSS, "aarch64-linux-gnu-strip"), "x86_64": ("g++", "strip")}
SYSCALL = """
static void leave(long code) {
#ifdef __aarch64__
  register long what asm("x8") = 93;
  register long value asm("x0") = code;
  asm volatile("svc 0" : : "r"(what), "r"(value));
#else
  asm volatile("syscall" : : "a"(60), "D"(code));
#endif
}
"""
STAND_IN = f"""{SYSCALL}
extern "C" long pytorch_stand_in();
extern "C" const char* version() {{ return EDGESWEEP_RUNNER_VERSION; }}
extern "C" void _start() {{ leave(pytorch_stand_in()); }}
"""
"""Instead of the sources of the runner and the profiler: they need libtorch, and a stand-in has one function."""
LIBRARY = 'extern "C" long fbjni_stand_in();\nextern "C" long pytorch_stand_in() { return fbjni_stand_in() + 2; }\n'


def make_ndk(folder: Path) -> Path:
    for part in ("build/cmake/android.toolchain.cmake", "toolchains/llvm/prebuilt/linux-x86_64/bin/llvm-strip"):
        (folder / part).parent.mkdir(parents=True, exist_ok=True)
        (folder / part).touch()
    return folder


def linked(folder: Path, *flags: str, content: str = "int main() { return 0; }\n") -> Path:
    source, program = folder / "main.cpp", folder / "program"
    source.write_text(content)
    subprocess.run([CROSS, "-fPIE", str(source), "-o", str(program), *flags], check=True)
    return program


def test_the_ndk_is_the_named_one_or_the_newest_of_android_studio(tmp_path: Path) -> None:
    studio = tmp_path / "Android" / "Sdk" / "ndk"
    for version in ("9.9.1", "27.1.2", "27.0.12"):
        make_ndk(studio / version)
    (studio / "30.0.0").mkdir()
    assert android.find_ndk({}, tmp_path) == studio / "27.1.2"
    assert android.find_ndk({"ANDROID_HOME": str(tmp_path / "Android" / "Sdk")}, tmp_path / "x") == studio / "27.1.2"
    named = make_ndk(tmp_path / "own")
    assert android.find_ndk({"ANDROID_NDK_HOME": str(named)}, tmp_path) == named
    (named / "toolchains/llvm/prebuilt/linux-x86_64/sysroot/usr/lib/aarch64-linux-android/24").mkdir(parents=True)
    recipe = android.Recipe(definitions=(), programs={}, level=24, shared=tmp_path)
    toolchain = android.ndk_toolchain(named, "arm64-v8a", recipe)
    assert toolchain.strip.endswith("llvm-strip")
    assert {"-DANDROID_PLATFORM=android-24", "-DANDROID_STL=c++_shared"} < {*toolchain.arguments}
    assert toolchain.libraries is not None
    assert toolchain.libraries.parent == toolchain.shared
    assert "-DANDROID_STL=c++_static" in android.ndk_toolchain(named, "x86", replace(recipe, shared=None)).arguments


@pytest.mark.parametrize("environment", [{}, {"ANDROID_NDK_HOME": "/nowhere"}])
def test_a_ndk_that_is_missing_is_named_with_what_to_download(tmp_path: Path, environment: dict[str, str]) -> None:
    with pytest.raises(BuildError, match="NDK") as caught:
        android.find_ndk(environment, tmp_path)
    assert "android-ndk-r28c-linux.zip" in caught.value.next_step


@pytest.mark.parametrize(
    ("words", "missing"),
    [
        ((), ("no library of torchscript is named", "build_android.sh")),
        (
            ("--libtorch", "."),
            ("is no libtorch for Android: it has no include/torch", "pytorch_android 2.1.0"),
        ),
        (("--runtime", "onnxruntime"), ("no library of onnxruntime is named", "onnxruntime-android (1.12")),
        (("--runtime", "onnxruntime", "--library", "."), ("has no libonnxruntime.so", "build.sh --android")),
        (("--runtime", "executorch"), ("no library of executorch is named", "explain runtimes")),
        (("--runtime", "executorch", "--library", "executorch.aar"), ("and no headers to compile", "explain runtimes")),
        (("--runtime", "executorch", "--library", "."), ("is no installed ExecuTorch", "module.h", "explain runtimes")),
    ],
)
def test_all_that_is_missing_is_named_at_once(
    words: tuple[str, ...], missing: tuple[str, ...], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("ANDROID_NDK_HOME", "ANDROID_NDK_ROOT", "ANDROID_NDK", "ANDROID_HOME", "ANDROID_SDK_ROOT"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.chdir(tmp_path)
    ended = CliRunner().invoke(main, ["runner", "build", *words])
    assert ended.exit_code == 1
    for word in ("no Android NDK", "android-ndk-r28c-linux.zip", *missing):
        assert word in ended.stderr


def installed_executorch(folder: Path) -> Path:
    """Lay out an installed ExecuTorch: the files' names, and nothing in them."""
    install = folder / "executorch" / "cmake-out"
    for name in executorch._PARTS:
        (install / "lib").mkdir(parents=True, exist_ok=True)
        (install / "lib" / f"lib{name}.a").touch()
    header = install / executorch._HEADER
    header.parent.mkdir(parents=True)
    header.touch()
    return install


def test_an_installed_executorch_is_asked_for_its_parts_and_its_version(tmp_path: Path) -> None:
    install = installed_executorch(tmp_path)

    def version_of(version: str | None = None) -> str:
        recipe = executorch.recipe(install, "arm64-v8a", android.Choice(version=version), tmp_path / "x")
        return next(
            definition for definition in recipe.definitions if definition.startswith("-DEXECUTORCH_VERSION=")
        ).partition("=")[2]

    with pytest.raises(BuildError, match="does not say which version") as caught:
        version_of()
    assert "--library-version" in caught.value.next_step
    with pytest.raises(BuildError, match="is no version"):
        version_of('1";')
    assert version_of("1.3.1") == "1.3.1"
    (install.parent / "runtime" / "executor").mkdir(parents=True)
    (install.parent / "version.txt").write_text("1.4.0a0\n")
    assert version_of() == "1.4.0a0"
    header = install / "include/executorch/runtime/core/version.h"
    header.parent.mkdir(parents=True)
    header.write_text('#define ET_VERSION_MAJOR 1\n#define ET_VERSION "1.5.0"\n')
    assert version_of() == "1.5.0"
    (install / "lib" / "libxnnpack_backend.a").unlink()
    with pytest.raises(BuildError, match=r"lacks libxnnpack_backend\.a\n") as caught:
        version_of()
    assert "EXECUTORCH_BUILD_XNNPACK" in caught.value.next_step


def test_libraries_go_to_the_device_with_their_program(tmp_path: Path) -> None:
    program, library = tmp_path / "runner", tmp_path / "runner.libraries" / "libc++_shared.so"
    library.parent.mkdir()
    for file in (program, library):
        file.write_text(file.name)
    pushed = Path(push_program(LocalDevice(tmp_path / "device"), Program(path=str(program), libraries=(str(library),))))
    assert {file.name: file.read_text() for file in pushed.parent.iterdir()} == {
        pushed.name: "runner",
        "libc++_shared.so": "libc++_shared.so",
    }


@pytest.mark.parametrize(
    "content", [b"", b"#!/bin/sh\n", b"\x7fELF\x02\x01" + bytes(30), b"\x7fELF\x02\x01" + b"\xff" * 90]
)
def test_a_file_that_is_no_program_is_told(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "program").write_bytes(content)
    toolchain = android.Toolchain(arguments=(), strip="")
    (message,) = android.check(tmp_path / "program", "arm64-v8a", toolchain)
    assert message.startswith("it cannot be read: it is ")


@pytest.mark.system
@pytest.mark.cross_compiler
def test_a_program_is_checked_for_its_processor_pages_libraries_and_symbols(tmp_path: Path) -> None:
    bare = 'extern "C" void _start() {}\n'
    good = read_elf(linked(tmp_path, "-nostdlib", "-static-pie", PAGES, content=bare))
    assert (good.machine, good.page_bytes >= 16_384, good.needed) == ("arm64-v8a", True, ())
    assert list(problems(good, "arm64-v8a", android.SYSTEM)) == []
    assert too_small_pages(good) is None
    assert [problem[:12] for problem in problems(good, "x86_64", android.SYSTEM)] == ["it is for ar"]
    small = read_elf(linked(tmp_path, "-Wl,-z,max-page-size=4096"))
    assert str(too_small_pages(small)).startswith("its segments are aligned to 4 KiB")
    listed_problems = list(problems(small, "arm64-v8a", android.SYSTEM, symbols=()))
    assert [problem.partition(":")[0][:30] for problem in listed_problems] == [
        "it needs libc.so.6, which no p",
        "symbols that no library of thi",
    ]
    assert "__libc_start_main" in listed_problems[1]
    libraries = subprocess.run([CROSS, "-print-file-name=libc.so.6"], capture_output=True, text=True, check=True)
    assert small.undefined <= read_elf(Path(libraries.stdout.strip())).defined
    relocated = 'asm(".text\\n.global place\\nplace: .quad main\\n");int main() { return 0; }\n'
    assert read_elf(linked(tmp_path, "-pie", "-Wl,-z,notext", content=relocated)).text_relocations


def stand_in_sources(folder: Path, content: str = STAND_IN) -> Path:
    """The real CMakeLists.txt with stand-ins for the sources."""
    folder.mkdir(exist_ok=True)
    shutil.copy(FOLDER / "CMakeLists.txt", folder)
    for name in ("runner_batch.cpp", "torchscript_profiler.cpp", "executorch_runner.cpp"):
        (folder / name).write_text(content)
    return folder


def toolchain(abi: str, *flags: str) -> android.Toolchain:
    compiler, strip = COMPILERS[abi]
    system = ("-DCMAKE_SYSTEM_NAME=Linux", f"-DCMAKE_SYSTEM_PROCESSOR={abi}", f"-DCMAKE_CXX_COMPILER={compiler}")
    static = ("-DCMAKE_TRY_COMPILE_TARGET_TYPE=STATIC_LIBRARY", "-DCMAKE_POSITION_INDEPENDENT_CODE=ON")
    flags = flags or BARE
    return android.Toolchain(
        arguments=(*system, *static, f"-DCMAKE_EXE_LINKER_FLAGS={' '.join(flags)}"),
        strip=strip,
        system=(*android.SYSTEM, "ld-linux-aarch64.so.1"),
    )


def archive_of(folder: Path, compiler: str, name: str, content: str) -> Path:
    """A static library of one object."""
    archive, source = folder / f"lib{name}.a", folder / f"{name}.cpp"
    source.write_text(content)
    archive.unlink(missing_ok=True)
    subprocess.run([compiler, "-c", "-fPIC", str(source), "-o", f"{source}.o"], check=True)
    subprocess.run([compiler.replace("g++", "ar"), "rcs", str(archive), f"{source}.o"], check=True)
    return archive


@pytest.mark.system
@pytest.mark.cross_compiler
def test_what_is_linked_to_static_libraries_is_one_file(tmp_path: Path) -> None:
    sources, libtorch = stand_in_sources(tmp_path / "sources"), tmp_path / "it's a libtorch"
    for part in ("include/torch/script.h", "lib/x"):
        (libtorch / part).parent.mkdir(parents=True)
        (libtorch / part).touch()
    archive_of(libtorch / "lib", CROSS, "torch_cpu", 'extern "C" long pytorch_stand_in() { return 1; }\n')
    recipe = torchscript.recipe(libtorch, "arm64-v8a", android.Choice(), tmp_path / "none")

    def built(name: str, *flags: str) -> android.Built:
        chain = toolchain("arm64-v8a", *flags)
        return android.build(chain, "arm64-v8a", recipe, tmp_path / name, messages.append, sources)

    messages: list[str] = []
    build = built("good")
    assert build.libraries == ()
    assert len(messages) == 4
    placed = android.place(build, tmp_path / "runners")
    assert [file.name for file in placed] == ["edgesweep_runner_full", "edgesweep_profiler_full"]
    for file in placed:
        assert (file.read_bytes(), file.stat().st_mode & 0o777) == (build.programs[file.name].read_bytes(), 0o755)
    with pytest.raises(BuildError, match="aligned to 4 KiB"):
        built("small", "-nostdlib", "-pie", "-Wl,-z,max-page-size=4096")
    (sources / "runner_batch.cpp").write_text("no C++\n")
    with pytest.raises(BuildError, match=r"the compiler failed: .*error") as caught:
        built("wrong")
    assert caught.value.kind == "not_compilable"


def stand_in_aar(folder: Path, abi: str, value: int, extra: str = "") -> Path:
    """An AAR with stand-ins for libpytorch_jni.so and libfbjni.so, which need no libc."""
    folder.mkdir()
    fbjni = f'extern "C" long fbjni_stand_in() {{ return {value}; }}\n{extra}'
    shared = ("-shared", "-fPIC", "-nostdlib", "-Wl,-z,max-page-size=4096")
    for name, content in (("fbjni", fbjni), ("pytorch_jni", LIBRARY)):
        (folder / f"{name}.cpp").write_text(content)
        needed = [str(folder / "libfbjni.so")] if name == "pytorch_jni" else []
        target = folder / f"lib{name}.so"
        argv = [COMPILERS[abi][0], *shared, f"-Wl,-soname,{target.name}", str(folder / f"{name}.cpp"), *needed]
        subprocess.run([*argv, "-o", str(target)], check=True)
    names: dict[str, bytes | Path] = {"headers/torch/script.h": b""}
    names |= {f"jni/{abi}/{library.name}": library for library in folder.glob("*.so")}
    return archived(folder / "pytorch_android.aar", names)


@pytest.mark.system
@pytest.mark.cross_compiler
@pytest.mark.compiler
@pytest.mark.parametrize("abi", COMPILERS)
def test_what_is_linked_to_an_archive_goes_to_the_device_with_its_libraries(
    abi: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("EDGESWEEP_RUNNERS", str(tmp_path / "runners"))
    sources = stand_in_sources(tmp_path / "sources")
    file = stand_in_aar(tmp_path / "aar", abi, 40)
    recipe = torchscript.recipe(file, abi, android.Choice(), tmp_path / "out")
    messages: list[str] = []
    built = android.build(toolchain(abi), abi, recipe, tmp_path / "build", messages.append, sources)
    assert {library.name for library in built.libraries} == {"libpytorch_jni.so", "libfbjni.so"}
    assert sum("comes along: its segments are aligned to 4 KiB" in message for message in messages) == 2
    android.place(built, runners_folder(abi))
    shutil.rmtree(tmp_path / "out")
    phone = replace(local_facts(), abi=abi, exec_context="shell")
    for program in (programs.programs(phone)["pt"], programs.profilers(phone)["pt"]):
        assert [Path(path).name for path in program.libraries] == ["libfbjni.so", "libpytorch_jni.so"]
        pushed = push_program(LocalDevice(tmp_path / "device"), program)
        if abi == "x86_64":
            assert subprocess.run([pushed], check=False).returncode == 42

    lite = {"edgesweep_runner_lite": built.programs["edgesweep_runner_full"]}
    other = replace(built, programs=lite, libraries=tuple(map(Path, program.libraries)))
    android.place(other, runners_folder(abi))
    changed = tmp_path / "libfbjni.so"
    changed.write_bytes(b"of another release")
    with pytest.raises(BuildError, match=r"has another libfbjni\.so beside it") as caught:
        android.place(replace(other, libraries=(changed,)), runners_folder(abi))
    assert caught.value.kind == "not_placed"
    android.place(replace(built, libraries=()), runners_folder(abi))
    assert programs.programs(phone)["pt"].libraries == ()


@pytest.mark.system
@pytest.mark.cross_compiler
def test_a_library_that_needs_what_no_phone_has_is_refused(tmp_path: Path) -> None:
    sources = stand_in_sources(tmp_path / "sources")
    file = stand_in_aar(tmp_path / "aar", "arm64-v8a", 40)
    recipe = torchscript.recipe(file, "arm64-v8a", android.Choice(), tmp_path / "out")
    (tmp_path / "out/lib/libfbjni.so").unlink()
    chain = toolchain("arm64-v8a", *BARE, "-Wl,--allow-shlib-undefined")
    with pytest.raises(BuildError, match=r"libpytorch_jni\.so: it needs libfbjni\.so, which no phone has"):
        android.build(chain, "arm64-v8a", recipe, tmp_path / "build", print, sources)


@pytest.mark.system
@pytest.mark.cross_compiler
def test_executorch_registers_what_is_linked_in_once(tmp_path: Path) -> None:
    start = f'{SYSCALL}extern "C" void _start() {{ leave(sizeof EDGESWEEP_EXECUTORCH_VERSION); }}\n'
    sources = stand_in_sources(tmp_path / "sources", start)
    install = installed_executorch(tmp_path)
    for name in (*executorch._PARTS, "portable_ops_lib"):
        content = f'extern "C" {{ __attribute__((used)) extern const char of_{name}[] = "registered:{name};"; }}\n'
        archive_of(install / "lib", CROSS, name, content)
    recipe = executorch.recipe(install, "arm64-v8a", android.Choice(version="1.5.1"), tmp_path / "none")
    built = android.build(toolchain("arm64-v8a"), "arm64-v8a", recipe, tmp_path / "build", print, sources)
    registered = set(re.findall(rb"registered:(\w+);", built.programs["edgesweep_runner_executorch"].read_bytes()))
    assert registered == {b"executorch", b"optimized_native_cpu_ops_lib", b"quantized_ops_lib", b"xnnpack_backend"}


@pytest.mark.system
@pytest.mark.cross_compiler
def test_onnx_runtime_of_archives_and_build_trees_is_found_and_its_runner_compiled(
    tmp_path: Path,
) -> None:
    source = tmp_path / "onnxruntime.cpp"
    source.write_text('extern "C" void OrtGetApiBase() {}\n')
    library = tmp_path / "build" / "Release" / "libonnxruntime.so"
    library.parent.mkdir(parents=True)
    subprocess.run([CROSS, "-shared", "-fPIC", "-nostdlib", PAGES, str(source), "-o", str(library)], check=True)
    file = archived(tmp_path / "onnxruntime-android.aar", {"jni/arm64-v8a/libonnxruntime.so": library})

    def runtime_of(named: Path) -> Path:
        recipe = onnxruntime.recipe(named, "arm64-v8a", android.Choice(), tmp_path / "out")
        return recipe.opened["libonnxruntime.so"]

    assert runtime_of(tmp_path / "build") == runtime_of(library.parent) == runtime_of(library) == library
    assert runtime_of(file).read_bytes() == library.read_bytes()
    assert not list(android.check(library, "arm64-v8a", toolchain("arm64-v8a"), own=False))
    # Debian's C and C++ libraries take the place of Android's, with their symbols.
    system = ("libstdc++.so.6", "libm.so.6", "libgcc_s.so.1", "libc.so.6", "ld-linux-aarch64.so.1")
    debian = subprocess.run([CROSS, "-print-file-name=libc.so.6"], capture_output=True, text=True, check=True)
    chain = replace(toolchain("arm64-v8a", "-pie", PAGES), system=system, libraries=Path(debian.stdout.strip()).parent)
    recipe = onnxruntime.recipe(library, "arm64-v8a", android.Choice(), tmp_path / "out")
    built = android.build(chain, "arm64-v8a", recipe, tmp_path / "compiled", print)
    (program,) = built.programs.values()
    elf = read_elf(program)
    assert (elf.machine, elf.page_bytes >= 16_384, elf.text_relocations) == ("arm64-v8a", True, False)
    assert "dlopen" in elf.undefined, "it opens the library when it runs"
    assert set(elf.needed) <= set(system)
    assert onnxruntime_version().encode() in program.read_bytes()
    (tmp_path / "build" / "Debug").mkdir()
    shutil.copy(library, tmp_path / "build" / "Debug")
    with pytest.raises(BuildError, match=r"has 2 of libonnxruntime\.so"):
        runtime_of(tmp_path / "build")
    source.write_text('extern "C" void another() {}\n')
    subprocess.run([CROSS, "-shared", "-fPIC", "-nostdlib", str(source), "-o", str(library)], check=True)
    with pytest.raises(BuildError, match="has no OrtGetApiBase"):
        runtime_of(library)
