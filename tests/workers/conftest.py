"""What tests of phones share: on each worker one adb server and two virtual phones, for the whole run."""

from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

from sweeps.errors import DeviceError
from tests.free_port import free_port
from tests.workers.adb_server import forget_phones, kill_server
from tests.workers.board import board, own_lease, running_board  # noqa: F401  # fixtures
from tests.workers.phone_sweep import as_new, built, pair, running  # noqa: F401  # fixtures
from workers.devices.virtual_phone.adbd import adbd
from workers.devices.virtual_phone.phone import VirtualPhone, up


class _Server(NamedTuple):
    port: int
    cache: Path
    home: Path


@pytest.fixture(scope="session")
def _server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[_Server]:
    """A start takes it three seconds. A test that kills it leaves it to the next one to start it."""
    try:
        cache = adbd().parents[1]
    except DeviceError as error:
        pytest.skip(f"no virtual phone: {error}")
    server = _Server(free_port(), cache, tmp_path_factory.mktemp("home"))
    yield server
    kill_server(server.port)


@pytest.fixture(scope="session")
def _phones(_server: _Server, tmp_path_factory: pytest.TempPathFactory) -> Iterator[list[VirtualPhone]]:
    with up(2, tmp_path_factory.mktemp("phones")) as phones:
        yield phones


@pytest.fixture(scope="module")
def port(_server: _Server) -> Iterator[int]:
    """Of an adb server of our own, with keys of its own: nobody else's phones are touched. It knows no phone yet."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("EDGESWEEP_CACHE", str(_server.cache))
        patch.setenv("HOME", str(_server.home))
        patch.setenv("ANDROID_ADB_SERVER_PORT", str(_server.port))
        yield _server.port
        forget_phones(_server.port)


@pytest.fixture(scope="module")
def phones(port: int, _phones: list[VirtualPhone]) -> list[VirtualPhone]:
    """Two, just switched on. What does lasting harm to a phone takes one of its own."""
    for phone in _phones:
        as_new(phone)
        phone.reboot()
    return _phones


@pytest.fixture(scope="module")
def phone(phones: list[VirtualPhone]) -> VirtualPhone:
    return phones[0]
