"""The facts of one device, and the fingerprint that makes results comparable. Frozen values."""

import hashlib
import json
from dataclasses import dataclass, field
from typing import Any

VIRTUAL_PHONE = "virtual phone"
"""The `exec_context` of a virtual phone: everything is as on a phone, except the CPU."""

BOARD = "board"
"""The `exec_context` of a Linux board that is reached over a network."""

AND = " and "
"""The separator between several programs of one runtime on a device, in `DeviceFacts.runners` and
`runtime_versions`."""


def canonical_key(content: dict[str, Any]) -> str:
    """Return the sha256 (hex, 64 characters) of `content` as canonical JSON: sorted keys, no spaces, no NaN."""
    text = json.dumps(content, sort_keys=True, separators=(",", ":"), allow_nan=False, ensure_ascii=True)
    return hashlib.sha256(text.encode()).hexdigest()


def pool_id(fingerprint: str) -> str:
    """Return the id that stands for any unit with this fingerprint."""
    return f"class:{fingerprint}"


@dataclass(frozen=True, slots=True, kw_only=True)
class DeviceFacts:
    """The facts of one device. `device_id` is the unit; devices with the same `fingerprint` give comparable results."""

    device_id: str
    name: str
    """The name of the device in a sweep file: `local`, `adb:SERIAL`, `ssh:USER@BOARD`."""
    maker: str
    model: str
    soc: str
    os_build: str
    abi: str
    """The ABI by Android's name: `arm64-v8a`, `armeabi-v7a`, `x86_64`, `x86`."""
    cores: int
    ram_bytes: int | None
    cpu_features: tuple[str, ...] = ()
    runtime_versions: tuple[tuple[str, str], ...] = ()
    """The version of each runtime on the device, e.g. `(("torchscript", "2.12.1"),)`."""
    runners: tuple[tuple[str, str], ...] = ()
    """The runner of each runtime that was pushed to the device, with its version; empty if the device runs Python."""
    qengines: tuple[str, ...] = ()
    """The quantized engines that the runtime on the device has."""
    accelerators: tuple[str, ...] = ()
    """The accelerators of NNAPI, by the names that their drivers report."""
    nnapi_level: int | None = None
    exec_context: str = "shell"
    core_clusters: tuple[tuple[int, ...], ...] = ()
    """The CPU numbers in groups of one kind, from little to big; empty if unknown."""
    emulates: tuple[str, ...] = ()
    """The backends that this device lacks, but whose models its host can check: the outputs are used, the times are
    not."""
    backends: tuple[tuple[str, tuple[str, ...]], ...] = ()
    """The backends of the runner on the device, for each runtime whose runner can be compiled with different
    backends."""
    releases: tuple[str, ...] = field(default=(), metadata={"left_out_when_empty": True})
    """The releases of runtimes' libraries that the host can run on the device in addition to the installed one, e.g.
    `onnxruntime==1.31.1`."""
    python: str = ""
    """The path of a Python with torch that can run a runner in one file, on a device that is not this host."""

    @property
    def device_class(self) -> str:
        return f"{self.maker} {self.model} ({self.soc})"

    @property
    def fingerprint(self) -> str:
        """16 hex digits: a hash of class, OS build, ABI, runtimes and NNAPI level, without serial number or boot id."""
        return canonical_key(
            {
                "class": self.device_class,
                "os_build": self.os_build,
                "abi": self.abi,
                "runtimes": list(map(list, self.runtime_versions)),
                "nnapi_level": self.nnapi_level,
            }
        )[:16]
