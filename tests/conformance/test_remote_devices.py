"""A phone and a board do the same when a connection breaks, storage is full, bytes are spoiled or a driver dies.

The phone is a virtual one at a real adb server, the board a real sshd.
"""

import os
import re
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, suppress
from pathlib import Path
from typing import Protocol

import psutil
import pytest

from sweeps.errors import DeviceError
from sweeps.spec import catalog
from tests.faulty_phone import FaultyPhone
from tests.sshd import Board
from tests.virtual_phones import as_new
from tests.workers.board import board, own_board_lock, running_board  # noqa: F401  # fixtures
from tests.workers.phone_sweep import eventually, in_a_push, once, pause, running_on
from workers.devices import registry
from workers.devices.adb.adb_host import AdbHost
from workers.devices.adb.device import AdbDevice
from workers.devices.interface import Discovery
from workers.devices.remote.device import RemoteDevice
from workers.devices.ssh.device import SshDevice

pytestmark = pytest.mark.system


class Remote(Protocol):
    """A phone or a board, and what may happen to it."""

    name: str
    other_name: str
    """Another name of the same device."""
    folder: Path
    """All our files on the device, as this computer sees them."""
    mark: Path
    """A file that a program there makes to say that it runs, and waits to be deleted, as this computer sees it."""
    mark_there: str
    """The path of `mark` on the device."""
    nap_s: str
    """Seconds of a sleep that nothing else on this computer sleeps for; more digits may follow."""
    cut_kinds: tuple[str, ...]
    """The kinds of error of whoever uses the device while it is cut off."""
    driver_setup: str
    """Lines of Python that a driver in a process of its own needs."""
    cut: Callable[[], None]
    """Breaks the connections, and lets none be made until `mend`. Programs on the device continue."""

    def mend(self) -> None: ...
    def driver(self, *, patient: bool = True) -> RemoteDevice: ...
    def running(self, word: str) -> Sequence[object]: ...
    def leave_free(self, count: int) -> None: ...
    def cut_in_a_push(self) -> AbstractContextManager[None]: ...
    def spoiled_push(self) -> AbstractContextManager[None]: ...


class RemotePhone:
    """A virtual phone; its programs see `/data`."""

    mark_there = "/data/local/now"
    nap_s = "71.5"
    cut_kinds = ("disconnected", "offline")
    driver_setup = ""

    def __init__(self, phone: FaultyPhone) -> None:
        self.name = f"adb:{phone.serial}"
        self.folder = phone.data / "local/tmp/edgesweep"
        self.other_name = f"adb:localhost:{phone.serial.partition(':')[2]}"
        self.mark = phone.data / "local/now"
        self.phone = phone
        self.cut, self.mend = phone.unplug, phone.plug

    def driver(self, *, patient: bool = True) -> AdbDevice:
        answer_s, backoff_s = (30.0, (0.5, 2.0, 10.0)) if patient else (10.0, (0.1, 0.2, 0.4))
        return AdbDevice(Path(), self.phone.serial, answer_s=answer_s, backoff_s=backoff_s)

    def running(self, word: str) -> list[str]:
        return running_on(self.phone, word)

    def leave_free(self, count: int) -> None:
        self.phone.fill_storage(leave_bytes=count)

    @contextmanager
    def cut_in_a_push(self) -> Iterator[None]:
        self.phone.unplug(after_bytes=1_000_000)
        yield

    @contextmanager
    def spoiled_push(self) -> Iterator[None]:
        def spoil() -> None:
            with (self.folder / "part").open("r+b") as file:
                file.write(b"other")

        self.phone.slow_down(bytes_per_s=3e6)
        spoiling = in_a_push(self.phone, spoil)
        yield
        spoiling.join()


