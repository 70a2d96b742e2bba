"""Compiling on first use: by content, whole or not at all, and with a way out where there is no compiler."""

import ctypes
import multiprocessing
from pathlib import Path

import pytest

from sweeps.errors import BuildError
from workers.native import compiler

SOURCE = 'extern "C" __attribute__((visibility("default"))) int answer() { return 41 + ONE; }\n'
HEADER = "#define ONE 1\n"


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder of sources, and a cache of its own."""
    sources = tmp_path / "sources"
    sources.mkdir()
    (sources / "answer.cpp").write_text(f'#include "one.h"\n{SOURCE}')
    (sources / "one.h").write_text(HEADER)
    monkeypatch.setattr(compiler, "FOLDER", sources)
    monkeypatch.setenv("EDGESWEEP_CACHE", str(tmp_path / "cache"))
    return sources


def answer(library: Path) -> int:
    return int(ctypes.CDLL(str(library)).answer())


def test_without_a_compiler_the_error_names_the_line_that_installs_one(
    folder: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("CXX", raising=False)
    assert compiler.compiler() is None
    with pytest.raises(BuildError, match=r"no C\+\+ compiler to compile answer\.cpp") as error:
        compiler.shared_library("answer.cpp", "libanswer.so")
    assert error.value.kind == "no_compiler"
    assert "apt-get install g++" in str(error.value.next_step)


def test_the_compiler_that_cxx_names_goes_first(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    named = tmp_path / "my-c++"
    named.write_text("#!/bin/sh\n")
    named.chmod(0o755)
    monkeypatch.setenv("CXX", str(named))
    assert compiler.compiler() == str(named)
    monkeypatch.setenv("CXX", "no-such-compiler")
    assert compiler.compiler() is None


@pytest.mark.compiler
def test_who_waits_for_a_compiler_is_told_so_once(folder: Path, caplog: pytest.LogCaptureFixture) -> None:
    for _ in range(2):
        compiler.shared_library("answer.cpp", "libanswer.so")
    assert caplog.messages == ["compiling answer.cpp for this machine, once: about half a minute"]


@pytest.mark.compiler
def test_a_library_is_compiled_once_and_anew_when_what_it_includes_changes(folder: Path) -> None:
    first = compiler.shared_library("answer.cpp", "libanswer.so")
    assert answer(first) == 42
    made_ns = first.stat().st_mtime_ns
    assert compiler.shared_library("answer.cpp", "libanswer.so") == first
    assert first.stat().st_mtime_ns == made_ns
    (folder / "one.h").write_text("#define ONE 2\n")
    second = compiler.shared_library("answer.cpp", "libanswer.so")
    assert second != first
    assert answer(second) == 43


def test_the_version_of_a_source_covers_what_it_includes(folder: Path) -> None:
    before = compiler.source_id("answer.cpp")
    (folder / "one.h").write_text('#include "two.h"\n')
    (folder / "two.h").write_text(HEADER)
    between = compiler.source_id("answer.cpp")
    (folder / "two.h").write_text("#define ONE 2\n")
    assert len({before, between, compiler.source_id("answer.cpp")}) == 3


@pytest.mark.compiler
def test_a_broken_source_leaves_nothing_behind(folder: Path, tmp_path: Path) -> None:
    (folder / "answer.cpp").write_text("int answer() { return missing; }\n")
    with pytest.raises(BuildError, match=r"cannot compile answer\.cpp: .*missing") as error:
        compiler.shared_library("answer.cpp", "libanswer.so")
    assert error.value.kind == "not_compilable"
    assert not list((tmp_path / "cache").rglob("*.so"))


def _compile(answers: "multiprocessing.Queue[int]", sources: Path) -> None:
    compiler.FOLDER = sources
    answers.put(answer(compiler.shared_library("answer.cpp", "libanswer.so")))


@pytest.mark.compiler
def test_two_processes_may_compile_at_once(folder: Path, tmp_path: Path) -> None:
    context = multiprocessing.get_context("spawn")
    answers: multiprocessing.Queue[int] = context.Queue()
    processes = [context.Process(target=_compile, args=(answers, folder)) for _ in range(2)]
    for process in processes:
        process.start()
    assert [answers.get(timeout=200) for _ in processes] == [42, 42]
    for process in processes:
        process.join()
    assert [file.name for file in (tmp_path / "cache").rglob("*.so")] == ["libanswer.so"]
