"""The boards that this computer knows. A network has no list of boards, so the variable `EDGESWEEP_BOARDS` has one."""

import os
import re
from pathlib import Path

from sweeps.errors import DeviceError
from sweeps.spec import catalog
from workers.devices.ssh.device import SshDevice

VARIABLE = "EDGESWEEP_BOARDS"
NEXT_STEP = f"name them in the environment: export {VARIABLE}='pi@board-1 pi@board-2:2222'"


def attached() -> tuple[list[str], list[DeviceError]]:
    """Return the boards in `EDGESWEEP_BOARDS`, as `ssh:USER@BOARD`, and an error for each word that names none. No
    board is contacted."""
    names: list[str] = []
    refused: list[DeviceError] = []
    for word in dict.fromkeys(os.environ.get(VARIABLE, "").split()):
        name = word if word.startswith("ssh:") else f"ssh:{word}"
        entry = catalog.device(name)
        if entry is not None and entry.name == "ssh" and not name.endswith(":*"):
            names.append(name)
        else:
            shown = re.sub(r"[^\x20-\x7e]", "?", word)[:100]
            refused.append(DeviceError("unknown_device", f"{VARIABLE} names {shown!r}, which is no board", NEXT_STEP))
    return names, refused


def listed() -> list[str]:
    """Return the names that `attached` returns."""
    return attached()[0]


def are_one(name: str, other: str, folder: Path) -> bool:
    """Tell whether two names with the same device id mean the same board: if so, both report the same boot id.

    Raises `DeviceError`.
    """
    boots = []
    for board in (name, other):
        device = SshDevice(folder, board.partition(":")[2])
        try:
            boots.append(device.boot_id())
        finally:
            device.release()
    return len(set(boots)) == 1


def clean(name: str) -> None:
    """Delete all files of EdgeSweep on the board. Raises `DeviceError`."""
    SshDevice(Path(), name.partition(":")[2]).clean()
