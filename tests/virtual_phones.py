"""Tests of phones share, on each worker, one adb server and two virtual phones, for the whole run."""

import shutil
import time
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

from sweeps.errors import DeviceError
from tests.faulty_phone import FaultyPhone, faulty_phones
from tests.free_port import free_port
from tests.workers.adb_server import forget_phones, kill_server
from workers.devices.virtual_phone.adbd import adbd

OURS = ("fault", "starts", "now", "others")
"""Files of tests in a phone's `/data/local`."""


class _Server(NamedTuple):
    port: int
    cache: Path
    home: Path


@pytest.fixture(scope="session")
def _server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[_Server]:
    """The adb server of a worker, which takes three seconds to start. A test that kills it leaves it to the next one to
    start it."""
    try:
        cache = adbd().parents[1]
    except DeviceError as error:
        pytest.skip(f"no virtual phone: {error}")
    server = _Server(free_port(), cache, tmp_path_factory.mktemp("home"))
    yield server
    kill_server(server.port)


@pytest.fixture(scope="session")
def _phones(_server: _Server, tmp_path_factory: pytest.TempPathFactory) -> Iterator[list[FaultyPhone]]:
    with faulty_phones(2, tmp_path_factory.mktemp("phones")) as phones:
        yield phones


@pytest.fixture(scope="module")
def port(_server: _Server) -> Iterator[int]:
    """The port of an adb server of our own, with keys of its own: nobody else's phones are touched. It knows no phone
    yet."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("EDGESWEEP_CACHE", str(_server.cache))
        patch.setenv("HOME", str(_server.home))
        patch.setenv("ANDROID_ADB_SERVER_PORT", str(_server.port))
        yield _server.port
        forget_phones(_server.port)


@pytest.fixture(scope="module")
def phones(port: int, _phones: list[FaultyPhone]) -> list[FaultyPhone]:
    """Two phones, just switched on. What does lasting harm to a phone takes one of its own."""
    for phone in _phones:
        as_new(phone)
        phone.reboot()
    return _phones


@pytest.fixture(scope="module")
def phone(phones: list[FaultyPhone]) -> FaultyPhone:
    return phones[0]


def as_new(phone: FaultyPhone) -> None:
    """Undo whatever a test did to the phone that can be undone."""
    phone.go_on()
    phone.slow_down()
    phone.plug()
    phone.start_daemon()
    phone.heat(25.0)
    phone.drain(80)
    phone.refuse_fixed_performance(None)
    phone.end_fixed_performance()
    for path in ("local/tmp/edgesweep", *(f"local/{name}" for name in OURS)):
        _remove(phone.data / path)


def _remove(path: Path) -> None:
    """Remove a path, also while a program on the phone, which is about to end, writes into it."""
    deadline = time.monotonic() + 60
    while True:
        shutil.rmtree(path, ignore_errors=True)
        try:
            path.unlink(missing_ok=True)
            return
        except IsADirectoryError:
            if time.monotonic() > deadline:
                raise
            time.sleep(0.05)
