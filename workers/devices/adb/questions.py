"""Reads the facts and the sensors of a phone, each in one round trip."""

import hashlib
import re

from sweeps.device_facts import DeviceFacts
from workers.devices.adb.facts import parse_properties, read_facts, read_sensors
from workers.devices.adb.phone_connection import PhoneConnection
from workers.devices.interface import Sensors
from workers.devices.linux.kernel_text import CPU_FILES, CPU_TIMES, cpu_times_later
from workers.devices.remote.remote_shell import BOOT_ID

_PLAIN = re.compile(r"[\w.:-]{1,64}", re.ASCII)


def ask_facts(connection: PhoneConnection) -> tuple[DeviceFacts, str]:
    """Return the facts and the boot id, which is empty if the phone does not report it. Raises `DeviceError`."""
    libraries = "ls -d /system/lib*/libneuralnetworks.so /apex/com.android.neuralnetworks/lib*/libneuralnetworks.so"
    # The serial number is read separately: in the list of properties, another property could contain a line that looks
    # like it.
    serialno, properties, cpuinfo, meminfo, cpu_files, nnapi, boot_id = connection.sections(
        "getprop ro.serialno",
        "getprop",
        "cat /proc/cpuinfo",
        "cat /proc/meminfo",
        CPU_FILES,
        libraries,
        f"cat {BOOT_ID}",
    )
    facts = read_facts(
        connection.name,
        _unit(serialno.strip() or connection.serial),
        properties=parse_properties(properties),
        cpuinfo=cpuinfo,
        meminfo=meminfo,
        cpu_files=cpu_files,
        has_nnapi="libneuralnetworks.so" in nnapi,
    )
    return facts, boot_id.strip()


def ask_sensors(connection: PhoneConnection, *, load: bool) -> Sensors:
    """Return the sensor values of a phone. Measuring the load of other programs takes 0.2 s; without `load` it is not
    measured. Raises `DeviceError`."""
    battery, thermal, zones, mhz, before, after, processes = connection.sections(
        "dumpsys battery",
        "dumpsys thermalservice",
        "cat /sys/class/thermal/thermal_zone*/temp",
        "cat /sys/devices/system/cpu/cpu[0-9]*/cpufreq/scaling_cur_freq",
        CPU_TIMES,
        cpu_times_later(load=load),
        connection.processes_script,
    )
    return read_sensors(
        battery=battery,
        thermal=thermal,
        zones=zones,
        mhz=mhz,
        stat_before=before,
        stat_after=after,
        processes=processes,
    )


def _unit(serialno: str) -> str:
    """Return the device id for a serial number: always a short word, whatever the phone reports."""
    if _PLAIN.fullmatch(serialno):
        return serialno
    return f"phone-{hashlib.sha256(serialno.encode()).hexdigest()[:16]}"
