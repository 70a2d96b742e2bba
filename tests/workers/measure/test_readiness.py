"""Gates, on simulated phones with a virtual clock: nothing here sleeps."""

import math
from dataclasses import replace
from pathlib import Path

import pytest

from sweeps.errors import DeviceError
from sweeps.protocol.presets import PRESETS, Gate
from sweeps.records import Conditions
from tests.faulty_device import Faults, FaultyDevice
from workers.devices.interface import Sensors
from workers.measure.readiness import POLL_SECONDS, await_ready, judge, started_hot

COOL = Sensors(temp_c=30.0, temp_is_battery=True, thermal_status=0, has_battery=True, battery_percent=80.0, load=0.01)


def gate() -> Gate:
    gate_spec = PRESETS["full"].gate
    assert gate_spec is not None
    return gate_spec


def heated(tmp_path: Path, faults: Faults | None = None) -> FaultyDevice:
    """A phone whose battery is far above 37 °C after minutes of work."""
    phone = FaultyDevice(tmp_path, "hot", faults=faults)
    source = tmp_path / "model"
    source.write_bytes(b"any model")
    model = phone.push(source, "model")
    runner = ["runner", "--model", model, "--input-dims", "1,3,8,8", "--min-seconds", "200", "--max-seconds", "300"]
    assert phone.run(runner, 1000).exit_code == 0
    return phone


def test_a_cool_charged_idle_device_is_ready_at_once(tmp_path: Path) -> None:
    readiness = await_ready(FaultyDevice(tmp_path, "cool"), gate(), 60)
    assert (readiness.ready, readiness.lacking, readiness.busy_only, readiness.waited_seconds) == (True, (), False, 0.0)


def test_a_hot_device_is_waited_for_until_it_is_cool_and_no_longer(tmp_path: Path) -> None:
    phone = heated(tmp_path)
    assert (phone.sensors().temp_c or 0) > 45
    before_s = phone.now_s()
    readiness = await_ready(phone, gate(), gate().wait_seconds)
    assert readiness.ready
    assert 0 < readiness.waited_seconds < gate().wait_seconds
    assert readiness.waited_seconds == pytest.approx(phone.now_s() - before_s)
    # One look earlier it was still too warm.
    assert 36.0 < (readiness.sensors.temp_c or 0) <= 37.0


def test_a_device_that_never_cools_is_given_up_after_the_limit(tmp_path: Path) -> None:
    phone = FaultyDevice(tmp_path, "hot", faults=Faults(never_cools=True))
    readiness = await_ready(phone, gate(), 1200)
    assert not readiness.ready
    assert not readiness.busy_only
    assert readiness.waited_seconds == pytest.approx(1200)
    # Thermal throttling begins at 39 °C.
    assert readiness.words == ("battery at 45.0 °C, above 37 °C", "thermal status 3, above 0")


@pytest.mark.parametrize("seconds", [0.0, -5.0, 1e-9])
def test_without_time_to_wait_it_looks_once(tmp_path: Path, seconds: float) -> None:
    phone = heated(tmp_path)
    readiness = await_ready(phone, gate(), seconds)
    assert not readiness.ready
    assert readiness.waited_seconds == 0


def test_a_wait_ends_at_its_limit_although_the_clock_rounds(tmp_path: Path) -> None:
    phone = FaultyDevice(tmp_path, "hot", faults=Faults(never_cools=True))
    phone.rest(1e9 + 0.1)
    for seconds in (0.3, 1.7, 3 * POLL_SECONDS + 0.1):
        assert await_ready(phone, gate(), seconds).waited_seconds == pytest.approx(seconds, abs=0.01)


def test_a_limit_that_is_no_number_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="is not a number"):
        await_ready(FaultyDevice(tmp_path, "cool"), gate(), math.nan)


def test_no_sensor_lacks_nothing_but_is_not_known_to_be_cool() -> None:
    readiness = judge(Sensors(), gate())
    assert readiness.ready
    blind = Conditions(temp_start_c=readiness.sensors.temp_c, thermal_status_start=readiness.sensors.thermal_status)
    assert not blind.heat_known
    assert Conditions(thermal_status_start=0).heat_known


def test_a_battery_that_cannot_be_read_is_too_low(tmp_path: Path) -> None:
    phone = FaultyDevice(tmp_path, "cool", faults=Faults(unreadable_battery=True))
    readiness = await_ready(phone, gate(), 60)
    assert readiness.words == ("battery level cannot be read, 30 % is asked for",)
    assert judge(phone.sensors(), replace(gate(), min_battery_percent=0.0)).ready
    assert judge(Sensors(has_battery=False, battery_percent=None), gate()).ready


