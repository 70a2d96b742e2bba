"""A job with its protocol, evaluation data and device facts: all that is needed to decide its outcome."""

from dataclasses import dataclass

from sweeps.device_facts import DeviceFacts
from sweeps.planning.plan import Plan
from sweeps.protocol.presets import Protocol
from sweeps.records import Job, Skipped
from sweeps.tool_logs.tools import WITHOUT_FINGERPRINT
from sweeps.variant import INSTALLED


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedUnder:
    """Protocol, evaluation data and device facts of a job or skipped combination, from its latest plan."""

    protocol: Protocol
    evaluation_id: str | None
    """sha256 of the evaluation manifest; `None` if no accuracy is needed."""
    facts: DeviceFacts
    stale: bool = False
    """The job is no longer in the sweep's current plan."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedJob(PlannedUnder):
    """A job as `sweeps.journal.outcomes.Outcomes` needs it."""

    job: Job

    @property
    def executor(self) -> str:
        """The executor of its accuracy: the device's fingerprint, or the reference that replaces the device. With the
        runtime's own tool, if that is all that the device has: it answers for fewer images, or not at all."""
        if self.job.reference:
            return self.job.reference
        words = dict(self.facts.runners).get(self.job.variant.runtime, "")
        tool = words.startswith(WITHOUT_FINGERPRINT) and self.job.variant.runner_toolchain == INSTALLED
        return f"{self.facts.fingerprint} by {words}" if tool else self.facts.fingerprint


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedSkip(PlannedUnder):
    """A skipped combination."""

    skipped: Skipped


def planned_job(plan: Plan, job: Job) -> PlannedJob:
    """`job` must be in the plan."""
    return PlannedJob(
        job=job,
        protocol=plan.protocol.on(job.device_id),
        evaluation_id=plan.identities.evaluation_id or None,
        facts=next(facts for facts in plan.devices if facts.device_id == job.device_id),
    )
