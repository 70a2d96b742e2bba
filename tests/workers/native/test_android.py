"""The runner for phones: what compiles it is found, what is missing is named, and what came out is checked.

Without a NDK: Debian's cross compiler makes programs for the same processor.
"""

import subprocess
from pathlib import Path

import pytest
from click.testing import CliRunner

from sweeps.cli.main import main
from sweeps.errors import BuildError
from workers.native import android
from workers.native.elf import problems, read_elf

CROSS = "aarch64-linux-gnu-g++"
PAGES = "-Wl,-z,max-page-size=16384"
BARE = ("-nostdlib", "-static-pie", PAGES)
CMAKE = """
cmake_minimum_required(VERSION 3.18)
project(edgesweep_runner CXX)
add_executable(edgesweep_runner main.cpp)
target_compile_definitions(edgesweep_runner PRIVATE VERSION="${RUNNER_VERSION}" LIBTORCH="${LIBTORCH}")
"""
MAIN = 'extern "C" void _start() {}\nextern "C" const char* version() { return VERSION LIBTORCH; }\n'


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
    assert android.ndk_toolchain(named, "arm64-v8a").strip.endswith("llvm-strip")


@pytest.mark.parametrize("environment", [{}, {"ANDROID_NDK_HOME": "/nowhere"}])
def test_a_ndk_that_is_missing_is_named_with_what_to_download(tmp_path: Path, environment: dict[str, str]) -> None:
    with pytest.raises(BuildError, match="NDK") as caught:
        android.find_ndk(environment, tmp_path)
    assert "android-ndk-r28c-linux.zip" in caught.value.next_step


def test_all_that_is_missing_is_named_at_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("ANDROID_NDK_HOME", "ANDROID_NDK_ROOT", "ANDROID_NDK", "ANDROID_HOME", "ANDROID_SDK_ROOT"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    for words, told in (((), "no libtorch is named"), (("--libtorch", str(tmp_path)), "is no libtorch for Android")):
        ended = CliRunner().invoke(main, ["runner", "build", *words])
        assert ended.exit_code == 1
        assert "no Android NDK" in ended.stderr
        assert told in ended.stderr
        assert "build_android.sh" in ended.stderr


def test_an_aar_is_refused_with_the_reason(tmp_path: Path) -> None:
    with pytest.raises(BuildError, match=r"shared libraries only, and the runner is one file"):
        android.check_libtorch(tmp_path / "pytorch_android.aar")


@pytest.mark.parametrize(
    "content", [b"", b"#!/bin/sh\n", b"\x7fELF\x02\x01" + bytes(30), b"\x7fELF\x02\x01" + b"\xff" * 90]
)
def test_a_file_that_is_no_program_is_told(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "program").write_bytes(content)
    (told,) = android.check(tmp_path / "program", "arm64-v8a")
    assert told.startswith("it cannot be read: it is ")


@pytest.mark.system
@pytest.mark.cross_compiler
def test_a_program_is_checked_for_its_processor_pages_libraries_and_symbols(tmp_path: Path) -> None:
    good = read_elf(linked(tmp_path, *BARE, content=MAIN.replace("VERSION LIBTORCH", '""')))
    assert (good.machine, good.page_bytes >= 16_384, good.needed) == ("arm64-v8a", True, ())
    assert list(problems(good, "arm64-v8a", android.SYSTEM)) == []
    assert [one[:12] for one in problems(good, "x86_64", android.SYSTEM)] == ["it is for ar"]
    small = read_elf(linked(tmp_path, "-Wl,-z,max-page-size=4096"))
    told = list(problems(small, "arm64-v8a", android.SYSTEM, symbols=()))
    assert [one.partition(":")[0][:30] for one in told] == [
        "its segments are aligned to 4 ",
        "it needs libc.so.6, which no p",
        "symbols that no library of thi",
    ]
    assert "__libc_start_main" in told[2]
    libraries = subprocess.run([CROSS, "-print-file-name=libc.so.6"], capture_output=True, text=True, check=True)
    assert small.undefined <= read_elf(Path(libraries.stdout.strip())).defined
    relocated = 'asm(".text\\n.global place\\nplace: .quad main\\n");int main() { return 0; }\n'
    assert read_elf(linked(tmp_path, "-pie", "-Wl,-z,notext", content=relocated)).text_relocations


@pytest.mark.system
@pytest.mark.cross_compiler
def test_cmake_compiles_and_what_came_out_is_stripped_checked_and_placed(tmp_path: Path) -> None:
    sources, libtorch = tmp_path / "sources", tmp_path / "it's a libtorch"
    for folder in (sources, libtorch):
        folder.mkdir()
    (sources / "CMakeLists.txt").write_text(CMAKE)
    (sources / "main.cpp").write_text(MAIN)

    def toolchain(*flags: str) -> android.Toolchain:
        system = ("-DCMAKE_SYSTEM_NAME=Linux", "-DCMAKE_SYSTEM_PROCESSOR=aarch64", f"-DCMAKE_CXX_COMPILER={CROSS}")
        static = ("-DCMAKE_TRY_COMPILE_TARGET_TYPE=STATIC_LIBRARY", "-DCMAKE_POSITION_INDEPENDENT_CODE=ON")
        arguments = (*system, *static, f"-DCMAKE_EXE_LINKER_FLAGS={' '.join(flags)}")
        return android.Toolchain(arguments=arguments, strip="aarch64-linux-gnu-strip")

    def built(flags: tuple[str, ...], name: str) -> Path:
        made = toolchain(*flags)
        return android.build(made, "arm64-v8a", libtorch, "full", "abc", tmp_path / name, told.append, sources)

    told: list[str] = []
    program = built(BARE, "good")
    assert b"abc" in program.read_bytes()
    assert str(libtorch).encode() in program.read_bytes()
    assert len(told) == 3
    placed = android.place(program, tmp_path / "runners" / "arm64-v8a", "edgesweep_runner_full")
    assert (placed.read_bytes(), placed.stat().st_mode & 0o777) == (program.read_bytes(), 0o755)
    with pytest.raises(BuildError, match="aligned to 4 KiB"):
        built(("-nostdlib", "-static-pie", "-Wl,-z,max-page-size=4096"), "small")
    (sources / "main.cpp").write_text("no C++\n")
    with pytest.raises(BuildError, match=r"the compiler failed: .*error") as caught:
        built(BARE, "wrong")
    assert caught.value.kind == "not_compilable"
