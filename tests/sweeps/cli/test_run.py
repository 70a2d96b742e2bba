"""`edgesweep run` says at its end which jobs are not done."""

import re
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from sweeps.cli import run as run_command
from sweeps.device_facts import DeviceFacts
from sweeps.planning.plan import Plan
from sweeps.records import Failed
from sweeps.spec.grid import GridSpec
from sweeps.workspace import Workspace
from tests.faulty_device import Faults, FaultyDevice
from tests.workers.tiny_sweep import Sweep
from workers.executors.inline import InlineExecutor
from workers.executors.interface import BuildRequest, Builds, DeviceLane, Stop
from workers.hosts.lab import Lab
from workers.measure.device_runner import DeviceRunner

TWO = GridSpec(precision=("fp32",), layout=("nchw", "nhwc"))


class Unlucky(InlineExecutor):
    """An executor in which `fake:steady` goes away at once, and no build of `nhwc` comes to its end."""

    def build(self, requests: Iterable[BuildRequest], stop: Stop) -> Builds:
        pending = list(requests)
        for request in (request for request in pending if request.variant.layout == "nhwc"):
            yield request, None
            yield request, Failed(stage="build", kind="worker_lost", message="the process that built it was killed")
        yield from super().build([request for request in pending if request.variant.layout != "nhwc"], stop)

    def lane(self, facts: DeviceFacts) -> DeviceLane:
        name = facts.name.partition(":")[2]
        faults = Faults(gone_from_s=0.01) if name == "steady" else None
        return DeviceRunner(FaultyDevice(self._folder, name, faults=faults), self._folder)


@contextmanager
def unlucky(_: str, workspace: Workspace, __: Plan, ___: Lab | None) -> Iterator[InlineExecutor]:
    executor = Unlucky(workspace.root)
    try:
        yield executor
    finally:
        executor.close()


@pytest.mark.system
def test_jobs_that_wait_for_a_device_are_told_apart_from_those_to_be_retried(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("sweeps.operations.run.open_executor", unlucky)
    sweep = Sweep(tmp_path, TWO, devices=("fake:steady", "fake:cool"))
    run_command.run_spec(sweep.spec, (tmp_path,), sweep.workspace, "inline", retry_failed=False)
    messages = capsys.readouterr().err
    assert re.findall(r"^(\d+) jobs wait for devices that are away", messages, re.MULTILINE) == ["1"], messages
    assert re.findall(r"^(\d+) jobs will be tried again: run the same command again$", messages, re.MULTILINE) == [
        "2"
    ], messages
