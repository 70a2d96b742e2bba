"""A Linux host's sensors: made-up /sys and /proc trees, and real processes on this machine."""

import os
import shutil
import subprocess
import sys
import time
from pathlib import Path

import psutil
import pytest

from workers.devices.linux.sensors import CpuSeconds, host_temperature, load_of_others, other_sweeps, read_sensors


def write(sys_folder: Path, files: dict[str, str]) -> Path:
    for name, text in files.items():
        path = sys_folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text + "\n")
    return sys_folder


def battery(name: str, **files: str) -> dict[str, str]:
    return {f"class/power_supply/{name}/{key}": text for key, text in files.items()}


def test_a_machine_without_sensors_tells_nothing(tmp_path: Path) -> None:
    sensors = read_sensors(tmp_path)
    assert (sensors.temp_c, sensors.temp_is_battery, sensors.thermal_status) == (None, False, None)
    assert (sensors.has_battery, sensors.battery_percent) == (False, None)
    assert (sensors.cpu_mhz, sensors.throttle_count) == (None, None)


def test_a_missing_temperature_is_unknown_and_a_silly_one_is_left_out(tmp_path: Path) -> None:
    assert host_temperature(tmp_path) is None
    for number, millidegrees in enumerate(("45000", "0", "-274000", "61500", "not a number", "97")):
        write(tmp_path, {f"thermal_zone{number}/temp": millidegrees})
    assert host_temperature(tmp_path) == 61.5


def test_a_zone_that_may_tell_whole_degrees_is_unknown(tmp_path: Path) -> None:
    write(tmp_path, {"thermal_zone0/temp": "97"})
    assert host_temperature(tmp_path) is None


@pytest.mark.parametrize(
    ("files", "has", "percent"),
    [
        (battery("BAT0", type="Battery", present="1", capacity="57"), True, 57.0),
        (battery("BAT0", type="Battery", capacity="20") | battery("BAT1", type="Battery", capacity="80"), True, 50.0),
        (battery("macsmc-battery", type="Battery", capacity="57"), True, 57.0),
        # A battery that cannot be read is no battery of 0 %, and no machine without one.
        (battery("BAT0", type="Battery"), True, None),
        (battery("BAT0", type="Battery", capacity="unknown"), True, None),
        (battery("BAT0", type="Battery", capacity="-1"), True, None),
        (battery("BAT0", type="Battery", capacity="80") | battery("BAT1", type="Battery", capacity="?"), True, None),
        (battery("AC", type="Mains", online="1"), False, None),
        (battery("BAT0", type="Battery", present="0", capacity="0"), False, None),
        (battery("hid-mouse-battery", type="Battery", scope="Device", capacity="5"), False, None),
    ],
)
def test_a_battery_is_read_told_unreadable_or_not_there(
    tmp_path: Path, files: dict[str, str], has: bool, percent: float | None
) -> None:
    sensors = read_sensors(write(tmp_path, files))
    assert (sensors.has_battery, sensors.battery_percent) == (has, percent)


def test_throttling_of_cores_and_packages_counts(tmp_path: Path) -> None:
    cores = {f"devices/system/cpu/cpu{core}/thermal_throttle/core_throttle_count": "3" for core in range(2)}
    before = read_sensors(write(tmp_path, cores)).throttle_count
    package = {"devices/system/cpu/cpu0/thermal_throttle/package_throttle_count": "4"}
    assert before == 6
    assert read_sensors(write(tmp_path, package)).throttle_count == 10


def test_the_frequency_is_the_mean_over_cores(tmp_path: Path) -> None:
    files = {
        f"devices/system/cpu/cpu{core}/cpufreq/scaling_cur_freq": clock
        for core, clock in enumerate(("1800000", "2400000"))
    }
    assert read_sensors(write(tmp_path, files)).cpu_mhz == 2100.0


def test_steal_time_is_in_seconds_over_all_cpus(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ticks = "100 0 100 800 0 0 0 250 0 0"
    write(tmp_path / "proc", {"stat": f"cpu  {ticks}\ncpu0 {ticks}", "999999/cmdline": "gone by now"})
    monkeypatch.setattr(psutil, "PROCFS_PATH", str(tmp_path / "proc"))
    assert read_sensors(tmp_path).steal_seconds == pytest.approx(250 / os.sysconf("SC_CLK_TCK"))


def test_the_load_of_others_is_what_is_in_use_and_not_ours() -> None:
    def at(own: dict[int, float], **of_all: float) -> CpuSeconds:
        return CpuSeconds(of_all=of_all, of_own=own)

    before = at({1: 5.0, 2: 7.0}, user=10, system=10, idle=10, iowait=10, steal=10)
    assert load_of_others(before, before) is None
    # 10 s passed on all CPUs together: 4 in use, 1 of them by a process of ours.
    after = at({1: 6.0, 2: 7.0}, user=13, system=11, idle=13, iowait=11, steal=12)
    assert load_of_others(before, after) == pytest.approx(0.3)
    # A process that ended, or came, in between is not looked up.
    after = at({1: 6.0, 3: 90.0}, user=13, system=11, idle=13, iowait=11, steal=12)
    assert load_of_others(before, after) == pytest.approx(0.3)
    # Ticks are coarse: ours may come out as more than all.
    assert load_of_others(before, at({1: 15.0, 2: 7.0}, user=12, system=10, idle=18, iowait=10, steal=10)) == 0


def orphan(*argv: str, executable: str) -> int:
    """Starts a program that does not come from this process, as a foreign one; returns its id."""
    start = (
        "import subprocess, sys; null = subprocess.DEVNULL; "
        "print(subprocess.Popen(sys.argv[2:], executable=sys.argv[1], stdout=null, start_new_session=True).pid)"
    )
    done = subprocess.run(
        [sys.executable, "-c", start, executable, *argv], stdout=subprocess.PIPE, check=True, timeout=60
    )
    return int(done.stdout)


def test_another_program_that_works_is_load(tmp_path: Path) -> None:
    pid = orphan(sys.executable, "-c", "while True: pass", executable=sys.executable)
    half_a_core = 0.5 / (os.cpu_count() or 1)
    deadline = time.monotonic() + 60
    try:
        # In a look of 0.2 s the hypervisor may have had the core.
        while (load := read_sensors(tmp_path).load) is not None and load < half_a_core:
            assert time.monotonic() < deadline
    finally:
        psutil.Process(pid).kill()
    assert load is not None
    assert load <= 1


def test_a_foreign_benchmark_is_named_and_one_of_ours_is_not(tmp_path: Path) -> None:
    sleep = shutil.which("sleep")
    assert sleep is not None
    foreign = orphan("/data/local/tmp/benchmark_model", "60", executable=sleep)
    with subprocess.Popen(["executor_runner", "60"], executable=sleep) as own:
        try:
            programs = read_sensors(tmp_path).competing
        finally:
            own.kill()
            psutil.Process(foreign).kill()
    assert f"benchmark_model (process {foreign})" in programs
    assert not any(f"(process {own.pid})" in line for line in programs)


def test_a_foreign_sweep_is_named() -> None:
    program = "import time; time.sleep(60)  # as sweeps.cli.main"
    foreign = orphan(sys.executable, "-c", program, "run", executable=sys.executable)
    try:
        sweeps = other_sweeps()
    finally:
        psutil.Process(foreign).kill()
    assert f"edgesweep run (process {foreign})" in sweeps


def test_a_look_is_short() -> None:
    read_sensors()
    began = time.monotonic()
    read_sensors()
    # The load window is 0.2 s; the rest is for a slow and busy machine.
    assert time.monotonic() - began < 20
