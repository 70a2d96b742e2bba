"""Batches through a bench: on the local device, on simulated phones, and on devices that fail in their own ways."""

import pickle
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from sweeps.batches import Batch, BatchItem, NotReached
from sweeps.label_kinds import disqualified
from sweeps.protocol.presets import resolve
from sweeps.records import Failed, Job
from sweeps.spec import catalog
from sweeps.spec.protocol import ProtocolSpec
from sweeps.stats import median
from sweeps.variant import RunAxes, Variant
from tests import gallery
from tests.faulty_device import Faults, FaultyDevice
from tests.workers.tiny_model import tiny_inputs, tiny_job
from workers.artifacts import ArtifactStore
from workers.devices.interface import Completed, Sensors
from workers.devices.local import LocalDevice
from workers.measure.batch_request import BatchRequest
from workers.measure.device_runner import DeviceRunner
from workers.measure.readiness import Readiness
from workers.runtimes.interface import BatchRuntime, Program
from workers.runtimes.registry import get
from workers.runtimes.torchscript.runtime import TorchScript
from workers.runtimes.torchscript.speed_benchmark import SpeedBenchmark

READY = Readiness(sensors=Sensors(), lacking=(), busy_only=False)
QUICK = resolve(ProtocolSpec(preset="quick", warmup_seconds=0.5, min_seconds=0.02, max_seconds=7, iterations=3))
KEYS = ("a" * 64, "b" * 64, "c" * 64)
LITE = Variant(format="ptl")


def job_of(number: int, variant: Variant | None = None) -> Job:
    return tiny_job(KEYS[number], variant, key=f"job {number}")


JOBS = (job_of(0), job_of(1, LITE), job_of(2))


class Alone:
    """A runtime of another package, without batches."""

    name = "torchscript"


class Ending(FaultyDevice):
    """A device whose batches end in the second item, or before the first, with this exit code."""

    def __init__(self, folder: Path, exit_code: int, *, silent: bool = False) -> None:
        super().__init__(folder, "steady")
        self._exit_code = exit_code
        self._silent = silent

    def run(self, argv: Sequence[str], deadline_s: float) -> Completed:
        whole = super().run(argv, deadline_s).stdout
        length = 0 if self._silent else whole.index(b'"number": 1') + 40
        return Completed(exit_code=self._exit_code, stdout=whole[:length], stderr=b"the last words")


@pytest.fixture
def artifacts(tmp_path: Path) -> ArtifactStore:
    """The store has the artifacts of the first two jobs, and not that of the third."""
    inputs = tiny_inputs()
    for job in JOBS[:2]:
        gallery.build(tmp_path / "artifacts", job.build_key, job.variant, inputs)
    return ArtifactStore(tmp_path / "artifacts")


def ask(bench: DeviceRunner, jobs: Sequence[Job] = JOBS) -> Batch:
    answer = bench.ask(BatchRequest.of(jobs, QUICK, READY))
    assert not isinstance(answer, Failed), answer
    return answer


def kinds(batch: Batch) -> list[str]:
    return [outcome.kind if isinstance(outcome, Failed) else type(outcome).__name__ for outcome in batch.outcomes]


def test_each_job_of_a_real_batch_has_its_outcome(tmp_path: Path, artifacts: ArtifactStore) -> None:
    bench = DeviceRunner(LocalDevice(tmp_path), tmp_path)
    batch = ask(bench, [JOBS[1], JOBS[2], JOBS[0]])
    assert kinds(batch) == ["BatchItem", "no_artifact", "BatchItem"]
    items = [item for item in batch.outcomes if isinstance(item, BatchItem)]
    assert [item.job_key for item in items] == ["job 1", "job 0"]
    for item, job in zip(items, (JOBS[1], JOBS[0]), strict=True):
        manifest = artifacts.find(job.build_key)
        assert manifest is not None
        assert item.artifact_sha256 == manifest.file_sha256
        assert item.runner == f"{TorchScript().runner()} batch 1"
        assert len(item.samples_ns) >= 3
        assert item.warmup_ns
        assert item.first_inference_ns
        assert item.load_ns
        assert (item.backend_ran, item.threads_ran) == ("cpu", 1)
    assert items[0].conditions == items[1].conditions
    assert batch.device_seconds > 1.0
    assert pickle.loads(pickle.dumps(batch)) == batch
    assert not list(tmp_path.rglob("batch-*")), "the file is removed from here and from the device"


