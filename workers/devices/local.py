"""The machine that EdgeSweep runs on, as a device."""

import errno
import functools
import os
import platform
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

import psutil

from sweeps.device_facts import DeviceFacts, canonical_key
from sweeps.errors import DeviceError
from sweeps.untrusted_file import open_regular
from sweeps.whole_file import whole_file
from sweeps.with_parent import ended_with_thread
from workers.cores import clusters
from workers.devices.engines import torch_and_engines
from workers.devices.file_bounds import bounded
from workers.devices.interface import Completed, Sensors, program_name
from workers.devices.linux.sensors import read_sensors

# The limit is more than any runner prints: a program that prints more is faulty.
_OUTPUT_LIMIT_BYTES = 64 * 2**20
_BLOCK_BYTES = 2**20
# A program that contains others gives them some seconds to end.
_END_S = 30.0
_ABIS = {"x86_64": "x86_64", "amd64": "x86_64", "aarch64": "arm64-v8a", "arm64": "arm64-v8a", "armv7l": "armeabi-v7a"}
# The instruction sets that decide which kernels run.
_FEATURES = ("avx2", "avx512f", "avx_vnni", "avx512_vnni", "amx_int8", "asimddp", "i8mm", "sve")


def from_os_error(error: OSError) -> DeviceError:
    """Return an error of this host's operating system as a `DeviceError`, the failure of one job."""
    full = error.errno in (errno.ENOSPC, errno.EDQUOT)
    return DeviceError("no_space" if full else "os_error", f"{type(error).__name__}: {error}"[:500])


class LocalDevice:
    """The host's CPU as a device. Each program runs in a separate session, so that it is killed together with its child
    processes."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder / "run"

    def facts(self) -> DeviceFacts:
        return local_facts()

    def run(self, argv: Sequence[str], deadline_s: float) -> Completed:
        try:
            return self._run(argv, deadline_s)
        except OSError as error:
            raise from_os_error(error) from error

    def _run(self, argv: Sequence[str], deadline_s: float) -> Completed:
        # A runner would otherwise outlive a killed driver and disturb the next sweep's measurements.
        self._folder.mkdir(parents=True, exist_ok=True)
        with (
            tempfile.TemporaryFile(dir=self._folder) as stdout,
            tempfile.TemporaryFile(dir=self._folder) as stderr,
            subprocess.Popen(  # noqa: S603  # an argument list; no shell
                ended_with_thread(argv, signal.SIGTERM),
                stdin=subprocess.DEVNULL,
                stdout=stdout,
                stderr=stderr,
                start_new_session=True,
            ) as process,
        ):
            try:
                exit_code = process.wait(timeout=deadline_s)
            except subprocess.TimeoutExpired as error:
                raise DeviceError(
                    "timeout", f"{program_name(argv)} ran longer than {deadline_s:.0f} s and was killed"
                ) from error
            finally:
                # This also runs on Ctrl-C: no program may continue, nor what it has started and left.
                if process.poll() is None:
                    # A program that contains others ends them.
                    process.terminate()
                    with suppress(subprocess.TimeoutExpired):
                        process.wait(_END_S)
                with suppress(ProcessLookupError, PermissionError):
                    os.killpg(process.pid, signal.SIGKILL)
            stdout.seek(0)
            stderr.seek(0)
            return Completed(
                exit_code=exit_code,
                stdout=stdout.read(_OUTPUT_LIMIT_BYTES + 1),
                stderr=stderr.read(_OUTPUT_LIMIT_BYTES),
            )

    def take_lock(self) -> None:
        """Does nothing: the host's CPU has no lock."""

    def release(self) -> None:
        """Does nothing: the host's CPU has no lock."""

    def end_orphans(self) -> tuple[str, ...]:
        return ()  # Programs end with their driver.

    def push(self, source: Path, name: str, *, sha256: str | None = None) -> str:
        target = self._folder / name
        if target.parent != self._folder or not name.strip(". ") or "\0" in name:
            raise DeviceError("bad_name", f"{name!r} is no plain file name")
        try:
            self._folder.mkdir(parents=True, exist_ok=True)
            with whole_file(target) as part:
                try:
                    os.link(source, part)
                except OSError:  # The target may be on another file system, or on one without links.
                    shutil.copyfile(source, part)
        except OSError as error:
            raise from_os_error(error) from error
        return str(target)

    def pull(self, path: str, target: Path, most_bytes: int) -> None:
        try:
            with open_regular(Path(path)) as source, target.open("wb") as file:
                write = bounded(file.write, "this computer", path, most_bytes)
                while content := source.read(_BLOCK_BYTES):
                    write(content)
        except OSError as error:
            raise DeviceError("no_output", f"{path} was not written: {error.strerror or error}") from error

    def remove(self, path: str) -> None:
        if Path(path).parent != self._folder:
            raise DeviceError("bad_name", f"{path!r} is not in the run folder of this device")
        try:
            Path(path).unlink(missing_ok=True)
        except OSError as error:
            raise from_os_error(error) from error

    def sensors(self, *, load: bool = True) -> Sensors:
        return read_sensors(load=load)

    def now_s(self) -> float:
        return time.monotonic()

    def rest(self, seconds: float) -> None:
        time.sleep(seconds)

    def set_fixed_performance(self, on: bool) -> bool:
        return False  # Linux has no such mode without root


def host_abi() -> str:
    """Return the ABI of this machine, in Android's terms."""
    machine = platform.machine().lower()
    return _ABIS.get(machine, machine)


@functools.cache
def local_facts() -> DeviceFacts:
    """Return the facts of this machine. The first call for an installation of torch imports torch, to read its
    quantized engines."""
    flags = _cpuinfo("flags", "Features").split()
    machine = platform.machine().lower()
    soc = _cpuinfo("model name", "Hardware") or platform.processor() or machine
    torch = torch_and_engines(f"{soc} {' '.join(sorted(flags))}")
    return DeviceFacts(
        device_id=f"local-{_unit()}",
        name="local",
        maker=_first_line("/sys/class/dmi/id/sys_vendor") or platform.system(),
        model=_first_line("/sys/class/dmi/id/product_name") or machine,
        soc=soc,
        os_build=f"{platform.system()} {platform.release()}",
        abi=host_abi(),
        cores=len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1,
        ram_bytes=psutil.virtual_memory().total,
        cpu_features=tuple(name for name in _FEATURES if name in flags),
        runtime_versions=() if torch is None else (("torchscript", torch[0]),),
        qengines=() if torch is None else torch[1],
        core_clusters=clusters(),
    )


def _unit() -> str:
    """Return a hash that identifies this machine without revealing its id."""
    machine_id = _first_line("/etc/machine-id") or platform.node()
    return canonical_key({"machine": machine_id})[:8]


def _first_line(path: str) -> str:
    try:
        return Path(path).read_text(encoding="utf-8", errors="replace").splitlines()[0].strip()
    except (OSError, IndexError):
        return ""


def _cpuinfo(*names: str) -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        return ""
    for line in lines:
        key, _, value = line.partition(":")
        if key.strip() in names:
            return value.strip()
    return ""
