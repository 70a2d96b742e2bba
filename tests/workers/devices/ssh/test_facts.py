"""Facts are read from what a board prints: a Raspberry Pi, an x86 machine, one that tells nothing, or nonsense."""

from dataclasses import fields, replace

import pytest

from sweeps.device_facts import DeviceFacts
from workers.devices.interface import Sensors
from workers.devices.linux.kernel_text import parse_clusters
from workers.devices.ssh.facts import Answers, is_ours, read_facts, read_sensors

SILENT = Answers(**{field.name: "" for field in fields(Answers)})
RASPBERRY = Answers(
    uname="Linux 6.12.25+rpt-rpi-2712\n",
    machine="aarch64\n",
    bits="64\n",
    os_release='PRETTY_NAME="Debian GNU/Linux 12 (bookworm)"\nNAME="Debian GNU/Linux"\n',
    machine_id="0123456789abcdef0123456789abcdef\n",
    tree_model="Raspberry Pi 5 Model B Rev 1.0\n",
    tree_compatible="raspberrypi,5-model-b\nbrcm,bcm2712\n",
    tree_serial="d83add1234567890\n",
    vendor="",
    product="",
    cpuinfo="".join(
        f"processor\t: {core}\nFeatures\t: fp asimd evtstrm aes asimdhp cpuid asimddp\n\n" for core in range(4)
    )
    + "Revision\t: c04170\nSerial\t\t: d83add1234567890\nModel\t\t: Raspberry Pi 5 Model B Rev 1.0\n",
    meminfo="MemTotal:        8256000 kB\nMemFree:         1 kB\n",
    cpu_files="".join(f"/sys/devices/system/cpu/cpu{core}\n" for core in range(4))
    + "".join(f"/sys/devices/system/cpu/cpu{core}/cpufreq/cpuinfo_max_freq:2400000\n" for core in range(4)),
    python="/home/pi/edgesweep-venv/bin/python3\n",
)
HUGE = "9" * 5000


def facts(answers: Answers) -> DeviceFacts:
    return read_facts("ssh:pi@board", answers, "SHA256:key")


def test_a_raspberry_is_told_by_its_device_tree() -> None:
    board_facts = facts(RASPBERRY)
    assert (board_facts.maker, board_facts.model, board_facts.soc) == (
        "raspberrypi",
        "Raspberry Pi 5 Model B Rev 1.0",
        "brcm,bcm2712",
    )
    assert board_facts.os_build == "Linux 6.12.25+rpt-rpi-2712 Debian GNU/Linux 12 (bookworm)"
    assert (board_facts.abi, board_facts.cores, board_facts.ram_bytes) == ("arm64-v8a", 4, 8256000 * 1024)
    assert (board_facts.cpu_features, board_facts.core_clusters) == (("asimddp",), ((0, 1, 2, 3),))
    assert (board_facts.exec_context, board_facts.python) == ("board", "/home/pi/edgesweep-venv/bin/python3")
    assert board_facts.device_id.startswith("board-")
    assert "d83add1234567890" not in repr(board_facts)


@pytest.mark.parametrize(
    ("machine", "bits", "abi"),
    [
        ("aarch64", "64", "arm64-v8a"),
        # A system of 32 bits under a kernel of 64, as many Raspberries have.
        ("aarch64", "32", "armeabi-v7a"),
        ("aarch64", "", "arm64-v8a"),
        ("armv7l", "32", "armeabi-v7a"),
        ("x86_64", "64", "x86_64"),
        ("x86_64", "32", "x86"),
        ("i686", "32", "x86"),
        ("armv6l", "32", "armv6l"),
        ("riscv64", "64", "riscv64"),
        ("../../etc", "64", "______etc"),
        ("", "", "unknown"),
    ],
)
def test_the_abi_is_that_of_its_programs(machine: str, bits: str, abi: str) -> None:
    assert facts(replace(RASPBERRY, machine=machine, bits=bits)).abi == abi


def test_boards_with_copied_cards_are_different_units_of_one_class() -> None:
    other = replace(RASPBERRY, tree_serial="d83add9999999999\n", cpuinfo=RASPBERRY.cpuinfo.replace("34567890", "99"))
    assert facts(other).device_id != facts(RASPBERRY).device_id
    assert facts(other).fingerprint == facts(RASPBERRY).fingerprint


