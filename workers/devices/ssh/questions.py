"""Reads the facts and the sensors of a board, each in one exchange."""

import os

from sweeps.device_facts import DeviceFacts
from workers.devices.interface import Sensors
from workers.devices.linux.kernel_text import CPU_FILES, CPU_TIMES, cpu_times_later
from workers.devices.shell import quoted
from workers.devices.ssh.board_connection import BoardConnection
from workers.devices.ssh.facts import SENSOR_FILES, Answers, read_facts, read_sensors

PYTHON_VARIABLE = "EDGESWEEP_BOARD_PYTHON"
PYTHON_FOLDER = "edgesweep-venv"
"""The folder of a virtual environment in the home folder of the user on the board: Python is searched in it first, then
on the PATH."""
# The runner needs torch. torch is not imported for this check, because that takes seconds.
_PROBE = """
import sys, importlib.util as found
if sys.version_info >= (3, 10) and found.find_spec("torch"): print(sys.executable)
"""


def ask_facts(connection: BoardConnection) -> DeviceFacts:
    """Return the facts of a board. Raises `DeviceError`."""
    tree, firmware = "/proc/device-tree", "/sys/class/dmi/id"
    answers = connection.sections(
        "uname -sr",
        "uname -m",
        "getconf LONG_BIT",
        "cat /etc/os-release",
        "cat /etc/machine-id",
        *(f"tr '\\0' '\\n' <{tree}/{name}" for name in ("model", "compatible", "serial-number")),
        *(f"cat {firmware}/{name}" for name in ("sys_vendor", "product_name")),
        "cat /proc/cpuinfo",
        "cat /proc/meminfo",
        CPU_FILES,
        _python_script(os.environ.get(PYTHON_VARIABLE, "")),
    )
    return read_facts(
        connection.name, Answers(**dict(zip(Answers.__slots__, answers, strict=True))), connection.host_key()
    )


def ask_sensors(connection: BoardConnection, *, load: bool) -> Sensors:
    """Return the sensor values of a board. Measuring the load of other programs takes 0.2 s; without `load` it is not
    measured. Raises `DeviceError`."""
    files, before, after, processes = connection.sections(
        SENSOR_FILES, CPU_TIMES, cpu_times_later(load=load), connection.processes_script
    )
    return read_sensors(files=files, stat_before=before, stat_after=after, processes=processes)


def _python_script(named: str) -> str:
    """Return a script that prints the path of the first Python that has torch."""
    several = ["~/" + PYTHON_FOLDER + "/bin/python3", "python3"]
    if named:
        several = [quoted([named])]
    return f'for one in {" ".join(several)}; do\n"$one" -c {quoted([_PROBE])} </dev/null | grep . && break\ndone; :'