def test_a_brief_block_lasts_half_as_long(tmp_path: Path, artifacts: ArtifactStore) -> None:
    phone = DeviceRunner(FaultyDevice(tmp_path, "steady"), tmp_path)
    batch = phone.ask(BatchRequest.of(JOBS[:2], replace(QUICK, min_seconds=1.0), READY, brief=["job 1"]))
    assert isinstance(batch, Batch)
    items = [item for item in batch.outcomes if isinstance(item, BatchItem)]
    assert [sum(item.samples_ns) / 1e9 for item in items] == pytest.approx([1.0, 0.5], rel=0.1)
    assert [sum(item.warmup_ns) / 1e9 for item in items] == pytest.approx([0.25, 0.25], rel=0.1), (
        "half of the preset's: the process is busy already"
    )


def test_items_are_labelled_like_blocks(tmp_path: Path, artifacts: ArtifactStore) -> None:
    sensors = Sensors(temp_c=30.0, temp_is_battery=True, load=0.9)
    request = BatchRequest.of(JOBS[:1], replace(QUICK, iterations=10**6), replace(READY, sensors=sensors))
    batch = DeviceRunner(FaultyDevice(tmp_path, "steady"), tmp_path).ask(request)
    assert isinstance(batch, Batch)
    (item,) = batch.outcomes
    assert isinstance(item, BatchItem)
    assert {"few_samples", "busy_host"} <= {*item.labels}
    assert item.conditions.exec_context == "simulated"


def test_simulated_phones_have_batches_in_the_order_that_was_asked_for(
    tmp_path: Path, artifacts: ArtifactStore
) -> None:
    hashes = [manifest.file_sha256 for job in JOBS[:2] if (manifest := artifacts.find(job.build_key))]
    phone = FaultyDevice(tmp_path, "steady", true_ms=dict(zip(hashes, (5.0, 20.0), strict=True)))
    bench = DeviceRunner(phone, tmp_path)
    for jobs, expected in ((JOBS[:2], (5.0, 20.0)), ((JOBS[1], JOBS[0]), (20.0, 5.0))):
        began_s = phone.now_s()
        batch = ask(bench, jobs)
        items = [item for item in batch.outcomes if isinstance(item, BatchItem)]
        assert [median(item.samples_ns) / 1e6 for item in items] == pytest.approx(expected, rel=0.5), (
            "in fixed performance it is slower"
        )
        assert 0 < batch.device_seconds <= phone.now_s() - began_s


@pytest.mark.parametrize(
    ("exit_code", "kind"), [(-9, "killed"), (137, "killed"), (139, "crashed"), (-14, "timeout"), (142, "timeout")]
)
def test_what_ended_the_process_is_a_failure_of_the_item_at_which_it_ended(
    tmp_path: Path, artifacts: ArtifactStore, exit_code: int, kind: str
) -> None:
    jobs = [JOBS[0], JOBS[1], replace(JOBS[0], key="again")]
    batch = ask(DeviceRunner(Ending(tmp_path, exit_code), tmp_path), jobs)
    assert kinds(batch) == ["BatchItem", kind, "NotReached"]
    assert batch.outcomes[2] == NotReached()
    culprit = batch.outcomes[1]
    assert isinstance(culprit, Failed)
    assert culprit.stage == "run"


def test_a_process_that_ended_before_its_first_item_is_a_failure_of_no_item(
    tmp_path: Path, artifacts: ArtifactStore
) -> None:
    answer = DeviceRunner(Ending(tmp_path, 1, silent=True), tmp_path).ask(BatchRequest.of(JOBS[:2], QUICK, READY))
    assert isinstance(answer, Failed)
    assert (answer.stage, answer.kind) == ("run", "crashed")
    assert "the last words" in answer.message


def test_a_batch_without_any_artifact_runs_nothing(tmp_path: Path) -> None:
    phone = FaultyDevice(tmp_path, "steady")
    batch = ask(DeviceRunner(phone, tmp_path))
    assert kinds(batch) == ["no_artifact"] * 3
    assert (batch.device_seconds, phone.now_s()) == (0.0, 0.0)


def test_another_file_under_an_artifacts_name_is_noticed(tmp_path: Path, artifacts: ArtifactStore) -> None:
    bench = DeviceRunner(FaultyDevice(tmp_path, "steady"), tmp_path)
    _, path = bench.files.artifact(KEYS[0])
    Path(path).unlink()  # the path may be a link to the artifact
    Path(path).write_bytes(b"something else")
    assert kinds(ask(bench, JOBS[:2])) == ["wrong_artifact", "BatchItem"]


