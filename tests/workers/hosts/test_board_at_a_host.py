"""A board over ssh as the device of a host: a real sshd on loopback, and the agent of a computer that names it."""

from pathlib import Path

import pytest

from sweeps.errors import DeviceError
from sweeps.quarantine import QuarantineBook
from tests.free_port import free_port
from tests.sshd import Board
from tests.workers.hosts.test_device_process import WhoAmI, job
from workers.devices.ssh import discovery
from workers.hosts.device_process import DeviceProcess
from workers.hosts.interface import Granted
from workers.hosts.this_machine import HostConfig, agent_of


@pytest.mark.system
@pytest.mark.sshd
def test_a_hosts_board_is_listed_lent_and_measured_on_unless_it_is_in_quarantine(
    board: Board, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(discovery.VARIABLE, board.unit)
    # An adb that does not start hides no board.
    monkeypatch.setenv("ANDROID_ADB_SERVER_PORT", str(free_port()))
    monkeypatch.setenv("ADBUTILS_ADB_PATH", str(tmp_path / "no adb"))
    agent = agent_of(HostConfig(name="lab-1", state=tmp_path / "state"), 1, DeviceProcess)
    try:
        hello = agent.hello()
        assert [refusal.kind for refusal in hello.refused] == ["adb_server"]
        assert "the adb server of this host" in hello.refused[0].message
        (device,) = hello.devices
        assert hello.named(device.facts).name == f"host:lab-1/{board.name}"
        assert dict(device.facts.runtime_versions)["torchscript"]
        lease = agent.acquire(device.facts.device_id, "ann")
        assert isinstance(lease, Granted)
        assert isinstance(agent.run(device.facts.device_id, lease.epoch, WhoAmI(job=job())), int)
        book = QuarantineBook()
        book.put(device.facts.device_id, device.facts.name, "its fan is broken")
        agent.tend()
        assert agent.hello().devices == ()
        assert "by a person: its fan is broken" in agent.hello().refused[-1].message
        with pytest.raises(DeviceError, match="is quarantined"):
            agent.acquire(device.facts.device_id, "bob")
        book.readmit(device.facts.device_id)
        agent.tend()
        assert [device.facts for device in agent.hello().devices] == [device.facts]
    finally:
        agent.leave(0.0)
