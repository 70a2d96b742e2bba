"""A device is waited for within a run's limits, on simulated phones with a virtual clock: nothing here sleeps."""

from dataclasses import replace
from pathlib import Path

import pytest

from sweeps.protocol.presets import DEFAULT_GATE, PRESETS, Protocol
from sweeps.records import Failed
from tests.faulty_device import Faults, FaultyDevice
from workers.devices.interface import Sensors
from workers.measure.readiness import Readiness, await_ready
from workers.measure.waiting import LOOK_S, WaitLimits, wait_until_ready


def protocol(wait: float = 300.0, load_wait: float = 60.0, **changes: object) -> Protocol:
    gate = replace(DEFAULT_GATE, wait_seconds=wait, load_wait_seconds=load_wait)
    return replace(PRESETS["full"], gate=gate, **changes)


def phone(folder: Path, **faults: object) -> FaultyDevice:
    return FaultyDevice(folder, "cool", faults=Faults(**faults))


def waited_for(device: FaultyDevice, limits: WaitLimits, rules: Protocol) -> Readiness | Failed:
    """Before one block."""
    assert rules.gate is not None
    gate = rules.gate

    def look(seconds: float) -> Readiness:
        assert 0.0 <= seconds <= LOOK_S
        return await_ready(device, gate, seconds)

    return wait_until_ready(look, limits)


def seconds_before_each_block(device: FaultyDevice, rules: Protocol, blocks: int) -> list[float]:
    limits = WaitLimits(rules)
    waits_s = []
    for _ in range(blocks):
        before_s = device.now_s()
        waited_for(device, limits, rules)
        waits_s.append(device.now_s() - before_s)
    return waits_s


def busy(_: float, sensors: Sensors) -> Sensors:
    return replace(sensors, load=0.9)


def test_a_device_that_is_ready_is_not_waited_for(tmp_path: Path) -> None:
    assert seconds_before_each_block(phone(tmp_path), protocol(), 3) == [0.0, 0.0, 0.0]


def test_a_device_that_never_cools_is_waited_for_once(tmp_path: Path) -> None:
    device = phone(tmp_path, never_cools=True)
    assert seconds_before_each_block(device, protocol(), 4) == pytest.approx([300.0, 0.0, 0.0, 0.0], abs=0.1)


def test_a_device_that_was_ready_once_again_is_waited_for_anew(tmp_path: Path) -> None:
    def hot_but_for_a_while(now_s: float, sensors: Sensors) -> Sensors:
        return sensors if 300 <= now_s < 350 else replace(sensors, temp_c=50.0)

    rules = protocol(wait=200.0)
    device, limits = phone(tmp_path, sensors=hot_but_for_a_while), WaitLimits(rules)
    for block, (rest_s, expected_s) in enumerate([(0, 200), (0, 0), (120, 0), (50, 200), (0, 0)]):
        device.rest(rest_s)
        before_s = device.now_s()
        waited_for(device, limits, rules)
        assert device.now_s() - before_s == pytest.approx(expected_s, abs=0.1), block


def test_a_first_and_a_later_wait_in_vain_are_told_apart_where_the_job_fails(tmp_path: Path) -> None:
    rules = protocol(on_not_ready="fail")
    device, limits = phone(tmp_path, never_cools=True), WaitLimits(rules)
    first, second = (waited_for(device, limits, rules) for _ in range(2))
    assert isinstance(first, Failed)
    assert isinstance(second, Failed)
    assert (first.stage, first.kind) == ("run", "not_ready")
    assert first.message.startswith("not ready after 300 s: battery at 45.0 °C, above 37 °C")
    assert "earlier block" not in first.message
    assert second.message.startswith("not ready after 0 s: ")
    assert second.message.endswith("; an earlier block waited in vain, so this one did not wait")


def test_what_is_only_marked_keeps_the_whole_wait_with_its_last_look(tmp_path: Path) -> None:
    rules = protocol(on_not_ready="mark")
    readiness = waited_for(phone(tmp_path, never_cools=True), WaitLimits(rules), rules)
    assert isinstance(readiness, Readiness)
    assert not readiness.ready
    assert readiness.waited_seconds == pytest.approx(300.0, abs=0.1)


@pytest.mark.parametrize("on_not_ready", ["mark", "fail"])
def test_other_programs_are_waited_for_once_in_the_whole_run_and_fail_no_job(tmp_path: Path, on_not_ready: str) -> None:
    rules = protocol(on_not_ready=on_not_ready)
    device, limits = phone(tmp_path, sensors=busy), WaitLimits(rules)
    looks = [waited_for(device, limits, rules) for _ in range(3)]
    assert all(isinstance(look, Readiness) and look.busy_only for look in looks)
    assert device.now_s() == pytest.approx(60.0, abs=1.0)


def test_the_wait_for_other_programs_is_what_earlier_blocks_left(tmp_path: Path) -> None:
    def busy_twice(now_s: float, sensors: Sensors) -> Sensors:
        return busy(now_s, sensors) if now_s < 25 or now_s >= 100 else sensors

    rules = protocol()
    device, limits = phone(tmp_path, sensors=busy_twice), WaitLimits(rules)
    first = waited_for(device, limits, rules)
    assert isinstance(first, Readiness)
    assert first.ready
    device.rest(100.0)
    second = waited_for(device, limits, rules)
    assert isinstance(second, Readiness)
    assert second.busy_only
    # The look that finds a device ready is not taken off.
    assert 60.0 <= first.waited_seconds + second.waited_seconds <= 60.0 + LOOK_S
    assert first.waited_seconds > 20.0


def test_other_programs_are_never_waited_for_longer_than_the_device_is(tmp_path: Path) -> None:
    device = phone(tmp_path, sensors=busy)
    assert sum(seconds_before_each_block(device, protocol(wait=15.0, load_wait=60.0), 3)) == pytest.approx(15, abs=1.0)


def test_heat_and_then_other_programs_are_one_wait(tmp_path: Path) -> None:
    def hot_then_busy(now_s: float, sensors: Sensors) -> Sensors:
        return replace(sensors, temp_c=50.0) if now_s < 280 else busy(now_s, sensors)

    rules = protocol()
    readiness = waited_for(phone(tmp_path, sensors=hot_then_busy), WaitLimits(rules), rules)
    assert isinstance(readiness, Readiness)
    assert readiness.busy_only
    assert readiness.waited_seconds == pytest.approx(300.0, abs=0.1)


def test_without_a_gate_nothing_is_waited_for() -> None:
    limits = WaitLimits(replace(PRESETS["full"], gate=None))
    readiness = Readiness(sensors=Sensors(temp_c=90.0), lacking=(), busy_only=False)
    assert limits.next_wait_s(readiness, 0.0) == 0.0
    assert limits.ended(readiness) is readiness