class RemoteBoard:
    """A board: an `sshd` of this computer, whose files and programs it shares."""

    nap_s = "7654."
    cut_kinds = ("offline",)

    def __init__(self, sshd: Board, lock: Path) -> None:
        self.name = sshd.name
        self.folder = sshd.folder
        self.other_name = f"ssh:{psutil.Process().username()}@{sshd.unit}"
        self.mark = sshd.root / "mark"
        self.mark_there = str(self.mark)
        self.driver_setup = (
            "from workers.devices.ssh import board_lock\n"
            f"board_lock._SCRIPT = board_lock._SCRIPT.replace(board_lock._FILE, {str(lock)!r})\n"
        )
        self._sshd = sshd
        self.cut = sshd.stop
        self.running = sshd.programs

    def driver(self, *, patient: bool = True) -> SshDevice:
        return SshDevice(Path(), self._sshd.unit, answer_s=20.0, backoff_s=(0.1,) * (100 if patient else 2))

    def mend(self) -> None:
        if not self._sshd.is_on():
            self._sshd.start()

    def leave_free(self, count: int) -> None:
        line = f"/dev/x 9 9 {count // 1024} 99% /"
        self._replace("df", f"echo Filesystem 1024-blocks Used Available Capacity Mounted on\necho {line}")

    @contextmanager
    def cut_in_a_push(self) -> Iterator[None]:
        def arrives() -> bool:
            with suppress(OSError):
                return any(part.stat().st_size > 500_000 for part in self.folder.glob("part-*"))
            return False

        cutting = once(arrives, self._sshd.cut)
        yield
        cutting.join()

    @contextmanager
    def spoiled_push(self) -> Iterator[None]:
        self._replace("dd", 'case $1 in of=*) tr "\\000-\\100" x | /bin/dd "$@";; *) exec /bin/dd "$@";; esac')
        yield

    def _replace(self, program: str, script: str) -> None:
        (self._sshd.bin / program).write_text(f"#!/bin/sh\n{script}\n")
        (self._sshd.bin / program).chmod(0o755)


@pytest.fixture(params=["adb", pytest.param("ssh", marks=pytest.mark.sshd)])
def remote(request: pytest.FixtureRequest) -> Iterator[Remote]:
    """The phone and the board, each as new for each test."""
    if request.param == "ssh":
        yield RemoteBoard(request.getfixturevalue("board"), request.getfixturevalue("own_board_lock"))
        return
    phone = RemotePhone(request.getfixturevalue("phones")[0])
    yield phone
    as_new(phone.phone)
    AdbHost(request.getfixturevalue("port")).disconnect(phone.other_name.removeprefix("adb:"))


DRIVER = """
from workers.devices import registry

device = registry.connect(sys.argv[1], Path())
device.take_lock()
device.run(["sh", "-c", sys.argv[2]], 300)
"""


def in_the_pause(remote: Remote, call: Callable[[], object]) -> threading.Thread:
    """Call the function once a program is in its pause, which ends when the function has returned."""

    def act() -> None:
        try:
            call()
        finally:
            remote.mark.unlink(missing_ok=True)

    return once(remote.mark.exists, act)


def failure(call: Callable[[], object]) -> DeviceError:
    with pytest.raises(DeviceError) as caught:
        call()
    return caught.value


def files(remote: Remote) -> list[str]:
    """Our files on the device, without those of attempts."""
    paths = (path.relative_to(remote.folder) for path in remote.folder.rglob("*") if path.is_file())
    return sorted(str(path) for path in paths if path.parts[0] != "attempts")


def file_of(folder: Path, size: int) -> Path:
    path = folder / "artifact"
    path.write_bytes(os.urandom(size))
    return path


def discovery_of(remote: Remote) -> Discovery:
    entry = catalog.device(remote.name)
    assert entry is not None
    return registry.discovery(entry)


