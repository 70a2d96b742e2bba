"""A job with its protocol, evaluation set and device facts, by which its outcome is decided."""

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
    """Whether the job is no longer in the sweep's current plan."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedJob(PlannedUnder):
    """Job with its protocol, evaluation set and device facts, as `sweeps.journal.outcomes.Outcomes` needs it."""

    job: Job

    @property
    def executor(self) -> str:
        """The identity of what computes the job's accuracy: the device's fingerprint, or the reference that replaces
        the device. If the device has only the runtime's own benchmark tool, that is added: it evaluates fewer images,
        or none."""
        if self.job.reference:
            return self.job.reference
        words = dict(self.facts.runners).get(self.job.variant.runtime, "")
        tool = words.startswith(WITHOUT_FINGERPRINT) and self.job.variant.runner_toolchain == INSTALLED
        return f"{self.facts.fingerprint} by {words}" if tool else self.facts.fingerprint


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedSkip(PlannedUnder):
    """Skipped combination with its protocol, evaluation set and device facts."""

    skipped: Skipped


def planned_job(plan: Plan, job: Job) -> PlannedJob:
    """Return a job with the protocol and the device facts of its plan. `job` must be in the plan."""
    return PlannedJob(
        job=job,
        protocol=plan.protocol.on(job.device_id),
        evaluation_id=plan.identities.evaluation_id or None,
        facts=next(facts for facts in plan.devices if facts.device_id == job.device_id),
    )
