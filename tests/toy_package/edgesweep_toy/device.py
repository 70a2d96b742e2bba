"""A transport: processes of this machine, under the name of a box."""

from dataclasses import replace
from pathlib import Path

from sweeps.device_facts import DeviceFacts
from workers.devices.local import LocalDevice


class Toybox(LocalDevice):
    """One box, told apart by its colour."""

    def __init__(self, folder: Path, colour: str) -> None:
        super().__init__(folder / f"toybox-{colour}")
        self._colour = colour

    def facts(self) -> DeviceFacts:
        unit = f"toybox-{self._colour}"
        return replace(super().facts(), device_id=unit, name=f"toybox:{self._colour}", maker="Toys", model="Box")
