"""The accuracy of one device's jobs: each build evaluates the images once on the device."""

from collections.abc import Sequence
from dataclasses import replace
from typing import assert_never

from sweeps.errors import RunnerError
from sweeps.label_kinds import in_order
from sweeps.planning.planned_job import PlannedJob
from sweeps.records import Accuracy, Failed, Job
from workers.driver.context import DeviceProgress, RunContext
from workers.driver.device_session import DeviceSession
from workers.driver.scheduler import Task
from workers.measure.device_files import Evaluation
from workers.measure.evaluation_request import Evaluated, LogitsRequest
from workers.models.accuracy import evaluate
from workers.models.prepared_model import PreparedModel


class AccuracyPass:
    """The pass that runs builds on the evaluation images on one device, and stores their accuracy."""

    def __init__(self, contact: DeviceSession, context: RunContext, progress: DeviceProgress) -> None:
        self._contact = contact
        self._context = context
        self._progress = progress

    def run(self, jobs: Sequence[Job], following: int = 0) -> Task[None]:
        """Evaluate each job, unless another job of the same build has been evaluated already. `following`: the number
        of jobs that will be evaluated later, which the reported progress includes."""
        for number, job in enumerate(jobs):
            if self._contact.stopped():
                return
            total = self._progress.done + len(jobs) - number + following
            yield self._progress.measuring(total, f"{job.name}, accuracy", job.key)
            yield from self._accuracy(job)
            self._progress.done += 1
            yield from self._context.publish()

    def _accuracy(self, job: Job) -> Task[None]:
        journal, outcomes = self._context.journal, self._context.outcomes
        prepared = self._context.prepared[job.model]
        planned = outcomes.planned(job)
        evaluation_id = self._context.plan.identities.evaluation_id
        evaluation = Evaluation(evaluation_id=evaluation_id, images=prepared.evaluation.images)
        while not self._contact.stopped() and not outcomes.has_failed(job):
            if (
                journal.attempts.accuracy(job.build_key, evaluation_id, job.variant.qengine, planned.executor)
                is not None
            ):
                return
            answer = yield from self._contact.answer_of(LogitsRequest(job, evaluation))
            if answer is None:
                return
            match answer if isinstance(answer, Failed) else _accuracy(planned, evaluation_id, answer, prepared):
                case Accuracy() as accuracy:
                    journal.attempts.add_accuracy(accuracy)
                    took_s = accuracy.device_seconds + accuracy.push_seconds
                    self._context.schedule.done(job.device_id, job.build_key, "evaluation", took_s)
                case Failed() as failed:
                    yield outcomes.add_failure(job, failed)
                case never:
                    assert_never(never)


def _accuracy(
    planned: PlannedJob, evaluation_id: str, evaluated: Evaluated, prepared: PreparedModel
) -> Accuracy | Failed:
    try:
        accuracy = evaluate(
            planned.job.build_key,
            evaluation_id,
            planned.job.variant.qengine,
            planned.executor,
            evaluated.logits,
            prepared.evaluation_logits,
            prepared.evaluation.labels,
        )
    except RunnerError as error:
        return Failed(stage="evaluate", kind=error.kind, message=error.message)
    return replace(
        accuracy,
        labels=in_order((*accuracy.labels, *evaluated.labels, *(doubt.code for doubt in prepared.doubts))),
        device_seconds=evaluated.device_seconds,
        push_seconds=evaluated.push_seconds,
        extra_metrics=evaluated.extra_metrics,
    )