@pytest.mark.parametrize(
    ("locked", "ends_away", "end", "exit_code"), [(False, False, "exit 7", 7), (True, True, "kill -SEGV $$", -11)]
)
def test_a_lost_connection_costs_no_result_and_nothing_runs_twice(
    remote: Remote, locked: bool, ends_away: bool, end: str, exit_code: int
) -> None:
    device = remote.driver()
    if locked:
        device.take_lock()
    device.run(["true"], 30)

    def slip() -> None:
        remote.cut()
        if ends_away:
            remote.mark.unlink()
            eventually(lambda: not remote.running(remote.mark_there))
        else:
            time.sleep(0.2)
        remote.mend()

    slipping = in_the_pause(remote, slip)
    starts = f"{remote.mark_there}.starts"
    try:
        script = (
            f"echo run >>{starts}; echo half; echo words >&2; {pause(remote.mark_there)}; sleep 1; echo whole; {end}"
        )
        done = device.run(["sh", "-c", script], 100)
        slipping.join()
        assert (done.exit_code, done.stdout, done.stderr) == (exit_code, b"half\nwhole\n", b"words\n")
        assert device.run(["cat", starts], 30).stdout == b"run\n"
        if locked:
            assert failure(remote.driver().take_lock).kind == "leased", "the lock is held, or was taken again"
    finally:
        device.run(["rm", "-f", starts], 30)
        device.release()


def test_a_device_that_stays_away_is_an_error_and_its_program_ends_on_return(remote: Remote) -> None:
    device = remote.driver(patient=False)
    device.run(["true"], 30)
    leaving = once(remote.mark.exists, remote.cut)
    error = failure(lambda: device.run(["sh", "-c", pause(remote.mark_there)], 100))
    leaving.join()
    assert error.kind in remote.cut_kinds
    assert remote.name in error.message
    assert error.next_step
    assert remote.running(remote.mark_there)
    remote.mend()
    assert device.run(["echo", "alone"], 30).stdout == b"alone\n"
    assert not remote.running(remote.mark_there)
    remote.mark.unlink()
    device.release()


ESCAPES = {"its child": "", "whoever ignores signals": "trap '' HUP INT TERM; "}


@pytest.mark.parametrize("way", ESCAPES)
def test_a_deadline_ends_all_of_a_program_and_tells_its_last_words(remote: Remote, way: str) -> None:
    device = remote.driver()
    # A number of its own: the other ways may be tried on this machine at the same time.
    sleep = f"sleep {remote.nap_s}{list(ESCAPES).index(way)}"
    began = time.monotonic()
    error = failure(lambda: device.run(["sh", "-c", f"{ESCAPES[way]}echo last words; {sleep} & {sleep}; echo"], 6.0))
    assert error.kind == "timeout"
    assert "was killed" in error.message
    assert "last words" in error.message
    assert not remote.running(sleep.split()[1])
    assert time.monotonic() - began < 30, "the sleep takes longer"
    assert device.run(["true"], 30).exit_code == 0
    device.release()


def test_ctrl_c_ends_the_program(remote: Remote) -> None:
    device = remote.driver()
    device.run(["true"], 30)
    stopping = once(remote.mark.exists, lambda: os.kill(os.getpid(), signal.SIGINT))
    with pytest.raises(KeyboardInterrupt):
        device.run(["sh", "-c", pause(remote.mark_there)], 100)
    stopping.join()
    assert not remote.running(remote.mark_there)
    remote.mark.unlink()
    device.release()


def test_output_without_end_is_refused_and_later_output_is_whole(remote: Remote) -> None:
    device = remote.driver()
    error = failure(lambda: device.run(["head", "-c", "100000000", "/dev/zero"], 100))
    assert error.kind == "too_much_output"
    assert "67 MB" in error.message
    assert error.next_step
    assert device.run(["head", "-c", "60000000", "/dev/zero"], 100).stdout == bytes(60_000_000)
    device.release()


def test_a_lock_is_free_once_it_was_released(remote: Remote) -> None:
    first, second = remote.driver(), remote.driver()
    first.take_lock()
    first.take_lock()
    error = failure(second.take_lock)
    assert error.kind == "leased"
    assert re.search(rf"process.{os.getpid()}\b", error.message)
    assert error.next_step
    first.release()
    second.take_lock()
    assert failure(first.take_lock).kind == "leased"
    second.release()


