"""A phone may print anything about itself: nonsense is unknown, never an error, and read in little time."""

import re
import time
from collections.abc import Callable
from pathlib import Path
from typing import NoReturn

import pytest

from sweeps.device_facts import DeviceFacts
from sweeps.errors import DeviceError
from tests.workers.devices.adb.scripted_phone import Answer, scripted
from workers.devices.adb import questions
from workers.devices.adb.facts import parse_battery, parse_properties, read_facts, read_sensors
from workers.devices.interface import Sensors
from workers.devices.linux.kernel_text import parse_clusters

CORE = "/sys/devices/system/cpu/cpu"
HUGE = "9" * 5000
BATTERY = "  level: 80\n  scale: 100\n  temperature: 250\n"
STAT = "cpu  10 20 30 40 50 60 70 80 0 0\n"


def facts(*, meminfo: str = "", sdk: str = "", cpu_files: str = "") -> DeviceFacts:
    return read_facts(
        "adb:one",
        "one",
        properties={"ro.build.version.sdk": sdk},
        cpuinfo="processor\t: 0\n",
        meminfo=meminfo,
        cpu_files=cpu_files,
        has_nnapi=True,
    )


def sensors(*, thermal: str = "", before: str = STAT, after: str = "") -> Sensors:
    return read_sensors(
        battery=BATTERY, thermal=thermal, zones="", mhz="", stat_before=before, stat_after=after, processes=""
    )


@pytest.mark.parametrize("number", [HUGE, "9" * 16, "٣", "-1", "", "0x10", "1e9"])
def test_a_number_that_cannot_be_true_is_unknown(number: str) -> None:
    assert facts(meminfo=f"MemTotal:  {number} kB\n").ram_bytes is None
    assert facts(sdk=number).nnapi_level is None
    assert parse_battery(f"  level: {number}\n  temperature: {number}\n  scale: 100\n")[2] in (None, -0.1)
    assert sensors(before=f"cpu  1 2 3 4 5 6 7 {number}\n").steal_seconds is None
    assert sensors(thermal=f"Thermal Status: {number}\n").thermal_status is None
    lines = [f"{CORE}{cpu}/cpu_capacity:{capacity}\n" for cpu, capacity in enumerate(["300", number, "900"])]
    assert parse_clusters("".join([f"{CORE}0\n{CORE}1\n{CORE}2\n", *lines])) == ((0, 1, 2),)


def test_numbers_that_can_be_true_are_told() -> None:
    read = facts(meminfo="MemFree: 1 kB\nMemTotal:        3884312 kB\n", sdk="34")
    assert (read.ram_bytes, read.nnapi_level) == (3884312 * 1024, 34)
    sensors_read = sensors(thermal="x\n  Thermal Status: 2\n", after="cpu  10 20 30 140 50 60 70 80 0 0\n")
    assert (sensors_read.thermal_status, sensors_read.steal_seconds, sensors_read.load) == (2, 0.8, 0.0)
    lines = [f"{CORE}{cpu}\n{CORE}{cpu}/cpu_capacity:{capacity}\n" for cpu, capacity in enumerate([300, 900])]
    assert parse_clusters("".join(lines)) == ((0,), (1,))


@pytest.mark.parametrize(
    ("thermal", "status"),
    [
        ("IsStatusOverride: false\nThermal Status: 0\nHAL Ready: true\n", 0),
        ("Thermal Status: 3\r\nHAL Ready: true\r\n", 3),
        ("IsStatusOverride: false\nThermal Status: 0\nHAL Ready: false\n", None),
        ("IsStatusOverride: false\nThermal Status: 0\nHAL Ready: \n", None),
        ("IsStatusOverride: true\nThermal Status: 0\nHAL Ready: true\n", None),
        ("  IsStatusOverride:true\n  Thermal Status: 0\n", None),
        ("Thermal Status: 0\nThermal Status: 3\nHAL Ready: true\n", None),
    ],
)
def test_a_thermal_status_without_a_sensor_behind_it_is_unknown(thermal: str, status: int | None) -> None:
    assert sensors(thermal=thermal).thermal_status == status


