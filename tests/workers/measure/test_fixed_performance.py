"""Fixed-performance mode of simulated phones: it is in a file, as a real phone's is in the phone."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from sweeps.errors import ABSENT_KINDS, DeviceError
from tests.faulty_device import Faults, FaultyDevice
from workers.measure.fixed_performance import FixedPerformance, restore_leftovers

ID = "0123/45:67 'quoted'"
INSIDE = """
import sys, time
from pathlib import Path
from tests.faulty_device import FaultyDevice
from workers.measure.fixed_performance import FixedPerformance

folder = Path(sys.argv[1])
with FixedPerformance(FaultyDevice(folder, "steady"), sys.argv[2], folder) as fixed:
    print("on" if fixed.on else "off", flush=True)
    time.sleep(120)
"""


def is_on(folder: Path) -> bool:
    """Tell the mode that the phone itself has."""
    return FaultyDevice(folder, "steady").fixed_performance


def markers(folder: Path) -> list[Path]:
    return sorted((folder / "fixed-performance").glob("*"))


def left_on(folder: Path) -> None:
    """By a phone that went away within a block."""
    phone = FaultyDevice(folder, "steady", faults=Faults(gone_from_s=10))
    with FixedPerformance(phone, ID, folder):
        phone.rest(20)
    assert is_on(folder)


def test_the_mode_is_on_inside_and_off_after(tmp_path: Path) -> None:
    phone = FaultyDevice(tmp_path, "steady")
    with FixedPerformance(phone, ID, tmp_path) as fixed:
        assert fixed.on is True
        assert is_on(tmp_path)
        assert len(markers(tmp_path)) == 1
    assert not is_on(tmp_path)
    assert markers(tmp_path) == []


def test_one_object_serves_many_blocks(tmp_path: Path) -> None:
    phone = FaultyDevice(tmp_path, "steady")
    fixed = FixedPerformance(phone, ID, tmp_path)
    for _ in range(3):
        with fixed:
            assert is_on(tmp_path)
        assert not is_on(tmp_path)


def test_between_blocks_of_a_round_the_mode_stays_on_and_each_round_switches_it_anew(tmp_path: Path) -> None:
    phone = Stubborn(tmp_path)
    fixed = FixedPerformance(phone, ID, tmp_path)
    switched = []
    for round_ in (0, 0, 0, 1, 1):
        with fixed.during(round_):
            assert (fixed.on, is_on(tmp_path)) == (True, True)
            switched.append(fixed.just_switched)
        assert (fixed.stays_on, is_on(tmp_path), len(markers(tmp_path))) == (True, True, 1)
    assert switched == [True, False, False, True, False]
    fixed.end()
    fixed.end()
    assert (fixed.stays_on, is_on(tmp_path), markers(tmp_path)) == (False, False, [])
    assert phone.requests == [False, True, False, True, False]


def test_the_mode_does_not_stay_on_after_a_block_of_no_round_or_one_that_failed(tmp_path: Path) -> None:
    phone = Stubborn(tmp_path)
    fixed = FixedPerformance(phone, ID, tmp_path)
    with fixed.during(None):
        assert is_on(tmp_path)
    assert (fixed.stays_on, is_on(tmp_path)) == (False, False)
    with fixed.during(0):
        pass
    with pytest.raises(DeviceError), fixed.during(0):
        raise DeviceError("timeout", "it hangs")
    assert (fixed.stays_on, is_on(tmp_path), markers(tmp_path)) == (False, False, [])


def test_a_device_without_the_mode_has_none_that_stays_on(tmp_path: Path) -> None:
    fixed = FixedPerformance(FaultyDevice(tmp_path, "hot"), ID, tmp_path)
    with fixed.during(0):
        assert fixed.on is None
    assert not fixed.stays_on


def test_a_device_without_the_mode_is_left_alone(tmp_path: Path) -> None:
    with FixedPerformance(FaultyDevice(tmp_path, "hot"), ID, tmp_path) as fixed:
        assert fixed.on is None
        assert markers(tmp_path) == []


class Stubborn(FaultyDevice):
    """Notes what is asked of its mode; answers that it has none to what it `refuses`."""

    def __init__(self, folder: Path, refuses: tuple[bool, ...] = ()) -> None:
        super().__init__(folder, "steady")
        self.refuses = refuses
        self.requests: list[bool] = []

    def set_fixed_performance(self, on: bool) -> bool:
        self.requests.append(on)
        return on not in self.refuses and super().set_fixed_performance(on)


def test_a_mode_that_is_not_wanted_is_left_alone(tmp_path: Path) -> None:
    phone = Stubborn(tmp_path)
    with FixedPerformance(phone, ID, tmp_path, requested=False) as fixed:
        assert fixed.on is None
    assert phone.requests == []


def test_a_mode_that_is_not_wanted_but_was_left_on_is_ended(tmp_path: Path) -> None:
    left_on(tmp_path)
    phone = Stubborn(tmp_path)
    with FixedPerformance(phone, ID, tmp_path, requested=False) as fixed:
        assert fixed.on is None
        assert not is_on(tmp_path)
        assert markers(tmp_path) == []
    assert phone.requests == [False]


@pytest.mark.parametrize("refuses", [(True, False), (True,)])
def test_a_device_that_refuses_the_mode_is_measured_without_it(tmp_path: Path, refuses: tuple[bool, ...]) -> None:
    phone = Stubborn(tmp_path, refuses)
    fixed = FixedPerformance(phone, ID, tmp_path)
    with fixed:
        assert fixed.on is None
        assert markers(tmp_path) == []
    requests = len(phone.requests)
    with fixed:
        assert fixed.on is None
    assert len(phone.requests) == requests, "that is asked once"


def test_a_mode_that_is_refused_after_a_block_had_it_fails_the_next_block(tmp_path: Path) -> None:
    phone = Stubborn(tmp_path)
    fixed = FixedPerformance(phone, ID, tmp_path)
    with fixed:
        assert fixed.on
    phone.refuses = (True,)
    with pytest.raises(DeviceError) as caught, fixed:
        pytest.fail("it went in")
    assert caught.value.kind == "os_error"


def test_a_device_that_does_not_leave_the_mode_keeps_its_marker(tmp_path: Path) -> None:
    phone = Stubborn(tmp_path)

    def block() -> None:
        phone.refuses = (False,)

    with FixedPerformance(phone, ID, tmp_path):
        block()
    assert is_on(tmp_path)
    with pytest.raises(DeviceError) as caught:
        restore_leftovers(phone, ID, tmp_path)
    assert caught.value.kind == "mode_stays"
    assert caught.value.kind in ABSENT_KINDS
    assert len(markers(tmp_path)) == 1


@pytest.mark.parametrize("error", [RuntimeError("a bug"), KeyboardInterrupt(), DeviceError("timeout", "it hangs")])
def test_the_mode_ends_with_a_block_that_fails(tmp_path: Path, error: BaseException) -> None:
    with pytest.raises(type(error)), FixedPerformance(FaultyDevice(tmp_path, "steady"), ID, tmp_path):
        raise error
    assert not is_on(tmp_path)
    assert markers(tmp_path) == []


def test_a_host_that_is_killed_inside_is_cleaned_up_at_the_next_contact(tmp_path: Path) -> None:
    with subprocess.Popen([sys.executable, "-c", INSIDE, str(tmp_path), ID], stdout=subprocess.PIPE, text=True) as host:
        assert host.stdout is not None
        assert host.stdout.readline() == "on\n"
        os.kill(host.pid, signal.SIGKILL)
    assert host.returncode == -signal.SIGKILL
    assert is_on(tmp_path), "a kill left nothing to restore: the test shows nothing"
    assert restore_leftovers(FaultyDevice(tmp_path, "steady"), "another phone", tmp_path) is False
    assert is_on(tmp_path)

    assert restore_leftovers(FaultyDevice(tmp_path, "steady"), ID, tmp_path) is True
    assert not is_on(tmp_path)
    assert markers(tmp_path) == []
    assert restore_leftovers(FaultyDevice(tmp_path, "steady"), ID, tmp_path) is False


def test_a_device_that_goes_away_inside_is_restored_when_it_is_back(tmp_path: Path) -> None:
    phone = FaultyDevice(tmp_path, "steady", faults=Faults(gone_from_s=10, gone_until_s=60))
    with FixedPerformance(phone, ID, tmp_path):
        phone.rest(20)
    assert is_on(tmp_path)
    with pytest.raises(DeviceError) as caught:
        restore_leftovers(phone, ID, tmp_path)
    assert caught.value.kind == "offline"
    assert len(markers(tmp_path)) == 1
    phone.rest(60)
    assert restore_leftovers(phone, ID, tmp_path) is True
    assert not is_on(tmp_path)
    assert markers(tmp_path) == []


def test_why_a_block_failed_is_not_hidden_by_a_device_that_is_gone(tmp_path: Path) -> None:
    phone = FaultyDevice(tmp_path, "steady", faults=Faults(gone_from_s=10))
    crash = DeviceError("crashed", "the runner ended with exit code 139")

    def block() -> None:
        phone.rest(20)
        raise crash

    with pytest.raises(DeviceError) as caught, FixedPerformance(phone, ID, tmp_path):
        block()
    assert caught.value is crash
    assert len(markers(tmp_path)) == 1


def test_the_mode_is_not_switched_on_where_nothing_can_remember_it(tmp_path: Path) -> None:
    (tmp_path / "fixed-performance").write_text("in the way")
    phone = FaultyDevice(tmp_path, "steady")
    with pytest.raises(DeviceError) as caught, FixedPerformance(phone, ID, tmp_path):
        pytest.fail("it went in")
    assert caught.value.kind == "os_error"
    assert "EDGESWEEP_CACHE" in caught.value.next_step
    assert not is_on(tmp_path)
