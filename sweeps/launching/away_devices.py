"""The absent devices of a workspace's sweeps, as far as a driver has noticed their absence: for pages and commands."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from types import MappingProxyType

from sweeps.launching.live_report import LiveDevice, read_live
from sweeps.launching.sweep_commands import live_run
from sweeps.text import plain
from sweeps.workspace import Workspace


@dataclass(frozen=True, slots=True)
class AwayDevices:
    """Devices that the driver of the current run, or else of the workspace's last run, reported as away. `runs`:
    whether that run goes on now."""

    runs: bool
    devices: Mapping[str, LiveDevice]
    """The absent devices, by their names in sweep files."""

    def text(self, name: str) -> str:
        """Return the start and the reason of a device's absence, in one line; empty if the device is not away."""
        device = self.devices.get(name)
        if device is None:
            return ""
        at = f"{datetime.fromtimestamp(device.away_at_s, UTC):%Y-%m-%d %H:%M} UTC" if device.away_at_s else "some time"
        since = f"Away since {at}" if self.runs else f"Away from {at} until the last run ended; nobody has looked since"
        return plain(" ".join(f"{since}: {device.away}".split()))


NOBODY = AwayDevices(False, MappingProxyType({}))


def away_now(workspace: Workspace) -> AwayDevices:
    """Return the devices that the driver's live file reports as away; none if there is no file."""
    run = live_run(workspace)
    live = run or read_live(workspace.live)
    if live is None:
        return NOBODY
    return AwayDevices(run is not None, {device.name: device for device in live.away_devices})
