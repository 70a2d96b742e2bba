"""Devices of one host, side by side."""

import sys
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from sweeps.records import Failed
from sweeps.spec import catalog
from sweeps.variant import Variant
from tests import gallery
from tests.workers.tiny_model import tiny_inputs, tiny_job
from workers.devices.fake.device import FakeDevice
from workers.devices.interface import Rung, Sensors
from workers.devices.local import LocalDevice
from workers.driver.scheduler import Call, Task, run_tasks
from workers.executors.lane import Lane
from workers.measure.attach import Attached, attach
from workers.measure.device_files import Evaluation
from workers.measure.evaluation_request import Evaluated, LogitsRequest
from workers.measure.recovery_request import RecoverRequest, Taken
from workers.measure.timed_block import ReadyRequest

KEY = "a" * 64


def test_two_devices_that_evaluate_one_artifact_at_once_each_have_their_own_answers(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    both_have_pulled = threading.Barrier(2, timeout=60)
    pull = LocalDevice.pull

    def pull_and_wait(self: LocalDevice, path: str, target: Path, most_bytes: int) -> None:
        pull(self, path, target, most_bytes)
        both_have_pulled.wait()

    monkeypatch.setattr(LocalDevice, "pull", pull_and_wait)
    inputs = tiny_inputs()
    gallery.build(tmp_path / "artifacts", KEY, Variant(), inputs)
    facts = [attach(f"fake:{name}", tmp_path).facts for name in ("steady", "cool")]
    lanes = [Lane(device, tmp_path) for device in facts]
    job = tiny_job(KEY, key="b" * 64, device_id=facts[0].device_id)
    # The same set of images by name: only the order tells whose answers they are.
    orders = [np.arange(8), np.arange(8)[::-1]]

    def answers(place: int) -> list[Evaluated | Failed]:
        evaluation = Evaluation(evaluation_id="same", images=inputs.verification[orders[place]])
        return [lanes[place].ask(LogitsRequest(job, evaluation)) for _ in range(2)]

    with ThreadPoolExecutor(2) as pool:
        answers_of_lanes = list(pool.map(answers, range(2)))
    for order, several in zip(orders, answers_of_lanes, strict=True):
        for answer in several:
            assert not isinstance(answer, Failed), answer
            np.testing.assert_allclose(answer.logits, inputs.verification_logits[order], atol=1e-4)


def test_a_device_that_is_not_the_planned_one_is_not_measured(tmp_path: Path) -> None:
    planned = attach("fake:steady", tmp_path).facts
    lane = Lane(attach("fake:cool", tmp_path).facts, tmp_path)
    other = Lane(replace(planned, os_build="another"), tmp_path)
    job = tiny_job(KEY, key="c" * 64, device_id=planned.device_id)
    refused = other.ask(ReadyRequest(job, None, 0.0))
    assert isinstance(refused, Failed)
    assert refused.kind == "another_device"
    assert "os_build" in refused.message
    answer = lane.ask(ReadyRequest(job, None, 0.0))
    assert isinstance(answer, Failed)
    assert answer.kind == "no_artifact"


STEPS: list[tuple[str, Rung]] = []


def climb(name: str, rung: Rung) -> None:
    """A module that brings devices back has such a function."""
    STEPS.append((name, rung))


def test_a_device_that_cannot_be_attached_is_brought_back_all_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    facts = replace(attach("fake:steady", tmp_path).facts, name="fake:gone")
    job = tiny_job(KEY, key="c" * 64, device_id=facts.device_id)
    refused = Lane(facts, tmp_path).ask(RecoverRequest(job, "reconnect"))
    assert isinstance(refused, Failed)
    assert "can only be waited for" in refused.message
    monkeypatch.setitem(catalog.devices(), "fake", replace(catalog.devices()["fake"], recovery=__name__))
    STEPS.clear()
    assert Lane(facts, tmp_path).ask(RecoverRequest(job, "reconnect")) == Taken("reconnect")
    assert STEPS == [("fake:gone", "reconnect")]


def test_a_device_is_let_go_before_a_step_after_which_nothing_on_it_is_as_before(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(catalog.devices(), "fake", replace(catalog.devices()["fake"], recovery=__name__))
    steps: list[str] = []
    monkeypatch.setattr(FakeDevice, "release", lambda _: steps.append("let go"))
    monkeypatch.setattr(f"{__name__}.climb", lambda _, rung: steps.append(rung))
    facts = attach("fake:steady", tmp_path).facts
    job = tiny_job(KEY, key="c" * 64, device_id=facts.device_id)
    gallery.build(tmp_path / "artifacts", KEY, Variant(), tiny_inputs())
    lane = Lane(facts, tmp_path)
    steps.clear()
    assert not isinstance(lane.ask(ReadyRequest(job, None, 0.0)), Failed)
    for rung in ("reconnect", "ask", "restart_adb", "reboot"):
        assert lane.ask(RecoverRequest(job, rung)) == Taken(rung)
    assert steps == ["reconnect", "ask", "let go", "restart_adb", "reboot"]
    assert not isinstance(lane.ask(ReadyRequest(job, None, 0.0)), Failed), "it is attached anew"
    lane.close()


def test_a_device_that_cannot_be_attached_is_left_alone_for_as_long_as_was_asked(tmp_path: Path) -> None:
    lane = Lane(replace(attach("fake:steady", tmp_path).facts, name="fake:gone"), tmp_path)
    began = time.monotonic()
    lane.rest(0.3)
    assert time.monotonic() - began >= 0.3


def test_a_phone_whose_nonsense_nobody_expected_fails_its_own_job(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    gallery.build(tmp_path / "artifacts", KEY, Variant(), tiny_inputs())
    facts = attach("fake:steady", tmp_path).facts
    lane = Lane(facts, tmp_path)
    job = tiny_job(KEY, key="d" * 64, device_id=facts.device_id)

    def nonsense(*_: object, **__: object) -> Sensors:
        raise ValueError("\ninvalid literal for int(): 'forty'\nmore")

    with monkeypatch.context() as patch:
        patch.setattr(FakeDevice, "sensors", nonsense)
        failed = lane.ask(ReadyRequest(job, None, 0.0))
    assert failed == Failed(stage="run", kind="worker_error", message="ValueError: invalid literal for int(): 'forty'")
    assert not isinstance(lane.ask(ReadyRequest(job, None, 0.0)), Failed), "it is as usable as before"


def test_a_phone_that_cannot_be_attached_for_an_unexpected_reason_fails_its_own_job(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    facts = attach("fake:steady", tmp_path).facts

    def nonsense(*_: object) -> Attached:
        raise KeyError("ro.product.model")

    monkeypatch.setattr("workers.executors.lane.attach", nonsense)
    failed = Lane(facts, tmp_path).ask(ReadyRequest(tiny_job(KEY, key="e" * 64, device_id=facts.device_id), None, 0.0))
    assert isinstance(failed, Failed)
    assert (failed.stage, failed.kind) == ("run", "worker_error")


def test_a_phone_that_this_host_has_no_room_for_is_let_go(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    facts = attach("fake:steady", tmp_path).facts
    (tmp_path / "lanes").write_text("in the way")
    released: list[str] = []
    monkeypatch.setattr(FakeDevice, "release", lambda self: released.append(self.facts().name))
    failed = Lane(facts, tmp_path).ask(ReadyRequest(tiny_job(KEY, key="f" * 64, device_id=facts.device_id), None, 0.0))
    assert isinstance(failed, Failed)
    assert failed.kind == "os_error"
    assert released == ["fake:steady"]


@pytest.mark.parametrize("count", [1, 2])
@pytest.mark.parametrize("end", [lambda: sys.exit(7), lambda: threading.main_thread().no_such_name])
def test_what_ends_a_device_s_thread_is_thrown_where_it_was_asked_for(count: int, end: Callable[[], object]) -> None:
    thrown: list[BaseException] = []

    def asking(call: Callable[[], object]) -> Task[None]:
        try:
            yield Call(call)
        except BaseException as error:
            thrown.append(error)
            raise

    runs = [asking(end), *(asking(lambda: None) for _ in range(count - 1))]
    ended: list[BaseException] = []

    def drive() -> None:
        try:
            list(run_tasks(runs))
        except BaseException as error:  # noqa: BLE001  # looked at below
            ended.append(error)

    driver = threading.Thread(target=drive, daemon=True)
    driver.start()
    driver.join(10)
    assert not driver.is_alive()
    assert ended == thrown
    assert isinstance(ended[0], SystemExit | AttributeError)
