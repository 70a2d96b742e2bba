"""Locks are taken once, waited for and seen; those of the host lie in a folder where nothing is trusted."""

import errno
import fcntl
import os
import stat
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from sweeps import locks
from sweeps.errors import DeviceError
from sweeps.locks import HostLock, LockedError, host_lock_owner, locked, owner


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    path = tmp_path / "locks"
    monkeypatch.setattr(locks, "HOST_FOLDER", path)
    return path


@pytest.fixture
def file(folder: Path) -> Path:
    """Where the lock of `phone X` would lie."""
    HostLock("phone X").release()
    (path,) = folder.iterdir()
    path.unlink()
    return path


@pytest.fixture
def victim(tmp_path: Path) -> Path:
    path = tmp_path / "victim"
    path.write_text("precious")
    path.chmod(0o600)
    return path


def assert_untouched(victim: Path) -> None:
    assert victim.read_text() == "precious"
    assert stat.S_IMODE(victim.stat().st_mode) == 0o600


def test_a_name_is_locked_once_and_its_owner_is_seen(folder: Path) -> None:
    first = HostLock("phone ../X")
    with pytest.raises(LockedError) as caught:
        HostLock("phone ../X", wait_s=0.0)
    assert caught.value.process == os.getpid() == host_lock_owner("phone ../X")
    HostLock("phone Y").release()
    assert host_lock_owner("phone Y") is None
    assert host_lock_owner("phone Z") is None
    first.release()
    HostLock("phone ../X").release()
    assert stat.S_IMODE(folder.stat().st_mode) == 0o1777
    assert {stat.S_IMODE(path.stat().st_mode) for path in folder.iterdir()} == {0o666}
    assert len(list(folder.iterdir())) == 2


def test_shared_locks_go_together_and_with_no_other(folder: Path) -> None:
    shared = [HostLock("adb server 1", shared=True) for _ in range(2)]
    with pytest.raises(LockedError):
        HostLock("adb server 1", wait_s=0.0)
    for lock in shared:
        lock.release()
    alone = HostLock("adb server 1")
    with pytest.raises(LockedError):
        HostLock("adb server 1", shared=True, wait_s=0.0)
    alone.release()


def test_a_lock_is_waited_for_until_it_is_free(tmp_path: Path) -> None:
    path = tmp_path / "folder" / "lock"
    with locked(path):
        assert owner(path) == os.getpid()
        with pytest.raises(LockedError), locked(path, wait_s=0.05):
            pass
    ended = []

    def wait(wait_s: float | None) -> None:
        with locked(path, wait_s=wait_s):
            ended.append(wait_s)

    with ThreadPoolExecutor() as pool:
        with locked(path):
            waiting = [pool.submit(wait, wait_s) for wait_s in (None, 60.0)]
            assert not ended
        for future in waiting:
            future.result(60)
    assert owner(path) is None


def test_of_what_is_no_plain_file_nobody_is_the_owner(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    assert owner(tmp_path / "pipe") is None
    (tmp_path / "link").symlink_to("lock")
    with locked(tmp_path / "lock"):
        assert owner(tmp_path / "link") is None


def test_a_damaged_file_of_a_lock_names_no_process(tmp_path: Path) -> None:
    with locked(tmp_path / "lock"):
        (tmp_path / "lock").write_text("no id")
        assert owner(tmp_path / "lock") == 0


@pytest.mark.parametrize(
    "lay",
    [
        lambda path, victim: path.symlink_to(victim),
        lambda path, victim: path.hardlink_to(victim),
        lambda path, _: path.symlink_to(path.parent / "nowhere"),
        lambda path, _: os.mkfifo(path),
        lambda path, _: path.mkdir(),
    ],
    ids=["link", "hard link", "link to nothing", "pipe", "folder"],
)
def test_what_is_no_plain_file_of_its_own_is_refused_and_not_written(
    file: Path, victim: Path, lay: Callable[[Path, Path], object]
) -> None:
    lay(file, victim)
    with pytest.raises(DeviceError) as caught:
        HostLock("phone X")
    assert caught.value.kind == "os_error"
    assert str(file) in caught.value.message
    assert str(file) in caught.value.next_step
    assert_untouched(victim)
    assert not (file.parent / "nowhere").exists()


def test_a_folder_that_leads_elsewhere_is_refused_and_keeps_its_mode(folder: Path, tmp_path: Path) -> None:
    other = tmp_path / "other"
    other.mkdir(mode=0o700)
    folder.symlink_to(other)
    with pytest.raises(DeviceError, match="cannot be opened"):
        HostLock("phone X")
    assert stat.S_IMODE(other.stat().st_mode) == 0o700
    assert not list(other.iterdir())


def test_a_file_system_without_locks_is_named_and_nothing_stays_open(
    file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refused(_file: int, _operation: int) -> None:
        raise OSError(errno.ENOLCK, os.strerror(errno.ENOLCK))

    monkeypatch.setattr(fcntl, "flock", refused)
    open_before = len(list(Path("/proc/self/fd").iterdir()))
    with pytest.raises(DeviceError) as caught:
        HostLock("phone X")
    assert caught.value.kind == "os_error"
    assert caught.value.message == f"{file} cannot be locked ([Errno 37] No locks available)"
    assert str(file.parent) in caught.value.next_step
    assert len(list(Path("/proc/self/fd").iterdir())) == open_before
