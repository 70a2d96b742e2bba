"""The runners of ExecuTorch and ONNX Runtime, in Python and C++: one contract."""

import importlib
import os
import random
import re
import shutil
import signal
import subprocess
from collections import Counter
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from sweeps.errors import BuildError, RunnerError
from tests.sshd import Board
from tests.workers.runtimes.exported import NAMES, Exported
from tests.workers.runtimes.forked_runs import FORKS
from tests.workers.runtimes.runs import answers, evaluating
from workers.devices.local import LocalDevice, host_abi, local_facts
from workers.measure.attach import attach, push_program
from workers.models.package import BuildInputs
from workers.native import android
from workers.runtimes.executorch.native_runner import wheel
from workers.runtimes.interface import ProfilingRuntime, RunReport
from workers.runtimes.onnxruntime.native_runner import library as onnxruntime_library
from workers.runtimes.torchscript.programs import runners_folder
from workers.runtimes.torchscript.runner.main import ERROR_EXIT

pytestmark = pytest.mark.system

MUTATIONS, FORKED_MUTATIONS = 500, 50
STAND_IN = Path(__file__).parents[1] / "native" / "onnxruntime_stand_in.cpp"


@pytest.fixture(params=NAMES)
def own(request: pytest.FixtureRequest) -> Exported:
    found: Exported = request.getfixturevalue(request.param)
    return found


@pytest.fixture(params=["python", pytest.param("native", marks=pytest.mark.compiler)])
def program(request: pytest.FixtureRequest, own: Exported) -> str | None:
    return own.native() if request.param == "native" else None


def test_both_runners_keep_the_contract(own: Exported, tiny: BuildInputs, program: str | None, tmp_path: Path) -> None:
    name = own.runtime.name
    for choice in ("static per channel", "fp32 nhwc" if name == "executorch" else "fp32"):
        manifest = own.built[choice][1]
        request = replace(
            own.asking_for(choice), sha256=manifest.file_sha256, threads=2, iterations=5, warmup_iterations=2
        )
        report = own.ran(request, program)
        assert (len(report.samples_ns), len(report.warmup_ns), report.threads_ran) == (5, 2, 2)
        assert (report.backend_ran, report.engine_ran) == ("cpu", "none")
        # Those of the C++ runner of ExecuTorch are of another release.
        assert report.runtime_version.startswith(f"{name} 1.")
        assert name == "executorch" or report.runtime_version.endswith(own.runtime.versions()[name])
        assert report.load_ns is not None
        assert 5 < report.extra_metrics["runtime_mb"] < 100
        assert own.ran(replace(request, reuse_input=False, graph_optimization="disabled"), program).samples_ns
        images = torch.from_numpy(tiny.verification)
        logits = answers(tmp_path, own.ran(replace(request, **evaluating(tmp_path, images)), program))
        noise = np.square(logits - tiny.verification_logits).sum()
        sqnr_db = 10 * np.log10(np.square(tiny.verification_logits).sum() / noise)
        # Two releases: their fp32 sums differ in the last digits.
        least = 60.0 if "fp32" in choice else float(manifest.verification.sqnr_db or 0) - 0.5
        assert sqnr_db > least, choice


def test_both_runners_refuse_what_is_not_meant(own: Exported, program: str | None, tmp_path: Path) -> None:
    request = own.asking_for("fp32")
    assert own.refused(replace(request, sha256="0" * 64), program).kind == "wrong_artifact"
    assert own.refused(replace(request, exact_int8=True), program).kind == "emulated"
    assert own.refused(replace(request, model="/nowhere/model"), program).kind == "no_model"
    if own.runtime.name == "onnxruntime":
        assert own.refused(replace(request, backend="xnnpack"), program).kind == "backend_missing"
        return
    assert own.refused(replace(request, backend="portable"), program).kind == "wrong_backend"
    assert own.refused(replace(request, backend="vulkan"), program).kind in ("backend_missing", "wrong_backend")
    # Both would run, and answer wrongly.
    assert own.refused(replace(request, memory_format="channels_last"), program).kind == "wrong_layout"
    nhwc = replace(own.asking_for("fp32 nhwc"), memory_format="contiguous_format")
    assert own.refused(nhwc, program).kind == "wrong_layout"


def test_runners_leave_no_files_behind_also_where_telemetry_is_asked_for(
    own: Exported, program: str | None, tmp_path: Path
) -> None:
    request = replace(own.asking_for("fp32"), iterations=5, warmup_iterations=2)
    folders = dict.fromkeys(("HOME", "TMPDIR", "XDG_CACHE_HOME"), str(tmp_path))
    asked = {"PATH": os.environ["PATH"], "ORT_DISABLE_TELEMETRY": "0"} | folders
    ended = subprocess.run(
        own.runtime.command(request, program), cwd=tmp_path, env=asked, capture_output=True, check=False
    )
    assert len(own.runtime.parse(ended.stdout).samples_ns) == 5
    # ONNX Runtime's telemetry keeps a device's id, a database and a session there.
    assert list(tmp_path.rglob("*")) == []


