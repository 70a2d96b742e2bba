"""A job together with what it was planned under: all that is needed to tell how it ended."""

from dataclasses import dataclass

from sweeps.device_facts import DeviceFacts
from sweeps.planning.plan import Plan
from sweeps.protocol.presets import Protocol, protocol_of
from sweeps.records import Job, Skipped


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedUnder:
    """What a job or a skipped combination was planned under, the last time that it was planned."""

    protocol: Protocol
    evaluation_id: str | None
    """sha256 of the evaluation manifest; `None` where no accuracy is asked for."""
    facts: DeviceFacts
    stale: bool = False
    """Not in the sweep's present plan any more."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedJob(PlannedUnder):
    """What `Journal.ending` and `Journal.outcome` take."""

    job: Job

    @property
    def executor(self) -> str:
        """What its accuracy is recorded under: its device's fingerprint, or the reference that stands in for it."""
        return self.job.reference or self.facts.fingerprint


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedSkip(PlannedUnder):
    """A combination that was not made a job."""

    skipped: Skipped


def planned_job(plan: Plan, job: Job) -> PlannedJob:
    """`job` is one of the plan's."""
    return PlannedJob(
        job=job,
        protocol=protocol_of(plan.sweep),
        evaluation_id=plan.identities.evaluation_id or None,
        facts=next(facts for facts in plan.devices if facts.device_id == job.device_id),
    )
