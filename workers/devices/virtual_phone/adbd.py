"""Fetches the real adb daemon from Debian, and checks whether virtual phones can run on this machine."""

import os
import platform
import shutil
import subprocess
from pathlib import Path

from sweeps.errors import DeviceError
from sweeps.locks import locked

PARTS = Path(__file__).parent
_PROGRAMS = ("unshare", "setpriv", "chroot", "mount")
_INSTALL_DEADLINE_S = 300.0


def missing() -> DeviceError | None:
    """Return why no virtual phone can run on this machine, with the next step; `None` if they can."""
    if platform.system() != "Linux":
        return DeviceError("not_linux", "virtual phones run on Linux only")
    if os.geteuid() != 0:
        return DeviceError(
            "needs_root",
            "virtual phones need root: each has its own namespaces of mounts, processes and network",
            "run it as root or in a privileged container; phones on a cable need no root",
        )
    lacking = [program for program in _PROGRAMS if shutil.which(program) is None]
    if lacking:
        return DeviceError(
            "no_program", f"virtual phones need {', '.join(lacking)}", "apt-get install -y util-linux mount coreutils"
        )
    if not _whole().is_file() and not (shutil.which("apt-get") and shutil.which("dpkg")):
        return DeviceError(
            "no_apt", "virtual phones take adbd from Debian, and there is no apt here", "use a Debian or its container"
        )
    return None


def adbd() -> Path:
    """Return the folder with Debian's unpacked adbd, fetched on first use (8 s, 7 MB; 26 MB unpacked).

    The folder is in `EDGESWEEP_CACHE`, else `XDG_CACHE_HOME/edgesweep`, else `~/.cache/edgesweep`; nothing is installed
    in the system. Raises `DeviceError`: the result of `missing()`, or `no_adbd` with the end of apt's output.
    """
    if (error := missing()) is not None:
        raise error
    folder = _whole().parent
    with locked(folder.with_suffix(".lock")):
        if not _whole().is_file():
            shutil.rmtree(folder, ignore_errors=True)
            try:
                argv = [str(PARTS / "install"), str(folder)]
                ended = subprocess.run(  # noqa: S603  # our own script
                    argv, capture_output=True, text=True, timeout=_INSTALL_DEADLINE_S, check=False
                )
                lines, ok = ended.stderr.strip().splitlines()[-3:], ended.returncode == 0
            except (OSError, subprocess.TimeoutExpired) as failure:
                lines, ok = [str(failure)], False
            if not ok:
                raise DeviceError(
                    "no_adbd",
                    f"adbd could not be fetched: {' '.join(lines) or 'apt printed nothing'}",
                    "give apt a Debian mirror that has trixie (apt-get update), then try again",
                )
            _whole().touch()
    return folder / "unpacked"


def _whole() -> Path:
    """Return the path of the marker of a complete fetch. The marker is written last: an interrupted fetch is
    repeated."""
    named = os.environ.get("EDGESWEEP_CACHE")
    cache = Path(named) if named else Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "edgesweep"
    return cache / f"adbd-trixie-{platform.machine()}" / "whole"
