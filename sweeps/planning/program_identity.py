"""The identity of a job's program: equal for jobs that run the same operators in the same way. Pure."""

from collections.abc import Callable, Hashable

from sweeps.manifest import Manifest
from sweeps.planning.plan import Plan
from sweeps.records import Job


def program_of(job: Job, manifest: Manifest | None) -> Hashable | None:
    """Return the identity of a job's program. On one device, jobs with equal identities take the same time, so a race
    times only one of them. `None` if it is not known: the job has no build yet, or the build's program was not
    identified."""
    if manifest is None or manifest.program_id is None:
        return None
    variant = job.variant
    ran_by = (variant.runtime, variant.runner_toolchain, variant.backend, variant.qengine, variant.format)
    return job.model, *ran_by, manifest.memory_format, manifest.input, job.run, manifest.program_id


def programs_of(plan: Plan, manifest: Callable[[str], Manifest | None]) -> dict[str, Hashable]:
    """Return the identities of programs that are known, by job key. `manifest` returns a build's manifest by build
    key."""
    programs = {job.key: program_of(job, manifest(job.build_key)) for job in plan.jobs}
    return {key: program for key, program in programs.items() if program is not None}
