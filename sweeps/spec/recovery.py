"""A sweep file allows EdgeSweep some ways to bring back a device that stops answering."""

from pydantic import Field

from sweeps.spec.fields import Part


class RecoverySpec(Part):
    """Beyond what harms nobody: waiting, connecting again, restarting an adb server that no other phone uses."""

    reboot: bool = Field(
        default=False,
        description="Restart a phone that is there and does not answer; at most twice in a run.",
    )
