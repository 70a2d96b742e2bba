"""Virtual phones with faults: tests heat, drain, fill, restart, slow and unplug them."""

import contextlib
import errno
import os
import shutil
import signal
import socket
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psutil

from sweeps.errors import DeviceError
from workers.devices.virtual_phone.cable import Cable
from workers.devices.virtual_phone.phone import START_DEADLINE_S, VirtualPhone


class FaultyCable(Cable):
    """A cable that can be slow, hang, be cut in the midst of a push, or lose what passes."""

    def __init__(self) -> None:
        super().__init__()
        self.bytes_per_s: float | None = None
        self.passing = threading.Event()
        self.passing.set()
        self._dead: set[socket.socket] = set()
        self._cut_after: int | None = None

    def plug(self) -> None:
        if self._listener is None:
            self._cut_after = None
        super().plug()

    def unplug(self, after_bytes: int = 0) -> None:
        if after_bytes:
            self._cut_after = after_bytes
        else:
            super().unplug()

    def close(self) -> None:
        self.passing.set()
        super().close()

    def lose_connections(self) -> None:
        """Nothing comes through the present connections any more, and nobody is told. New ones work."""
        with self._lock:
            self._dead |= self._ends

    def forward(self, block: bytes, source: socket.socket, sink: socket.socket) -> None:
        self.passing.wait()
        if source in self._dead:
            return
        # The host's end of a connection has the port that the cable listens on.
        if (left := self._cut_after) is not None and source.getsockname()[1] == self.port:
            self._cut_after = left = left - len(block)
            if left <= 0:
                self.unplug()
                return
        if (bytes_per_s := self.bytes_per_s) is not None:
            time.sleep(len(block) / bytes_per_s)
        super().forward(block, source, sink)


class FaultyPhone(VirtualPhone):
    """A virtual phone whose methods change its state while it runs."""

    def __init__(self, folder: Path, serialno: str | None = None, **options: Any) -> None:
        super().__init__(folder, serialno, **options)
        self._cable: FaultyCable = FaultyCable()

    @property
    def data(self) -> Path:
        """The path of the phone's `/data` on this host, while the phone runs."""
        return Path(f"/proc/{self._running().pid}/root/data")

    def heat(self, temp_c: float, thermal_status: int = 0) -> None:
        """Set the battery temperature and the thermal status, from 0 (none) to 6 (shutdown)."""
        self._temp_c, self._status = temp_c, thermal_status
        self._write_services()

    def drain(self, percent: int) -> None:
        """Set the battery's charge."""
        self._percent = percent
        self._write_services()

    def refuse_fixed_performance(self, words: str | None) -> None:
        """Answer every request to switch the mode with this text; `None`: switch it again."""
        path = self._folder / "power_says"
        path.write_text(words, encoding="utf-8") if words is not None else path.unlink(missing_ok=True)

    def refuse_restart(self, refuse: bool) -> None:
        """Set whether the phone refuses a request to restart."""
        path = self._folder / "stays_up"
        path.touch() if refuse else path.unlink(missing_ok=True)

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
                    program.wait(START_DEADLINE_S)
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
        psutil.wait_procs(programs, timeout=START_DEADLINE_S)


@contextlib.contextmanager
def faulty_phones(count: int, folder: Path) -> Iterator[list[FaultyPhone]]:
    """`count` phones until the end of the `with` block, with serial numbers that are unique on this host."""
    with contextlib.ExitStack() as stack:
        yield [stack.enter_context(FaultyPhone(folder / f"phone-{place}")) for place in range(1, count + 1)]
