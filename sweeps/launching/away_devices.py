"""The devices of a workspace's sweeps that are away, as far as a driver has noticed: for pages and commands."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from types import MappingProxyType

from sweeps.launching.live_report import LiveDevice, read_live
from sweeps.launching.sweep_commands import live_run
from sweeps.text import plain
from sweeps.workspace import Workspace


@dataclass(frozen=True, slots=True)
class Gone:
    """The devices that the driver missed: that of the run of now, or of the last one in this workspace."""

    runs: bool
    devices: Mapping[str, LiveDevice]
    """The missed devices by their names in sweep files."""

    def text(self, name: str) -> str:
        """The start and the reason of a device's absence, in one line; empty if it was not missed."""
        device = self.devices.get(name)
        if device is None:
            return ""
        at = f"{datetime.fromtimestamp(device.away_at_s, UTC):%Y-%m-%d %H:%M} UTC" if device.away_at_s else "some time"
        since = f"Away since {at}" if self.runs else f"Away from {at} until the last run ended; nobody has looked since"
        return plain(" ".join(f"{since}: {device.away}".split()))


NOBODY = Gone(False, MappingProxyType({}))


def gone_now(workspace: Workspace) -> Gone:
    """The devices that the driver's file calls away; nobody, if there is no file."""
    run = live_run(workspace)
    live = run or read_live(workspace.live)
    if live is None:
        return NOBODY
    return Gone(run is not None, {device.name: device for device in live.gone})
