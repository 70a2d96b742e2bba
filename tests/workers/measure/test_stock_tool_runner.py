"""A phone whose runner is PyTorch's own speed_benchmark_torch (a program that stands in for it runs real models)."""

import math
import re
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from sweeps.device_facts import VIRTUAL_PHONE
from sweeps.journal.journal import Journal
from sweeps.protocol.presets import resolve
from sweeps.ranking.document import ranking_document
from sweeps.ranking.rank import rank
from sweeps.records import Block, Failed, Job, Measured
from sweeps.spec.grid import GridSpec
from sweeps.spec.objective import ObjectiveSpec
from sweeps.spec.protocol import ProtocolSpec
from sweeps.store.mlflow import Store
from sweeps.tool_logs.pytorch import parse_speed_benchmark
from sweeps.variant import Variant
from tests.faulty_phone import FaultyPhone
from tests.mlflow_rows import load
from tests.workers.native.stand_in import speed_benchmark
from tests.workers.tiny_model import tiny_inputs, tiny_job
from tests.workers.tiny_sweep import PROTOCOL, Sweep
from workers.artifacts import ArtifactStore
from workers.devices.interface import Sensors
from workers.devices.local import LocalDevice, host_abi, local_facts
from workers.driver.driver_events import AttemptFailed
from workers.measure.attach import attach
from workers.measure.device_files import Evaluation
from workers.measure.device_runner import DeviceRunner
from workers.measure.evaluation_request import LogitsRequest
from workers.measure.readiness import Readiness
from workers.measure.timed_block import BlockRequest, ReadyRequest
from workers.models.package import BuildInputs
from workers.runtimes.interface import Program
from workers.runtimes.torchscript import bundled, native_runner, programs
from workers.runtimes.torchscript.speed_benchmark import SpeedBenchmark

pytestmark = [pytest.mark.system, pytest.mark.compiler]

VIRTUAL = replace(local_facts(), exec_context=VIRTUAL_PHONE)
IMAGES = 6
"""One file carries so many images here: a hundred are a hundred processes."""
READY = Readiness(sensors=Sensors(), lacking=(), busy_only=False)
QUICK = resolve(ProtocolSpec(preset="quick", warmup_seconds=0.05, min_seconds=0.1, max_seconds=7, iterations=3))
INT8 = Variant(
    precision="int8", quantization="static_fx", interface="full", qengine="x86", fuse=True, optimize=True, layout="nhwc"
)


