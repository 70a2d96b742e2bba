"""Virtual phones: the real adb daemon on this host, behind the real adb server. Everything but the silicon is real.

Each has namespaces of its own for mounts, processes and network, so its `/data`, its boot id and its programs are its
own and end with it. Its CPU facts and its other files are the host's. The programs in `bin/` give its answers. It is
reached through a cable that listens on loopback only: adbd itself would open a root shell to the whole network.
"""

import contextlib
import errno
import itertools
import os
import shutil
import signal
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Self

import psutil

from sweeps.errors import DeviceError
from workers.devices.adb.lease import HeldError, Hold
from workers.devices.virtual_phone.adbd import PARTS, adbd
from workers.devices.virtual_phone.answers import Answers
from workers.devices.virtual_phone.cable import Cable

_START_DEADLINE_S = 20.0


class VirtualPhone(Answers):
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
        # Where it is not given, no other phone of this host has it.
        super().__init__(folder, serialno or f"VIRTUAL{number:04}", has_fixed_performance=has_fixed_performance)
        self._storage_mb = storage_mb
        self._process: subprocess.Popen[bytes] | None = None
        self._init: psutil.Process | None = None
        self._cable = Cable()

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

    def start(self) -> None:
        """Raises `DeviceError`: what `adbd()` raises, or `not_started` with the end of the phone's log."""
        unpacked = adbd()
        self.write_all()
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
        self.boot()
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
