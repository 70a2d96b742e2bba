"""Files on a phone that cannot hash them itself, as Android 7, or has no room for them."""

import subprocess
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from sweeps.errors import DeviceError
from tests.conformance.test_remote_devices import file_of
from tests.faulty_phone import FaultyPhone
from tests.workers.phone_sweep import in_a_push
from workers.devices.adb.device import AdbDevice

pytestmark = pytest.mark.system

FOLDER = "local/tmp/edgesweep"
FILE = f"{FOLDER}/run/model.pt"


@pytest.fixture(scope="module")
def phone(port: int, tmp_path_factory: pytest.TempPathFactory) -> Iterator[FaultyPhone]:
    """Without `sha256sum`: in its own mounts, nothing that can be started is there."""
    with FaultyPhone(tmp_path_factory.mktemp("phone") / "one") as phone:
        init = phone.data.parts[2]
        program = str(Path(f"/proc/{init}/root").readlink() / "usr/bin/sha256sum")
        argv = ["nsenter", "--target", init, "--mount", "--", "mount", "--bind", "/dev/null", program]
        subprocess.run(argv, check=True, capture_output=True, timeout=20)
        yield phone


@pytest.fixture
def device(phone: FaultyPhone, tmp_path: Path) -> AdbDevice:
    device = AdbDevice(tmp_path, phone.serial, answer_s=10.0, backoff_s=(0.1, 0.2, 0.4))
    device.clean()
    assert device.run(["sha256sum", "/dev/null"], 10).exit_code != 0
    return device


def test_a_phone_that_cannot_hash_has_its_files_read_back(
    device: AdbDevice, phone: FaultyPhone, tmp_path: Path
) -> None:
    source = file_of(tmp_path, 300_000)
    device.push(source, "model.pt")
    assert (phone.data / FILE).read_bytes() == source.read_bytes()
    placed = (phone.data / FILE).stat().st_ino
    device.push(source, "model.pt")
    assert (phone.data / FILE).stat().st_ino == placed
    # This file has the same size, and another content.
    other = file_of(tmp_path, 300_000)
    device.push(other, "model.pt")
    assert (phone.data / FILE).read_bytes() == other.read_bytes()


def test_bytes_that_arrived_wrong_are_seen_on_a_phone_that_cannot_hash(
    device: AdbDevice, phone: FaultyPhone, tmp_path: Path
) -> None:
    source = file_of(tmp_path, 6_000_000)
    part = phone.data / FOLDER / "part"
    spoiled = threading.Event()

    def spoil() -> None:
        with part.open("r+b") as file:
            file.write(b"other")
        spoiled.set()

    phone.slow_down(bytes_per_s=2e6)
    spoiler = in_a_push(phone, spoil)
    try:
        with pytest.raises(DeviceError) as caught:
            device.push(source, "model.pt")
    finally:
        phone.slow_down()
        spoiler.join()
    assert spoiled.is_set()
    assert caught.value.kind == "corrupt_push"
    assert phone.serial in caught.value.message
    assert not (phone.data / FILE).exists()
    assert not part.exists()