@pytest.mark.parametrize(
    ("sensors", "lacking"),
    [
        (replace(COOL, temp_c=37.0), None),
        (replace(COOL, temp_c=37.01), "battery at 37.0 °C"),
        (replace(COOL, temp_c=math.nan), "battery at nan °C"),
        (replace(COOL, temp_c=60.0, temp_is_battery=False), None),
        (replace(COOL, temp_c=99.0, temp_is_battery=False), "CPU at 99.0 °C"),
        (replace(COOL, thermal_status=1), "thermal status 1, above 0"),
        (replace(COOL, battery_percent=29.0), "battery at 29 %, below 30 %"),
        (replace(COOL, battery_percent=math.nan), "battery at nan %"),
        (
            replace(COOL, competing=("benchmark_model (process 7)",)),
            "another benchmark runs on the device: benchmark_m",
        ),
        (replace(COOL, load=0.9), "other programs take 90% of the CPU time"),
        (replace(COOL, load=math.nan), "other programs take nan%"),
    ],
)
def test_each_sensor_is_held_against_its_limit(sensors: Sensors, lacking: str | None) -> None:
    readiness = judge(sensors, gate())
    if lacking is None:
        assert readiness.ready
    else:
        assert len(readiness.lacking) == 1
        assert readiness.words[0].startswith(lacking)


def test_only_the_load_of_others_is_told_apart_from_heat() -> None:
    busy = judge(replace(COOL, load=0.5), gate())
    assert busy.busy_only
    assert not judge(replace(COOL, load=0.5, temp_c=50.0), gate()).busy_only
    assert not judge(replace(COOL, load=0.5, competing=("another",)), gate()).busy_only
    assert not judge(COOL, gate()).busy_only


def test_on_a_computer_people_work_on_a_benchmark_is_load_and_disqualifies_nothing() -> None:
    readiness = judge(replace(COOL, load=0.5, competing=("another",), shared=True), gate())
    assert readiness.busy_only
    assert len(readiness.lacking) == 2
    assert judge(replace(COOL, competing=("another",), shared=True), gate()).busy_only
    assert not judge(replace(COOL, competing=("another",), temp_c=50.0, shared=True), gate()).busy_only


def test_other_programs_are_waited_for(tmp_path: Path) -> None:
    def shown(now_s: float, sensors: Sensors) -> Sensors:
        return replace(sensors, load=0.6 if now_s < 42 else 0.02)

    phone = FaultyDevice(tmp_path, "cool", faults=Faults(sensors=shown))
    impatient = await_ready(phone, gate(), 10)
    assert (impatient.ready, impatient.busy_only) == (False, True)
    assert impatient.waited_seconds == pytest.approx(10)
    assert await_ready(phone, gate(), 60).ready
    assert 42 <= phone.now_s() <= 42 + POLL_SECONDS


def test_another_benchmark_is_waited_for(tmp_path: Path) -> None:
    def shown(now_s: float, sensors: Sensors) -> Sensors:
        return replace(sensors, competing=("executor_runner (process 7)",) if now_s < 42 else ())

    phone = FaultyDevice(tmp_path, "cool", faults=Faults(sensors=shown))
    assert await_ready(phone, gate(), 60).ready
    assert 42 <= phone.now_s() <= 42 + POLL_SECONDS


def test_a_temperature_that_is_gone_while_it_is_waited_for_is_not_cool(tmp_path: Path) -> None:
    def shown(now_s: float, sensors: Sensors) -> Sensors:
        return sensors if now_s < 220 else replace(sensors, temp_c=None, thermal_status=None)

    phone = heated(tmp_path, Faults(sensors=shown))
    assert phone.now_s() < 220
    first = phone.sensors()
    readiness = await_ready(phone, gate(), 60)
    lacking = ("the temperature cannot be read any more", "the thermal status cannot be read any more")
    assert readiness.words == lacking
    # The same where a long wait is cut into short ones.
    assert await_ready(phone, gate(), 10, first).words == lacking
    assert await_ready(phone, gate(), 10).ready


@pytest.mark.parametrize("temp_c", [30.0, 65.0])
def test_another_thermometer_does_not_stand_in_for_the_battery_s(temp_c: float) -> None:
    zones = replace(COOL, temp_c=temp_c, temp_is_battery=False)
    assert judge(zones, gate()).ready
    assert judge(zones, gate(), zones).ready
    assert judge(COOL, gate(), zones).ready
    assert judge(zones, gate(), COOL).words == ("the battery's temperature cannot be read any more",)


def test_a_battery_that_is_gone_is_too_low() -> None:
    without_battery = replace(COOL, has_battery=False, battery_percent=None)
    assert judge(without_battery, gate()).ready
    assert judge(without_battery, gate(), COOL).words == ("battery level cannot be read, 30 % is asked for",)


@pytest.mark.parametrize(
    ("faults", "kind"),
    [(Faults(never_cools=True, hangs_from_s=100), "timeout"), (Faults(never_cools=True, gone_from_s=100), "offline")],
)
def test_a_device_that_ends_to_answer_while_it_is_waited_for_is_an_error(
    tmp_path: Path, faults: Faults, kind: str
) -> None:
    phone = FaultyDevice(tmp_path, "hot", faults=faults)
    with pytest.raises(DeviceError) as caught:
        await_ready(phone, gate(), 1200)
    assert caught.value.kind == kind
    assert 100 <= phone.now_s() < 200


def test_a_block_that_waits_for_nothing_knows_whether_it_started_hot(tmp_path: Path) -> None:
    phone = heated(tmp_path)
    assert started_hot(phone.sensors(), gate())
    assert not started_hot(replace(COOL, load=1.0, battery_percent=1.0), gate())
    assert not started_hot(Sensors(), gate())
