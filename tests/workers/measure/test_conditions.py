"""The state of a device around a block, from two looks at its sensors."""

import pytest

from workers.devices.interface import Sensors
from workers.measure.conditions import conditions_around
from workers.measure.readiness import Readiness


@pytest.mark.parametrize(
    ("before", "after", "throttled"),
    [
        (Sensors(), Sensors(), None),
        (Sensors(thermal_status=0), Sensors(thermal_status=0), False),
        (Sensors(), Sensors(thermal_status=0), False),
        (Sensors(thermal_status=0), Sensors(thermal_status=1), True),
        (Sensors(thermal_status=1), Sensors(thermal_status=0), True),
        (Sensors(thermal_status=0), Sensors(), True),
        (Sensors(throttle_count=7), Sensors(throttle_count=7), False),
        (Sensors(throttle_count=7), Sensors(throttle_count=8), True),
        (Sensors(), Sensors(throttle_count=8), None),
        (Sensors(throttle_count=7), Sensors(), True),
        # The sign that is left does not speak for the one that is gone.
        (Sensors(throttle_count=7, thermal_status=0), Sensors(throttle_count=7), True),
        (Sensors(throttle_count=7, thermal_status=0), Sensors(thermal_status=0), True),
    ],
)
def test_a_sign_of_throttling_that_is_gone_after_the_block_counts_as_one(
    before: Sensors, after: Sensors, throttled: bool | None
) -> None:
    readiness = Readiness(sensors=before, lacking=(), busy_only=False)
    assert conditions_around(before, after, readiness, None, 1.0).throttled is throttled
