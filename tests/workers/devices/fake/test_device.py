"""Simulated phones as devices: what they answer is what a runtime reads, and their time is their own."""

import hashlib
import time
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from sweeps.errors import DeviceError, RunnerError
from sweeps.variant import Variant
from tests import gallery
from tests.faulty_device import Faults, FaultyDevice
from tests.workers.runtimes.runs import request_of
from tests.workers.tiny_model import tiny_inputs
from workers.artifacts import ArtifactStore
from workers.devices import registry
from workers.devices.fake import runner as fake_runner
from workers.devices.fake.phones import PHONES
from workers.devices.local import local_facts
from workers.runtimes.interface import RunReport, RunRequest
from workers.runtimes.torchscript.runtime import TorchScript

REQUEST = request_of("", 1, 3, 8, 8, iterations=50, min_seconds=2.0, warmup_seconds=0.5)


def pushed(phone: FaultyDevice, tmp_path: Path, content: bytes = b"a model") -> str:
    source = tmp_path / "source"
    source.unlink(missing_ok=True)  # the file pushed before may be a link to it
    source.write_bytes(content)
    return phone.push(source, f"{hashlib.sha256(content).hexdigest()[:8]}.pt")


def run(phone: FaultyDevice, request: RunRequest, deadline_s: float = 1000) -> RunReport:
    return TorchScript().parse(phone.run(TorchScript().command(request), deadline_s).stdout)


def median_ms(report: RunReport) -> float:
    return float(np.median(report.samples_ns)) / 1e6


@pytest.mark.parametrize("name", sorted(PHONES))
def test_every_phone_reports_as_a_runner_does(tmp_path: Path, name: str) -> None:
    phone = FaultyDevice(tmp_path, name)
    report = run(phone, replace(REQUEST, model=pushed(phone, tmp_path), threads=2, cpus="0,3", engine="qnnpack"))
    assert (report.backend_ran, report.engine_ran, report.threads_ran, report.cpus_ran) == ("cpu", "qnnpack", 2, (0, 3))
    assert len(report.samples_ns) >= 50
    assert sum(report.samples_ns) >= 2e9
    assert sum(report.warmup_ns) >= 0.4e9
    assert report.first_inference_ns > median_ms(report) * 1e6
    assert report.runner == "simulated 1"


def test_a_batch_is_read_as_that_of_a_runner(tmp_path: Path) -> None:
    phone, runtime = FaultyDevice(tmp_path, "steady"), TorchScript()
    requests = [
        replace(REQUEST, model=pushed(phone, tmp_path)),
        replace(REQUEST, model="/nowhere/model.pt"),
        replace(REQUEST, model=pushed(phone, tmp_path, b"another model")),
    ]
    (tmp_path / "batch.jsonl").write_bytes(runtime.batch_file(requests))
    file = phone.push(tmp_path / "batch.jsonl", "batch.jsonl")
    hashes = [hashlib.sha256(content).hexdigest() for content in (b"a model", b"", b"another model")]
    outcomes = runtime.parse_batch(phone.run(runtime.batch_command(file, 60.0), 1000).stdout, hashes)
    first, missing, last = outcomes
    assert isinstance(missing, RunnerError)
    assert missing.kind == "no_model"
    for report in (first, last):
        assert isinstance(report, RunReport)
        assert (report.runner, len(report.samples_ns) >= 50) == ("simulated 1 batch 1", True)
    for file in ("/nowhere/batch.jsonl", pushed(phone, tmp_path, b"no batch")):
        with pytest.raises(RunnerError) as caught:
            runtime.parse_batch(phone.run(runtime.batch_command(file, 60.0), 1000).stdout, hashes)
        assert caught.value.kind == "bad_batch"


