"""How far a sweep is, from the journal alone: works while it runs, and where MLflow is down."""

from dataclasses import asdict, dataclass

from sweeps.journal import Journal
from sweeps.records import Failed, Measured

STATES = ("measured", "failed", "pending", "stale")
"""`stale`: measured or planned once, but no longer in the sweep file."""


@dataclass(frozen=True, slots=True, kw_only=True)
class JobStatus:
    """One job; `reason` says why it failed."""

    name: str
    job_key: str
    state: str
    emulated: bool
    """Only checked, by a reference implementation of its backend: it has no rounds."""
    rounds: int
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class SweepStatus:
    """All jobs of one sweep; `rounds` is how many blocks each job gets that is timed."""

    sweep: str
    rounds: int
    jobs: tuple[JobStatus, ...]
    skipped: int

    def count(self, state: str) -> int:
        return sum(job.state == state for job in self.jobs)

    def document(self) -> dict[str, object]:
        """`edgesweep status --json`."""
        counts = {state: self.count(state) for state in STATES}
        return {
            "sweep": self.sweep,
            "rounds": self.rounds,
            **counts,
            "skipped": self.skipped,
            "jobs": [asdict(job) for job in self.jobs],
        }


def read_status(journal: Journal, sweep: str) -> SweepStatus:
    """The status of a sweep that is in the journal."""
    rounds = journal.protocol(sweep).rounds
    jobs = []
    for job, stale in journal.jobs(sweep):
        outcome = journal.sweep_outcome(sweep, job)
        state, reason = "pending", ""
        if stale:
            state = "stale"
        elif isinstance(outcome, Measured):
            state = "measured"
        elif isinstance(outcome, Failed):
            state, reason = "failed", f"{outcome.stage}, {outcome.kind}: {outcome.message}"
        jobs.append(
            JobStatus(
                name=job.name,
                job_key=job.key,
                state=state,
                emulated=job.emulated,
                rounds=len(journal.blocks(job.key)),
                reason=reason,
            )
        )
    return SweepStatus(sweep=sweep, rounds=rounds, jobs=tuple(jobs), skipped=len(journal.skipped(sweep)))
