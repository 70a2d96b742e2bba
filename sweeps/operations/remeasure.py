"""The jobs that a run measures again: with a label that disqualifies them, or tied for the first place."""

from sweeps.journal.journal import Journal
from sweeps.label_kinds import disqualified
from sweeps.planning.plan import Plan
from sweeps.planning.planned_job import planned_job
from sweeps.ranking.rank import rank as rank_results
from sweeps.records import Measured
from sweeps.results import SweepResults


def disqualified_jobs(journal: Journal, planned: Plan) -> dict[str, int]:
    """The jobs whose timing cannot win, each with its number of new rounds: enough to leave out the bad ones. Also
    those without a timing, because none of their blocks in batches counts."""
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
    """Keys of the jobs that are tied for the first place, on any device."""
    ranked = rank_results(results.frame, results.spec.objective, results.name)
    tied = [(entry.winner, *entry.tied) for entry in ranked.devices if entry.winner and entry.tied]
    raced = [
        candidate
        for group in tied
        for candidate in group
        if candidate and (candidate.timed or candidate.only_in_batches)
    ]
    return [candidate.job_key for candidate in raced]
