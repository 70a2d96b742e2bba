"""A bench on the local device, with real artifacts; and on devices that fail in their own ways."""

import errno
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from sweeps.errors import DeviceError
from sweeps.protocol.presets import Gate, resolve
from sweeps.records import Block, Failed
from sweeps.spec.protocol import ProtocolSpec
from sweeps.variant import Variant
from tests import gallery
from tests.workers.tiny_model import tiny_inputs, tiny_job
from workers.artifacts import ArtifactStore
from workers.devices.fake.device import FakeDevice
from workers.devices.fake.phones import PHONES
from workers.devices.interface import Completed, Sensors
from workers.devices.local import LocalDevice
from workers.measure.device_files import Evaluation
from workers.measure.device_runner import DeviceRunner
from workers.measure.evaluation_request import Evaluated, LogitsRequest
from workers.measure.readiness import Readiness
from workers.measure.timed_block import BlockRequest, ReadyRequest
from workers.models.package import BuildInputs
from workers.runtimes.interface import Program

KEY = "a" * 64
READY = Readiness(sensors=Sensors(), lacking=(), busy_only=False)
GATE = Gate(
    max_battery_temp_c=90.0,
    max_cpu_temp_c=90.0,
    max_thermal_status=6,
    min_battery_percent=0.0,
    max_load=1.0,
    wait_seconds=60.0,
    load_wait_seconds=60.0,
)
QUICK = resolve(ProtocolSpec(preset="quick", warmup_seconds=0.5, min_seconds=0.02, max_seconds=7, iterations=3))


class CountingDevice(LocalDevice):
    """The local device; remembers what was pushed and with which deadlines programs ran."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self.pushed: list[str] = []
        self.deadlines: list[float] = []

    def push(self, source: Path, name: str, *, sha256: str | None = None) -> str:
        self.pushed.append(name)
        return super().push(source, name, sha256=sha256)

    def run(self, argv: Sequence[str], deadline_s: float) -> Completed:
        self.deadlines.append(deadline_s)
        return super().run(argv, deadline_s)


class FullDevice(LocalDevice):
    """A device without room, whose adapter lets the system's error through."""

    def push(self, source: Path, name: str, *, sha256: str | None = None) -> str:
        raise OSError(errno.ENOSPC, "No space left on device")


@pytest.fixture
def inputs(tmp_path: Path) -> BuildInputs:
    inputs = tiny_inputs()
    gallery.build(tmp_path / "artifacts", KEY, Variant(), inputs)
    return inputs


def test_evaluation_images_are_pushed_once_per_shape_and_removed_at_the_end(
    tmp_path: Path, inputs: BuildInputs
) -> None:
    device = CountingDevice(tmp_path)
    bench = DeviceRunner(device, tmp_path)
    for images in (inputs.verification, inputs.verification, inputs.verification[:4]):
        answer = bench.ask(LogitsRequest(tiny_job(KEY), Evaluation(evaluation_id="test", images=images)))
        assert not isinstance(answer, Failed), answer
        np.testing.assert_allclose(answer.logits, inputs.verification_logits[: len(images)], atol=1e-4)
    assert len([name for name in device.pushed if name.startswith("images-")]) == 2
    assert len(list((tmp_path / "run").glob("images-*"))) == 2
    bench.close()
    bench.close()
    assert [path.suffix for path in (tmp_path / "run").iterdir()] == [".pt"]
    assert not list(tmp_path.glob("*.bin"))


def test_a_push_counts_with_the_first_record_that_needed_it(tmp_path: Path, inputs: BuildInputs) -> None:
    """On a phone with a clock of its own, which a push takes by its bytes."""
    device = FakeDevice(tmp_path, "cool")
    bench = DeviceRunner(device, tmp_path)
    job = tiny_job(KEY)
    ready = bench.ask(ReadyRequest(job, None, 0.0))
    assert isinstance(ready, Readiness), ready
    pushing_s = device.now_s()
    assert pushing_s > 0
    blocks = [bench.ask(BlockRequest(job, round_, QUICK, ready)) for round_ in range(2)]
    assert [block.push_seconds for block in blocks if isinstance(block, Block)] == [pytest.approx(pushing_s), 0.0]
    evaluation = Evaluation(evaluation_id="test", images=inputs.verification)
    images_s = inputs.verification.size * 4 / PHONES["cool"].push_bytes_per_s
    for push_seconds in (images_s, 0.0):
        began_s = device.now_s()
        answer = bench.ask(LogitsRequest(job, evaluation))
        assert isinstance(answer, Evaluated), answer
        assert answer.push_seconds == pytest.approx(push_seconds)
        assert answer.push_seconds + answer.device_seconds == pytest.approx(device.now_s() - began_s)
        assert answer.device_seconds > 0


def test_a_block_has_time_for_its_start_its_warm_up_and_its_longest_measurement(
    tmp_path: Path, inputs: BuildInputs
) -> None:
    device = CountingDevice(tmp_path)
    block = DeviceRunner(device, tmp_path).ask(BlockRequest(tiny_job(KEY), 0, QUICK, READY))
    assert not isinstance(block, Failed), block
    assert device.deadlines == [120 + 3 * 7 + 0.5]


