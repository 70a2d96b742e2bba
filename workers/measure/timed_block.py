"""The requests to a device for one block of a job: the device gets ready, then one block is timed."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from typing import ClassVar, TypeVar

from sweeps.device_facts import canonical_key
from sweeps.errors import RunnerError
from sweeps.manifest import Manifest
from sweeps.protocol.block_labels import block_labels
from sweeps.protocol.presets import Gate, Protocol
from sweeps.records import Block, Conditions, Job, Stage
from workers.devices.interface import Completed
from workers.measure.conditions import conditions_around
from workers.measure.device_runner import DeviceRunner, Request
from workers.measure.readiness import Readiness, await_ready
from workers.measure.run_request import run_request
from workers.runtimes.interface import RunReport, RunRequest

# The time to start Python and torch on a slow, busy machine, and to load a large model.
START_DEADLINE_S = 120.0
# A stock tool runs a trial before it times.
_PROCESSES = 2
# Two clocks are compared, and a runner rounds.
_CLOCK_SLACK = 1.01
_CLOCK_SLACK_S = 0.05

WorkT = TypeVar("WorkT")


@dataclass(frozen=True, slots=True)
class ReadyRequest(Request[Readiness]):
    """The request to push the job's artifact, which must be on this host, to the device, and then to wait until the
    device is ready."""

    gate: Gate | None
    """The limits of readiness; `None`: the sensors are read once."""
    seconds: float
    """The longest wait (s), by the device's own clock."""
    stage: ClassVar[Stage] = "run"
    keeps_mode: ClassVar[bool] = True

    @property
    def limit_s(self) -> float:
        return self.seconds

    def answer(self, device_runner: DeviceRunner) -> Readiness:
        if not device_runner.mode_stays_on:
            device_runner.restore()
        first = device_runner.first_sensors()
        # The input of a stock tool is pushed now, too: otherwise building and pushing it would count as time of the
        # block.
        _timed_model(device_runner, self.job)
        if self.gate is None:
            return Readiness(sensors=device_runner.device.sensors(load=False), lacking=(), busy_only=False)
        if device_runner.mode_stays_on:
            readiness = await_ready(device_runner.device, self.gate, 0.0, first)
            if readiness.ready:
                return readiness
            # The device rests at its own clocks.
            device_runner.end_mode()
            device_runner.restore()
        return await_ready(device_runner.device, self.gate, self.seconds, first)


@dataclass(frozen=True, slots=True)
class BlockRequest(Request[Block]):
    """The request to time one process of the runner, on a device whose readiness was just read."""

    round: int
    protocol: Protocol
    readiness: Readiness
    run: str = ""
    """The identifier of the driver's run; empty if the device's host need not store the answer."""
    stage: ClassVar[Stage] = "run"
    keeps_mode: ClassVar[bool] = True

    @property
    def result_id(self) -> str:
        if not self.run:
            return ""
        question = {"job": self.job.key, "round": self.round, "protocol": repr(self.protocol), "run": self.run}
        return canonical_key({"block": question})

    @property
    def limit_s(self) -> float:
        return _PROCESSES * self._deadline_s

    @property
    def _deadline_s(self) -> float:
        return START_DEADLINE_S + 3 * self.protocol.max_seconds + self.protocol.warmup_seconds

    def answer(self, device_runner: DeviceRunner) -> Block:
        job, protocol = self.job, self.protocol
        manifest, model = _timed_model(device_runner, job)
        in_process = protocol.in_own_process
        request = timed_request(job, manifest, model, in_process)
        (completed, report), seconds, conditions = observed(
            device_runner, protocol, self.readiness, lambda: self._timed(device_runner, request), self.round
        )
        check_clocks([report], seconds)
        conditions = replace(conditions, cpus=cpus_of(report, job))
        block = Block(
            job_key=job.key,
            round=self.round,
            samples_ns=report.samples_ns,
            warmup_ns=report.warmup_ns,
            first_inference_ns=report.first_inference_ns,
            load_ns=report.load_ns,
            rss_before_load_bytes=report.rss_before_load_bytes,
            rss_peak_bytes=report.rss_peak_bytes,
            backend_ran=report.backend_ran,
            engine_ran=report.engine_ran,
            threads_ran=report.threads_ran,
            runner=report.runner,
            runtime_version=report.runtime_version,
            artifact_sha256=manifest.file_sha256,
            exit_code=completed.exit_code,
            conditions=conditions,
            device_seconds=seconds,
            extra_metrics=device_runner.extra_metrics(job, report),
        )
        threads_known, mean_only, variant = report.threads_known, report.mean_only, job.variant
        labels = block_labels(
            block, variant.backend, variant.qengine, in_process, threads_known=threads_known, mean_only=mean_only
        )
        return replace(block, labels=labels, push_seconds=device_runner.pushes.take_s(job.build_key))

    def _timed(self, device_runner: DeviceRunner, request: RunRequest) -> tuple[Completed, RunReport]:
        program = device_runner.program(self.job)
        if program is None or program.tool is None:
            return device_runner.report(self.job, request, self._deadline_s)
        return device_runner.stock.timing(program.tool, program.path, request, self._deadline_s)


