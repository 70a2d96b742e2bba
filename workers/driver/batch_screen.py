"""The screen of a race on one device: batches, until every contest's finals begin."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from sweeps.batches import Batch, BatchItem, NotReached, StoredBatch, group_of
from sweeps.journal.outcomes import MAX_ATTEMPTS
from sweeps.protocol.stopping import shuffled_order
from sweeps.records import Failed, Job
from workers.driver.contests import Contests
from workers.driver.context import DeviceProgress, RunContext
from workers.driver.device_session import DeviceSession
from workers.driver.driver_events import AttemptFailed, Left, MeasuredAlone
from workers.driver.scheduler import Task
from workers.measure.batch_request import OF_ONE_ARTIFACT

_OF_THE_MOMENT = frozenset({"no_batches", "not_ready", "disconnected"})
"""Failures that are not stored: the next run may find another runner, or a device that is ready."""

_NOT_AGAIN = frozenset({"no_batches", "not_possible", "timeout"})
"""Failures after which a build is not tried again in a batch. A timeout of the whole process means that the device
hangs, and takes long."""


@dataclass(slots=True)
class _UnderWay:
    """One batch. It takes several processes if one of them ends early."""

    left: list[Job]
    processes: list[StoredBatch] = field(default_factory=list)


class Batches:
    """The batches of the screen: measures them and stores them."""

    def __init__(self, contact: DeviceSession, context: RunContext, progress: DeviceProgress) -> None:
        self._contact = contact
        self._journal = context.journal
        self._protocol = context.protocol
        self._session = context.session
        self._progress = progress

    def recall(self, contests: Contests, by_key: Mapping[str, Job]) -> Task[int]:
        """Replay the batches of earlier runs to the contests, with the jobs that have been measured alone since. A
        batch that was not finished is replayed as far as it got.

        Return the number of those batches.
        """
        shown: dict[tuple[int, int, str], list[StoredBatch]] = {}
        for process in self._journal.batches.of_jobs(by_key):
            waited_s = max((item.conditions.waited_seconds for item in process.items.values()), default=0.0)
            self._contact.count_seconds(process.device_seconds + waited_s)
            job = by_key[next(iter([*process.items, *process.failed]))]
            place = (process.session, process.number, f"{job.model} {group_of(job)}")
            shown.setdefault(place, []).append(process)
        for processes in shown.values():
            yield from _take(contests, processes)
        return len(shown)

    def run(self, contests: Contests, by_key: Mapping[str, Job], number: int) -> Task[None]:
        """Measure batches until none is left to measure, the run is stopped, or the device's time is used up.

        `number`: the number of earlier batches; the order of a batch depends on its number.
        """
        if number:
            yield from self._expire(contests)
        while batches := contests.batches:
            for keys in batches:
                if self._contact.stopped():
                    return
                jobs = [by_key[key] for key in shuffled_order(keys, number, self._protocol.seed)]
                further_jobs = sum(len(batch) for batch in contests.batches) - len(jobs)
                yield from self._batch(contests, jobs, number, further_jobs)
            number += 1
            yield from self._expire(contests)

    def _expire(self, contests: Contests) -> Task[None]:
        minutes = self._protocol.device_minutes
        if minutes is not None and self._contact.spent_s >= 60 * minutes:
            yield from contests.expire()

    def _batch(self, contests: Contests, jobs: Sequence[Job], number: int, further_jobs: int) -> Task[None]:
        """Measure one batch. A job that ends a process is measured alone from then on, and the remaining jobs are
        requested again without it. `further_jobs`: the number of jobs that are still to be measured in other batches,
        for the progress."""
        under_way, brief = _UnderWay(list(jobs)), contests.brief
        failures = 0
        while under_way.left and not self._contact.stopped():
            self._progress.done += 1
            total = self._progress.done + (further_jobs + len(jobs)) * max(1, self._protocol.rounds)
            yield self._progress.measuring(total, f"{len(under_way.left)} in one process, batch {number + 1}")
            batch = yield from self._contact.batch(under_way.left, self._protocol, number, brief)
            match batch:
                case None:
                    continue  # stopped, or the device was away and is back: its state is read again
                case Failed():
                    failures += 1
                    if batch.kind in OF_ONE_ARTIFACT:
                        # A failure of one artifact belongs to the first job: the wait for the device pushes that job's
                        # artifact.
                        yield from self._alone(under_way, under_way.left[:1], batch, number)
                    elif batch.kind in _NOT_AGAIN or failures >= MAX_ATTEMPTS:
                        yield from self._alone(under_way, under_way.left, batch, number)
                    else:
                        yield AttemptFailed(f"{len(under_way.left)} builds in one process", batch, final=False)
                case Batch():
                    yield from self._add(under_way, batch, number)
        yield from _take(contests, under_way.processes)

    def _add(self, under_way: _UnderWay, batch: Batch, number: int) -> Task[None]:
        outcomes = list(zip(under_way.left, batch.outcomes, strict=True))
        failed = {job: outcome for job, outcome in outcomes if isinstance(outcome, Failed)}
        process = StoredBatch(
            session=self._session,
            number=number,
            device_seconds=batch.device_seconds,
            items={job.key: outcome for job, outcome in outcomes if isinstance(outcome, BatchItem)},
            failed={job.key: failure for job, failure in failed.items()},
        )
        self._journal.batches.add(process)
        under_way.processes.append(process)
        for job, failure in failed.items():
            yield MeasuredAlone((job.name,), failure)
        under_way.left = [job for job, outcome in outcomes if isinstance(outcome, NotReached)]

    def _alone(self, under_way: _UnderWay, jobs: Sequence[Job], why: Failed, number: int) -> Task[None]:
        """Store that the process measured nothing, because of the first or of all of `jobs`, which are measured alone
        from then on."""
        failed = {job.key: why for job in jobs}
        process = StoredBatch(session=self._session, number=number, device_seconds=0.0, items={}, failed=failed)
        if why.kind not in _OF_THE_MOMENT:
            self._journal.batches.add(process)
        under_way.processes.append(process)
        yield MeasuredAlone(tuple(job.name for job in jobs), why)
        under_way.left = under_way.left[len(jobs) :]


def _take(contests: Contests, processes: Sequence[StoredBatch]) -> list[Left]:
    """Pass one batch to the contests."""
    failed_keys = [key for process in processes for key in process.failed]
    return contests.take_batch(*(process.items for process in processes), excluded=failed_keys)