def test_a_device_without_room_fails_the_job(tmp_path: Path, inputs: BuildInputs) -> None:
    bench = DeviceRunner(FullDevice(tmp_path), tmp_path)
    block = bench.ask(BlockRequest(tiny_job(KEY), 0, QUICK, READY))
    logits = bench.ask(LogitsRequest(tiny_job(KEY), Evaluation(evaluation_id="test", images=inputs.verification)))
    assert isinstance(block, Failed)
    assert isinstance(logits, Failed)
    assert [(failed.stage, failed.kind) for failed in (block, logits)] == [
        ("run", "no_space"),
        ("evaluate", "no_space"),
    ]


class ClockedPhone(FakeDevice):
    """Tells its clocks, which are those of its mode; does not let go of its mode as often as it is told to."""

    def __init__(self, folder: Path, keeps_mode: int = 0) -> None:
        super().__init__(folder, "steady")
        self.keeps_mode = keeps_mode

    def sensors(self, *, load: bool = True) -> Sensors:
        return replace(super().sensors(load=load), cpu_mhz=1200.0 if self.fixed_performance else 2400.0)

    def set_fixed_performance(self, on: bool) -> bool:
        if self.fixed_performance and not on and self.keeps_mode > 0:
            self.keeps_mode -= 1
            raise DeviceError("disconnected", "the cable is loose")
        return super().set_fixed_performance(on)


@pytest.mark.parametrize(("fixed", "mhz"), [(True, 1200.0), (False, 2400.0)])
def test_the_clocks_of_a_block_are_those_that_it_ran_at(
    tmp_path: Path, inputs: BuildInputs, fixed: bool, mhz: float
) -> None:
    bench = DeviceRunner(ClockedPhone(tmp_path), tmp_path)
    readiness = bench.ask(ReadyRequest(tiny_job(KEY), None, 0))
    assert not isinstance(readiness, Failed), readiness
    block = bench.ask(BlockRequest(tiny_job(KEY), 0, replace(QUICK, fixed_performance=fixed), readiness))
    assert not isinstance(block, Failed), block
    assert (block.conditions.cpu_mhz_start, block.conditions.cpu_mhz_end) == (mhz, mhz)


def test_the_mode_stays_on_between_blocks_of_a_round_but_not_while_the_device_rests(
    tmp_path: Path, inputs: BuildInputs
) -> None:
    phone = ClockedPhone(tmp_path)
    bench, job = DeviceRunner(phone, tmp_path), tiny_job(KEY)
    for _ in range(2):
        readiness = bench.ask(ReadyRequest(job, GATE, 60.0))
        assert isinstance(readiness, Readiness)
        block = bench.ask(BlockRequest(job, 0, QUICK, readiness))
        assert isinstance(block, Block), block
        assert (block.conditions.cpu_mhz_start, block.conditions.fixed_performance) == (1200.0, True)
        assert phone.fixed_performance
    cold = replace(GATE, max_battery_temp_c=-50.0, max_cpu_temp_c=-50.0)
    waited = bench.ask(ReadyRequest(job, cold, 1.0))
    assert isinstance(waited, Readiness)
    assert not waited.ready
    assert not phone.fixed_performance
    assert isinstance(bench.ask(BlockRequest(job, 0, QUICK, READY)), Block)
    assert phone.fixed_performance
    bench.ask(LogitsRequest(job, Evaluation(evaluation_id="test", images=inputs.verification)))
    assert not phone.fixed_performance


def test_a_mode_that_a_block_could_not_end_is_ended_with_the_bench(tmp_path: Path, inputs: BuildInputs) -> None:
    phone = ClockedPhone(tmp_path, keeps_mode=1)
    bench = DeviceRunner(phone, tmp_path)
    assert isinstance(bench.ask(BlockRequest(tiny_job(KEY), 0, QUICK, READY)), Block), "what was measured is kept"
    bench.end_mode()
    assert phone.fixed_performance
    bench.close()
    assert not phone.fixed_performance


def test_a_mode_that_another_workspace_left_on_is_ended_at_the_first_contact(
    tmp_path: Path, inputs: BuildInputs, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("EDGESWEEP_CACHE", str(tmp_path / "cache"))
    phone = ClockedPhone(tmp_path, keeps_mode=2)
    programs = {("torchscript", Variant().format): Program(path="runner")}
    store = ArtifactStore(tmp_path / "artifacts")
    first, second = (
        DeviceRunner(phone, tmp_path / name, phone.facts(), programs, store) for name in ("first", "second")
    )
    assert isinstance(first.ask(BlockRequest(tiny_job(KEY), 0, QUICK, READY)), Block)
    first.close()
    assert phone.fixed_performance
    readiness = second.ask(ReadyRequest(tiny_job(KEY), None, 0))
    assert not isinstance(readiness, Failed), readiness
    assert not phone.fixed_performance


def test_an_artifact_that_is_not_there_fails_the_job(tmp_path: Path) -> None:
    block = DeviceRunner(LocalDevice(tmp_path), tmp_path).ask(BlockRequest(tiny_job("b" * 64), 0, QUICK, READY))
    assert isinstance(block, Failed)
    assert block.kind == "no_artifact"


def test_looking_at_a_damaged_artifact_leaves_it_and_finding_it_removes_it(tmp_path: Path, inputs: BuildInputs) -> None:
    store = ArtifactStore(tmp_path / "artifacts")
    manifest = store.look(KEY)
    assert manifest is not None
    store.model(manifest).write_bytes(b"damaged")
    assert store.look(KEY) is None
    assert store.model(manifest).exists()
    assert store.find(KEY) is None
    assert not store.model(manifest).exists()
