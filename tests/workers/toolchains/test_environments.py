"""Environments of toolchains: what counts as made, what a process imports in one, and what cannot be made."""

import importlib
import json
import os
import signal
import subprocess
import sys
import time
import zipfile
from collections.abc import Iterator
from dataclasses import replace
from importlib import metadata
from pathlib import Path
from typing import Any

import psutil
import pytest
from click.testing import CliRunner

from sweeps.cli.main import main
from sweeps.errors import BuildError, EdgeSweepError, RunnerError
from sweeps.planning.axes import resolve_variant
from sweeps.spec.toolchains import toolchain
from sweeps.variant import INSTALLED, Variant
from tests.workers.toolchains.releases import RUNS_NOTHING
from workers import plan_inputs as planner
from workers.devices.local import local_facts
from workers.runtimes.onnxruntime.runtime import OnnxRuntime
from workers.runtimes.torchscript import runner_report
from workers.toolchains import environments, run_with_packages

RELEASE = "onnxruntime==1.30.9"
CHOSEN = toolchain(RELEASE)
MODULES = ("", "quantization", "transformers", "transformers/float16")
PRINTS = "import sys, onnxruntime; print(onnxruntime.__file__, *sys.argv[1:])\n"


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "a 'cache' $HOME"
    monkeypatch.setenv("EDGESWEEP_CACHE", str(folder))
    return folder


def files(version: str) -> dict[str, str]:
    """Make the files of a library that does nothing."""
    info = f"onnxruntime-{version}.dist-info"
    modules = {f"{Path('onnxruntime', name)}/__init__.py": "" for name in MODULES}
    return {
        **modules,
        "onnxruntime/__main__.py": PRINTS,
        f"{info}/METADATA": f"Metadata-Version: 2.1\nName: onnxruntime\nVersion: {version}\n",
        f"{info}/WHEEL": "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
    }


@pytest.fixture
def installed(cache: Path) -> Path:
    """Lay out an environment as `add` leaves it."""
    folder = environments.folder_of(CHOSEN)
    content = files(CHOSEN.version)
    for name, text in content.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)
    sizes = {name: len(text) for name, text in content.items()}
    (folder / run_with_packages.MARKER).write_text(json.dumps({"toolchain": RELEASE, "files": sizes}))
    return folder


def invoked(*words: str) -> tuple[int, str]:
    done = CliRunner().invoke(main, ["toolchain", *words])
    return done.exit_code, done.stdout + done.stderr


def test_what_is_not_there_is_named_with_the_command_and_its_size(cache: Path) -> None:
    with pytest.raises(EdgeSweepError, match=f"{RELEASE} is not on this machine") as caught:
        environments.check(RELEASE)
    assert caught.value.next_step == f"edgesweep toolchain add {RELEASE} (about 65 MB)"
    assert environments.installed() == []
    code, output = invoked("remove", RELEASE)
    assert (code, "is not on this machine" in output) == (1, True)


def test_one_that_is_whole_can_be_used_listed_and_removed(installed: Path) -> None:
    assert environments.check(RELEASE) == CHOSEN
    code, output = invoked("list", "--json")
    listed = json.loads(output)
    assert (code, [entry["toolchain"] for entry in listed["made"]], listed["made"][0]["usable"]) == (0, [RELEASE], True)
    libraries = {entry["library"]: entry for entry in listed["libraries"]}
    assert libraries["executorch"]["pairs"]["1.3.x"] == "torch 2.12"
    assert [*libraries["onnxruntime"]["pairs"].values()] == ["any torch"]
    output = invoked("list")[1]
    assert all(word in output for word in (RELEASE, "whole", "1.4.x", "torch 2.13"))
    assert invoked("remove", RELEASE)[0] == 0
    assert not installed.exists()


@pytest.mark.parametrize("damage", ["no marker", "no JSON", "another form", "a file is gone", "a file is cut"])
def test_one_that_is_not_whole_does_not_count_as_made(installed: Path, damage: str) -> None:
    marker, part = installed / run_with_packages.MARKER, installed / "onnxruntime" / "__main__.py"
    match damage:
        case "no marker":
            marker.unlink()
        case "no JSON":
            marker.write_text("{")
        case "another form":
            marker.write_text("[]")
        case "a file is gone":
            part.unlink()
        case _:
            part.write_text("")
    with pytest.raises(EdgeSweepError, match="is damaged") as caught:
        environments.check(RELEASE)
    assert f"toolchain add {RELEASE}" in caught.value.next_step
    assert "is damaged" in environments.installed()[0].wrong


def test_a_program_imports_the_releases_library_and_gives_up_without_its_folder(installed: Path) -> None:
    argv = environments.command_within([sys.executable, "-m", "onnxruntime", "it's", "$HOME"], RELEASE)
    ended = subprocess.run(argv, capture_output=True, text=True, check=True)
    assert ended.stdout == f"{installed}/onnxruntime/__init__.py it's $HOME\n"
    (installed / run_with_packages.MARKER).unlink()
    ended = subprocess.run(argv, capture_output=True, text=True, check=False)
    assert ended.returncode == run_with_packages.ERROR_EXIT
    with pytest.raises(RunnerError) as caught:
        runner_report.parse(ended.stdout.encode())
    assert caught.value.kind == run_with_packages.KIND