@pytest.mark.fault(28, "a second driver takes the device", "refused, with the other's process")
def test_what_a_killed_driver_left_running_is_ended_by_whoever_has_the_lock(remote: Remote) -> None:
    device = remote.driver()
    program = f"import sys\nfrom pathlib import Path\n{remote.driver_setup}{DRIVER}"
    argv = [sys.executable, "-c", program, remote.name, pause(remote.mark_there)]
    with subprocess.Popen(argv, env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}) as driver:
        try:
            eventually(remote.mark.exists)
            for name in (remote.name, remote.other_name):
                error = failure(registry.connect(name, Path()).take_lock)
                assert error.kind == "leased"
                assert re.search(rf"process.{driver.pid}\b", error.message)
                assert error.next_step
        finally:
            driver.kill()

    def is_taken() -> bool:
        with suppress(DeviceError):
            device.take_lock()
            return True
        return False

    eventually(is_taken, 30)
    assert remote.running(remote.mark_there), "a lock alone ends nothing"
    assert device.end_orphans()
    assert not remote.running(remote.mark_there)
    assert not (remote.folder / "attempts").exists()
    remote.mark.unlink()
    assert device.end_orphans() == ()
    assert device.run(["echo", "alone"], 30).stdout == b"alone\n"
    device.release()


def test_files_are_deleted_on_request_and_never_beside_a_sweep(remote: Remote, tmp_path: Path) -> None:
    device, discovery = remote.driver(), discovery_of(remote)
    device.push(file_of(tmp_path, 10), "kept")
    device.take_lock()
    assert failure(lambda: discovery.clean(remote.name)).kind == "leased"
    assert files(remote) == ["run/kept"]
    device.clean()
    assert not remote.folder.exists()
    assert failure(remote.driver().take_lock).kind == "leased", "whoever has the lock keeps it"
    device.push(file_of(tmp_path, 10), "again")
    device.release()
    discovery.clean(remote.name)
    assert not remote.folder.exists()


def test_a_full_device_says_need_and_have_and_is_sent_nothing(remote: Remote, tmp_path: Path) -> None:
    device = remote.driver()
    device.run(["true"], 30)
    remote.leave_free(1_500_000)
    error = failure(lambda: device.push(file_of(tmp_path, 4_000_000), "artifact"))
    assert error.kind == "no_space"
    assert re.search(r"needs 4\.0 MB, and 1\.\d MB are free", error.message)
    assert f"edgesweep devices clean {remote.name}" in error.next_step
    assert files(remote) == []
    device.release()


def test_a_push_that_is_cut_leaves_nothing_under_the_name(remote: Remote, tmp_path: Path) -> None:
    source = file_of(tmp_path, 20_000_000)
    device = remote.driver(patient=False)
    device.run(["true"], 30)
    with remote.cut_in_a_push():
        error = failure(lambda: device.push(source, "artifact"))
    assert error.kind in ("disconnected", *remote.cut_kinds)
    assert "run/artifact" not in files(remote)
    remote.mend()
    device.push(source, "artifact")
    assert (remote.folder / "run" / "artifact").read_bytes() == source.read_bytes()
    assert files(remote) == ["run/artifact"]
    device.release()


def test_bytes_that_arrive_wrong_are_never_put_in_place(remote: Remote, tmp_path: Path) -> None:
    device = remote.driver()
    device.run(["true"], 30)
    with remote.spoiled_push():
        error = failure(lambda: device.push(file_of(tmp_path, 6_000_000), "artifact"))
    assert error.kind == "corrupt_push"
    assert remote.name in error.message
    assert files(remote) == []
    device.release()


def test_a_push_of_a_missing_file_leaves_nothing(remote: Remote, tmp_path: Path) -> None:
    device = remote.driver()
    assert failure(lambda: device.push(tmp_path / "missing", "pushed")).kind == "os_error"
    device.push(file_of(tmp_path, 10), "other")
    assert files(remote) == ["run/other"]
    device.release()
