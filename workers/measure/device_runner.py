"""Runs requests on one device, with the device's programs and the artifacts of this host. Failures are returned as
values."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType
from typing import ClassVar, Generic, TypeVar

from sweeps.device_facts import AND, DeviceFacts
from sweeps.errors import BuildError, DeviceError, EdgeSweepError, HostError, RunnerError
from sweeps.records import Failed, Job, Stage
from sweeps.variant import INSTALLED
from workers.artifacts import ArtifactStore
from workers.devices.interface import Completed, Device, Sensors
from workers.devices.local import LocalDevice, from_os_error
from workers.measure import processes
from workers.measure.attach import program_of_release
from workers.measure.device_files import DeviceFiles, Pushes
from workers.measure.fixed_performance import FixedPerformance, restore_leftovers
from workers.measure.stock_tool_runner import StockToolRunner
from workers.native.compiler import cache_folder
from workers.runtimes import registry
from workers.runtimes.interface import Program, RunReport, RunRequest

_MISFITS = ("runtime_skew", "load_failed", "run_failed", "crashed")
"""The kinds of failure with which a library ends that cannot run an artifact built by another release."""

AnswerT = TypeVar("AnswerT")
"""The type of the answer to one `Request`."""
AnswerT_co = TypeVar("AnswerT_co", covariant=True)


@dataclass(frozen=True, slots=True)
class Request(ABC, Generic[AnswerT_co]):
    """A request to a device for one job or several: a value that goes through executor and lane to a `DeviceRunner`.

    A subclass defines one operation: its fields are the inputs, `answer` does the work.
    """

    job: Job
    left_s: float = field(default=0.0, kw_only=True)
    """The seconds for which the driver expects to need the device, including this request; 0 if the driver does not
    know."""
    left_at_least: bool = field(default=False, kw_only=True)
    """Tells whether the driver expects to need the device for longer than `left_s`, and cannot say for how long."""
    stage: ClassVar[Stage]
    """The stage that a failure of the request is reported with."""
    keeps_mode: ClassVar[bool] = False
    """Tells whether a fixed-performance mode that is on between blocks may stay on during the request."""

    @property
    def jobs(self) -> tuple[Job, ...]:
        """Return the jobs whose artifacts the request needs on the device's host. A request for several jobs has the
        first one as `job`."""
        return (self.job,)

    @property
    def result_id(self) -> str:
        """Return the id under which a host stores the answer until the driver has it; empty if the answer need not be
        stored."""
        return ""

    @property
    def limit_s(self) -> float:
        """Return the longest time (s) that the request's own deadlines allow it to wait and to work on the device. The
        time to reach the device and to send files to it comes on top."""
        return 0.0

    @abstractmethod
    def answer(self, device_runner: "DeviceRunner") -> AnswerT_co | Failed:
        """Do the work on the device, and return the answer. Raises `DeviceError`, `BuildError` or `OSError`, which
        `DeviceRunner.ask` turns into a `Failed`."""

    def answer_without_device(self, name: str, let_go: Callable[[], object]) -> AnswerT_co | None:
        """Return the answer of a request that can be answered although the device does not respond; `None` if the
        request needs the device.

        `name`: the name of the device. `let_go` releases the device and drops its runner. Raises the same errors as
        `answer`.
        """
        return None


class DeviceRunner:
    """The runner of requests on one device, which answers one request at a time. The device's lane owns it."""

    def __init__(
        self,
        device: Device,
        folder: Path,
        facts: DeviceFacts | None = None,
        programs: Mapping[tuple[str, str], Program] = MappingProxyType({}),
        artifacts: ArtifactStore | None = None,
    ) -> None:
        """Prepare to answer requests. `folder` is for this runner alone; `artifacts` are stored in it unless they are
        given. `facts` and `programs` are those that `workers.measure.attach` found; without programs, the device runs
        this host's Python."""
        self.device = device
        self.facts = facts or device.facts()
        self.folder = folder
        self._programs = dict(programs)
        # A mode that stays on is switched off by this host's next run, in any workspace.
        self._marks = cache_folder() if programs else folder
        self._store = artifacts or ArtifactStore(folder / "artifacts")
        self.pushes = Pushes(device)
        self.files = DeviceFiles(device, self.pushes, self._store, folder)
        self.stock = StockToolRunner(device, self.pushes, self._store, folder)
        self._fixed: FixedPerformance | None = None
        self._first_sensors: Sensors | None = None
        self._host_runner: DeviceRunner | None = None

    def ask(self, request: Request[AnswerT]) -> AnswerT | Failed:
        if not request.keeps_mode:
            self.end_mode()
        try:
            return request.answer(self)
        except DeviceError as error:
            return failed(request.stage, error)
        except BuildError as error:  # raised while a stock tool's files are built
            return Failed(stage=request.stage, kind=error.kind, message=error.one_line)
        except OSError as error:
            return failed(request.stage, from_os_error(error))

    def rest(self, seconds: float) -> None:
        self.device.rest(seconds)

    def close(self) -> None:
        """Remove files from the device that are no longer needed, and switch off a fixed-performance mode that the last
        block could not switch off."""
        if self._host_runner is not None:
            self._host_runner.close()
        self.files.close()
        self.stock.close()
        self.end_mode()
        with suppress(DeviceError, OSError):  # the marker stays for the next process
            self.restore()
        self.device.release()

    def restore(self) -> None:
        """Switch off a fixed-performance mode that an earlier block or run left on. Raises `DeviceError`."""
        restore_leftovers(self.device, self.facts.device_id, self._marks)

    def fixed_performance(self, requested: bool) -> FixedPerformance:
        """Return the fixed-performance mode of this device. Only the first call's `requested` counts: all blocks of a
        run want the same."""
        if self._fixed is None:
            self._fixed = FixedPerformance(self.device, self.facts.device_id, self._marks, requested=requested)
        return self._fixed

    @property
    def mode_stays_on(self) -> bool:
        """Tell whether the device is in its fixed-performance mode between two blocks."""
        return self._fixed is not None and self._fixed.stays_on

    def end_mode(self) -> None:
        """Switch off a fixed-performance mode that is on between blocks. Does not raise: `restore` reports a mode that
        remains on."""
        if self._fixed is not None:
            self._fixed.end()

    def first_sensors(self) -> Sensors:
        """Return the first reading of the sensors. A sensor that has a value in it and none later has failed; other
        missing sensors never existed."""
        if self._first_sensors is None:
            self._first_sensors = self.device.sensors()
        return self._first_sensors

    def tells_answers_of(self, job: Job) -> bool:
        """Tell whether the device's program for the job outputs the model's answers: a stock tool may only time the
        model."""
        if job.variant.runner_toolchain != INSTALLED:
            return True  # a release is run by a runner
        program = self._programs.get((job.variant.runtime, job.variant.format))
        return program is None or program.tool is None or program.tool.answers

    def for_answers_of(self, job: Job) -> "DeviceRunner":
        """Return the runner of this host if a reference implementation replaces the job's backend, or if the device's
        program outputs no answers; otherwise this runner."""
        if not self._programs or (not job.emulated and self.tells_answers_of(job)):
            return self
        self._host_runner = self._host_runner or DeviceRunner(
            LocalDevice(self.folder), self.folder, artifacts=self._store
        )
        return self._host_runner

    def program(self, job: Job) -> Program | None:
        """Return the program on the device; `None`: this host's Python. Raises `RunnerError` if programs were pushed,
        but none for this format."""
        variant = job.variant
        kind = variant.runtime, variant.format
        if self._programs and variant.runner_toolchain != INSTALLED:
            kind = variant.runtime, f"{variant.format} {variant.runner_toolchain}"
            if kind not in self._programs:
                self._programs[kind] = program_of_release(self.device, self.facts, variant)
        program = self._programs.get(kind)
        if program is None and self._programs:
            raise RunnerError(
                "not_possible",
                f"no program that runs {job.variant.format} artifacts was pushed to {self.facts.name}",
                "edgesweep explain android-runtime says how to compile one",
            )
        return program

    def extra_metrics(self, job: Job, report: RunReport) -> Mapping[str, float]:
        """Return the metrics that the job's program reported, and the size of its libraries if the program does not
        report that."""
        program = self.program(job)
        size = None if program is None else program.library_mb
        return {**({} if size is None else {"runtime_mb": size}), **report.extra_metrics}

    def report(self, job: Job, request: RunRequest, deadline_s: float) -> tuple[Completed, RunReport]:
        """Run one process of the job's own runner, and return its output and its report. Raises `DeviceError`,
        `RunnerError`."""
        program = self.program(job)
        path = None if program is None else program.path
        runtime, toolchain = registry.get(job.variant.runtime), job.variant.runner_toolchain
        try:
            return processes.report(self.device, runtime, path, request, deadline_s, toolchain)
        except RunnerError as error:
            if (explained := self.with_versions(error, job)) is error:
                raise
            raise explained from error

    def with_versions(self, error: RunnerError, job: Job) -> RunnerError:
        """Return the error with the versions that built the artifact and that would run it, if they differ and may not
        fit; otherwise the error unchanged. Raises `DeviceError`."""
        if error.kind not in _MISFITS or job.variant.runner_toolchain != INSTALLED:
            return error
        manifest, _ = self.files.artifact(job.build_key)
        built_with, on_device = manifest.versions.get(manifest.runtime), dict(self.facts.runners).get(manifest.runtime)
        if not built_with or not on_device or f"{manifest.runtime} {built_with}" in on_device.split(AND):
            return error
        message = f"{error.message}; {manifest.runtime} {built_with} made it, and on the device is {on_device}"
        return RunnerError(error.kind, message, error.next_step)


def failed(stage: Stage, error: DeviceError) -> Failed:
    """Return the failure of a job for an error, with the next step."""
    stage = "load" if error.kind == "runtime_skew" else stage
    if not isinstance(error, HostError):
        return Failed(stage=stage, kind=error.kind, message=error.one_line)
    condition = EdgeSweepError(error.condition, error.next_step).one_line
    return Failed(stage=stage, kind=error.kind, message=error.one_line, host=error.host, condition=condition)
