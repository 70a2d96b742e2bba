"""The facts of one device, and the fingerprint that makes results comparable. Frozen values."""

import hashlib
import json
from dataclasses import dataclass, field
from typing import Any

VIRTUAL_PHONE = "virtual phone"
"""`exec_context` of a virtual phone: all of it is as on a phone, except the CPU."""

BOARD = "board"
"""`exec_context` of a Linux board that is reached over a network."""

AND = " and "
"""Between what several programs of one runtime on a device are, in `DeviceFacts.runners` and `runtime_versions`."""


def canonical_key(content: dict[str, Any]) -> str:
    """sha256 (hex, 64 characters) of `content` as canonical JSON: sorted keys, no spaces, no NaN."""
    text = json.dumps(content, sort_keys=True, separators=(",", ":"), allow_nan=False, ensure_ascii=True)
    return hashlib.sha256(text.encode()).hexdigest()


def pool_id(fingerprint: str) -> str:
    """What stands for a device's id where any unit with this fingerprint may be meant."""
    return f"class:{fingerprint}"


@dataclass(frozen=True, slots=True, kw_only=True)
class DeviceFacts:
    """The facts of one device. `device_id` is the unit; devices with the same `fingerprint` give comparable results."""

    device_id: str
    name: str
    """As a sweep file names it: `local`, `adb:SERIAL`, `ssh:USER@BOARD`."""
    maker: str
    model: str
    soc: str
    os_build: str
    abi: str
    """Android's names: `arm64-v8a`, `armeabi-v7a`, `x86_64`, `x86`."""
    cores: int
    ram_bytes: int | None
    cpu_features: tuple[str, ...] = ()
    runtime_versions: tuple[tuple[str, str], ...] = ()
    """Per runtime, its version on the device, e.g. `(("torchscript", "2.12.1"),)`."""
    runners: tuple[tuple[str, str], ...] = ()
    """Per runtime, the runner that was pushed to the device, with its version; empty if the device runs Python."""
    qengines: tuple[str, ...] = ()
    """Quantized engines that the runtime on the device has."""
    accelerators: tuple[str, ...] = ()
    """NNAPI's accelerators, by the names that their drivers report."""
    nnapi_level: int | None = None
    exec_context: str = "shell"
    core_clusters: tuple[tuple[int, ...], ...] = ()
    """CPU numbers in groups of one kind, from little to big; empty if unknown."""
    emulates: tuple[str, ...] = ()
    """Backends that this device lacks, but whose models its host can check: outputs are used, times are not."""
    backends: tuple[tuple[str, tuple[str, ...]], ...] = ()
    """Per runtime whose runners are compiled with a choice of them, the backends that the one on the device has."""
    releases: tuple[str, ...] = field(default=(), metadata={"left_out_when_empty": True})
    """Of runtimes' libraries, those that its host can run on it beside the one there, e.g. `onnxruntime==1.31.1`."""
    python: str = ""
    """Path on a device that is not this host of a Python with torch, which can run a runner in one file."""

    @property
    def device_class(self) -> str:
        return f"{self.maker} {self.model} ({self.soc})"

    @property
    def fingerprint(self) -> str:
        """16 hex digits over class, OS build, ABI, runtimes and NNAPI level; no serial number, no boot id."""
        return canonical_key(
            {
                "class": self.device_class,
                "os_build": self.os_build,
                "abi": self.abi,
                "runtimes": list(map(list, self.runtime_versions)),
                "nnapi_level": self.nnapi_level,
            }
        )[:16]
