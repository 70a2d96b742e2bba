"""A limit is named that what a device lacked would keep."""

from dataclasses import replace

import pytest

from sweeps.protocol.not_ready import figures_text, looser_gate, worst
from sweeps.protocol.presets import DEFAULT_GATE
from sweeps.spec.protocol import GateSpec
from workers.devices.interface import Sensors
from workers.measure.readiness import judge

WARM = Sensors(temp_c=41.2, temp_is_battery=True, thermal_status=2, has_battery=True, battery_percent=12.0)


@pytest.mark.parametrize(
    "sensors",
    [
        WARM,
        replace(WARM, temp_c=37.01, thermal_status=0, battery_percent=29.4),
        replace(WARM, battery_percent=0.2),
        Sensors(temp_c=88.0, temp_is_battery=False),
    ],
)
def test_the_named_limits_are_fields_of_a_sweep_file_and_let_the_same_device_pass(sensors):
    lacking = judge(sensors, DEFAULT_GATE).lacking
    limits = looser_gate([figures_text(lacking)])
    assert limits is not None
    assert len(limits) == len(lacking)
    assert judge(sensors, replace(DEFAULT_GATE, **GateSpec(**limits).model_dump(exclude_none=True))).ready


@pytest.mark.parametrize(
    "sensors",
    [
        replace(WARM, competing=("benchmark_model (process 7)",)),
        replace(WARM, battery_percent=None),
        replace(WARM, temp_c=70.0),
        Sensors(temp_c=float("nan")),
    ],
)
def test_where_no_limit_of_a_sweep_file_would_do_none_is_named(sensors):
    assert looser_gate([figures_text(judge(sensors, DEFAULT_GATE).lacking)]) is None


@pytest.mark.parametrize(
    "row", ["", "{", "7", "[7]", '[["max_cpu_temp_c", "hot"]]', '[["max_cpu_temp_c", NaN]]', '[["max_load", 1.0]]']
)
def test_a_row_that_tells_no_limit_has_none(row):
    assert looser_gate([row]) is None


def test_of_many_blocks_the_farthest_figure_of_each_condition_is_told():
    cooling = [replace(WARM, temp_c=temp_c, battery_percent=percent) for temp_c, percent in ((39.0, 20), (44.5, 9))]
    lacking = [lack for sensors in cooling for lack in judge(sensors, DEFAULT_GATE).lacking]
    assert tuple(lack.text for lack in worst(lacking)) == (
        "battery at 44.5 °C, above 37 °C",
        "thermal status 2, above 0",
        "battery at 9 %, below 30 %",
    )
    assert worst(reversed(lacking)) == tuple(reversed(worst(lacking)))
    rows = [figures_text(judge(sensors, DEFAULT_GATE).lacking) for sensors in cooling]
    assert looser_gate(rows) == looser_gate([figures_text(worst(lacking))])