def test_damaged_files_and_newer_ones_are_told_apart(own: Exported, program: str | None, tmp_path: Path) -> None:
    request = own.asking_for("fp32")
    whole = Path(request.model).read_bytes()
    damaged = {whole[: len(whole) // 2]: "load_failed", b"": "load_failed", b"\0" * 1000: "load_failed"}
    if own.runtime.name == "executorch":
        damaged[whole.replace(b"ET12", b"ET99", 1)] = "runtime_skew"
        damaged[whole.replace(b"XnnpackBackend", b"XnnpackBackenX")] = "wrong_backend"
    else:
        damaged[whole[:200] + b"\xff" * 50 + whole[250:]] = "load_failed"
        damaged[_newer(whole)] = "runtime_skew"
    file = tmp_path / f"model.{own.form}"
    for content, kind in damaged.items():
        file.write_bytes(content)
        assert own.refused(replace(request, model=str(file)), program).kind == kind
    if own.runtime.name == "executorch":
        # Which of its operators the library lacks, not all that it has.
        portable = own.asking_for("portable")
        file.write_bytes(Path(portable.model).read_bytes().replace(b"aten::convolution", b"aten::convolutioX"))
        refused = own.refused(replace(portable, model=str(file)), program)
        assert refused.kind == "runtime_skew"
        assert re.match(r"executorch 1\.\S+ has no kernel for aten::convolutioX\.out[:,] ", refused.message)


def _newer(content: bytes) -> bytes:
    import onnx

    model = onnx.load_from_string(content)
    model.ir_version = 99
    return bytes(model.SerializeToString())


def test_a_batch_times_each_item_and_names_the_one_that_fails(
    own: Exported, program: str | None, tmp_path: Path
) -> None:
    names = ("fp32", "static per tensor")
    one, other = (replace(own.asking_for(name), iterations=3) for name in names)
    file = tmp_path / "batch.jsonl"
    file.write_bytes(own.runtime.batch_file([one, replace(one, model="/nowhere/model"), other]))
    ended = subprocess.run(own.runtime.batch_command(str(file), 60.0, program), capture_output=True, check=True)
    hashes = [own.built[names[0]][1].file_sha256, "0" * 64, own.built[names[1]][1].file_sha256]
    first, second, third = own.runtime.parse_batch(ended.stdout, hashes)
    assert isinstance(first, RunReport)
    assert isinstance(third, RunReport)
    assert (len(first.samples_ns), len(third.samples_ns)) == (3, 3)
    assert isinstance(second, RunnerError)
    assert second.kind == "no_model"


@pytest.mark.compiler
def test_the_native_runner_says_who_it_is_and_what_it_has(own: Exported) -> None:
    from workers.runtimes.executorch import native_runner as executorch
    from workers.runtimes.onnxruntime import native_runner as onnxruntime

    ended = subprocess.run(own.runtime.introduction(own.native()), capture_output=True, check=True)
    identity = own.runtime.identity(ended.stdout)
    if own.runtime.name == "executorch":
        expected = executorch.runner(), f"executorch {executorch.LIBRARIES}", ("cpu", "portable")
    else:
        expected = onnxruntime.runner(), f"onnxruntime {own.runtime.versions()['onnxruntime']}", ("cpu",)
    assert (identity.runner, identity.runtime_version, identity.backends) == expected
    assert identity.qengines == ()


@pytest.mark.compiler
@pytest.mark.runtime("onnxruntime")
@pytest.mark.xdist_group("onnxruntime")
def test_a_provider_is_appended_as_its_library_offers_it_or_is_missing(onnxruntime: Exported, tmp_path: Path) -> None:
    """NNAPI has a function of its own: without it, all would run on the CPU under NNAPI's name."""
    program = Path(shutil.copy(onnxruntime.native(), tmp_path / "runner"))
    request = onnxruntime.asking_for("fp32")

    def with_library(*flags: str) -> tuple[str, ...]:
        library = program.with_name("runner.libonnxruntime.so")
        subprocess.run(["g++", "-shared", "-fPIC", *flags, str(STAND_IN), "-o", str(library)], check=True)
        introduced = subprocess.run(onnxruntime.runtime.introduction(str(program)), capture_output=True, check=True)
        return onnxruntime.runtime.identity(introduced.stdout).backends

    assert with_library() == ("cpu", "qnn")
    refused = onnxruntime.refused(replace(request, backend="nnapi"), str(program))
    assert refused.kind == "backend_missing"
    assert refused.message == "onnxruntime 1.2.3 has no NnapiExecutionProvider that can be used"
    assert with_library("-DWITH_NNAPI") == ("cpu", "nnapi", "qnn")
    # What the stand-in tells of each as an error.
    for backend, told in (("nnapi", "NNAPI"), ("qnn", "QNN backend_path=libQnnHtp.so")):
        refused = onnxruntime.refused(replace(request, backend=backend), str(program))
        assert refused.message == f"onnxruntime 1.2.3: {told}"


@pytest.mark.compiler
@pytest.mark.cross_compiler  # for its cmake
def test_what_cmake_compiles_as_for_phones_goes_to_a_device_and_runs(
    own: Exported, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    module = importlib.import_module(f"workers.runtimes.{own.runtime.name}.for_phones")
    library = wheel() if own.runtime.name == "executorch" else onnxruntime_library()
    recipe = module.recipe(library, "x86_64", android.Choice(version="1.5.1"), tmp_path / "none")
    # On this machine it is glibc's libraries that are everywhere.
    system = ("libc.so.6", "libm.so.6", "libdl.so.2", "libpthread.so.0", "librt.so.1", "ld-linux-x86-64.so.2")
    toolchain = android.Toolchain(
        arguments=("-DCMAKE_EXE_LINKER_FLAGS=-Wl,-z,max-page-size=16384", "-DCMAKE_BUILD_TYPE=Debug"),
        strip="strip",
        system=(*system, "libstdc++.so.6", "libgcc_s.so.1"),
    )
    monkeypatch.setenv("EDGESWEEP_RUNNERS", str(tmp_path / "runners"))
    monkeypatch.setenv("EDGESWEEP_CACHE", str(tmp_path / "cache"))
    phone = replace(local_facts(), name="adb:1", abi="x86_64", exec_context="shell")
    with pytest.raises(BuildError, match="edgesweep_runner_") as caught:
        own.runtime.programs(phone)
    assert caught.value.kind == "no_runner"
    android.place(android.build(toolchain, "x86_64", recipe, tmp_path / "build", print), runners_folder("x86_64"))
    program = push_program(LocalDevice(tmp_path / "device"), own.runtime.programs(phone)[own.form])
    for _ in range(2):
        report = own.ran(replace(own.asking_for("fp32"), iterations=3), program)
        assert len(report.samples_ns) == 3
        assert report.runtime_version.startswith(f"{own.runtime.name} 1.")
    beside = {one.name.removeprefix(Path(program).name) for one in Path(program).parent.iterdir()}
    expected = "libexecutorch_backend_xnnpack.so" if own.runtime.name == "executorch" else ".libonnxruntime.so"
    assert expected in beside


@pytest.mark.compiler
@pytest.mark.sshd
def test_a_board_gets_the_runner_from_the_folder_for_its_system(
    own: Exported, board: Board, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whether it has Python or not: this one has."""
    name, request = own.runtime.name, own.asking_for("fp32")
    programs = importlib.import_module(f"workers.runtimes.{name}.programs")
    folder = tmp_path / "runners" / f"linux-{host_abi()}"
    folder.mkdir(parents=True)
    monkeypatch.setenv("EDGESWEEP_RUNNERS", str(folder.parent))
    shutil.copy(own.native(), folder / programs.RUNNER)
    if name == "onnxruntime":
        shutil.copy(onnxruntime_library(), folder / programs.LIBRARY)
    attached = attach(board.name, tmp_path, [name])
    try:
        model = attached.device.push(Path(request.model), f"model.{own.form}")
        asked = replace(request, model=model, sha256=own.built["fp32"][1].file_sha256, iterations=3)
        argv = own.runtime.command(asked, attached.programs[name, own.form].path)
        report = own.runtime.parse(attached.device.run(argv, 60.0).stdout)
    finally:
        attached.device.release()
    assert "cpu" in dict(attached.facts.backends)[name]
    assert dict(attached.facts.runners)[name].startswith(report.runner)
    assert len(report.samples_ns) == 3


@pytest.mark.parametrize("program", [None, "native"])
@pytest.mark.compiler
def test_a_profile_names_the_operators_and_is_no_measurement(own: Exported, program: str | None) -> None:
    assert isinstance(own.runtime, ProfilingRuntime)
    request = own.asking_for("fp32")
    argv = own.runtime.profile_command(request, 6, 3, own.native() if program else None)
    ended = subprocess.run(argv, capture_output=True, check=True)
    found = own.runtime.parse_profile(ended.stdout)
    assert len(found.iteration_ns) == 6
    names = " ".join(one.name for one in found.operators())
    assert "Conv" in names, "its convolutions are told apart, where a delegate has them too"
    assert {one.calls for one in found.operators()} <= {1, 2, 3, 4, 5}
    if own.runtime.name == "onnxruntime":
        assert {one.where for one in found.operators()} == {"CPUExecutionProvider"}
    with pytest.raises(RunnerError):
        own.runtime.parse(ended.stdout)


def mutated(content: bytes, seed: int) -> bytes:
    """With one to eight changes: a bit, a byte, a run of bytes, a part taken out or given twice, the end cut off. Half
    of them are near the ends, where a file says what it holds."""
    dice = random.Random(seed)
    made = bytearray(content)
    for _ in range(dice.choice((1, 1, 2, 8))):
        reach = len(made) if dice.random() < 0.5 else min(len(made), 4096)
        at = dice.randrange(reach) if dice.random() < 0.7 else len(made) - 1 - dice.randrange(reach)
        length = dice.choice((1, 4, 16, 256))
        match dice.randrange(6):
            case 0 | 1:
                made[at] ^= 1 << dice.randrange(8)
            case 2:
                made[at : at + length] = dice.randbytes(len(made[at : at + length]))
            case 3:
                del made[at : at + length]
            case 4:
                made[at:at] = made[at : at + length]
            case _:
                made[at : at + 4] = dice.choice((b"\0\0\0\0", b"\xff\xff\xff\xff", b"\xff\xff\xff\x7f"))
        if len(made) < 16:
            break
    return bytes(made[: dice.randrange(len(made))]) if dice.random() < 0.05 else bytes(made)


@pytest.mark.compiler
def test_a_damaged_file_ends_in_an_error_an_end_or_a_report(own: Exported, tmp_path: Path) -> None:
    """Without its hash, which the harness always gives, some are run: a file answers for what its bits say."""
    for form, contents in _whole(own, tmp_path).items():
        file = tmp_path / f"model.{form}"
        request = replace(own.asking_for("fp32"), model=str(file), max_seconds=2.0)
        argv = own.runtime.command(request, own.native())
        ends = Counter[str]()
        for seed in range(MUTATIONS):
            file.write_bytes(mutated(contents[seed % len(contents)], seed))
            # A hang is a `TimeoutExpired`. Some run for ever: the runner ends itself after a minute.
            ended = subprocess.run(argv, capture_output=True, check=False, timeout=120, start_new_session=True)
            ends[_end(own, ended)] += 1
        assert ends.total() == MUTATIONS
        assert ends["load_failed"] > MUTATIONS / 10, ends
        assert ends["report"] > MUTATIONS / 10, ends


def test_a_damaged_file_ends_the_python_runner_too(own: Exported, tmp_path: Path) -> None:
    """In forks, and fewer: it calls the same library."""
    for form, contents in _whole(own, tmp_path).items():
        file = tmp_path / f"model.{form}"
        argv = own.runtime.command(replace(own.asking_for("fp32"), model=str(file), max_seconds=2.0))
        ends = Counter[str]()
        for seed in range(FORKED_MUTATIONS):
            file.write_bytes(mutated(contents[seed % len(contents)], seed))
            ends[_end(own, FORKS.run(argv, 120.0))] += 1
        assert ends["load_failed"] > 0, ends
        assert ends["report"] > 0, ends


def _whole(own: Exported, folder: Path) -> dict[str, list[bytes]]:
    """By form, files that are not damaged."""
    found = {own.form: [Path(own.asking_for(name).model).read_bytes() for name in ("fp32", "static per channel")]}
    if own.form == "onnx":
        found["ort"] = [_for_this_machine(Path(own.asking_for("fp32").model), folder / "whole.ort")]
    return found


def _end(own: Exported, ended: subprocess.CompletedProcess[bytes]) -> str:
    """What the harness reads of it."""
    if ended.returncode < 0:
        return signal.Signals(-ended.returncode).name
    assert ended.returncode in (0, ERROR_EXIT)
    try:
        own.runtime.parse(ended.stdout)
    except RunnerError as error:
        assert ended.returncode == ERROR_EXIT
        return error.kind
    return "report"


def _for_this_machine(model: Path, target: Path) -> bytes:
    """In ONNX Runtime's own format, which no build has: a runner that is given one loads it."""
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.optimized_model_filepath = str(target)
    options.add_session_config_entry("session.save_model_format", "ORT")
    onnxruntime.InferenceSession(str(model), options, providers=["CPUExecutionProvider"])
    return target.read_bytes()
