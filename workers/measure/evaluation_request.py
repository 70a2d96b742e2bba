"""The request to a device to evaluate the images with one job's build."""

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import PurePosixPath
from typing import ClassVar

import numpy as np

from sweeps.device_facts import canonical_key
from sweeps.errors import BuildError, DeviceError, RunnerError
from sweeps.planning.axes import has_exact_sums
from sweeps.records import Failed, Stage
from workers.measure.device_files import Evaluation
from workers.measure.device_runner import DeviceRunner, Request
from workers.measure.partition import partition
from workers.measure.run_request import run_request
from workers.measure.timed_block import START_DEADLINE_S
from workers.models.package import Logits
from workers.runtimes import registry

_SECONDS_PER_IMAGE_DEADLINE = 5.0
_LOGIT_BYTES = np.dtype(np.float32).itemsize


@dataclass(frozen=True, slots=True, kw_only=True)
class Evaluated:
    """The result of one accuracy pass on a device."""

    logits: Logits
    """Logits (N, classes) float32 of all N images, computed in a separate process. A stock tool gives only those of the
    first images, which are in its file."""
    device_seconds: float
    """The seconds that the pass took, by the clock of the device that ran it, without `push_seconds`."""
    push_seconds: float
    labels: tuple[str, ...] = ()
    """Trust labels that say how the logits were made."""
    extra_metrics: Mapping[str, float] = field(default_factory=dict)
    """Further metrics, as in `Accuracy.extra_metrics`."""


@dataclass(frozen=True, slots=True)
class LogitsRequest(Request[Evaluated]):
    """The request to run the artifact on every image."""

    evaluation: Evaluation
    stage: ClassVar[Stage] = "evaluate"

    @property
    def result_id(self) -> str:
        # The id names no run: logits do not depend on when they are computed.
        return canonical_key({"logits": self.job.key, "evaluation": self.evaluation.evaluation_id})

    @property
    def limit_s(self) -> float:
        return START_DEADLINE_S + _SECONDS_PER_IMAGE_DEADLINE * len(self.evaluation.images)

    def answer(self, device_runner: DeviceRunner) -> Evaluated | Failed:
        labels = () if device_runner.tells_answers_of(self.job) else ("host_answers",)
        device_runner = device_runner.for_answers_of(self.job)
        began_s, pushed_s = device_runner.device.now_s(), device_runner.pushes.total_s
        try:
            logits = self._logits(device_runner, exact_int8=bool(labels) and has_exact_sums(self.job.variant))
            seconds = device_runner.device.now_s() - began_s - (device_runner.pushes.total_s - pushed_s)
            node_split = partition(device_runner, self.job, self.limit_s)
        except BuildError as error:  # a reference is compiled at its first use
            return Failed(stage=self.stage, kind=error.kind, message=error.message)
        pushing_s = device_runner.pushes.take_s(self.job.build_key)
        return Evaluated(
            logits=logits,
            device_seconds=max(0.0, seconds),
            push_seconds=pushing_s,
            labels=(*labels, *node_split.labels),
            extra_metrics=node_split.metrics,
        )

    def _logits(self, device_runner: DeviceRunner, *, exact_int8: bool) -> Logits:
        job, device, images = self.job, device_runner.device, self.evaluation.images
        manifest, model = device_runner.files.artifact(job.build_key)
        program = device_runner.program(job)
        if program is not None and program.tool is not None:
            request = run_request(job.variant, job.run, manifest, model)
            return device_runner.stock.logits(program.tool, program.path, manifest, images, request, START_DEADLINE_S)
        inputs = device_runner.files.images(self.evaluation, job.build_key)
        outputs = device_runner.folder / f"logits-{job.build_key[:16]}.bin"
        on_device = str(PurePosixPath(inputs).with_name(outputs.name))
        request = replace(
            run_request(job.variant, job.run, manifest, model),
            eval_inputs=inputs,
            eval_outputs=on_device,
            exact_int8=exact_int8,
        )
        if job.emulated:
            folder = device_runner.files.folder_of(manifest)
            reference = registry.get(job.variant.runtime).reference(job.variant.backend, folder)
            request = replace(request, reference=reference)
        count, classes = len(images), manifest.output.shape[-1]
        try:
            _, report = device_runner.report(job, request, self.limit_s)
            if (report.eval_images, report.eval_classes) != (count, classes):
                raise RunnerError(
                    "output_shape",
                    f"the runner answered {report.eval_images} of {count} images with {report.eval_classes} classes, "
                    f"and the build has {classes}",
                )
            device.pull(on_device, outputs, count * classes * _LOGIT_BYTES)
            values = np.fromfile(outputs, dtype="<f4")
        finally:
            with suppress(DeviceError, OSError):
                outputs.unlink(missing_ok=True)
                device.remove(on_device)
        if values.size != count * classes:
            raise RunnerError("output_shape", f"{values.size} logits for {count} images of {classes} classes")
        return values.reshape(count, classes)