def test_the_items_of_a_batch_share_one_process(tmp_path: Path) -> None:
    phone, runtime = FaultyDevice(tmp_path, "holdout_big_little"), TorchScript()
    request = replace(REQUEST, model=pushed(phone, tmp_path), warmup_seconds=0.0, min_seconds=0.0)
    (tmp_path / "batch.jsonl").write_bytes(runtime.batch_file([request] * 6))
    file = phone.push(tmp_path / "batch.jsonl", "batch.jsonl")
    digest = hashlib.sha256(b"a model").hexdigest()
    began_s, taken_s = phone.now_s(), 0.0
    spreads, firsts = [], []
    for _ in range(20):
        outcomes = runtime.parse_batch(phone.run(runtime.batch_command(file, 60.0), 1000).stdout, [digest] * 6)
        reports = [report for report in outcomes if isinstance(report, RunReport)]
        parts = [
            (*report.samples_ns, *report.warmup_ns, report.first_inference_ns, report.load_ns) for report in reports
        ]
        taken_s += sum(map(sum, parts)) / 1e9
        medians = [median_ms(report) for report in reports]
        spreads.append(max(medians) / min(medians))
        firsts.append(medians[0])
    kind = PHONES["holdout_big_little"]
    assert max(firsts) / min(firsts) > 0.9 * kind.little_slower, "some processes were on the little cores"
    assert max(spreads) < 0.9 * kind.little_slower, "with all of their items"
    assert phone.now_s() - began_s == pytest.approx(taken_s + 20 * kind.start_s, rel=1e-6), "each started once"


def test_it_says_plainly_that_it_is_simulated(tmp_path: Path) -> None:
    facts = FaultyDevice(tmp_path, "hot").facts()
    assert (facts.device_id, facts.name) == ("fake-hot", "fake:hot")
    assert facts.device_class == "EdgeSweep simulated phone hot (simulated)"
    assert facts.exec_context == "simulated"
    assert facts.fingerprint != FaultyDevice(tmp_path, "cool").facts().fingerprint
    # The phone's int8 is that of the CPU that evaluates it.
    host = local_facts()
    assert (facts.abi, facts.cpu_features, facts.qengines) == (host.abi, host.cpu_features, host.qengines)


def test_minutes_on_the_phone_are_moments_here(tmp_path: Path) -> None:
    phone = FaultyDevice(tmp_path, "hot")
    request = replace(REQUEST, model=pushed(phone, tmp_path), min_seconds=100.0, max_seconds=200.0)
    began, started_s = time.monotonic(), phone.now_s()
    run(phone, request)
    phone.rest(3600)
    assert phone.now_s() - started_s > 3700
    assert time.monotonic() - began < 30


def test_the_same_story_is_told_twice_and_another_seed_tells_another(tmp_path: Path) -> None:
    def story(seed: int) -> RunReport:
        phone = FaultyDevice(tmp_path, "noisy", seed=seed)
        return run(phone, replace(REQUEST, model=pushed(phone, tmp_path)))

    assert story(1) == story(1)
    assert story(1) != story(2)


def test_the_artifact_s_bytes_decide_its_latency(tmp_path: Path) -> None:
    phone = FaultyDevice(tmp_path, "cool")

    def latency_ms(content: bytes) -> float:
        return median_ms(run(phone, replace(REQUEST, model=pushed(phone, tmp_path, content))))

    first, second = latency_ms(b"model 0"), latency_ms(b"model 0")
    assert second == pytest.approx(first, rel=0.03)
    many = [latency_ms(b"model %d" % number) for number in range(40)]
    assert 6 < float(np.median(many)) < 16
    assert 0.2 < float(np.std(np.log(many))) < 0.6


def test_a_table_says_what_the_true_latency_is(tmp_path: Path) -> None:
    true_ms = {hashlib.sha256(b"slow").hexdigest(): 60.0}
    phone = FaultyDevice(tmp_path, "steady", true_ms=true_ms)
    request = replace(REQUEST, model=pushed(phone, tmp_path, b"slow"))
    assert median_ms(run(phone, request)) == pytest.approx(60.0, rel=0.03)
    assert median_ms(run(phone, replace(request, threads=4))) == pytest.approx(60.0 / 4**0.7, rel=0.03)
    # More threads than cores gain nothing.
    assert median_ms(run(phone, replace(request, threads=64))) == pytest.approx(60.0 / 8**0.7, rel=0.03)


