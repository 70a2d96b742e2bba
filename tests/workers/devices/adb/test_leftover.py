"""A program that was lost with its connection, on a phone that comes back with it still running."""

import pytest

from sweeps.errors import DeviceError
from tests.workers.devices.adb.scripted_phone import scripted
from workers.devices.adb.device import AdbDevice

BOOT = b"one-boot\n"
RUNNER = b"/proc/4243/cmdline:/data/local/tmp/edgesweep/run/runner-0f0f0f0f0f0f0f0f\0--model\0m.pt\0\n"


class Phone:
    """A phone whose runner, once started, hangs until its group is ended."""

    def __init__(self, *, ends: bool = True) -> None:
        self.reachable = True
        self.ends = ends
        self.runs = False

    def __call__(self, command: str) -> bytes | int | None:
        if "exec " in command:
            self.runs, self.reachable = True, False
            return None
        if not self.reachable:
            raise ConnectionResetError
        if "kill -s KILL -- -4242" in command:
            self.runs = self.runs and not self.ends
            return 1 if self.runs else 0
        if "/started" in command:
            return b"4242 " + BOOT
        if "boot_id" in command:
            return BOOT
        if "/cmdline" in command:
            return RUNNER if self.runs else b""
        return b""


def lost(phone: Phone) -> AdbDevice:
    device = scripted(phone)
    with pytest.raises(DeviceError, match="not known whether it ended"):
        device.run(["runner", "--model", "m.pt"], 0.3)
    assert phone.runs
    return device


@pytest.mark.parametrize("load", [True, False])
def test_a_look_at_a_phone_ends_what_was_lost_there(load: bool) -> None:
    phone = Phone()
    device = lost(phone)
    phone.reachable = True
    assert device.sensors(load=load).competing == ()
    assert not phone.runs


def test_what_was_lost_and_does_not_end_is_an_orphan_and_no_benchmark_of_others() -> None:
    phone = Phone(ends=False)
    device = lost(phone)
    phone.reachable = True
    for _ in range(2):
        with pytest.raises(DeviceError) as caught:
            device.sensors()
        assert caught.value.kind == "orphan"
    phone.ends = True
    assert device.sensors().competing == ()


def test_a_phone_that_is_still_away_is_told_as_such() -> None:
    phone = Phone()
    device = lost(phone)
    with pytest.raises(DeviceError) as caught:
        device.sensors()
    assert caught.value.kind != "orphan"
    assert "R58M" in caught.value.message