def test_the_installed_one_changes_no_command_and_other_programs_have_no_toolchain() -> None:
    argv = [sys.executable, "-m", "onnxruntime"]
    assert environments.command_within(argv, INSTALLED) == argv
    with pytest.raises(EdgeSweepError, match="runner cannot be run with the toolchain"):
        environments.command_within(["/a/runner"], RELEASE)
    with pytest.raises(EdgeSweepError, match="is no release"):
        environments.command_within(argv, "onnxruntime==../../../etc")


@pytest.fixture
def fresh(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """The process seems to have imported no library yet."""
    monkeypatch.setattr(sys, "path", [*sys.path])
    monkeypatch.delitem(sys.modules, "onnxruntime", raising=False)
    yield
    importlib.invalidate_caches()


@pytest.mark.usefixtures("fresh")
def test_a_process_that_builds_has_one_toolchain(installed: Path) -> None:
    environments.enter(INSTALLED)
    environments.enter(RELEASE)
    environments.enter(RELEASE)
    assert metadata.version("onnxruntime") == CHOSEN.version
    for other in (INSTALLED, "onnxruntime==1.30.8"):
        with pytest.raises(BuildError, match="has begun with another toolchain"):
            environments.enter(other)


@pytest.mark.usefixtures("fresh")
def test_a_computer_that_builds_and_lacks_it_says_so(cache: Path) -> None:
    with pytest.raises(BuildError, match=f"toolchain add {RELEASE}") as caught:
        environments.enter(RELEASE)
    assert caught.value.kind == "runtime_missing"


@pytest.mark.parametrize(
    ("release", "words"),
    [
        ("executorch==1.4.0", ("pairs with torch 2.13", "several GB")),
        ("onnxruntime==1.2.0", ("older than 1.19",)),
        ("torch==2.13.0", ("torch has no releases to choose from",)),
        ("onnxruntime", ("is no release",)),
    ],
)
def test_what_cannot_be_used_is_refused_before_anything_is_fetched(
    cache: Path, release: str, words: tuple[str, ...]
) -> None:
    code, output = invoked("add", release)
    assert code == 1
    assert all(word in output for word in words)
    assert not cache.exists()


def test_a_phone_runs_the_release_that_lies_beside_its_runner(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("EDGESWEEP_RUNNERS", str(tmp_path))
    phone = replace(local_facts(), name="adb:1", abi="x86_64", exec_context="shell", runners=(("torchscript", "r 1"),))
    usual = resolve_variant(Variant(runtime="onnxruntime"), "x86_64")
    named = replace(usual, runner_toolchain=RELEASE)

    def reason(variant: Variant, facts: Any = phone, *, attached: bool = True) -> str | None:
        return planner.no_program_of_release(facts, variant, attached=attached)

    assert reason(usual) is None
    assert reason(named, local_facts()) is None
    assert reason(named, attached=False) is None
    assert "libonnxruntime-1.30.9.so" in str(reason(named))
    other = replace(named, runtime="executorch", runner_toolchain="executorch==1.3.0")
    assert "write runner_toolchain: [installed]" in str(reason(other))
    # On a lab's phone its host says which there are, and this computer has no part in it.
    own = tmp_path / "x86_64"
    own.mkdir()
    for name in ("edgesweep_runner_onnxruntime", "libonnxruntime.so", "libonnxruntime-1.30.9.so"):
        (own / name).touch()
    assert OnnxRuntime().releases(phone) == (RELEASE,)
    away = replace(phone, name="host:lab-2/adb:1")
    assert "the host lab-2 has no library of onnxruntime==1.30.9" in str(reason(named, away, attached=False))
    assert reason(named, replace(away, releases=(RELEASE,)), attached=False) is None
    assert "write runner_toolchain: [installed]" in str(reason(other, away, attached=False))


# With pip and wheels of a folder: no network.


def wheel(folder: Path, version: str, changes: dict[str, str] | None = None) -> None:
    folder.mkdir(exist_ok=True)
    content = files(version) | (changes or {})
    info = f"onnxruntime-{version}.dist-info"
    listed = "".join(f"{name},,\n" for name in (*content, f"{info}/RECORD"))
    with zipfile.ZipFile(folder / f"onnxruntime-{version}-py3-none-any.whl", "w") as archive:
        for name, text in {**content, f"{info}/RECORD": listed}.items():
            archive.writestr(name, text)


@pytest.fixture
def registry(tmp_path: Path, cache: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder that pip takes for all that there is."""
    folder = tmp_path / "wheels"
    metadata_of_needy = files("1.30.7")["onnxruntime-1.30.7.dist-info/METADATA"] + "Requires-Dist: numpy<2\n"
    wheel(folder, CHOSEN.version)
    wheel(folder, "1.30.7", {"onnxruntime-1.30.7.dist-info/METADATA": metadata_of_needy})
    wheel(folder, "1.30.6", {"onnxruntime/quantization/__init__.py": "import a_part_that_nobody_has\n"})
    wheel(folder, "1.30.5", RUNS_NOTHING)
    monkeypatch.setenv("ORT_DISABLE_TELEMETRY", "0")
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(folder))
    return folder


@pytest.mark.system
def test_a_release_is_made_once_and_made_again_where_it_is_damaged(registry: Path) -> None:
    messages: list[str] = []
    folder = environments.add(CHOSEN, messages.append).folder
    assert messages == [f"{RELEASE}: about 65 MB in {environments.folder_of(CHOSEN)}"]
    assert environments.check(RELEASE) == CHOSEN
    began = (folder / run_with_packages.MARKER).stat().st_mtime_ns
    assert (environments.add(CHOSEN, messages.append).folder, messages[1:]) == (folder, [])
    assert (folder / run_with_packages.MARKER).stat().st_mtime_ns == began
    (folder / "onnxruntime" / "__main__.py").unlink()
    environments.add(CHOSEN, messages.append)
    assert environments.check(RELEASE) == CHOSEN
    assert [entry.name for entry in folder.parent.iterdir() if entry.suffix != ".lock"] == [folder.name]


@pytest.mark.system
@pytest.mark.parametrize(
    ("release", "words"),
    [
        ("onnxruntime==1.30.8", ("the registry has no onnxruntime==1.30.8", "it has: 1.30.5, 1.30.6, 1.30.7, 1.30.9")),
        ("onnxruntime==1.30.7", ("needs another version of what is installed here", "numpy<2")),
        # The trial of the runtime's first use: its mark is not there.
        ("onnxruntime==1.30.5", ("onnxruntime 1.30.5", "cannot build and run even a tiny", "does not have a device")),
        ("onnxruntime==1.30.6", ("does not run beside what is installed here", "a_part_that_nobody_has")),
        ("executorch==1.3.0", ("pip finds no release of executorch", "network")),
    ],
)
def test_what_cannot_be_made_leaves_nothing(registry: Path, release: str, words: tuple[str, ...]) -> None:
    code, output = invoked("add", release)
    assert code == 1
    assert all(word in output for word in words), output
    assert environments.installed() == []


@pytest.mark.system
@pytest.mark.parametrize("whose", ["the trial", "the command"])
def test_a_release_whose_trial_is_killed_stays_and_is_not_said_to_be_broken(installed: Path, whose: str) -> None:
    argv = [sys.executable, "-c", "from sweeps.cli.main import main; main()", "toolchain", "add", RELEASE]
    with subprocess.Popen(argv, stderr=subprocess.PIPE, text=True) as adding:
        trials: list[psutil.Process] = []
        deadline = time.monotonic() + 120
        while not trials:
            assert adding.poll() is None
            assert time.monotonic() < deadline
            time.sleep(0.02)
            trials = [process for process in psutil.Process(adding.pid).children(recursive=True) if is_trial(process)]
        (trials[0] if whose == "the trial" else adding).kill()
        output = adding.communicate(timeout=60)[1]
    assert psutil.wait_procs(trials, timeout=30)[1] == [], "it does not go on for nobody"
    assert environments.check(RELEASE) == CHOSEN
    if whose == "the trial":
        # The system kills so when memory is short: that says nothing of the release.
        assert adding.returncode == 1
        assert f"{RELEASE}: its process was killed on a tiny model" in output
        assert "free memory" in output


def is_trial(process: psutil.Process) -> bool:
    """Tell whether the process tries a release: another one ends it with its parent."""
    try:
        words = process.cmdline()
    except psutil.Error:
        return False
    return "workers.runtimes.library_check" in words and "sweeps.with_parent" not in words


@pytest.mark.system
@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGINT])
def test_an_interrupted_add_leaves_nothing_that_counts(registry: Path, how: signal.Signals) -> None:
    # The library's import waits, when all is installed.
    wheel(registry, CHOSEN.version, {"onnxruntime/__init__.py": "import time; time.sleep(600)\n"})
    argv = [sys.executable, "-c", "from sweeps.cli.main import main; main()", "toolchain", "add", RELEASE]
    process = subprocess.Popen(argv, stderr=subprocess.DEVNULL, start_new_session=True)
    try:
        root, deadline = environments.folder_of(CHOSEN).parent, time.monotonic() + 120
        while not [*root.glob("edgesweep-tmp-*/files/onnxruntime/__init__.py")]:
            assert process.poll() is None
            assert time.monotonic() < deadline
            time.sleep(0.05)
        os.killpg(process.pid, how)
        process.wait(60)
    finally:
        process.kill()
        process.wait()
    assert environments.installed() == []
    wheel(registry, CHOSEN.version)
    environments.add(CHOSEN, lambda _: None)
    assert [entry.name for entry in root.iterdir() if entry.suffix != ".lock"] == [environments.folder_of(CHOSEN).name]
