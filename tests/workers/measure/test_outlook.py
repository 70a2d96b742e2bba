"""A plan says before anything runs how good this computer's measurements can be."""

from dataclasses import replace

import pytest

from sweeps.protocol.presets import PRESETS
from workers.devices.interface import Sensors
from workers.measure.outlook import outlook

QUIET = Sensors(temp_c=50.0, has_battery=True, battery_percent=80.0, load=0.01, shared=True)
BUSY = (
    "this computer is busy: other programs take 45% of the CPU time, more than 15%. Each block waits up to "
    "10 s for that to end. Once 10 s were in vain no block waits any more: those that start while it is busy are "
    "marked busy_host, which may win; their intervals will be wider"
)
HOT = (
    "this computer is not ready: CPU at 80.0 °C, above 70 °C; battery at 20 %, below 30 %. Blocks will wait up to "
    "60 s, and if that is in vain, they are marked gate_timeout, which may not win; the limits are under "
    "protocol: gate:"
)


@pytest.mark.parametrize(
    ("sensors", "lines"),
    [
        (QUIET, []),
        (replace(QUIET, load=0.45), [BUSY]),
        (replace(QUIET, temp_c=80.0, battery_percent=20.0), [HOT]),
        (replace(QUIET, load=0.45, temp_c=80.0, battery_percent=20.0), [BUSY, HOT]),
    ],
)
def test_each_kind_of_condition_that_is_not_met_has_a_line_with_what_follows(
    sensors: Sensors, lines: list[str]
) -> None:
    assert list(outlook(sensors, PRESETS["quick"])) == lines


def test_another_sweep_is_load() -> None:
    (line,) = outlook(replace(QUIET, competing=("a runner of EdgeSweep (process 7)",)), PRESETS["full"])
    assert line.startswith("this computer is busy: another benchmark runs on the device: a runner of EdgeSweep")


def test_another_sweep_is_told_of_also_while_it_only_builds() -> None:
    (line,) = outlook(QUIET, PRESETS["quick"], ("edgesweep run (process 7)",))
    assert line.startswith("this computer runs another sweep: edgesweep run (process 7). ")


def test_where_jobs_would_fail_it_says_so_and_without_a_gate_nothing_waits() -> None:
    (line,) = outlook(replace(QUIET, temp_c=80.0), replace(PRESETS["quick"], on_not_ready="fail"))
    assert "they fail (not_ready)" in line
    assert list(outlook(replace(QUIET, temp_c=80.0, load=1.0), PRESETS["recipe"])) == []
