"""The jobs of a sweep's plan that are not measured yet, from the journal alone."""

from collections.abc import Iterator
from dataclasses import dataclass

from sweeps.command_hints import RUN
from sweeps.errors import NoResultsError
from sweeps.journal.journal import Journal
from sweeps.planning.keys import Identities
from sweeps.planning.plan import Plan
from sweeps.planning.size import estimate
from sweeps.text import duration

JOBS_UNKNOWN = (
    "MLflow has the results of another workspace, not the jobs that it waits for: what wins there may be provisional"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Left:
    """Work that a run would do. `seconds`: a rough estimate, as for a plan."""

    jobs: int
    seconds: float

    @property
    def text(self) -> str:
        """The work in words, for people; empty if nothing is left."""
        if not self.jobs:
            return ""
        jobs_text = "1 job that waits" if self.jobs == 1 else f"{self.jobs} jobs that wait"
        return f"{RUN} measures the {jobs_text} (about {duration(self.seconds)})"


def left_of(journal: Journal, sweep: str) -> Left:
    """Return the work that is left of a sweep. Failed jobs do not count: they are retried only on request."""
    planned = sum(jobs for _, jobs in journal.jobs.places(sweep).values())
    if 0 < planned <= sum(sum(counts.values()) for counts in journal.results.ended_counts(sweep).values()):
        return Left(jobs=0, seconds=0.0)  # saves reading a hundred thousand jobs
    waiting = journal.jobs.waiting(sweep)
    if not waiting:
        return Left(jobs=0, seconds=0.0)
    plan = Plan(
        sweep=journal.plans.spec(sweep),
        devices=journal.plans.devices(sweep),
        identities=Identities(models={}, calibration_id="", evaluation_id="", versions={}, runners={}),
        jobs=tuple(waiting),
        skipped=(),
    )
    builds = {job.build_key for job in waiting}
    built = {key for key in builds if journal.artifacts.latest(key) is not None}
    left = estimate(plan, journal.plans.protocol(sweep), (), built, journal.results.builds_tried(sweep, builds))
    return Left(jobs=len(waiting), seconds=left.seconds)


def waiting(journal: Journal, sweep: str) -> Iterator[str]:
    """Yield one line of text if jobs of the sweep wait, otherwise nothing."""
    if text := left_of(journal, sweep).text:
        yield text


def no_results(journal: Journal, sweep: str) -> NoResultsError:
    """Return the error for a sweep that has no results yet, with the next step."""
    left = left_of(journal, sweep).text or f"{RUN} measures it"
    return NoResultsError(f"the sweep {sweep!r} has no results yet", f"{left}; if it runs now, wait for its first job")
