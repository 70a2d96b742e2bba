"""Whole records of the field, each with the fields that a test leaves alone: facts of a computer and of a phone, jobs.

What belongs together in one sweep, from its plan to its rows, is made by `tests.sweeps.conftest.Records`; a runner's
request by `tests.workers.runtimes.runs.request_of`.
"""

from dataclasses import replace
from typing import Any

from sweeps.device_facts import DeviceFacts
from sweeps.records import Job
from sweeps.variant import RunAxes, Variant

_COMPUTER = DeviceFacts(
    device_id="host-1",
    name="local",
    maker="Maker",
    model="Board",
    soc="SoC",
    os_build="Linux 6.1",
    abi="x86_64",
    cores=2,
    ram_bytes=None,
    runtime_versions=(("torchscript", "2.12.1"),),
    qengines=("x86", "qnnpack"),
)
_PHONE = DeviceFacts(
    device_id="phone-1",
    name="adb:phone-1",
    maker="Maker",
    model="Phone",
    soc="SoC",
    os_build="1",
    abi="arm64-v8a",
    cores=8,
    ram_bytes=None,
)


def computer_facts(**changes: Any) -> DeviceFacts:
    """Facts of a computer with Linux that measures with PyTorch Mobile."""
    return replace(_COMPUTER, **changes)


def phone_facts(serial: str = "phone-1", **changes: Any) -> DeviceFacts:
    """Facts of a phone on a cable, of which nothing is known yet but who it is."""
    return replace(_PHONE, **{"device_id": serial, "name": f"adb:{serial}", **changes})


def job_of(key: str, build_key: str = "b" * 64, device_id: str = "one", **changes: Any) -> Job:
    """A job of the variant that nobody chose anything for."""
    job = Job(
        key=key,
        build_key=build_key,
        name="tiny",
        model="tiny",
        grid="",
        variant=Variant(),
        run=RunAxes(),
        device_id=device_id,
    )
    return replace(job, **changes)
