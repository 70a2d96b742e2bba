"""The jobs that a run measures again: those with a disqualifying trust label, and those tied for the first place."""

from sweeps.journal.journal import Journal
from sweeps.label_kinds import disqualified
from sweeps.planning.plan import Plan
from sweeps.planning.planned_job import planned_job
from sweeps.ranking.rank import rank as rank_results
from sweeps.records import Measured
from sweeps.results import SweepResults


def disqualified_jobs(journal: Journal, planned: Plan) -> dict[str, int]:
    """Return the keys of jobs whose timing is disqualified, each with its number of new rounds: as many as the
    protocol's, so that the disqualified ones can be left out. Jobs without a timing, because all their blocks in
    batches were disqualified, are included."""
    new_rounds = {}
    for job in planned.jobs:
        protocol = planned.protocol.on(job.device_id)
        outcome = journal.outcomes.of_job(planned_job(planned, job))
        if not isinstance(outcome, Measured) or job.emulated:
            continue
        if outcome.timing is None:
            settled = journal.attempts.settled(job.key, protocol)
            is_measured_again = settled is not None and settled.reason == "disqualified"
        else:
            is_measured_again = bool(disqualified(outcome.timing.labels))
        if is_measured_again:
            new_rounds[job.key] = protocol.rounds
    return new_rounds


def tied_jobs(results: SweepResults) -> list[str]:
    """Return the keys of the jobs that are tied for the first place, on all devices together."""
    ranked = rank_results(results.frame, results.spec.objective, results.name)
    tied = [(entry.winner, *entry.tied) for entry in ranked.devices if entry.winner and entry.tied]
    raced = [
        candidate
        for group in tied
        for candidate in group
        if candidate and (candidate.timed or candidate.only_in_batches)
    ]
    return [candidate.job_key for candidate in raced]
