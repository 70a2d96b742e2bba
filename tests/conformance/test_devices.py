"""Every registered device keeps the same promises, whatever its transport: programs, files, sensors, clock, mode."""

import math
import os
import sys
import time
from collections.abc import Iterator
from dataclasses import fields
from pathlib import Path

import pytest

from sweeps.errors import DeviceError
from sweeps.spec import catalog
from workers.devices import registry
from workers.devices.interface import Device
from workers.measure.fixed_performance import FixedPerformance, restore_leftovers

# `steady` has a fixed-performance mode, `hot` has none.
NAMED = {"fake": ("steady", "hot")}
NAMES = [name for name, entry in catalog.devices().items() if not entry.unit]
NAMES += [f"{kind}:{name}" for kind, names in NAMED.items() for name in names]
HOSTILE = ["plain.bin", "two words", "it's", 'say "hi"', "$(touch x); rm -rf *", "a\nb", "-rf", "ünï.bin", "%s {0} *?["]


@pytest.fixture(params=NAMES)
def name(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def home(tmp_path: Path) -> Path:
    home = tmp_path / "a folder with 'quotes',\n lines and $(spaces)"
    home.mkdir()
    return home


@pytest.fixture
def device(name: str, home: Path) -> Device:
    return registry.connect(name, home)


@pytest.fixture
def outside(tmp_path: Path, home: Path) -> Iterator[Path]:
    """A folder for files of the host; nothing but that and the device's own folder may be touched."""
    folder = tmp_path / "host"
    folder.mkdir()
    before = set(tmp_path.iterdir())
    yield folder
    assert set(tmp_path.iterdir()) == before


def test_facts_name_the_device_and_say_what_results_depend_on(name: str, device: Device, home: Path) -> None:
    facts = device.facts()
    assert facts.name == name
    assert facts.device_id
    assert facts.device_id not in facts.fingerprint
    assert all((facts.maker, facts.model, facts.soc, facts.os_build, facts.abi, facts.exec_context))
    assert facts.cores >= 1
    again = registry.connect(name, home).facts()
    assert (again.device_id, again.fingerprint) == (facts.device_id, facts.fingerprint)


def test_no_two_devices_are_taken_for_one(home: Path) -> None:
    facts = [registry.connect(name, home).facts() for name in NAMES]
    assert len({fact.device_id for fact in facts}) == len({fact.fingerprint for fact in facts}) == len(NAMES)


def test_a_program_s_output_and_exit_code_come_back(device: Device) -> None:
    program = "import sys; sys.stdout.buffer.write(bytes(range(256))); print('err', file=sys.stderr); sys.exit(7)"
    done = device.run([sys.executable, "-c", program], 60)
    assert (done.exit_code, done.stdout, done.stderr) == (7, bytes(range(256)), b"err\n")


def test_arguments_arrive_as_they_are(device: Device) -> None:
    done = device.run([sys.executable, "-c", "import sys; print(ascii(sys.argv[1:]))", *HOSTILE, ""], 60)
    assert done.stdout.decode().strip() == ascii([*HOSTILE, ""])


def test_a_program_that_is_killed_tells_the_signal(device: Device) -> None:
    assert device.run([sys.executable, "-c", "import os; os.kill(os.getpid(), 9)"], 60).exit_code == -9


def test_a_deadline_ends_the_program(device: Device, outside: Path) -> None:
    pid = outside / "pid"
    program = f"import os, time; open({str(pid)!r}, 'w').write(str(os.getpid())); time.sleep(60)"
    with pytest.raises(DeviceError) as caught:
        device.run([sys.executable, "-c", program], 8)
    assert caught.value.kind == "timeout"
    with pytest.raises(ProcessLookupError):
        os.kill(int(pid.read_text()), 0)


def test_a_program_that_is_not_there_is_an_error_or_an_exit_code(device: Device) -> None:
    try:
        done = device.run(["/no/such/program"], 60)
    except DeviceError as error:
        assert error.kind == "os_error"  # noqa: PT017  # either is fine
    else:
        assert done.exit_code != 0


@pytest.mark.parametrize("file_name", HOSTILE)
def test_files_go_there_and_back_under_any_name(device: Device, outside: Path, file_name: str) -> None:
    source, back = outside / "source", outside / "back"
    source.write_bytes(bytes(range(256)) * 1000)
    path = device.push(source, file_name)
    assert path == device.push(source, file_name)
    device.pull(path, back, 256_000)
    assert back.read_bytes() == source.read_bytes()
    device.remove(path)
    device.remove(path)
    with pytest.raises(DeviceError) as caught:
        device.pull(path, back, 256_000)
    assert caught.value.kind == "no_output"
    assert source.exists()


def test_a_file_larger_than_it_may_be_does_not_come_back(device: Device, outside: Path) -> None:
    source, back = outside / "source", outside / "back"
    source.write_bytes(bytes(24_001))
    path = device.push(source, "answers")
    with pytest.raises(DeviceError) as caught:
        device.pull(path, back, 24_000)
    assert caught.value.kind == "too_much_output"
    assert not back.exists() or back.stat().st_size <= 24_000
    device.pull(path, back, 24_001)
    assert back.stat().st_size == 24_001


@pytest.mark.parametrize("file_name", ["", ".", "..", "../out", "a/b", "/tmp/out"])
def test_a_name_that_leads_elsewhere_is_refused(device: Device, outside: Path, file_name: str) -> None:
    source = outside / "source"
    source.write_bytes(b"x")
    with pytest.raises(DeviceError) as caught:
        device.push(source, file_name)
    assert caught.value.kind == "bad_name"


def test_a_file_elsewhere_is_not_removed(device: Device, outside: Path) -> None:
    outsider = outside / "kept"
    outsider.write_bytes(b"x")
    for path in (str(outsider), "kept", "..", ""):
        with pytest.raises(DeviceError) as caught:
            device.remove(path)
        assert caught.value.kind == "bad_name"
    assert outsider.exists()


def test_a_push_of_what_is_not_there_leaves_nothing(device: Device, outside: Path) -> None:
    with pytest.raises(DeviceError):
        device.push(outside / "missing", "pushed")
    source = outside / "source"
    source.write_bytes(b"x")
    folder = Path(device.push(source, "other")).parent
    assert [path.name for path in folder.iterdir()] == ["other"]


def test_what_is_pushed_can_be_run_on(device: Device, outside: Path) -> None:
    source = outside / "source"
    source.write_text("print('from the file')")
    assert device.run([sys.executable, device.push(source, "a 'program'.py")], 60).stdout == b"from the file\n"


def test_sensors_are_in_their_units_or_unknown(device: Device) -> None:
    readings = device.sensors()
    ranges = {
        "temp_c": (-30, 150),
        "thermal_status": (0, 6),
        "battery_percent": (0, 100),
        "steal_seconds": (0, math.inf),
        "cpu_mhz": (1, 20_000),
        "load": (0, 1),
        "throttle_count": (0, math.inf),
    }
    unbounded = {"temp_is_battery", "has_battery", "competing", "shared"}
    assert ranges.keys() | unbounded == {field.name for field in fields(readings)}, "a sensor that nothing is known of"
    for sensor, (low, high) in ranges.items():
        value = getattr(readings, sensor)
        assert value is None or low <= value <= high, sensor
    assert readings.battery_percent is None or readings.has_battery
    assert not readings.temp_is_battery or readings.has_battery


def test_sensors_are_read_in_little_time(device: Device) -> None:
    device.sensors()
    began, began_s = time.monotonic(), device.now_s()
    device.sensors()
    assert time.monotonic() - began < 20
    assert device.now_s() - began_s < 20


def test_the_clock_never_goes_back_and_rest_lets_it_pass(device: Device, outside: Path) -> None:
    source = outside / "source"
    source.write_bytes(b"x" * 10_000)
    times = [device.now_s()]
    for call in (
        lambda: device.rest(0.2),
        lambda: device.rest(0),
        lambda: device.run([sys.executable, "-c", "import time; time.sleep(0.2)"], 60),
        lambda: device.push(source, "file"),
        device.sensors,
    ):
        call()
        times.append(device.now_s())
    assert times == sorted(times)
    assert 0.2 <= times[1] - times[0] < 20
    assert times[3] - times[2] >= 0.2


def test_a_fixed_performance_mode_is_restored(name: str, device: Device, home: Path) -> None:
    device_id = device.facts().device_id
    # The mode may be off already.
    has = device.set_fixed_performance(False)
    with FixedPerformance(device, device_id, home) as fixed:
        assert fixed.on is (True if has else None)
        seen_inside = list((home / "fixed-performance").glob("*"))
    assert bool(seen_inside) == has
    assert not list((home / "fixed-performance").glob("*"))
    assert restore_leftovers(registry.connect(name, home), device_id, home) is False