def test_a_board_that_tells_nothing_is_told_by_its_host_key() -> None:
    board_facts = facts(SILENT)
    assert all((board_facts.maker, board_facts.model, board_facts.soc, board_facts.os_build, board_facts.abi))
    assert (board_facts.cores, board_facts.ram_bytes, board_facts.core_clusters, board_facts.python) == (
        1,
        None,
        (),
        "",
    )
    assert board_facts.device_id != read_facts("ssh:pi@board", SILENT, "SHA256:other").device_id
    assert board_facts == facts(SILENT)


@pytest.mark.parametrize(
    "text", [HUGE, "\x1b[31m\x00\x07", "../../etc/passwd", "$(id)", "٣", "\udcff", "a: b\n" * 2000]
)
def test_nonsense_is_unknown_and_never_an_error(text: str) -> None:
    board_facts = facts(Answers(**{field.name: text for field in fields(Answers)}))
    assert len(repr(board_facts)) < 3000
    assert "\x1b" not in repr(board_facts).replace("\\x1b", "")
    assert "/" not in board_facts.abi
    assert board_facts.python in ("", text)
    read_sensors(files=text, stat_before=text, stat_after=text, processes=text)


@pytest.mark.parametrize("python", ["python3", "", "/a\n/b", "Traceback (most recent call last):"])
def test_only_a_path_is_a_python(python: str) -> None:
    assert facts(replace(RASPBERRY, python=python)).python == ""


def test_kinds_of_cores_are_told_by_capacity() -> None:
    cpu = "/sys/devices/system/cpu/cpu"
    lines = [f"{cpu}{core}\n{cpu}{core}/cpu_capacity:{capacity}\n" for core, capacity in enumerate([446, 446, 1024])]
    assert parse_clusters("".join(lines)) == ((0, 1), (2,))
    assert parse_clusters("".join(lines) + f"{cpu}2/online:0\n") == ((0, 1),)
    assert parse_clusters("/sys/devices/system/cpu/cpu0/../../../etc:1\n") == ()


def sensors(files: str = "", after: str = "", processes: str = "") -> Sensors:
    before = "cpu  10 20 30 40 50 60 70 80 0 0\n"
    return read_sensors(files=files, stat_before=before, stat_after=after, processes=processes)


def test_its_sensors_are_those_of_linux() -> None:
    cpu = "/sys/devices/system/cpu/cpu"
    read = sensors(
        "/sys/class/thermal/thermal_zone0/temp:48312\n/sys/class/thermal/thermal_zone1/temp:-274000\n"
        f"{cpu}0/cpufreq/scaling_cur_freq:1500000\n{cpu}1/cpufreq/scaling_cur_freq:2400000\n"
        f"{cpu}0/thermal_throttle/core_throttle_count:3\n"
        "/sys/class/power_supply/BAT0/type:Battery\n/sys/class/power_supply/BAT0/capacity:57\n",
        after="cpu  20 20 30 130 50 60 70 80 0 0\n",
    )
    assert (read.temp_c, read.temp_is_battery, read.cpu_mhz, read.throttle_count) == (48.312, False, 1950.0, 3)
    assert (read.has_battery, read.battery_percent) == (True, 57.0)
    assert (read.steal_seconds, read.load) == (0.8, pytest.approx(0.1))


def test_a_sensor_that_is_missing_is_unknown() -> None:
    read = sensors()
    assert (read.temp_c, read.cpu_mhz, read.throttle_count, read.load) == (None, None, None, None)
    assert (read.has_battery, read.battery_percent, read.thermal_status) == (False, None, None)


def test_benchmarks_are_named_whoever_runs_them() -> None:
    lines = [
        "/proc/7/cmdline:./benchmark_model\0--graph=m\0",
        "/proc/8/cmdline:/usr/bin/python3\0/home/you/.edgesweep/run/edgesweep_runner_python-0123456789abcdef\0--model\0m\0",
        "/proc/9/cmdline:sh\0",
    ]
    assert sensors(processes="\n".join(lines)).competing == (
        "benchmark_model (process 7)",
        "a runner of EdgeSweep (process 8)",
    )


def test_ours_are_only_those_of_our_own_folder() -> None:
    folder = "/home/pi/.edgesweep"
    assert is_ours(f"{folder}/run/x\0--model\0", folder)
    assert is_ours(f"/usr/bin/python3\0{folder}/run/x\0--model\0", folder)
    assert not is_ours("/home/you/.edgesweep/run/x\0--model\0", folder)
    assert not is_ours(f"cat\0-n\0{folder}/run/x\0", folder)
    assert not is_ours(f"{folder}/runner\0", folder)
