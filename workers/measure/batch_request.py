"""The request to time several jobs in one process of their runner."""

import hashlib
from collections.abc import Collection, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import ClassVar

from sweeps.batches import Batch, BatchItem, NotReached
from sweeps.device_facts import canonical_key
from sweeps.errors import DeviceError, RunnerError
from sweeps.manifest import Manifest
from sweeps.protocol.block_labels import block_labels
from sweeps.protocol.presets import Protocol
from sweeps.records import Conditions, Failed, Job, Stage
from workers.measure import processes
from workers.measure.device_runner import DeviceRunner, Request, failed
from workers.measure.readiness import Readiness
from workers.measure.timed_block import START_DEADLINE_S, check_clocks, cpus_of, observed, timed_request
from workers.runtimes import registry
from workers.runtimes.interface import BatchOutcome, BatchRuntime, RunReport, RunRequest
from workers.toolchains.environments import command_within

_LOAD_DEADLINE_S = 60.0
# Failures of one artifact; all others, such as a phone that went away, are failures of the whole batch.
OF_ONE_ARTIFACT = ("no_artifact", "corrupt_push", "no_space")


@dataclass(frozen=True, slots=True)
class BatchRequest(Request[Batch]):
    """The request to time `job` and the `other_jobs` in this order, in one process, on a device whose readiness was
    just read.

    Shuffle the jobs anew for each batch. Artifacts that are not on the device are pushed first. All jobs have the same
    runtime, threads and CPUs. A `Failed` as the answer, instead of a `Batch`, belongs to no single job: its kind is
    `no_batches` if the program on the device times one artifact per process, and `not_possible` if the jobs run in
    different programs.
    """

    other_jobs: tuple[Job, ...]
    protocol: Protocol
    readiness: Readiness
    brief: frozenset[str] = frozenset()
    """The keys of the jobs that have short blocks."""
    run: str = ""
    """The identifier of the driver's run and of the batch in it; empty if the device's host need not store the
    answer."""
    stage: ClassVar[Stage] = "run"

    @classmethod
    def of(
        cls, jobs: Sequence[Job], protocol: Protocol, readiness: Readiness, brief: Collection[str] = (), run: str = ""
    ) -> "BatchRequest":
        """Return a request for these jobs."""
        if not jobs:
            raise ValueError("a batch has at least one job")
        return cls(jobs[0], tuple(jobs[1:]), protocol, readiness, frozenset(brief), run)

    def __post_init__(self) -> None:
        # `group_of` would ask for one program; a batch runs in one that takes all formats of its jobs.
        pairs = [(job.variant, job.run) for job in self.jobs]
        shared = {(variant.runtime, variant.runner_toolchain, run.threads, run.cpus) for variant, run in pairs}
        if len(shared) > 1:
            raise ValueError("the jobs of a batch share a process: one runtime, one number of threads, the same CPUs")

    @property
    def jobs(self) -> tuple[Job, ...]:
        return (self.job, *self.other_jobs)

    @property
    def result_id(self) -> str:
        if not self.run:
            return ""
        return canonical_key({"batch": {"jobs": [job.key for job in self.jobs], "run": self.run}})

    @property
    def limit_s(self) -> float:
        return START_DEADLINE_S + len(self.jobs) * self._item_s

    @property
    def _item_s(self) -> float:
        return _LOAD_DEADLINE_S + 3 * self.protocol.max_seconds + self.protocol.warmup_seconds

    def answer(self, device_runner: DeviceRunner) -> Batch:
        runtime, program = _batches(device_runner, self.jobs)
        pushed = [self._pushed(device_runner, job) for job in self.jobs]
        present = [artifact for artifact in pushed if not isinstance(artifact, Failed)]
        outcomes: list[BatchOutcome] = []
        seconds, conditions = 0.0, Conditions()
        if present:
            outcomes, seconds, conditions = self._timed(device_runner, runtime, program, present)
            check_clocks([outcome for outcome in outcomes if isinstance(outcome, RunReport)], seconds)
        rest = iter(outcomes)
        return Batch(
            outcomes=tuple(
                built
                if isinstance(built, Failed)
                else self._outcome(device_runner, job, built[1], next(rest), conditions)
                for job, built in zip(self.jobs, pushed, strict=True)
            ),
            device_seconds=seconds,
        )

    def _pushed(self, device_runner: DeviceRunner, job: Job) -> tuple[RunRequest, Manifest] | Failed:
        try:
            manifest, model = device_runner.files.artifact(job.build_key)
        except DeviceError as error:
            if error.kind not in OF_ONE_ARTIFACT:
                raise
            return failed("push", error)
        return timed_request(job, manifest, model, self._protocol_of(job)), manifest

    def _protocol_of(self, job: Job) -> Protocol:
        return self.protocol.in_batch(brief=job.key in self.brief)

    def _timed(
        self,
        device_runner: DeviceRunner,
        runtime: BatchRuntime,
        program: str | None,
        present: Sequence[tuple[RunRequest, Manifest]],
    ) -> tuple[list[BatchOutcome], float, Conditions]:
        protocol, device = self.protocol, device_runner.device
        artifacts = [manifest.file_sha256 for _, manifest in present]
        content = runtime.batch_file([request for request, _ in present])
        source = device_runner.folder / f"batch-{hashlib.sha256(content).hexdigest()[:16]}.jsonl"
        try:
            source.write_bytes(content)
            file = device.push(source, source.name)
        finally:
            source.unlink(missing_ok=True)
        argv = runtime.batch_command(file, self._item_s, program)
        release = self.job.variant.runner_toolchain
        argv = argv if program else command_within(argv, release)
        deadline_s = START_DEADLINE_S + len(present) * self._item_s
        try:
            return observed(
                device_runner,
                protocol,
                self.readiness,
                lambda: processes.batch(device, runtime, argv, artifacts, deadline_s, release),
            )
        finally:
            with suppress(DeviceError, OSError):
                device.remove(file)

    def _outcome(
        self, device_runner: DeviceRunner, job: Job, manifest: Manifest, outcome: BatchOutcome, conditions: Conditions
    ) -> BatchItem | Failed | NotReached:
        match outcome:
            case RunnerError():
                return failed(self.stage, device_runner.with_versions(outcome, job))
            case NotReached():
                return outcome
        item = BatchItem(
            job_key=job.key,
            samples_ns=outcome.samples_ns,
            warmup_ns=outcome.warmup_ns,
            first_inference_ns=outcome.first_inference_ns,
            load_ns=outcome.load_ns,
            backend_ran=outcome.backend_ran,
            engine_ran=outcome.engine_ran,
            threads_ran=outcome.threads_ran,
            runner=outcome.runner,
            runtime_version=outcome.runtime_version,
            artifact_sha256=manifest.file_sha256,
            conditions=replace(conditions, cpus=cpus_of(outcome, job)),
        )
        variant, threads_known = job.variant, outcome.threads_known
        try:
            labels = block_labels(
                item, variant.backend, variant.qengine, self._protocol_of(job), threads_known=threads_known
            )
        except RunnerError as error:
            return failed(self.stage, error)
        return replace(item, labels=labels)


def _batches(device_runner: DeviceRunner, jobs: Sequence[Job]) -> tuple[BatchRuntime, str | None]:
    """Return the runtime, and the path of its program on the device (`None`: this host's Python). Raises
    `RunnerError`."""
    name = jobs[0].variant.runtime
    programs = {device_runner.program(job) for job in jobs}
    if len(programs) > 1:
        formats = ", ".join(sorted({job.variant.format for job in jobs}))
        raise RunnerError(
            "not_possible", f"{device_runner.facts.name} has different programs for {formats}: a batch is one process"
        )
    (program,) = programs
    runtime = registry.get(name)
    if not isinstance(runtime, BatchRuntime) or (program is not None and program.tool is not None):
        raise RunnerError("no_batches", f"{name} on {device_runner.facts.name} times one artifact a process")
    return runtime, None if program is None else program.path
