"""Builds of one device that are the same program: a race times one of them."""

from collections.abc import Mapping, Sequence

from sweeps.protocol.ended import settles
from sweeps.records import Job
from sweeps.settled import Settled
from workers.driver.context import RunContext


def same_programs(timed: Sequence[Job], worth: Mapping[str, float], context: RunContext) -> dict[str, Settled]:
    """Why a race leaves out all jobs but one of each program, by job key. `timed` have artifacts; `worth` as in `Race`.

    The one that is timed is one of the highest precedence; of these, one that was measured before, then the smallest
    file. A job that lost before keeps its reason.
    """
    found: dict[str, Settled] = {}
    programs: dict[tuple[object, ...], list[Job]] = {}
    for job in timed:
        if (program := _program(job, context)) is not None:
            programs.setdefault(program, []).append(job)
    journal, protocol = context.journal, context.protocol
    for jobs in programs.values():
        chosen = min(
            jobs,
            key=lambda job: (-worth[job.key], not journal.was_raced(job.key), _file_bytes(job, context), job.name),
        )
        for job in jobs:
            before = journal.settled(job.key, protocol)
            if job is chosen:
                continue
            if before is not None and before.eliminated and settles(before, protocol):
                if before.reason == "same_program":
                    found[job.key] = before
                continue
            found[job.key] = Settled(
                job_key=job.key,
                budget="race",
                rounds=journal.block_count(job.key),
                reason="same_program",
                message=f"is the same program as {chosen.name}, which is measured for both",
                by=chosen.name,
                by_key=chosen.key,
                question=protocol.question,
            )
    return found


def _program(job: Job, context: RunContext) -> tuple[object, ...] | None:
    """What decides how long the job takes, beside the device; `None` if that is not known."""
    manifest = context.journal.artifact(job.build_key)
    if manifest is None or manifest.program_id is None:
        return None
    variant = job.variant
    ran_by = (variant.runtime, variant.backend, variant.qengine, variant.format, manifest.memory_format, manifest.input)
    return job.model, *ran_by, job.run, manifest.program_id


def _file_bytes(job: Job, context: RunContext) -> int:
    manifest = context.journal.artifact(job.build_key)
    return 0 if manifest is None else manifest.file_bytes
