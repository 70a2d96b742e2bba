"""Jobs that run the same program have the same identity. Pure."""

from collections.abc import Callable, Hashable

from sweeps.manifest import Manifest
from sweeps.planning.plan import Plan
from sweeps.records import Job


def program_of(job: Job, manifest: Manifest | None) -> Hashable | None:
    """The identity of a job's program, which decides how long the job takes, beside the device: equal for jobs of which
    a race times one. `None` if that is not known: there is no build yet, or its program was not identified."""
    if manifest is None or manifest.program_id is None:
        return None
    variant = job.variant
    ran_by = (variant.runtime, variant.runner_toolchain, variant.backend, variant.qengine, variant.format)
    return job.model, *ran_by, manifest.memory_format, manifest.input, job.run, manifest.program_id


def programs_of(plan: Plan, manifest: Callable[[str], Manifest | None]) -> dict[str, Hashable]:
    """The programs that are known, by job key. `manifest` finds that of a build, by its key."""
    programs = {job.key: program_of(job, manifest(job.build_key)) for job in plan.jobs}
    return {key: program for key, program in programs.items() if program is not None}
