"""A state folder has one host, whose process id its lock names until it ends."""

import errno
import fcntl
import os
from pathlib import Path

import pytest

from sweeps.errors import ClusterError
from workers.hosts.supervisor import leave, only_host


@pytest.fixture
def state(tmp_path: Path) -> Path:
    return tmp_path / "state"


def id_in(state: Path) -> str:
    (file,) = state.iterdir()
    return file.read_text()


def test_a_state_folder_has_one_host_which_is_named(state: Path) -> None:
    with (
        only_host(state),
        pytest.raises(ClusterError, match=rf"a device host already \(process {os.getpid()}\)") as caught,
        only_host(state),
    ):
        pytest.fail("there are two")
    assert "--state" in caught.value.next_step


def test_the_process_id_is_in_the_lock_only_while_there_is_a_host(state: Path) -> None:
    with only_host(state):
        assert id_in(state) == f"{os.getpid()}\n"
    assert id_in(state) == ""
    with pytest.raises(KeyError), only_host(state):
        raise KeyError("an error of the host")
    assert id_in(state) == ""
    assert not leave(state)
    with only_host(state):
        assert id_in(state) == f"{os.getpid()}\n"


def test_a_state_folder_on_a_file_system_without_locks_is_named(state: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refused(_file: int, _operation: int) -> None:
        raise OSError(errno.ENOLCK, os.strerror(errno.ENOLCK))

    monkeypatch.setattr(fcntl, "flock", refused)
    with pytest.raises(ClusterError, match="No locks available") as caught, only_host(state):
        pytest.fail("there is no lock")
    assert str(state) in caught.value.message
    assert "--state" in caught.value.next_step
