"""What tests of phones share."""

from collections.abc import Iterator

import pytest

from sweeps.errors import DeviceError
from tests.free_port import free_port
from tests.workers.adb_server import kill_server
from tests.workers.phone_sweep import built, pair, running  # noqa: F401  # fixtures
from workers.devices.virtual_phone.adbd import adbd


@pytest.fixture(scope="module")
def port(tmp_path_factory: pytest.TempPathFactory) -> Iterator[int]:
    """Of an adb server of our own, with keys of its own: nobody else's phones are touched."""
    try:
        cache = adbd().parents[1]
    except DeviceError as error:
        pytest.skip(f"no virtual phone: {error}")
    port = free_port()
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("EDGESWEEP_CACHE", str(cache))
        patch.setenv("HOME", str(tmp_path_factory.mktemp("home")))
        patch.setenv("ANDROID_ADB_SERVER_PORT", str(port))
        yield port
        kill_server(port)
