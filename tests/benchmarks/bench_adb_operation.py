"""What one program on a phone costs beside its own time: `AdbDevice.run` on a leased phone, whose shell stays open and
whose report outlives the connection, against adbutils' plain `shell`.

python tests/benchmarks/bench_adb_operation.py

A virtual phone in a process of its own, so that its cable takes no time from either arm; arms in turn, 9 rounds of 30
operations. Each arm is in a round twice: how far it is from itself (A/A) says what the comparison can resolve. Needs
root (see workers/devices/virtual_phone/), and a machine with nothing else to do.
"""

import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

import adbutils
from bench_runner import AGAIN, both, difference_percent
from recipe_case import in_turn, table
from report import Figure, at_most, finish

from tests.free_port import free_port
from workers.devices.adb.device import AdbDevice
from workers.devices.adb.host import AdbHost

SHARE = 0.15
ROUNDS, OPERATIONS = 9, 30
OURS, TELLING, LOOK, PLAIN = "run", "run of a program that prints", "sensors without load", "adbutils shell"
PHONE = """
import sys, signal
from pathlib import Path
from tests.faulty_phone import FaultyPhone
with FaultyPhone(Path(sys.argv[1])) as phone:
    print(phone.serial, flush=True)
    signal.sigwait({signal.SIGTERM})
"""


@contextmanager
def phone() -> Iterator[tuple[AdbDevice, adbutils.AdbDevice]]:
    """One virtual phone, twice: as ours and as adbutils', by one adb server that nobody else uses."""
    port = free_port()
    host = AdbHost(port)
    with (
        tempfile.TemporaryDirectory(prefix="edgesweep-bench-") as name,
        subprocess.Popen(
            [sys.executable, "-c", PHONE, str(Path(name) / "phone")], stdout=subprocess.PIPE, text=True
        ) as process,
    ):
        try:
            assert process.stdout is not None
            if not (serial := process.stdout.readline().strip()):
                sys.exit("no virtual phone: see above")
            device = AdbDevice(Path(name), serial, host)
            device.take_lock()
            yield device, adbutils.AdbClient("127.0.0.1", port).device(serial)
            device.release()
        finally:
            subprocess.run([host.adb, "-P", str(port), "kill-server"], capture_output=True, check=False)
            process.send_signal(signal.SIGTERM)


def p50_ms(operation: Callable[[], object]) -> float:
    taken = []
    for _ in range(OPERATIONS):
        began = time.perf_counter()
        operation()
        taken.append(time.perf_counter() - began)
    return 1000 * statistics.median(taken)


def main() -> None:
    with phone() as (device, plain):
        ours = partial(p50_ms, partial(device.run, ["true"], 10.0))
        theirs = partial(p50_ms, partial(plain.shell, "true"))
        arms = {
            OURS: ours,
            PLAIN: theirs,
            TELLING: partial(p50_ms, partial(device.run, ["echo", "{}"], 10.0)),
            LOOK: partial(p50_ms, partial(device.sensors, load=False)),
            PLAIN + AGAIN: theirs,
            OURS + AGAIN: ours,
        }
        taken = in_turn(arms, ROUNDS)
    table(taken)
    plains = both(taken, PLAIN)

    def share(values: list[float]) -> float:
        return statistics.median(one / other for one, other in zip(values, plains, strict=True))

    figures = [
        at_most(f"{OURS}, share of {PLAIN}", share(both(taken, OURS)), "", SHARE),
        Figure(f"{TELLING}, share of {PLAIN}", share(taken[TELLING]), ""),
        Figure(f"{LOOK}, share of {PLAIN}", share(taken[LOOK]), ""),
        Figure(f"{OURS} over itself (A/A)", difference_percent(taken[OURS], taken[OURS + AGAIN]), "%"),
        Figure(f"{PLAIN} over itself (A/A)", difference_percent(taken[PLAIN], taken[PLAIN + AGAIN]), "%"),
    ]
    finish("adb_operation", figures, p50_ms={name: statistics.median(values) for name, values in taken.items()})


if __name__ == "__main__":
    main()
