"""An adb server of the tests' own."""

import subprocess

from workers.devices.adb.host import AdbHost


def kill_server(port: int) -> None:
    adb = AdbHost(port).adb
    subprocess.run([adb, "-P", str(port), "kill-server"], capture_output=True, timeout=20, check=False)
