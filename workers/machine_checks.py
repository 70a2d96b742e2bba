"""Checks of what this machine can build and measure. Each missing part comes with the command that installs it."""

import importlib.util
import os
import shutil
import sys
from dataclasses import asdict, dataclass
from importlib.metadata import version
from pathlib import Path

import psutil

from sweeps.extras import install_line
from sweeps.spec import catalog
from workers.devices.adb.adb_host import AdbHost
from workers.devices.linux.sensors import host_temperature
from workers.devices.local import local_facts
from workers.devices.ssh import discovery as boards
from workers.devices.virtual_phone.adbd import missing
from workers.native.compiler import INSTALL, compiler

_PACKAGES = "update that package or uninstall it; the rest works without it"
_NEEDED_DISK_BYTES = 2 * 2**30


@dataclass(frozen=True, slots=True)
class MachineCheck:
    """One part that a machine has or lacks. The demo needs all `needed` parts; the others are optional."""

    name: str
    ok: bool
    found: str
    fix: str
    needed: bool = False

    def document(self) -> dict[str, object]:
        return asdict(self)


def examine(workspace: Path) -> list[MachineCheck]:
    """Examine this machine. Starts nothing and changes nothing."""
    workers = install_line("workers")
    return [
        MachineCheck(
            "Python 3.11",
            sys.version_info[:2] == (3, 11),
            ".".join(map(str, sys.version_info[:3])),
            "install Python 3.11",
            needed=True,
        ),
        *(
            _library(name, purpose, line, needed)
            for name, purpose, line, needed in (
                ("torch", "build and measure PyTorch Mobile artifacts", workers, True),
                ("torchvision", "torchvision's models and data sets", workers, True),
                ("sklearn", "the digits data set", workers, False),
                ("ray", "builds side by side, devices on other hosts (else: --executor inline)", workers, False),
                ("streamlit", "the dashboard", install_line("dashboard"), False),
            )
        ),
        *_torch_checks(),
        *_measuring_checks(workspace),
        *(MachineCheck("other packages", False, problem, _PACKAGES) for problem in catalog.problems()),
    ]


def _library(name: str, purpose: str, line: str, needed: bool) -> MachineCheck:
    installed = importlib.util.find_spec(name) is not None
    distribution = "scikit-learn" if name == "sklearn" else name
    text = f"{version(distribution)}: {purpose}" if installed else f"missing: {purpose}"
    return MachineCheck(distribution, installed, text, line, needed)


def _torch_checks() -> list[MachineCheck]:
    if importlib.util.find_spec("torch") is None:
        return []
    import torch

    engines = sorted(set(torch.backends.quantized.supported_engines) - {"none"})
    xnnpack = "prepacked::conv2d_clamp_prepack" in {schema.name for schema in torch._C._jit_get_all_schemas()}
    return [
        MachineCheck(
            "XNNPACK",
            xnnpack,
            "optimize_for_mobile works" if xnnpack else "optimize_for_mobile fails",
            "pip install torch==2.12.1 torchvision==0.27.1 (newer wheels have no XNNPACK)",
        ),
        MachineCheck(
            "int8 engines", bool(engines), ", ".join(engines) or "none", "install a torch with quantized engines"
        ),
    ]


def _measuring_checks(workspace: Path) -> list[MachineCheck]:
    folder = next(path for path in (workspace, *workspace.parents) if path.exists())
    free = shutil.disk_usage(folder).free
    facts = local_facts()
    temperature = host_temperature()
    chromium = shutil.which("chromium")
    return [
        MachineCheck(
            "local device",
            bool(facts.runtime_versions),
            f"{facts.soc}, {facts.cores} CPUs, {(facts.ram_bytes or 0) / 2**30:.0f} GiB, {facts.abi}",
            install_line("workers"),
            needed=True,
        ),
        MachineCheck(
            "temperature sensor",
            temperature is not None,
            "none: timings are marked ungated" if temperature is None else f"{temperature:.0f} °C",
            "measure on a machine with /sys/class/thermal (virtual machines have none)",
        ),
        MachineCheck(
            "idle CPU",
            (load := psutil.cpu_percent(interval=0.5) / 100) < 0.15,
            f"{load:.0%} of the CPU time is in use",
            "end other programs before measuring",
        ),
        MachineCheck(
            "disk space",
            free >= _NEEDED_DISK_BYTES,
            f"{free / 2**30:.0f} GiB free at {folder}",
            "free some space, or give another folder with --workspace",
            needed=True,
        ),
        MachineCheck(
            "workspace",
            os.access(folder, os.W_OK),
            f"{workspace}",
            "give a folder that you can write with --workspace",
            needed=True,
        ),
        MachineCheck(
            "C++ compiler",
            (compiler_path := compiler()) is not None,
            f"{compiler_path}: checks NNAPI and Metal builds, compiles the runner of virtual phones"
            if compiler_path
            else "none: NNAPI and Metal builds cannot be checked",
            INSTALL,
        ),
        *_phone_checks(),
        _board_check(),
        MachineCheck(
            "Chromium", chromium is not None, chromium or "none: browser tests only", "apt-get install -y chromium"
        ),
    ]


def _board_check() -> MachineCheck:
    """Check the boards that are named; none is contacted, since `edgesweep devices` does that."""
    names, refused = boards.attached()
    wrong = [error.message for error in refused]
    text = ", ".join([*names, *wrong]) or "none named; phones and this computer need none"
    return MachineCheck("boards over ssh", bool(names) and not wrong, text, boards.NEXT_STEP)


def _phone_checks() -> list[MachineCheck]:
    """Check the programs for reaching phones. No adb server is started, since `edgesweep devices` does that and lists
    the phones."""
    host = AdbHost()
    lack = missing()
    return [
        MachineCheck("adb", host.adb.is_file(), f"{host.adb}, server on port {host.port}", "pip install adbutils")
        if host.misnamed is None
        else MachineCheck("adb", False, host.misnamed.message, host.misnamed.next_step),
        MachineCheck(
            "virtual phones",
            lack is None,
            "edgesweep virtual-phone up" if lack is None else lack.message,
            "" if lack is None else lack.next_step,
        ),
    ]