def test_work_heats_the_phone_until_it_throttles_and_rest_cools_it(tmp_path: Path) -> None:
    phone = FaultyDevice(tmp_path, "hot")
    request = replace(REQUEST, model=pushed(phone, tmp_path))
    cool = phone.sensors()
    fast = median_ms(run(phone, request))
    run(phone, replace(request, min_seconds=300.0, max_seconds=300.0))
    hot = phone.sensors()
    slow = median_ms(run(phone, request))
    assert (cool.temp_c, cool.thermal_status) == (25.0, 0)
    assert (hot.temp_c or 0) > 39
    assert (hot.thermal_status or 0) > 0
    assert slow > 1.3 * fast
    assert (hot.battery_percent or 100) < (cool.battery_percent or 0)
    phone.rest(3600)
    assert phone.sensors().temp_c == pytest.approx(25.0, abs=0.1)


def test_an_evaluation_answers_for_real_and_takes_the_phone_s_time(tmp_path: Path) -> None:
    inputs = tiny_inputs()
    store = ArtifactStore(tmp_path / "artifacts")
    gallery.build(store.root, "a" * 64, Variant(), inputs)
    manifest = store.look("a" * 64)
    assert manifest is not None
    phone = FaultyDevice(tmp_path, "hot")
    images = tmp_path / "images"
    images.write_bytes(np.ascontiguousarray(inputs.verification, dtype="<f4").tobytes())
    model, data = phone.push(store.model(manifest), "model.pt"), phone.push(images, "images")
    request = replace(
        REQUEST,
        model=model,
        input_shape=manifest.input.shape,
        # CPUs that this host may not have.
        cpus="6,7",
        eval_inputs=data,
        eval_outputs=str(Path(data).with_name("logits")),
    )
    started_s, temp_c = phone.now_s(), phone.sensors().temp_c or 0
    report = run(phone, request)
    phone.pull(str(request.eval_outputs), tmp_path / "logits", 2**20)
    logits = np.fromfile(tmp_path / "logits", dtype="<f4").reshape(report.eval_images or 0, report.eval_classes or 0)
    np.testing.assert_allclose(logits, inputs.verification_logits, atol=1e-4)
    assert phone.now_s() - started_s > 0.25
    assert (phone.sensors().temp_c or 0) > temp_c


def test_a_block_that_takes_too_long_is_ended(tmp_path: Path) -> None:
    phone = FaultyDevice(tmp_path, "cool")
    with pytest.raises(DeviceError, match="longer than 1 s") as caught:
        run(phone, replace(REQUEST, model=pushed(phone, tmp_path)), 1.0)
    assert caught.value.kind == "timeout"


@pytest.mark.parametrize(
    ("wrong", "kind"),
    [
        ({"model": "/no/such/file"}, "no_model"),
        ({"cpus": "7,8"}, "bad_cpus"),
        ({"cpus": "big"}, "bad_cpus"),
        ({"threads": 0}, "bad_arguments"),
        ({"input_shape": (0,)}, "bad_arguments"),
        ({"backend": "nnapi"}, "backend_missing"),
    ],
)
def test_what_a_runner_would_refuse_is_refused(tmp_path: Path, wrong: dict[str, object], kind: str) -> None:
    phone = FaultyDevice(tmp_path, "cool")
    request = replace(REQUEST, model=pushed(phone, tmp_path))
    completed = phone.run(TorchScript().command(replace(request, **wrong)), 1000)
    assert completed.exit_code == fake_runner.ERROR_EXIT
    with pytest.raises(RunnerError) as caught:
        TorchScript().parse(completed.stdout)
    assert caught.value.kind == kind


