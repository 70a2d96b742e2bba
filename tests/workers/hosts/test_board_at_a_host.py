"""A board over ssh as the device of a host: a real sshd on loopback, and the agent of a computer that names it."""

from pathlib import Path

import pytest

from tests.sshd import Board
from tests.workers.hosts.test_device_process import WhoAmI, job
from workers.devices import registry
from workers.devices.ssh import discovery
from workers.hosts.device_process import DeviceProcess
from workers.hosts.interface import Granted
from workers.hosts.this_machine import HostConfig, agent_of


@pytest.mark.system
@pytest.mark.sshd
def test_a_board_that_a_host_names_is_listed_with_its_runtime_lent_and_measured_on(
    board: Board, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(discovery.VARIABLE, board.unit)
    monkeypatch.setattr(registry, "listed", discovery.listed)  # no adb server is started for it
    agent = agent_of(HostConfig(name="lab-1", state=tmp_path / "state"), 1, DeviceProcess)
    try:
        hello = agent.hello()
        assert hello.refused == ()
        (device,) = hello.devices
        assert hello.named(device.facts).name == f"host:lab-1/{board.name}"
        assert dict(device.facts.runtime_versions)["torchscript"]
        lease = agent.acquire(device.facts.device_id, "ann")
        assert isinstance(lease, Granted)
        assert isinstance(agent.run(device.facts.device_id, lease.epoch, WhoAmI(job=job())), int)
    finally:
        agent.leave(0.0)