@pytest.fixture
def runners(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The user's own folder, with the tool for pt files."""
    folder = tmp_path / "runners" / host_abi()
    folder.mkdir(parents=True)
    shutil.copy(speed_benchmark("pt"), folder / programs.STOCK_TOOLS["pt"])
    monkeypatch.setenv(programs.FOLDER_VARIABLE, str(folder.parent))
    return folder


# Keeps what the tool is told and tells: which iterations are enough follows from a glance that nobody else sees.
_KEEPS = """#!/bin/sh
n=$(ls {kept} | wc -l)
echo "$*" >{kept}/$n.arguments
echo "$OMP_NUM_THREADS" >{kept}/$n.openmp
{tool} "$@" >{kept}/$n.stdout
ended=$?
cat {kept}/$n.stdout
exit $ended
"""


@pytest.fixture
def recorded(runners: Path, tmp_path: Path) -> Path:
    """The folder with what the tool is told and tells, in order."""
    folder = tmp_path / "kept"
    folder.mkdir()
    tool = runners / programs.STOCK_TOOLS["pt"]
    tool.unlink()
    tool.write_text(_KEEPS.format(kept=folder, tool=speed_benchmark("pt")))
    tool.chmod(0o755)
    return folder


def timings(recorded: Path) -> list[tuple[int, tuple[int, ...]]]:
    """List for each timing, in order, the iterations that were asked for and the nanoseconds that each took."""
    files = sorted(recorded.glob("*.arguments"), key=lambda file: int(file.stem))
    timing_files = {file: re.search(r"--iter=(\d+) --report_pep=true", file.read_text()) for file in files}
    return [
        (int(match[1]), parse_speed_benchmark(file.with_suffix(".stdout").read_text()).samples_ns)
        for file, match in timing_files.items()
        if match
    ]


def named(runners: Path, form: str = "pt") -> str:
    return SpeedBenchmark.of(runners / programs.STOCK_TOOLS[form], host_abi()).runner


def version_of(runners: Path) -> str:
    return SpeedBenchmark.of(runners / programs.STOCK_TOOLS["pt"], host_abi()).runtime_version


def test_a_phone_is_measured_with_the_tool_and_the_results_say_so(
    phone: FaultyPhone, runners: Path, recorded: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bundled, "MAX_IMAGES", IMAGES)
    grids = (
        GridSpec(precision=("fp32",), layout=("nhwc",)),
        GridSpec(precision=("fp32",), layout=("nhwc",), reuse_input=(False,), name="fresh"),
        GridSpec(precision=("fp32",), layout=("nhwc",), format=("ptl",), name="lite"),
        GridSpec(precision=("int8",), layout=("nhwc",), name="int8"),
    )
    sweep = Sweep(
        tmp_path, *grids, devices=(f"adb:{phone.serial}",), objective=ObjectiveSpec(constraints=()), protocol=PROTOCOL
    )
    runner, version = named(runners), version_of(runners)
    [facts] = sweep.plan.devices
    assert (facts.runtime_versions, facts.runners) == ((("torchscript", version),), (("torchscript", runner),))
    [int8] = sweep.plan.skipped
    assert int8.reason.endswith("has no quantized engine x86 (known: none)")
    store = Store(sweep.workspace.tracking_uri, sweep.workspace.mlflow_artifacts)
    with Journal.open(sweep.workspace.journal) as journal:
        events = sweep.run(journal)
        attempts = [event for event in events if isinstance(event, AttemptFailed)]
        refused = {attempt.name: attempt.failed for attempt in attempts}
        first, fresh, lite = sweep.plan.jobs
        assert {name: failed.kind for name, failed in refused.items()} == dict.fromkeys(
            (fresh.name, lite.name), "not_possible"
        )
        assert "has one input for all iterations" in refused[fresh.name].message
        assert "no program that runs ptl artifacts" in refused[lite.name].message
        assert len(attempts) == 2  # none was tried again

        blocks = journal.attempts.blocks(first.key)
        assert len(blocks) == 2
        for block in blocks:
            assert (block.runner, block.runtime_version, block.engine_ran) == (runner, version, "none")
            assert (block.load_ns, block.first_inference_ns, block.rss_peak_bytes) == (None, None, None)
            assert block.threads_ran == 1
            assert "threads_unknown" in block.labels
        (_, first_glance), first_timing, (_, second_glance), second_timing = timings(recorded)
        for glance, (iterations, samples), block in zip(
            (first_glance, second_glance), (first_timing, second_timing), blocks, strict=True
        ):
            enough = math.ceil(PROTOCOL.min_seconds * 1e9 / min(glance))
            assert (iterations, samples) == (max(PROTOCOL.iterations, enough), block.samples_ns)
        assert {file.read_text() for file in recorded.glob("*.openmp")} == {"1\n"}
        outcome = journal.outcomes.in_sweep("tiny", first)
        assert isinstance(outcome, Measured)
        assert outcome.accuracy is not None
        assert (outcome.accuracy.images, outcome.accuracy.labels) == (IMAGES, ("part_of_images",))
        assert outcome.accuracy.agreement_percent == 100.0
        assert outcome.accuracy.sqnr_db is not None
        assert outcome.accuracy.sqnr_db > 60  # four printed decimals
        store.publish(journal, "tiny")
    results = load(sweep.workspace.tracking_uri, "tiny")
    [row] = results.frame[results.frame["outcome"] == "measured"].to_dict("records")
    assert (row["runner"], row["images"]) == (runner, IMAGES)
    [device] = ranking_document(rank(results.frame, results.spec.objective, "tiny"))["devices"]
    assert device["winner"]["runner"] == runner
    assert {"part_of_images", "threads_unknown"} <= set(device["winner"]["trust"])
    assert device["winner"]["load_ms"] is None


def test_our_own_runner_goes_first_and_a_format_of_its_own_has_a_program_of_its_own(
    phone: FaultyPhone, runners: Path, tmp_path: Path
) -> None:
    lite = runners / programs.RUNNERS["ptl"]
    lite.symlink_to(native_runner.program())
    shutil.copy(runners / programs.STOCK_TOOLS["pt"], runners / programs.STOCK_TOOLS["ptl"])
    program_of_kind = programs.programs(VIRTUAL)
    assert {kind: (Path(program.path).name, program.tool is None) for kind, program in program_of_kind.items()} == {
        "pt": ("speed_benchmark_torch", False),
        "ptl": ("edgesweep_runner_lite", True),
    }
    attached = attach(f"adb:{phone.serial}", tmp_path)
    attached.device.release()
    runner_names = f"{named(runners)} and {native_runner.runner()}"
    assert attached.facts.runners == (("torchscript", runner_names),)
    [(_, versions)] = attached.facts.runtime_versions
    assert versions.startswith(f"{version_of(runners)} and 2.")
    # The engines are those that our runner tells, not the tool.
    assert "x86" in attached.facts.qengines
    assert attached.programs["torchscript", "pt"].tool is not None
    (runners / programs.RUNNERS["pt"]).symlink_to(native_runner.program())
    assert {program.tool for program in programs.programs(VIRTUAL).values()} == {None}


@pytest.fixture(scope="module")
def inputs() -> BuildInputs:
    return tiny_inputs()


@pytest.fixture
def bench(tmp_path: Path, inputs: BuildInputs) -> Callable[[Variant, str], tuple[DeviceRunner, Job]]:
    """This host, measured with the stand-in, whose library has the engine x86."""

    def bench(variant: Variant, form: str) -> tuple[DeviceRunner, Job]:
        key = "b" * 64
        ArtifactStore(tmp_path / "artifacts").build(key, variant, inputs)
        program = Program(
            path=str(speed_benchmark("ptl" if form == "ptl" else "pt")),
            tool=SpeedBenchmark("0", "x86"),
        )
        device = LocalDevice(tmp_path)
        job = tiny_job(key, variant)
        return DeviceRunner(device, tmp_path, device.facts(), {("torchscript", variant.format): program}), job

    return bench


@pytest.mark.parametrize("form", ["pt", "ptl"])
def test_a_quantized_input_comes_in_the_file_for_a_timing_too(
    bench: Callable[[Variant, str], tuple[DeviceRunner, Job]], tmp_path: Path, inputs: BuildInputs, form: str
) -> None:
    measured, job = bench(replace(INT8, format=form), form)
    assert isinstance(measured.ask(ReadyRequest(job, None, 0.0)), Readiness)
    pushed = sorted(path.name for path in (tmp_path / "run").iterdir())
    assert pushed == sorted([f"{'b' * 16}-model.{form}", f"{'b' * 16}-1-eval.{form}"]), "nothing is left for the block"
    blocks = [measured.ask(BlockRequest(job, round_, QUICK, READY)) for round_ in range(2)]
    for block in blocks:
        assert isinstance(block, Block), block
        assert (block.engine_ran, block.backend_ran, block.threads_ran) == ("x86", "cpu", 1)
        assert len(block.samples_ns) >= 3
        assert "engine_differs" not in block.labels
    assert sorted(path.name for path in (tmp_path / "run").iterdir()) == pushed
    answer = measured.ask(LogitsRequest(job, Evaluation(evaluation_id="test", images=inputs.verification)))
    assert not isinstance(answer, Failed), answer
    own = DeviceRunner(LocalDevice(tmp_path / "python"), tmp_path)
    expected = own.ask(LogitsRequest(job, Evaluation(evaluation_id="test", images=inputs.verification)))
    assert not isinstance(expected, Failed), expected
    np.testing.assert_allclose(answer.logits, expected.logits, rtol=5e-5, atol=6e-5)
    measured.close()
    assert [path.name for path in (tmp_path / "run").iterdir()] == [f"{'b' * 16}-model.{form}"]
    assert not list(tmp_path.glob("inputs-*"))


def test_a_tool_that_refuses_the_artifact_fails_with_its_own_words(
    bench: Callable[[Variant, str], tuple[DeviceRunner, Job]], inputs: BuildInputs
) -> None:
    measured, job = bench(Variant(), "ptl")  # this tool reads no pt
    for failed in (
        measured.ask(BlockRequest(job, 0, QUICK, READY)),
        measured.ask(LogitsRequest(job, Evaluation(evaluation_id="test", images=inputs.verification))),
    ):
        assert isinstance(failed, Failed)
        assert failed.kind == "crashed"
        assert "failed locating file bytecode.pkl" in failed.message