@pytest.mark.parametrize("times", ["nan", "zero", "negative"])
def test_times_that_cannot_be_are_refused_by_the_runtime(tmp_path: Path, times: str) -> None:
    phone = FaultyDevice(tmp_path, "cool", faults=Faults(times=times))
    with pytest.raises(RunnerError) as caught:
        run(phone, replace(REQUEST, model=pushed(phone, tmp_path)))
    assert caught.value.kind == "garbled"


def test_a_phone_that_goes_away_ends_what_runs_and_comes_back(tmp_path: Path) -> None:
    phone = FaultyDevice(tmp_path, "cool", faults=Faults(gone_from_s=1, gone_until_s=100))
    model = pushed(phone, tmp_path)
    for call in (
        lambda: run(phone, replace(REQUEST, model=model)),
        phone.sensors,
        phone.facts,
        lambda: phone.push(tmp_path / "source", "other"),
        lambda: phone.pull(model, tmp_path / "back", 2**30),
        lambda: phone.set_fixed_performance(False),
    ):
        with pytest.raises(DeviceError) as caught:
            call()
        assert caught.value.kind == "offline"
    phone.rest(100)
    assert run(phone, replace(REQUEST, model=model)).samples_ns


def test_a_phone_that_goes_away_during_a_push_holds_no_half_file(tmp_path: Path) -> None:
    phone = FaultyDevice(tmp_path, "cool", faults=Faults(gone_from_s=0.01, gone_until_s=100))
    with pytest.raises(DeviceError):
        pushed(phone, tmp_path, bytes(10**6))
    assert list(tmp_path.rglob("*.pt*")) == []


def test_a_phone_that_hangs_takes_its_deadline_and_no_longer(tmp_path: Path) -> None:
    phone = FaultyDevice(tmp_path, "cool", faults=Faults(hangs_from_s=1))
    model = pushed(phone, tmp_path)
    phone.rest(1)
    started_s = phone.now_s()
    with pytest.raises(DeviceError) as caught:
        run(phone, replace(REQUEST, model=model), 50)
    assert caught.value.kind == "timeout"
    assert phone.now_s() - started_s == pytest.approx(50)
    with pytest.raises(DeviceError):
        phone.sensors()


def test_the_other_faults_show(tmp_path: Path) -> None:
    hot = FaultyDevice(tmp_path, "hot", faults=Faults(never_cools=True))
    hot.rest(10_000)
    assert hot.sensors().temp_c == 45.0
    blind = FaultyDevice(tmp_path, "cool", faults=Faults(unreadable_battery=True)).sensors()
    assert (blind.has_battery, blind.battery_percent) == (True, None)
    mad = FaultyDevice(tmp_path, "cool", faults=Faults(clock_jumps_back_s=1000))
    before_s = mad.now_s()
    run(mad, replace(REQUEST, model=pushed(mad, tmp_path)))
    assert mad.now_s() < before_s
    slowed = FaultyDevice(tmp_path, "cool", faults=Faults(daemon=True))
    samples = np.array(run(slowed, replace(REQUEST, model=pushed(slowed, tmp_path), min_seconds=60.0)).samples_ns)
    share = float((samples > 1.5 * samples.min()).mean())
    assert 0.05 < share < 0.7


def test_a_phone_that_is_not_known_is_named_with_its_neighbour(tmp_path: Path) -> None:
    with pytest.raises(DeviceError, match="did you mean 'steady'") as caught:
        registry.connect("fake:stedy", tmp_path)
    assert caught.value.kind == "unknown_device"
    assert "fake:hot" in caught.value.next_step


@pytest.mark.parametrize("name", ["", "loca", "fake", "local:1", "tag:1", ":", "LOCAL", "fake:", "../local"])
def test_a_device_that_there_is_none_of_is_refused(tmp_path: Path, name: str) -> None:
    with pytest.raises(DeviceError) as caught:
        registry.connect(name, tmp_path)
    assert caught.value.kind == "unknown_device"
    assert list(tmp_path.iterdir()) == []