def test_impossible_times_fail_their_items_and_an_impossible_clock_the_batch(
    tmp_path: Path, artifacts: ArtifactStore
) -> None:
    odd = DeviceRunner(FaultyDevice(tmp_path, "steady", faults=Faults(times="negative")), tmp_path)
    assert kinds(ask(odd, JOBS[:2])) == ["garbled", "garbled"]
    back = DeviceRunner(FaultyDevice(tmp_path, "steady", faults=Faults(clock_jumps_back_s=1e6)), tmp_path)
    answer = back.ask(BatchRequest.of(JOBS[:2], QUICK, READY))
    assert isinstance(answer, Failed)
    assert answer.kind == "clock_went_back"


def test_times_that_do_not_fit_their_item_are_labelled(tmp_path: Path, artifacts: ArtifactStore) -> None:
    odd = DeviceRunner(FaultyDevice(tmp_path, "steady", faults=Faults(times="nanoseconds")), tmp_path)
    items = [item for item in ask(odd, JOBS[:2]).outcomes if isinstance(item, BatchItem)]
    assert [disqualified(item.labels) for item in items] == [["invalid_timing"]] * 2


def test_a_phone_that_goes_away_fails_no_item(tmp_path: Path, artifacts: ArtifactStore) -> None:
    bench = DeviceRunner(FaultyDevice(tmp_path, "steady", faults=Faults(gone_from_s=0.5)), tmp_path)
    answer = bench.ask(BatchRequest.of(JOBS[:2], QUICK, READY))
    assert isinstance(answer, Failed)
    assert answer.kind == "offline"


def test_a_runtime_or_a_program_without_batches_is_told_before_anything_is_run(
    tmp_path: Path, artifacts: ArtifactStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    phone = FaultyDevice(tmp_path, "steady")
    tool = Program(path="tool", tool=SpeedBenchmark("0" * 12, "qnnpack"))
    programs = {("torchscript", "pt"): tool, ("torchscript", "ptl"): tool}
    request = BatchRequest.of(JOBS[:2], QUICK, READY)
    answers = [DeviceRunner(phone, tmp_path, phone.facts(), programs, artifacts).ask(request)]
    entry = replace(catalog.runtimes()["torchscript"], target=f"{__name__}:{Alone.__name__}")
    monkeypatch.setitem(catalog.runtimes(), "torchscript", entry)
    assert not isinstance(get("torchscript"), BatchRuntime)
    answers.append(DeviceRunner(phone, tmp_path).ask(request))
    assert [answer.kind for answer in answers if isinstance(answer, Failed)] == ["no_batches"] * 2
    assert phone.now_s() == 0.0


def test_jobs_that_cannot_share_a_process_are_no_batch(tmp_path: Path, artifacts: ArtifactStore) -> None:
    job = JOBS[0]
    different = (
        replace(job, run=RunAxes(threads=2)),
        replace(job, run=RunAxes(cpus="0")),
        replace(job, variant=Variant(runtime="eager")),
        replace(job, variant=replace(job.variant, runner_toolchain="onnxruntime==1.31.1")),
    )
    for other in different:
        with pytest.raises(ValueError, match="share a process"):
            BatchRequest.of([job, other], QUICK, READY)
    with pytest.raises(ValueError, match="at least one"):
        BatchRequest.of([], QUICK, READY)
    phone = FaultyDevice(tmp_path, "steady")
    programs = {("torchscript", "pt"): Program(path="full"), ("torchscript", "ptl"): Program(path="lite")}
    answer = DeviceRunner(phone, tmp_path, phone.facts(), programs, artifacts).ask(
        BatchRequest.of(JOBS[:2], QUICK, READY)
    )
    assert isinstance(answer, Failed)
    assert (answer.kind, "pt, ptl" in answer.message) == ("not_possible", True)


def test_every_item_has_time_for_its_load_its_warm_up_and_its_longest_measurement(
    tmp_path: Path, artifacts: ArtifactStore
) -> None:
    calls: list[tuple[list[str], float]] = []

    class Seeing(FaultyDevice):
        def run(self, argv: Sequence[str], deadline_s: float) -> Completed:
            calls.append(([*argv], deadline_s))
            return super().run(argv, deadline_s)

    ask(DeviceRunner(Seeing(tmp_path, "steady"), tmp_path), JOBS[:2])
    [(argv, deadline_s)] = calls
    item_seconds = 60 + 3 * 7 + 0.5
    assert argv[-2:] == ["--item-seconds", repr(item_seconds)]
    assert deadline_s == 120 + 2 * item_seconds
