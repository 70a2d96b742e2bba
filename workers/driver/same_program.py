"""Builds of one device that are the same program: a race times only one of them."""

from collections.abc import Hashable, Mapping, Sequence

from sweeps.planning.program_identity import program_of
from sweeps.protocol.settled_check import settles
from sweeps.records import Job
from sweeps.settled import Settled
from workers.driver.context import RunContext


def same_programs(timed: Sequence[Job], worth: Mapping[str, float], context: RunContext) -> dict[str, Settled]:
    """Return why a race leaves out all jobs but one of each program, by job key. `timed`: jobs with artifacts; `worth`
    as in `Race`.

    The job that is timed has the highest precedence; among equal ones, a job that raced before comes first, then the
    job with the smallest file. A job that lost before keeps its reason.
    """
    left_out: dict[str, Settled] = {}
    programs: dict[Hashable, list[Job]] = {}
    journal, protocol = context.journal, context.protocol
    for job in timed:
        if (program := program_of(job, journal.artifacts.latest(job.build_key))) is not None:
            programs.setdefault(program, []).append(job)
    for jobs in programs.values():
        chosen = min(
            jobs,
            key=lambda job: (
                -worth[job.key],
                not journal.outcomes.was_raced(job.key),
                _file_bytes(job, context),
                job.name,
            ),
        )
        for job in jobs:
            before = journal.attempts.settled(job.key, protocol)
            if job is chosen:
                continue
            if before is not None and before.eliminated and settles(before, protocol):
                if before.reason == "same_program":
                    left_out[job.key] = before
                continue
            left_out[job.key] = Settled(
                job_key=job.key,
                budget="race",
                rounds=journal.attempts.block_count(job.key),
                reason="same_program",
                message=f"is the same program as {chosen.name}, which is measured for both",
                by=chosen.name,
                by_key=chosen.key,
                question=protocol.question,
            )
    return left_out


def _file_bytes(job: Job, context: RunContext) -> int:
    manifest = context.journal.artifacts.latest(job.build_key)
    return 0 if manifest is None else manifest.file_bytes
