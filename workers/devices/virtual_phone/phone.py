"""Virtual phones: the real adb daemon on this host, behind the real adb server. Only the hardware is not that of a
phone.

Each phone has separate namespaces for mounts, processes and network. So it has its own `/data`, boot id and programs,
which end with it. CPU facts and other files are those of the host. The programs in `bin/` print the phone's answers.
The phone is reached through a `Cable` that listens on loopback only: adbd itself would open a root shell to the whole
network.
"""

import contextlib
import itertools
import os
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Self

import psutil

from sweeps.errors import DeviceError
from sweeps.locks import HostLock, LockedError
from sweeps.retry import tries
from sweeps.with_parent import ended_with_thread
from workers.devices.virtual_phone.adbd import PARTS, adbd
from workers.devices.virtual_phone.answers import Answers
from workers.devices.virtual_phone.cable import Cable

START_DEADLINE_S = 20.0


class VirtualPhone(Answers):
    """One virtual phone: a context manager, or used by `start()` and `stop()`.

    `folder` is for the phone's state and must not exist. The phone ends with the thread that started it.
    """

    def __init__(
        self,
        folder: Path,
        serialno: str | None = None,
        *,
        storage_mb: int = 512,
        has_fixed_performance: bool = True,
    ) -> None:
        self._number: HostLock | None = None
        number = 0
        if serialno is None:
            number, self._number = _free_number()
        # A default serial number is unique on this host.
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
        """Return the phone's name in the adb server, after `adb connect`."""
        return f"127.0.0.1:{self._cable.port}"

    def start(self) -> None:
        """Start the phone. Raises `DeviceError`: the errors of `adbd()`, or `not_started` with the end of the phone's
        log."""
        unpacked = adbd()
        self.write_all()
        self._cable.plug()
        (self._folder / "serving").touch()
        argv = ["unshare", "--mount", "--net", "--pid", "--fork"]
        argv += ["--kill-child", "--", str(PARTS / "init"), str(self._folder.resolve()), str(unpacked)]
        environment = {"PATH": os.defpath + ":/usr/sbin:/sbin", "HOME": "/data/local/tmp"}
        with (self._folder / "log").open("wb") as log:
            self._process = subprocess.Popen(  # noqa: S603  # our own script
                ended_with_thread([*argv, str(self._storage_mb)], signal.SIGKILL),
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
        """Stop the phone and all its programs. Its folder is kept, because it contains the log."""
        self._cable.close()
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            with contextlib.suppress(psutil.Error):
                if self._init is not None:
                    self._init.wait(timeout=START_DEADLINE_S)
        self._process = self._init = None
        if self._number is not None:
            self._number.release()

    def _wait_for_daemon(self) -> None:
        assert self._process is not None
        for _ in tries(START_DEADLINE_S, 0.02):
            if self._process.poll() is not None:
                break
            # The process may have just ended; its log says why.
            with contextlib.suppress(psutil.Error, FileNotFoundError):
                if self._init is None:
                    self._init = next(iter(psutil.Process(self._process.pid).children()), None)
                # While it is still `unshare`, its network is the host's.
                elif self._init.name() != "unshare" and self._cable.reaches(self._init.pid):
                    return
        lines = (self._folder / "log").read_text(errors="replace").strip().splitlines()[-3:]
        raise DeviceError(
            "not_started",
            f"the virtual phone {self.serialno} did not start: {' '.join(lines) or 'its log is empty'}",
            "a container must be privileged, because the phone mounts its own storage",
        )


@contextlib.contextmanager
def up(count: int, folder: Path) -> Iterator[list[VirtualPhone]]:
    """Run `count` phones until the end of the `with` block, with serial numbers that are unique on this host."""
    with contextlib.ExitStack() as stack:
        yield [stack.enter_context(VirtualPhone(folder / f"phone-{place}")) for place in range(1, count + 1)]


def _free_number() -> tuple[int, HostLock]:
    """Return the lowest free number and its lock, so that later runs get the same phones again."""
    for number in itertools.count(1):
        with contextlib.suppress(LockedError):
            return number, HostLock(f"virtual phone {number}", wait_s=0.0)
    raise AssertionError("there is always another number")
