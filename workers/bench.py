"""One job on one device: a timed block, or an evaluation pass. Every end of it is a value."""

import hashlib
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path, PurePosixPath

import numpy as np

from sweeps.errors import BuildError, DeviceError, RunnerError
from sweeps.manifest import Manifest
from sweeps.protocol import Protocol, block_labels
from sweeps.records import Block, Conditions, Failed, Job, Stage
from workers.build import ArtifactStore, PackedArtifact
from workers.devices.interface import Completed, Device
from workers.devices.local import from_os_error
from workers.runtimes import registry
from workers.runtimes.interface import Images, Logits, RunReport, RunRequest, Runtime

# Starting Python and torch on a slow, busy machine, and loading a large model.
_START_DEADLINE_S = 120.0
_SECONDS_PER_IMAGE_DEADLINE = 5.0
# The runner contract's name for what a manifest calls by torch's name.
_INPUT_TYPES = {"float32": "float"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Evaluation:
    """The images of one evaluation set in the shape of one model."""

    evaluation_id: str
    images: Images


class Bench:
    """A device and the artifacts on its host. One call at a time; the device actor and the inline executor own one."""

    def __init__(self, device: Device, folder: Path) -> None:
        self._device = device
        self._folder = folder
        self._store = ArtifactStore(folder / "artifacts")
        self._on_device: dict[str, tuple[Manifest, str]] = {}
        self._images: dict[tuple[str, tuple[int, ...]], str] = {}

    def has(self, build_key: str) -> bool:
        """Whether the artifact is on this host already."""
        return build_key in self._on_device or self._store.find(build_key) is not None

    def receive(self, packed: PackedArtifact) -> None:
        """Raises `StoreError`, and `DeviceError` where this host has no room for it."""
        try:
            self._store.unpack(packed)
        except OSError as error:
            raise from_os_error(error) from error

    def block(self, job: Job, round_: int, protocol: Protocol) -> Block | Failed:
        """One process of the runner, timed. The artifact must be on this host."""
        try:
            return self._block(job, round_, protocol)
        except DeviceError as error:
            return _failed("run", error)
        except OSError as error:
            return _failed("run", from_os_error(error))

    def logits(self, job: Job, evaluation: Evaluation) -> Logits | Failed:
        """(N, classes) float32: what the artifact answers on every image, in a process of its own."""
        try:
            return self._logits(job, evaluation)
        except DeviceError as error:
            return _failed("evaluate", error)
        except BuildError as error:  # the reference that stands in for a backend is compiled on first use
            return Failed(stage="evaluate", kind=error.kind, message=error.message)
        except OSError as error:
            return _failed("evaluate", from_os_error(error))

    def close(self) -> None:
        """Take the evaluation images, which are large, off the device."""
        while self._images:
            _, path = self._images.popitem()
            with suppress(DeviceError, OSError):
                self._device.remove(path)

    def _block(self, job: Job, round_: int, protocol: Protocol) -> Block:
        manifest, model, runtime = self._artifact(job)
        request = replace(
            _request(job, manifest, model),
            warmup_iterations=protocol.warmup_iterations,
            warmup_seconds=protocol.warmup_seconds,
            iterations=protocol.iterations,
            min_seconds=protocol.min_seconds,
            max_seconds=protocol.max_seconds,
        )
        before = self._device.sensors()
        completed, report = self._run(
            runtime, request, _START_DEADLINE_S + 3 * protocol.max_seconds + protocol.warmup_seconds
        )
        after = self._device.sensors()
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
            conditions=Conditions(
                temp_start_c=before.temp_c,
                temp_end_c=after.temp_c,
                cpu_mhz_start=before.cpu_mhz,
                cpu_mhz_end=after.cpu_mhz,
                load_start=before.load,
                cpus=",".join(map(str, report.cpus_ran)) or job.run.cpus,
                throttled=None
                if before.throttle_count is None or after.throttle_count is None
                else after.throttle_count > before.throttle_count,
                exec_context=self._device.facts().exec_context,
            ),
        )
        return replace(block, labels=block_labels(block, job.variant.backend, job.variant.qengine, protocol))

    def _logits(self, job: Job, evaluation: Evaluation) -> Logits:
        manifest, model, runtime = self._artifact(job)
        images = self._push_images(evaluation)
        outputs = self._folder / f"logits-{job.build_key[:16]}.bin"
        on_device = str(PurePosixPath(images).with_name(outputs.name))
        request = replace(_request(job, manifest, model), eval_inputs=images, eval_outputs=on_device)
        if job.emulated:
            request = replace(request, reference=runtime.reference(job.variant.backend))
        count = len(evaluation.images)
        try:
            _, report = self._run(runtime, request, _START_DEADLINE_S + _SECONDS_PER_IMAGE_DEADLINE * count)
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

    def _artifact(self, job: Job) -> tuple[Manifest, str, Runtime]:
        """Its manifest, its path on the device, its runtime. Pushed once, its bytes checked first."""
        if job.build_key not in self._on_device:
            manifest = self._store.find(job.build_key)
            if manifest is None:
                raise DeviceError("no_artifact", f"artifact {job.build_key[:12]} is not on this host")
            path = self._device.push(self._store.model(manifest), f"{job.build_key[:16]}-{manifest.file}")
            self._on_device[job.build_key] = manifest, path
        return *self._on_device[job.build_key], registry.get(job.variant.runtime)

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

    def _run(self, runtime: Runtime, request: RunRequest, deadline_s: float) -> tuple[Completed, RunReport]:
        completed = self._device.run(runtime.command(request), deadline_s)
        if completed.exit_code != 0:
            try:
                # A runner that knows what went wrong says so before it ends.
                runtime.parse(completed.stdout)
            except RunnerError as error:
                if error.kind not in ("no_report", "truncated"):
                    raise
            raise RunnerError(_death(completed.exit_code), _last_words(completed))
        return completed, runtime.parse(completed.stdout)


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


def _failed(stage: Stage, error: DeviceError) -> Failed:
    return Failed(stage="load" if error.kind == "runtime_skew" else stage, kind=error.kind, message=error.message)


def _death(exit_code: int) -> str:
    """A process that was killed for memory ends with SIGKILL, here -9, in a shell 137."""
    return "killed" if exit_code in (-9, 137) else "crashed"


def _last_words(completed: Completed) -> str:
    text = completed.stderr[-2000:].decode("utf-8", errors="replace").strip()
    return f"the runner ended with exit code {completed.exit_code}" + (f": {text[-500:]}" if text else "")
