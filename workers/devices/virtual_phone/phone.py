"""Virtual phones: the real adb daemon on this host, behind the real adb server. Only the hardware is not a phone's.

Each phone has its own namespaces for mounts, processes and network. So it has its own `/data`, boot id and programs,
which end with it. CPU facts and other files are the host's. The programs in `bin/` give its answers. It is reached
through a `Cable` that listens on loopback only: adbd itself would open a root shell to the whole network.
"""

import contextlib
import errno
import itertools
import os
import shutil
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

_START_DEADLINE_S = 20.0


class VirtualPhone(Answers):
    """One phone: a context manager, or `start()` and `stop()`. Its other methods change its state while it runs.

    `folder` is for its state and must not exist. The phone ends with the thread that started it.
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
        """Its name in the adb server, after `adb connect`."""
        return f"127.0.0.1:{self._cable.port}"

    @property
    def data(self) -> Path:
        """The path of the phone's `/data` on this host, while the phone runs."""
        return Path(f"/proc/{self._running().pid}/root/data")

    def start(self) -> None:
        """Raises `DeviceError`: the errors of `adbd()`, or `not_started` with the end of the phone's log."""
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
                    self._init.wait(timeout=_START_DEADLINE_S)
        self._process = self._init = None
        if self._number is not None:
            self._number.release()

    def fill_storage(self, leave_bytes: int) -> None:
        """Fill the storage with a foreign file until only `leave_bytes` are free, or less if others write meanwhile."""
        with (self.data / "local" / "others").open("ab") as file:
            while (more := shutil.disk_usage(self.data).free - leave_bytes) > 0:
                try:
                    os.posix_fallocate(file.fileno(), file.tell(), more)
                    return
                except OSError as error:
                    # Another writer took some space after it was computed.
                    if error.errno != errno.ENOSPC:
                        raise

    def slow_down(self, answer_after_s: float = 0.0, bytes_per_s: float | None = None) -> None:
        """Delay the answers of the system services, and limit the bandwidth of the cable in each direction."""
        path = self._folder / "answer_after_s"
        path.write_text(f"{answer_after_s}\n") if answer_after_s else path.unlink(missing_ok=True)
        self._cable.bytes_per_s = bytes_per_s

    def reboot(self) -> None:
        """Kill every program and set a new boot id, before the daemon serves again. The phone's files stay."""
        self._stop_serving()
        self.boot()
        self._serve()

    def stop_daemon(self) -> None:
        # Unplugged, so that connections are refused at once.
        self._cable.unplug()
        self._stop_serving()

    def restart_daemon(self) -> None:
        """End the daemon's connections. The phone's programs continue."""
        for program in self._running().children():
            with contextlib.suppress(psutil.Error):
                if any(word.endswith("/adbd") for word in program.cmdline()[-1:]):
                    program.kill()
                    program.wait(_START_DEADLINE_S)
        self._wait_for_daemon()

    def start_daemon(self) -> None:
        self._cable.plug()
        self._serve()

    def unplug(self, after_bytes: int = 0) -> None:
        """Unplug the cable: now, or after `after_bytes` more bytes to the phone."""
        self._cable.unplug(after_bytes)

    def plug(self) -> None:
        self._cable.plug()

    def hang(self) -> None:
        """Stop all traffic on the cable, without closing connections."""
        self._cable.passing.clear()

    def lose_connections(self) -> None:
        """Let the present connections hang for ever, as when a network phone gets another address. New ones work."""
        self._cable.lose_connections()

    def go_on(self) -> None:
        self._cable.passing.set()

    def _running(self) -> psutil.Process:
        if self._init is None:
            raise DeviceError("not_started", f"the virtual phone {self.serialno} does not run", "start it first")
        return self._init

    def processes(self) -> list[psutil.Process]:
        """All processes on the phone, with its daemon."""
        return self._running().children(recursive=True)

    def _serve(self) -> None:
        (self._folder / "serving").touch()
        self._wait_for_daemon()

    def _stop_serving(self) -> None:
        (self._folder / "serving").unlink(missing_ok=True)
        programs = self.processes()
        for program in programs:
            with contextlib.suppress(psutil.Error):
                program.send_signal(signal.SIGKILL)
        psutil.wait_procs(programs, timeout=_START_DEADLINE_S)

    def _wait_for_daemon(self) -> None:
        assert self._process is not None
        for _ in tries(_START_DEADLINE_S, 0.02):
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
    """`count` phones until the end of the `with` block, with serial numbers that are unique on this host."""
    with contextlib.ExitStack() as stack:
        yield [stack.enter_context(VirtualPhone(folder / f"phone-{place}")) for place in range(1, count + 1)]


def _free_number() -> tuple[int, HostLock]:
    """The lowest free number, so that the same phones reappear in later runs."""
    for number in itertools.count(1):
        with contextlib.suppress(LockedError):
            return number, HostLock(f"virtual phone {number}", wait_s=0.0)
    raise AssertionError("there is always another number")
