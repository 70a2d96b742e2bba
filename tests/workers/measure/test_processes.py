"""The report of a runner's process is believed if the release that was asked for ran."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from sweeps.batches import NotReached
from sweeps.errors import RunnerError
from sweeps.variant import INSTALLED
from workers.devices.interface import Completed
from workers.devices.local import LocalDevice
from workers.measure import processes
from workers.runtimes.interface import RunReport

REPORT = RunReport(
    runner="native-onnxruntime 1",
    runtime_version="onnxruntime 1.31.1",
    file_version_max=None,
    bytecode_version_max=None,
    load_ns=None,
    first_inference_ns=None,
    warmup_ns=(),
    samples_ns=(1,),
    rss_before_load_bytes=None,
    rss_peak_bytes=None,
    backend_ran="cpu",
    engine_ran="none",
    threads_ran=1,
)


class OneRelease:
    """A runtime of which only 1.31.1 is there, whatever its files are called."""

    def command(self, _request: object, program: str | None) -> list[str]:
        return ["true", str(program)]

    def parse(self, _stdout: bytes) -> RunReport:
        return REPORT

    def parse_batch(self, _stdout: bytes, artifacts: Sequence[str]) -> list[RunReport | NotReached]:
        return [*[REPORT for _ in artifacts[1:]], NotReached()]


@pytest.mark.parametrize("version", [INSTALLED, "onnxruntime==1.31.1", "onnxruntime==1.32.0"])
def test_another_release_than_the_one_that_was_asked_for_measures_nothing(tmp_path: Path, version: str) -> None:
    device, runtime, request = LocalDevice(tmp_path), OneRelease(), None
    wrong = version.endswith("1.32.0")
    arguments: Any = (device, runtime, "runner", request, 10.0, version)
    if wrong:
        with pytest.raises(RunnerError, match=r"1\.32\.0 was to run it, and onnxruntime==1\.31\.1 did") as caught:
            processes.report(*arguments)
        assert caught.value.kind == "runtime_skew"
    else:
        completed, _ = processes.report(*arguments)
        assert isinstance(completed, Completed)
    several: Any = (device, runtime, ["true"], ["a", "b"], 10.0, version)
    outcome, rest = processes.batch(*several)
    assert isinstance(outcome, RunnerError) == wrong
    assert isinstance(rest, NotReached)
