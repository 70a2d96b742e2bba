"""Whole records of the field, each with the fields that a test leaves alone: facts of a computer and of a phone, jobs,
identities of what keys depend on, results to compare, figures of tools that people run by hand.

What belongs together in one sweep, from its plan to its rows, is made by `tests.sweeps.conftest.Records`; a runner's
request by `tests.workers.runtimes.runs.request_of`.
"""

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

from sweeps.device_facts import DeviceFacts
from sweeps.imported import Imported
from sweeps.planning.keys import Identities, ModelIdentity
from sweeps.ranking.comparison_input import Origin, Result, SessionConditions
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


def identities_of(models: Mapping[str, ModelIdentity], **changes: Any) -> Identities:
    """Of models by name, built and run by PyTorch Mobile alone."""
    identities = Identities(
        models=models,
        calibration_id="c" * 64,
        evaluation_id="e" * 64,
        versions={"torch": "2.12.1"},
        runners={"torchscript": "python-torchscript 1"},
    )
    return replace(identities, **changes)


def result_of(name: str, medians_ms: Iterable[float], origins: Iterable[Origin], **changes: Any) -> Result:
    """A build on a phone, with the medians and the origins of its blocks."""
    result = Result(
        name=name,
        model="net",
        setup=(name,),
        device="Maker Phone (SoC)",
        device_id="unit-1",
        fingerprint="f1",
        conditions=SessionConditions(
            preset="quick",
            runtime_version="2.12.1",
            exec_context="shell",
            gate="gated",
            fixed_performance="on",
            runner="r 1",
            protocol="",
        ),
        medians_ms=tuple(medians_ms),
        origins=tuple(origins),
        trust=(),
    )
    return replace(result, **changes)


def imported_of(**changes: Any) -> Imported:
    """The mean of a tool that a person ran on a phone that no sweep has."""
    figure = Imported(
        model="net",
        variant="cpu fp32",
        device="my phone",
        device_id="",
        tool="speed_benchmark_torch",
        mean_ms=121.318,
        iterations=None,
        p50_ms=None,
        log="log.txt",
        log_sha256="a" * 64,
        imported="2026-11-21T22:00:00.000000+00:00",
    )
    return replace(figure, **changes)
