"""The Python runner as one file, started as on a board: without EdgeSweep, and under a path that needs quoting."""

import os
import shutil
import subprocess
import sys
import zipfile
from dataclasses import replace
from pathlib import Path

import pytest

from sweeps.device_facts import BOARD
from sweeps.errors import BuildError
from workers.devices.local import local_facts
from workers.runtimes import registry
from workers.runtimes.torchscript import programs, python_program


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("EDGESWEEP_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


def test_it_introduces_itself_without_edgesweep(cache: Path, tmp_path: Path) -> None:
    # A virtual environment would not find its packages through a link.
    python = tmp_path / "it's a python"
    python.write_text(f'#!/bin/sh\nexec {sys.executable} "$@"\n')
    python.chmod(0o755)
    file = tmp_path / "a board's folder" / "runner"
    file.parent.mkdir()
    shutil.copy(python_program.program(str(python)), file)
    file.chmod(0o700)
    runtime = registry.get("torchscript")
    environment = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
    done = subprocess.run(
        runtime.introduction(str(file)), capture_output=True, cwd=file.parent, env=environment, timeout=120
    )
    identity = runtime.identity(done.stdout)
    facts = local_facts()
    assert identity.runner == runtime.runner()
    assert identity.runtime_version == dict(facts.runtime_versions)["torchscript"]
    assert identity.qengines == facts.qengines
    assert identity.accelerators == ()
    assert done.stderr == b"", "that there is no NNAPI is no crash"


def test_it_holds_all_that_it_imports_at_its_top_and_nothing_of_another_layer(cache: Path) -> None:
    with zipfile.ZipFile(python_program.program("/usr/bin/python3")) as archive:
        names = set(archive.namelist())
    assert {"__main__.py", "workers/cores.py", "workers/runtimes/torchscript/runner/batch.py"} <= names
    assert not [name for name in names if name.startswith(("sweeps/", "dashboard/", "workers/devices/"))]


def test_equal_sources_are_equal_bytes_and_another_python_is_another_file(cache: Path) -> None:
    first = python_program.program("/usr/bin/python3")
    content = first.read_bytes()
    first.unlink()
    assert python_program.program("/usr/bin/python3") == first
    assert first.read_bytes() == content
    assert python_program.program("/opt/python3") != first
    assert sorted(path.name for path in cache.rglob("*") if path.is_file()) == [python_program.NAME] * 2


def test_a_board_with_python_gets_it_and_another_one_the_compiled_runner(
    cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(programs.FOLDER_VARIABLE, str(tmp_path))
    board = replace(local_facts(), abi="arm64-v8a", exec_context=BOARD, python="/usr/bin/python3")
    assert {Path(program.path).name for program in programs.programs(board).values()} == {python_program.NAME}
    bare = replace(board, python="")
    # The first folder is Android's, where programs are looked for on phones.
    for folder in ("arm64-v8a", "linux-arm64-v8a"):
        (tmp_path / folder).mkdir()
    (tmp_path / "arm64-v8a" / "edgesweep_runner_full").touch()
    with pytest.raises(BuildError, match="with torch was found on the board") as caught:
        programs.programs(bare)
    assert caught.value.kind == "no_runner"
    assert "edgesweep explain boards" in caught.value.next_step
    runner = tmp_path / "linux-arm64-v8a" / "edgesweep_runner_full"
    runner.touch()
    assert {program.path for program in programs.programs(bare).values()} == {str(runner)}


@pytest.mark.parametrize(("abi", "fits"), [("x86_64", True), ("arm64-v8a", False), ("riscv64", False)])
def test_a_program_of_another_processor_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, abi: str, fits: bool
) -> None:
    monkeypatch.setenv(programs.FOLDER_VARIABLE, str(tmp_path))
    board = replace(local_facts(), abi=abi, exec_context=BOARD)
    runner = tmp_path / f"linux-{abi}" / "edgesweep_runner_full"
    runner.parent.mkdir()
    head = b"\x7fELF\x02\x01\x01" + bytes(9) + (3).to_bytes(2, "little") + (62).to_bytes(2, "little")
    runner.write_bytes(head + bytes(100))
    if fits:
        assert set(programs.programs(board)) == {"pt"}
        return
    with pytest.raises(BuildError, match=f"is a program for x86_64, not for {abi}"):
        programs.programs(board)


def test_a_program_of_an_unknown_processor_is_refused_and_a_script_is_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(programs.FOLDER_VARIABLE, str(tmp_path))
    board = replace(local_facts(), abi="arm64-v8a", exec_context=BOARD)
    runner = tmp_path / "linux-arm64-v8a" / "edgesweep_runner_full"
    runner.parent.mkdir()
    # Big-endian, of a processor that no ABI is known of.
    runner.write_bytes(b"\x7fELF\x02\x02\x01" + bytes(9) + b"\x00\x03\x00\x16" + bytes(100))
    with pytest.raises(BuildError, match="another processor"):
        programs.programs(board)
    runner.write_text("#!/bin/sh\n")
    assert set(programs.programs(board)) == {"pt"}
