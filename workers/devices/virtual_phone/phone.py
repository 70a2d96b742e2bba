"""Virtual phones: the real adb daemon on this host, behind the real adb server. Everything but the silicon is real.

Each has namespaces of its own for mounts, processes and network, so its `/data`, its boot id and its programs are its
own and end with it; its CPU facts and its other files are the host's. This folder has what it answers with.
It is reached through a cable that listens on loopback only: adbd itself would open a root shell to the whole network.
"""

import contextlib
import errno
import itertools
import os
import platform
import shutil
import signal
import subprocess
import time
import uuid
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Self

import psutil

from sweeps.errors import DeviceError
from workers.devices.adb.lease import HeldError, Hold
from workers.devices.virtual_phone.cable import Cable
from workers.native.file_lock import locked

PARTS = Path(__file__).parent
_PROGRAMS = ("unshare", "setpriv", "chroot", "mount")
_INSTALL_DEADLINE_S = 300.0
_START_DEADLINE_S = 20.0


def missing() -> DeviceError | None:
    """Why no virtual phone can run on this machine, with what to do about it; `None` where they can."""
    if platform.system() != "Linux":
        return DeviceError("not_linux", "virtual phones run on Linux only")
    if os.geteuid() != 0:
        return DeviceError(
            "needs_root",
            "virtual phones need root: each has mounts, processes and a network of its own",
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
    """The folder with Debian's unpacked adbd, fetched on first use (8 s, 7 MB; 26 MB unpacked).

    Kept in `EDGESWEEP_CACHE`, else `XDG_CACHE_HOME/edgesweep`, else `~/.cache/edgesweep`; the system stays as it is.
    Raises `DeviceError`: what `missing()` says, or `no_adbd` with apt's last words.
    """
    if (lack := missing()) is not None:
        raise lack
    folder = _whole().parent
    with locked(folder.with_suffix(".lock")):
        if not _whole().is_file():
            shutil.rmtree(folder, ignore_errors=True)
            try:
                argv = [str(PARTS / "install"), str(folder)]
                ended = subprocess.run(  # noqa: S603  # our own script
                    argv, capture_output=True, text=True, timeout=_INSTALL_DEADLINE_S, check=False
                )
                words, good = ended.stderr.strip().splitlines()[-3:], ended.returncode == 0
            except (OSError, subprocess.TimeoutExpired) as error:
                words, good = [str(error)], False
            if not good:
                raise DeviceError(
                    "no_adbd",
                    f"adbd could not be fetched: {' '.join(words) or 'apt ended without a word'}",
                    "give apt a Debian mirror that has trixie (apt-get update), then try again",
                )
            _whole().touch()
    return folder / "unpacked"


def _whole() -> Path:
    """Written last: a fetch that was cut short is made anew."""
    named = os.environ.get("EDGESWEEP_CACHE")
    cache = Path(named) if named else Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "edgesweep"
    return cache / f"adbd-trixie-{platform.machine()}" / "whole"


class VirtualPhone:
    """One phone: a context manager, or `start()` and `stop()`. What it is and does meanwhile is set by its methods.

    `folder` holds its state and must not exist. It ends with the thread that started it.
    """

    def __init__(
        self,
        folder: Path,
        serialno: str | None = None,
        *,
        storage_mb: int = 512,
        has_fixed_performance: bool = True,
    ) -> None:
        self._number: Hold | None = None
        number = 0
        if serialno is None:
            number, self._number = _free_number()
        self.serialno = serialno or f"VIRTUAL{number:04}"
        """What the phone calls itself: `ro.serialno`. Where it is not given, no other one of this host has it."""
        self._folder = folder
        self._storage_mb = storage_mb
        self._has_fixed_performance = has_fixed_performance
        self._process: subprocess.Popen[bytes] | None = None
        self._init: psutil.Process | None = None
        self._cable = Cable()
        self._temp_c, self._percent, self._status = 25.0, 80, 0

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    @property
    def serial(self) -> str:
        """By which the adb server knows it, once it was told `connect`."""
        return f"127.0.0.1:{self._cable.port}"

    @property
    def data(self) -> Path:
        """The phone's `/data`, as this host sees it while the phone runs."""
        return Path(f"/proc/{self._running().pid}/root/data")

    @property
    def fixed_performance(self) -> bool:
        return (self._folder / "fixed_performance").read_text().strip() == "true"

    def start(self) -> None:
        """Raises `DeviceError`: what `adbd()` raises, or `not_started` with the end of the phone's log."""
        unpacked = adbd()
        for part in ("properties", "dumpsys"):
            (self._folder / part).mkdir(parents=True)
        for name, value in _properties(self.serialno).items():
            self.set_property(name, value)
        if self._has_fixed_performance:
            (self._folder / "fixed_performance").write_text("false\n")
        self._boot()
        self.heat(self._temp_c)
        self._cable.plug()
        (self._folder / "serving").touch()
        argv = ["setpriv", "--pdeathsig", "KILL", "--", "unshare", "--mount", "--net", "--pid", "--fork"]
        argv += ["--kill-child", "--", str(PARTS / "init"), str(self._folder.resolve()), str(unpacked)]
        environment = {"PATH": os.defpath + ":/usr/sbin:/sbin", "HOME": "/data/local/tmp"}
        with (self._folder / "log").open("wb") as log:
            self._process = subprocess.Popen(  # noqa: S603  # our own script
                [*argv, str(self._storage_mb)],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                env=environment | {"ADBD_PORT": str(self._cable.port)},
                start_new_session=True,
            )
        try:
            self._wait_for_daemon()
        except BaseException:
            self.stop()
            raise

    def stop(self) -> None:
        """End it with all its programs. Its folder stays, for whoever wants its log."""
        self._cable.close()
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            with contextlib.suppress(psutil.Error):
                if self._init is not None:
                    self._init.wait(timeout=_START_DEADLINE_S)
        self._process = self._init = None
        if self._number is not None:
            self._number.release()

    def set_property(self, name: str, value: str | None) -> None:
        """What `getprop` tells of `name`; `None` takes the property away."""
        path = self._folder / "properties" / name
        if value is None:
            path.unlink(missing_ok=True)
        else:
            path.write_text(value, encoding="utf-8")

    def heat(self, temp_c: float, thermal_status: int = 0) -> None:
        """To a battery temperature and a thermal status, from 0 (none) to 6 (shutdown)."""
        self._temp_c, self._status = temp_c, thermal_status
        self._tell()

    def drain(self, percent: int) -> None:
        """The battery to so much of its charge."""
        self._percent = percent
        self._tell()

    def say(self, service: str, text: str | None) -> None:
        """What `dumpsys service` prints, until the next `heat` or `drain`; `None`: there is no such service."""
        path = self._folder / "dumpsys" / service
        if text is None:
            path.unlink(missing_ok=True)
        else:
            path.write_text(text, encoding="utf-8")

    def refuse_fixed_performance(self, words: str | None) -> None:
        """With these, from now on, whatever is asked of the mode; `None`: it is switched again."""
        path = self._folder / "power_says"
        path.write_text(words, encoding="utf-8") if words is not None else path.unlink(missing_ok=True)

    def fill_storage(self, leave_bytes: int) -> None:
        """With files that are not ours, until so much is free, or less where others write beside it."""
        with (self.data / "local" / "others").open("ab") as file:
            while (more := shutil.disk_usage(self.data).free - leave_bytes) > 0:
                try:
                    os.posix_fallocate(file.fileno(), file.tell(), more)
                    return
                except OSError as error:
                    # Somebody else took some of it after the look.
                    if error.errno != errno.ENOSPC:
                        raise

    def slow_down(self, answer_after_s: float = 0.0, bytes_per_s: float | None = None) -> None:
        """Its system services answer so much later, and no more than so many bytes pass each way of the cable."""
        path = self._folder / "answer_after_s"
        path.write_text(f"{answer_after_s}\n") if answer_after_s else path.unlink(missing_ok=True)
        self._cable.bytes_per_s = bytes_per_s

    def reboot(self) -> None:
        """A new boot id, and every program gone. The phone's files stay."""
        self._boot()
        self._end_programs()
        self._wait_for_daemon()

    def stop_daemon(self) -> None:
        # Where nobody listens, a network says so at once.
        self._cable.unplug()
        (self._folder / "serving").unlink(missing_ok=True)
        self._end_programs()

    def restart_daemon(self) -> None:
        """Its connections end; its programs go on."""
        for program in self._running().children():
            with contextlib.suppress(psutil.Error):
                if any(word.endswith("/adbd") for word in program.cmdline()[-1:]):
                    program.kill()
                    program.wait(_START_DEADLINE_S)
        self._wait_for_daemon()

    def start_daemon(self) -> None:
        (self._folder / "serving").touch()
        self._cable.plug()
        self._wait_for_daemon()

    def unplug(self, after_bytes: int = 0) -> None:
        """Pull the cable: now, or once so many more bytes have gone to the phone."""
        self._cable.unplug(after_bytes)

    def plug(self) -> None:
        self._cable.plug()

    def hang(self) -> None:
        """Nothing passes the cable any more, and nobody is told so."""
        self._cable.passing.clear()

    def go_on(self) -> None:
        self._cable.passing.set()

    def _boot(self) -> None:
        # In place: it is mounted over the phone's own.
        with (self._folder / "boot_id").open("r+" if (self._folder / "boot_id").exists() else "w") as file:
            file.write(f"{uuid.uuid4()}\n")

    def _tell(self) -> None:
        lines = ["Current Battery Service state:", "  AC powered: false", "  USB powered: true", "  present: true"]
        lines += [f"  level: {self._percent}", "  scale: 100", f"  temperature: {round(10 * self._temp_c)}"]
        self.say("battery", "\n".join([*lines, "  technology: Li-ion", ""]))
        self.say("thermalservice", f"IsStatusOverride: false\nThermal Status: {self._status}\nHAL Ready: true\n")

    def _running(self) -> psutil.Process:
        if self._init is None:
            raise DeviceError("not_started", f"the virtual phone {self.serialno} does not run", "start it first")
        return self._init

    def processes(self) -> list[psutil.Process]:
        """All that run on the phone, its daemon among them."""
        return self._running().children(recursive=True)

    def _end_programs(self) -> None:
        programs = self.processes()
        for program in programs:
            with contextlib.suppress(psutil.Error):
                program.send_signal(signal.SIGKILL)
        psutil.wait_procs(programs, timeout=_START_DEADLINE_S)

    def _wait_for_daemon(self) -> None:
        deadline = time.monotonic() + _START_DEADLINE_S
        assert self._process is not None
        while self._process.poll() is None and time.monotonic() < deadline:
            # It may have just ended, and has said why.
            with contextlib.suppress(psutil.Error, FileNotFoundError):
                if self._init is None:
                    self._init = next(iter(psutil.Process(self._process.pid).children()), None)
                # Before it is a process of the phone, its network is still the host's.
                elif self._init.name() != "unshare" and self._cable.reaches(self._init.pid):
                    return
            time.sleep(0.02)
        words = (self._folder / "log").read_text(errors="replace").strip().splitlines()[-3:]
        raise DeviceError(
            "not_started",
            f"the virtual phone {self.serialno} did not start: {' '.join(words) or 'it said nothing'}",
            "a container must be privileged: the phone mounts a storage of its own",
        )


@contextlib.contextmanager
def up(count: int, folder: Path) -> Iterator[list[VirtualPhone]]:
    """So many phones until the end of the block, each of a serial number that no other one of this host has."""
    with contextlib.ExitStack() as stack:
        yield [stack.enter_context(VirtualPhone(folder / f"phone-{place}")) for place in range(1, count + 1)]


def _free_number() -> tuple[int, Hold]:
    """The lowest, so that phones of today are those of yesterday."""
    for number in itertools.count(1):
        with contextlib.suppress(HeldError):
            return number, Hold(f"virtual phone {number}")
    raise AssertionError("there is always another number")


def _properties(serialno: str) -> Mapping[str, str]:
    """Of a phone that makes no secret of being virtual. ABI: the host's, whose programs it runs."""
    abi = {"x86_64": "x86_64", "aarch64": "arm64-v8a"}.get(platform.machine(), platform.machine())
    return {
        "ro.serialno": serialno,
        "ro.product.manufacturer": "EdgeSweep",
        "ro.product.model": "Virtual Phone",
        "ro.soc.manufacturer": "Host",
        "ro.soc.model": platform.machine(),
        "ro.product.cpu.abi": abi,
        "ro.build.version.release": "14",
        "ro.build.version.sdk": "34",
        "ro.build.fingerprint": "edgesweep/virtual/phone:14/1/1:user/release-keys",
    }
