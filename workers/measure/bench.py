"""One job on one device: a timed block, or an evaluation pass. Every end of it is a value."""

import hashlib
import tempfile
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path, PurePosixPath
from types import MappingProxyType

import numpy as np

from sweeps.errors import BuildError, DeviceError, RunnerError
from sweeps.manifest import Manifest
from sweeps.protocol.blocks import block_labels
from sweeps.protocol.presets import Gate, Protocol
from sweeps.records import Block, DeviceFacts, Failed, Job, Stage
from workers.artifacts import ArtifactStore
from workers.devices.interface import Completed, Device, Sensors
from workers.devices.local import LocalDevice, from_os_error
from workers.measure import processes as runs
from workers.measure.conditions import conditions_around
from workers.measure.fixed_performance import FixedPerformance, restore_leftovers
from workers.measure.readiness import Readiness, await_ready
from workers.models.package import Images, Logits
from workers.native.compiler import cache_folder
from workers.runtimes import registry
from workers.runtimes.interface import Program, RunReport, RunRequest, StockTool

# Starting Python and torch on a slow, busy machine, and loading a large model.
_START_DEADLINE_S = 120.0
_SECONDS_PER_IMAGE_DEADLINE = 5.0
# Two clocks are compared, and a runner rounds.
_CLOCK_SLACK = 1.01
_CLOCK_SLACK_S = 0.05
# The runner contract's name for what a manifest calls by torch's name.
_INPUT_TYPES = {"float32": "float"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Evaluation:
    """The images of one evaluation set in the shape of one model."""

    evaluation_id: str
    images: Images


class Bench:
    """A device and the artifacts on its host. One call at a time; the device's lane owns one."""

    def __init__(
        self,
        device: Device,
        folder: Path,
        facts: DeviceFacts | None = None,
        programs: Mapping[tuple[str, str], Program] = MappingProxyType({}),
        artifacts: ArtifactStore | None = None,
    ) -> None:
        """`folder` is for this bench alone; `artifacts` lie in it unless they are given. `facts` and `programs` as
        `workers.measure.attach` found them; without, the device runs this host's Python."""
        self._device = device
        self._facts = facts or device.facts()
        self._programs = programs
        self._folder = folder
        # What is left on a phone is seen to by the next run of this host, whatever workspace that is of.
        self._marks = cache_folder() if programs else folder
        self._store = artifacts or ArtifactStore(folder / "artifacts")
        self._on_device: dict[str, tuple[Manifest, str]] = {}
        self._images: dict[tuple[str, tuple[int, ...]], str] = {}
        self._carriers: dict[str, str] = {}
        self._fixed: FixedPerformance | None = None
        # A sensor that it had then and has no more is not the same as one that it never had.
        self._first_look: Sensors | None = None
        self._on_host: Bench | None = None

    def make_ready(self, job: Job, gate: Gate | None, seconds: float) -> Readiness | Failed:
        """Bring the job's artifact to the device, then wait for the device, at most so long on its own clock.

        Without a gate it is looked at once. The artifact must be on this host.
        """
        try:
            restore_leftovers(self._device, self._facts.device_id, self._marks)
            if self._first_look is None:
                self._first_look = self._device.sensors()
            # Also what a stock tool takes: to build and push it would be in the block's own time.
            self._to_be_timed(job)
            if gate is None:
                return Readiness(sensors=self._device.sensors(load=False), lacking=(), busy_only=False)
            return await_ready(self._device, gate, seconds, self._first_look)
        except DeviceError as error:
            return failed("run", error)
        except BuildError as error:  # a stock tool's quantized input is built
            return Failed(stage="run", kind=error.kind, message=error.one_line)
        except OSError as error:
            return failed("run", from_os_error(error))

    def block(self, job: Job, round_: int, protocol: Protocol, readiness: Readiness) -> Block | Failed:
        """One process of the runner, timed, on the device as it was last seen."""
        try:
            return self._block(job, round_, protocol, readiness)
        except DeviceError as error:
            return failed("run", error)
        except BuildError as error:
            return Failed(stage="run", kind=error.kind, message=error.one_line)
        except OSError as error:
            return failed("run", from_os_error(error))

    def logits(self, job: Job, evaluation: Evaluation) -> Logits | Failed:
        """(N, classes) float32: what the artifact answers on every image, in a process of its own; of a stock tool, on
        as many of the first as its file carries."""
        try:
            if job.emulated and self._programs:
                # What stands in for a backend runs in this host's Python.
                self._on_host = self._on_host or Bench(LocalDevice(self._folder), self._folder, artifacts=self._store)
                return self._on_host.logits(job, evaluation)
            return self._logits(job, evaluation)
        except DeviceError as error:
            return failed("evaluate", error)
        except BuildError as error:  # a reference is compiled on first use, a stock tool's file is built
            return Failed(stage="evaluate", kind=error.kind, message=error.message)
        except OSError as error:
            return failed("evaluate", from_os_error(error))

    def rest(self, seconds: float) -> None:
        self._device.rest(seconds)

    def close(self) -> None:
        """Take the evaluation images, which are large, off the device, and what else is of no further use; and take
        the device out of a mode that the last block could not end."""
        if self._on_host is not None:
            self._on_host.close()
        for paths in (self._images, self._carriers):
            while paths:
                _, path = paths.popitem()
                with suppress(DeviceError, OSError):
                    self._device.remove(path)
        with suppress(DeviceError, OSError):  # its marker stays, for the next contact
            restore_leftovers(self._device, self._facts.device_id, self._marks)
        self._device.release()

    def _block(self, job: Job, round_: int, protocol: Protocol, readiness: Readiness) -> Block:
        manifest, model = self._to_be_timed(job)
        request = timed_request(job, manifest, model, protocol)
        before = readiness.sensors
        deadline_s = _START_DEADLINE_S + 3 * protocol.max_seconds + protocol.warmup_seconds
        with self._fixed_performance(protocol.fixed_performance) as fixed:
            if fixed.on:
                # Its clocks are others now.
                before = replace(before, cpu_mhz=self._device.sensors(load=False).cpu_mhz)
            started_s = self._device.now_s()
            completed, report = self._timed(job, request, deadline_s)
            seconds = self._device.now_s() - started_s
            after = self._device.sensors(load=False)
        if not seconds > 0:
            raise RunnerError("clock_went_back", f"by the device's own clock the block took {seconds:.3f} s")
        once_ns = (report.first_inference_ns or 0) + (report.load_ns or 0)
        told_s = (sum(report.samples_ns) + sum(report.warmup_ns) + once_ns) / 1e9
        if told_s > seconds * _CLOCK_SLACK + _CLOCK_SLACK_S:
            raise RunnerError("clock_jumped", f"the runner tells of {told_s:.3f} s of work within {seconds:.3f} s")
        block = Block(
            job_key=job.key,
            round=round_,
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
            conditions=conditions_around(before, after, readiness, protocol.gate, seconds * self._facts.cores),
            device_seconds=seconds,
            extra_metrics=report.extra_metrics,
        )
        conditions = replace(
            block.conditions,
            cpus=",".join(map(str, report.cpus_ran)) or job.run.cpus,
            fixed_performance=fixed.on,
            exec_context=self._facts.exec_context,
        )
        block = replace(block, conditions=conditions)
        return replace(block, labels=block_labels(block, job.variant.backend, job.variant.qengine, protocol))

    def _fixed_performance(self, wanted: bool) -> FixedPerformance:
        """Probed once: all blocks of a run want the same."""
        if self._fixed is None:
            self._fixed = FixedPerformance(self._device, self._facts.device_id, self._marks, wanted=wanted)
        return self._fixed

    def _logits(self, job: Job, evaluation: Evaluation) -> Logits:
        manifest, model = self._artifact(job)
        program = self._program(job)
        if program is not None and program.tool is not None:
            return self._stock_logits(job, manifest, evaluation.images, program, program.tool)
        images = self._push_images(evaluation)
        outputs = self._folder / f"logits-{job.build_key[:16]}.bin"
        on_device = str(PurePosixPath(images).with_name(outputs.name))
        request = replace(_request(job, manifest, model), eval_inputs=images, eval_outputs=on_device)
        if job.emulated:
            request = replace(request, reference=registry.get(job.variant.runtime).reference(job.variant.backend))
        count = len(evaluation.images)
        try:
            deadline_s = _START_DEADLINE_S + _SECONDS_PER_IMAGE_DEADLINE * count
            _, report = self._report(job, program, request, deadline_s)
            self._device.pull(on_device, outputs)
            values = np.fromfile(outputs, dtype="<f4")
        finally:
            with suppress(DeviceError, OSError):
                outputs.unlink(missing_ok=True)
                self._device.remove(on_device)
        if report.eval_images != count or not report.eval_classes or values.size != count * report.eval_classes:
            raise RunnerError(
                "output_shape", f"{values.size} logits for {count} images of {report.eval_classes} classes"
            )
        return values.reshape(count, report.eval_classes)

    def _artifact(self, job: Job) -> tuple[Manifest, str]:
        """Its manifest, its path on the device. Pushed once, its bytes checked first."""
        if job.build_key not in self._on_device:
            manifest = self._store.find(job.build_key)
            if manifest is None:
                raise DeviceError("no_artifact", f"artifact {job.build_key[:12]} is not on this host")
            name = f"{job.build_key[:16]}-{manifest.file}"
            path = self._device.push(self._store.model(manifest), name, sha256=manifest.file_sha256)
            self._on_device[job.build_key] = manifest, path
        return self._on_device[job.build_key]

    def _push_images(self, evaluation: Evaluation) -> str:
        """Their path on the device. Pushed once; they stay until `close`."""
        key = evaluation.evaluation_id, evaluation.images.shape
        if key in self._images:
            return self._images[key]
        digest = hashlib.sha256(repr(evaluation.images.shape).encode()).hexdigest()[:8]
        name = f"images-{evaluation.evaluation_id[:16]}-{digest}.bin"
        source = self._folder / name
        try:
            # Not ndarray.tofile: its error does not tell that the disk is full.
            source.write_bytes(np.ascontiguousarray(evaluation.images, dtype="<f4").data)
            self._images[key] = self._device.push(source, name)
        finally:
            source.unlink(missing_ok=True)
        return self._images[key]

    def _to_be_timed(self, job: Job) -> tuple[Manifest, str]:
        """Its manifest, and the path on the device of what is timed."""
        manifest, model = self._artifact(job)
        program = self._program(job)
        if program is None or program.tool is None:
            return manifest, model
        request = _request(job, manifest, model)
        _check(program.tool, request)
        return manifest, model if request.input_dtype == "float" else self._carrier(manifest, program.tool)

    def _timed(self, job: Job, request: RunRequest, deadline_s: float) -> tuple[Completed, RunReport]:
        program = self._program(job)
        if program is None or program.tool is None:
            return self._report(job, program, request, deadline_s)
        return runs.stock_timing(self._device, program.tool, program.path, request, deadline_s)

    def _report(
        self, job: Job, program: Program | None, request: RunRequest, deadline_s: float
    ) -> tuple[Completed, RunReport]:
        path = None if program is None else program.path
        return runs.report(self._device, registry.get(job.variant.runtime), path, request, deadline_s)

    def _stock_logits(self, job: Job, manifest: Manifest, images: Images, program: Program, tool: StockTool) -> Logits:
        """In a file of its own, since what is timed and shipped carries no images."""
        request = _request(job, manifest, "")
        _check(tool, request)
        path, count = self._push_sibling(manifest, tool, images)
        try:
            inputs = count // manifest.input.shape[0]
            rows = runs.stock_answers(
                self._device, tool, program.path, replace(request, model=path), inputs, _START_DEADLINE_S
            )
        finally:
            with suppress(DeviceError, OSError):
                self._device.remove(path)
        if len({len(row) for row in rows}) != 1:
            raise RunnerError("output_shape", f"{len(rows)} inputs got answers of different sizes")
        return np.array(rows, dtype=np.float32).reshape(count, -1)

    def _carrier(self, manifest: Manifest, tool: StockTool) -> str:
        """The path on the device of the model with one input in its file: quantized ones can not come otherwise."""
        if manifest.build_key not in self._carriers:
            ones = np.ones(manifest.input.shape, dtype=np.float32)
            self._carriers[manifest.build_key], _ = self._push_sibling(manifest, tool, ones)
        return self._carriers[manifest.build_key]

    def _push_sibling(self, manifest: Manifest, tool: StockTool, images: Images) -> tuple[str, int]:
        """Its path on the device, and how many of the images it carries."""
        with tempfile.TemporaryDirectory(dir=self._folder, prefix="sibling-") as folder:
            sibling = tool.sibling(manifest, self._store.model(manifest), images, Path(folder))
            name = f"{manifest.build_key[:16]}-{sibling.images}-{sibling.file}"
            return self._device.push(Path(folder) / sibling.file, name), sibling.images

    def _program(self, job: Job) -> Program | None:
        """`None`: this host's Python. Raises `RunnerError` where programs were brought, but none for this format."""
        found = self._programs.get((job.variant.runtime, job.variant.format))
        if found is None and self._programs:
            raise RunnerError(
                "not_possible",
                f"no program that runs {job.variant.format} artifacts was brought to {self._facts.name}",
                "infra/android-runtime.md says how to compile one",
            )
        return found


def _check(tool: StockTool, request: RunRequest) -> None:
    if reason := tool.reason_against(request):
        raise RunnerError("not_possible", reason, "use EdgeSweep's own runner: infra/android-runtime.md")


def timed_request(job: Job, manifest: Manifest, model: str, protocol: Protocol) -> RunRequest:
    """What the runner is asked for one block; `model` is the artifact's path on the device."""
    return replace(
        _request(job, manifest, model),
        warmup_iterations=protocol.warmup_iterations,
        warmup_seconds=protocol.warmup_seconds,
        iterations=protocol.iterations,
        min_seconds=protocol.min_seconds,
        max_seconds=protocol.max_seconds,
    )


def _request(job: Job, manifest: Manifest, model: str) -> RunRequest:
    return RunRequest(
        model=model,
        backend=job.variant.backend,
        engine=job.variant.qengine,
        threads=job.run.threads,
        cpus=job.run.cpus,
        input_shape=manifest.input.shape,
        memory_format=manifest.memory_format,
        input_dtype=_INPUT_TYPES.get(manifest.input.dtype, manifest.input.dtype),
        input_scale=manifest.input.scale,
        input_zero_point=manifest.input.zero_point,
        reuse_input=job.run.reuse_input,
    )


def failed(stage: Stage, error: DeviceError) -> Failed:
    """The error as the end of a job, what to do about it included."""
    stage = "load" if error.kind == "runtime_skew" else stage
    return Failed(stage=stage, kind=error.kind, message=error.one_line)