def timed_request(job: Job, manifest: Manifest, model: str, protocol: Protocol) -> RunRequest:
    """Return the runner's request for one block. `model`: the path of the artifact on the device."""
    return replace(
        run_request(job.variant, job.run, manifest, model),
        warmup_iterations=protocol.warmup_iterations,
        warmup_seconds=protocol.warmup_seconds,
        iterations=protocol.iterations,
        min_seconds=protocol.min_seconds,
        max_seconds=protocol.max_seconds,
    )


def _timed_model(device_runner: DeviceRunner, job: Job) -> tuple[Manifest, str]:
    """Return the manifest, and the path on the device of the file to time."""
    manifest, model = device_runner.files.artifact(job.build_key)
    program = device_runner.program(job)
    if program is None or program.tool is None:
        return manifest, model
    return manifest, device_runner.stock.timed_model(
        program.tool, manifest, run_request(job.variant, job.run, manifest, model)
    )


def observed(
    device_runner: DeviceRunner,
    protocol: Protocol,
    readiness: Readiness,
    work: Callable[[], WorkT],
    round_: int | None = None,
) -> tuple[WorkT, float, Conditions]:
    """Run `work` on the device. Return its result, its duration (s) by the device's clock, and the conditions around
    it.

    With `round_` the fixed-performance mode stays on afterwards, for the next block of this round.
    """
    device, before = device_runner.device, readiness.sensors
    with device_runner.fixed_performance(protocol.fixed_performance).during(round_) as fixed:
        if fixed.on and fixed.just_switched:
            # The mode changes the device's clocks.
            before = replace(before, cpu_mhz=device.sensors(load=False).cpu_mhz)
        started_s = device.now_s()
        result = work()
        seconds = device.now_s() - started_s
        after = device.sensors(load=False)
    conditions = conditions_around(before, after, readiness, protocol.gate, seconds * device_runner.facts.cores)
    return (
        result,
        seconds,
        replace(conditions, fixed_performance=fixed.on, exec_context=device_runner.facts.exec_context),
    )


def check_clocks(reports: Iterable[RunReport], seconds: float) -> None:
    """Compare the times in the reports with `seconds`, the duration of the process that wrote all of them, by the
    device's clock. Raises `RunnerError`."""
    if not seconds > 0:
        raise RunnerError("clock_went_back", f"by the device's own clock the block took {seconds:.3f} s")
    reported_s = sum(_reported_ns(report) for report in reports) / 1e9
    if reported_s > seconds * _CLOCK_SLACK + _CLOCK_SLACK_S:
        raise RunnerError("clock_jumped", f"the runner reports {reported_s:.3f} s of work within {seconds:.3f} s")


def cpus_of(report: RunReport, job: Job) -> str:
    """Return the CPUs that the runner ran on, by number; the requested CPUs if the runner does not report them."""
    return ",".join(map(str, report.cpus_ran)) or job.run.cpus


def _reported_ns(report: RunReport) -> int:
    once_ns = (report.first_inference_ns or 0) + (report.load_ns or 0)
    return sum(report.samples_ns) + sum(report.warmup_ns) + once_ns
