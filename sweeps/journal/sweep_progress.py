"""The progress of a sweep, from the journal alone: works while the sweep runs, and without MLflow."""

from dataclasses import asdict, dataclass

from sweeps.failure_kinds import remedy
from sweeps.journal.journal import Journal
from sweeps.journal.outcomes import Complete
from sweeps.planning.planned_job import PlannedJob
from sweeps.protocol.device_time import Spent, spent
from sweeps.protocol.settled_check import settles
from sweeps.records import Accuracy, Block, Failed

STATES = ("measured", "failed", "pending", "stale")
"""States of a job. `stale`: the job was planned once, but the sweep file no longer asks for it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class JobStatus:
    """Status of one job. `reason`: why it failed; `next_step`: what to do about the failure. `settled`: how and why its
    rounds ended; empty while they go on."""

    name: str
    job_key: str
    state: str
    emulated: bool
    """Whether the job is only checked for accuracy by a reference implementation of its backend. Such a job has no
    rounds."""
    rounds: int
    """Number of the job's blocks."""
    least_rounds: int
    """Fewest rounds that the job gets on its device."""
    most_rounds: int
    """Most rounds that the job gets on its device."""
    reason: str
    next_step: str
    settled: str


@dataclass(frozen=True, slots=True, kw_only=True)
class SweepStatus:
    """Status of all jobs of one sweep. Each timed job gets at least `rounds` and at most `last_round` blocks, or more
    on a device that needs more."""

    sweep: str
    rounds: int
    last_round: int
    jobs: tuple[JobStatus, ...]
    skipped: int
    spent: Spent
    """Cost of all blocks, batches and accuracy passes of jobs that are not stale, without the sentinels' blocks."""

    def count(self, state: str) -> int:
        return sum(job.state == state for job in self.jobs)

    def rounds_text(self, job: JobStatus) -> str:
        """Return the number of a timed job's blocks, with the number that it will get if it is not finished, such as "3
        of 5 to 30"."""
        least, most = job.least_rounds, job.most_rounds
        if job.state == "stale" or job.settled or job.rounds > most:
            return str(job.rounds)
        planned = f"{least}" if least == most else f"{least} to {most}"
        return f"{job.rounds} of {planned}"

    def document(self) -> dict[str, object]:
        """Return the JSON document of `edgesweep status --json`."""
        counts = {state: self.count(state) for state in STATES}
        return {
            "sweep": self.sweep,
            "rounds": self.rounds,
            "last_round": self.last_round,
            **counts,
            "skipped": self.skipped,
            "spent": self.spent.document(),
            "jobs": [asdict(job) for job in self.jobs],
        }


def read_status(journal: Journal, sweep: str) -> SweepStatus:
    """Return the status of a sweep that is in the journal."""
    protocol = journal.plans.protocol(sweep)
    jobs = []
    counted: list[Block] = []
    passes: dict[tuple[str, str], Accuracy] = {}
    for job, stale in journal.jobs.of_sweep(sweep):
        planned = journal.jobs.planned(sweep, job.key)
        ended = journal.outcomes.ending(planned)
        state, reason, next_step = "pending", "", ""
        if stale:
            state = "stale"
        elif isinstance(ended, Complete):
            state = "measured"
        elif isinstance(ended, Failed):
            state, reason = "failed", f"{ended.stage}, {ended.kind}: {ended.text}"
            next_step = ended.next_step or remedy(ended.kind, job.variant.precision)
        settled = None if stale else journal.attempts.settled(job.key, planned.protocol)
        blocks = journal.attempts.blocks(job.key)
        if not stale:
            counted += blocks
            if (accuracy := _accuracy(journal, planned, ended)) is not None:
                passes[accuracy.build_key, accuracy.executor] = accuracy  # jobs of one build share one accuracy
        jobs.append(
            JobStatus(
                name=job.name,
                job_key=job.key,
                state=state,
                emulated=job.emulated,
                rounds=len(blocks),
                least_rounds=planned.protocol.rounds,
                most_rounds=planned.protocol.last_round,
                reason=reason,
                next_step=next_step,
                settled=settled.text_after(sum(not (block.confirms or block.checks) for block in blocks))
                if settled is not None and settles(settled, planned.protocol)
                else "",
            )
        )
    return SweepStatus(
        sweep=sweep,
        rounds=protocol.rounds,
        last_round=protocol.last_round,
        jobs=tuple(jobs),
        skipped=len(journal.jobs.skipped(sweep)),
        spent=spent(
            counted, passes.values(), journal.batches.of_jobs(job.job_key for job in jobs if job.state != "stale")
        ),
    )


def _accuracy(journal: Journal, planned: PlannedJob, ended: Complete | Failed | None) -> Accuracy | None:
    """Return the accuracy of a job, even if its rounds have not ended; `None` without one."""
    if isinstance(ended, Complete) or planned.evaluation_id is None:
        return ended.accuracy if isinstance(ended, Complete) else None
    job = planned.job
    return journal.attempts.accuracy(job.build_key, planned.evaluation_id, job.variant.qengine, planned.executor)
