"""What tests of phones share."""

import random
import socket
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from sweeps.errors import DeviceError
from tests.workers.adb_server import kill_server
from tests.workers.phone_sweep import built, pair, running  # noqa: F401  # fixtures
from workers.virtual_phone import adbd


@pytest.fixture(scope="module")
def port(tmp_path_factory: pytest.TempPathFactory) -> Iterator[int]:
    """Of an adb server of our own, with keys of its own: nobody else's phones are touched."""
    try:
        cache = adbd().parents[1]
    except DeviceError as error:
        pytest.skip(f"no virtual phone: {error}")
    port = _free_port()
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("EDGESWEEP_CACHE", str(cache))
        patch.setenv("HOME", str(tmp_path_factory.mktemp("home")))
        patch.setenv("ANDROID_ADB_SERVER_PORT", str(port))
        yield port
        kill_server(port)


def _free_port() -> int:
    """None that the system gives away: the server binds it later, and anew after each time that it was killed."""
    given_from = int(Path("/proc/sys/net/ipv4/ip_local_port_range").read_text().split()[0])
    while True:
        port = random.randrange(given_from // 2, given_from)
        with suppress(OSError), socket.create_server(("127.0.0.1", port)):
            return port