def test_a_load_beyond_all_numbers_is_unknown() -> None:
    sensors_read = sensors(before=STAT, after=f"cpu  {'9' * 400} 20 30 40 50 60 70 80 0 0\n")
    assert sensors_read.load is None


@pytest.mark.parametrize(
    ("read", "hostile"),
    [
        (parse_properties, "[a]: [\n" * 10_000),
        (parse_properties, "[a" * 80_000),
        (lambda text: sensors(thermal=text), "\n" * 40_000),
        (lambda text: sensors(before=text), f"cpu{' ' * 40_000}x\n"),
        (lambda text: facts(meminfo=text), f"MemTotal:{' ' * 40_000}x\n"),
    ],
    ids=["lines that never close", "one line", "thermal", "stat", "memory"],
)
def test_no_text_takes_long_to_read(read: Callable[[str], object], hostile: str) -> None:
    began = time.process_time()
    read(hostile)
    assert time.process_time() - began < 1


def test_a_property_may_hold_what_looks_like_another() -> None:
    text = "[a]: [\n[b]: [1]\n[c]: [2]\n[]: [3]\n[d]: [never closed\n[e\n"
    assert parse_properties(text) == {"a": "[b]: [1", "c": "2", "": "3"}


def saying(word: str, answer: bytes) -> Answer:
    return lambda command: answer if word in command else b""


@pytest.mark.parametrize("size", [HUGE, "9" * 16, "٣", "-1", ""])
def test_a_file_s_size_that_is_no_number_is_an_error_that_names_the_phone(size: str, tmp_path: Path) -> None:
    with pytest.raises(DeviceError, match="R58M") as caught:
        scripted(saying("wc -c", size.encode())).pull(
            "/data/local/tmp/edgesweep/run/logits", tmp_path / "logits", 24_000
        )
    assert caught.value.kind == "no_output"


@pytest.mark.parametrize("free", [HUGE, "9" * 16, "٣"])
def test_free_storage_that_is_no_number_is_an_error_that_names_the_phone(free: str, tmp_path: Path) -> None:
    source = tmp_path / "model"
    source.write_bytes(b"any")
    line = f"Filesystem 1K-blocks Used Available Use% Mounted on\n/dev/x 100 50 {free} 50% /data\n"
    with pytest.raises(DeviceError, match="R58M") as caught:
        scripted(saying("df -k", line.encode())).push(source, "model")
    assert caught.value.kind == "os_error"


@pytest.mark.parametrize("code", [HUGE, "1000", "-1", "٣", ""])
def test_an_exit_code_that_is_no_number_is_an_error_that_names_the_phone(code: str) -> None:
    def answer(command: str) -> bytes:
        mark = re.search(r"report ([0-9a-f]{16}) ", command)
        return b"out\n%s %s boot\n\n%s\n" % (mark[1].encode(), code.encode(), mark[1].encode()) if mark else b""

    with pytest.raises(DeviceError, match="R58M") as caught:
        scripted(answer).run(["runner"], 5)
    assert caught.value.kind == "no_exit_code"


def test_an_exit_code_that_is_one_is_told() -> None:
    def answer(command: str) -> bytes:
        mark = re.search(r"report ([0-9a-f]{16}) ", command)
        return b"out\n%s 139 boot\n\n%s\n" % (mark[1].encode(), mark[1].encode()) if mark else b""

    assert scripted(answer).run(["runner"], 5).exit_code == -11


def test_facts_that_nobody_can_read_are_an_error_that_names_the_phone(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object, **__: object) -> NoReturn:
        raise ValueError("invalid literal for int(): 'many'\nTraceback")

    monkeypatch.setattr(questions, "read_facts", fail)
    with pytest.raises(DeviceError, match=r"R58M.*ValueError: invalid literal") as caught:
        scripted(lambda command: b"").facts()
    assert caught.value.kind == "worker_error"
    assert "Traceback" not in str(caught.value)
