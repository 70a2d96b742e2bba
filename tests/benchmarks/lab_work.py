"""Work of a known length for the devices of a lab, as a request that hosts import."""

import time
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

from sweeps.records import Stage
from workers.measure.device_runner import DeviceRunner, Request

STARTED = Path("/tmp/work")  # a folder of a computer in namespaces
"""A folder of the host, with a file for each device: a line for each time that work was started."""


@dataclass(frozen=True, slots=True)
class Work(Request[float]):
    """Waits for so many seconds, as for a phone. The answer is how long that took, in seconds."""

    number: int
    seconds: float
    stage: ClassVar[Stage] = "run"

    @property
    def result_id(self) -> str:
        return f"{self.job.key} {self.number}"

    def answer(self, bench: DeviceRunner) -> float:
        began = time.perf_counter()
        STARTED.mkdir(exist_ok=True)
        with (STARTED / self.job.device_id).open("a") as file:
            file.write(f"{self.number}\n")
        time.sleep(self.seconds)
        return time.perf_counter() - began
