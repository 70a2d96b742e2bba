"""Checks that MLflow is a part of the journal: no run of a job that the journal has not, and no job twice."""

from collections import Counter
from typing import TYPE_CHECKING

from sweeps.journal.journal import Journal
from sweeps.journal.journal_check import Checked, Finding
from sweeps.journal.outcomes import Complete
from sweeps.journal.plans import skipped_key
from sweeps.records import Failed
from sweeps.store.client import active_runs, connect, translated
from sweeps.store.lag import read_lag
from sweeps.store.owner import own_marks
from sweeps.store.run_content import ATTEMPT_KEY, JOB_KEY, RECORD, TAG
from sweeps.store.sweep_tags import runs_of
from sweeps.store.written_runs import parents_of
from sweeps.workspace import Workspace

if TYPE_CHECKING:
    from mlflow import MlflowClient
    from mlflow.entities import Run

OUTCOME = f"{TAG}outcome"


def verify_published(workspace: Workspace, journal: Journal) -> Checked:
    """Compare the runs of every sweep of the journal with it. Raises `StoreError` if MLflow cannot be read."""
    counts: list[str] = []
    findings: list[Finding] = []
    uri = workspace.tracking_uri
    with translated(uri):
        client = connect(uri, make=False)
        for row in journal.sweeps.all():
            runs = _own_runs(client, row.name, own_marks(workspace))
            jobs = [run for run in runs if run.data.tags.get(RECORD) == "job"]
            whole = [run for run in jobs if run.info.status != "RUNNING"]
            lag = read_lag(workspace, journal, row.name)
            counts.append(
                f"MLflow, sweep {row.name}: {len(whole)} runs, {len(jobs) - len(whole)} being written"
                + (f"; {lag.text}" if lag is not None and lag.jobs else "")
            )
            findings += _twice(row.name, [run.data.tags for run in whole])
            outcomes = _outcomes(journal, row.name)
            for run in whole:
                where, key = f"{row.name}: run {run.info.run_id}", run.data.tags.get(JOB_KEY, "")
                if key not in outcomes:
                    findings.append(Finding(where, f"the journal has no job {key:.12}"))
                elif outcomes[key] and outcomes[key] != run.data.tags.get(OUTCOME) and not (lag and lag.jobs):
                    findings.append(Finding(where, f"job {key:.12} is {outcomes[key]}, and published as another"))
    return Checked(counts=tuple(counts), findings=tuple(findings))


def _own_runs(client: "MlflowClient", sweep: str, names: frozenset[str]) -> "list[Run]":
    """Return what this workspace has published of a sweep, under its present name."""
    experiment = client.get_experiment_by_name(sweep)
    if experiment is None:
        return []
    parents = parents_of(client, experiment.experiment_id, names)
    return [
        run
        for parent in parents
        for run in active_runs(client, [experiment.experiment_id], runs_of(parent.info.run_id))
    ]


def _twice(sweep: str, tags: list[dict[str, str]]) -> list[Finding]:
    findings = []
    for tag, noun in ((ATTEMPT_KEY, "outcome"), (JOB_KEY, "job")):
        numbers = Counter(run_tags.get(tag, "") for run_tags in tags)
        findings += [
            Finding(f"{sweep}: {noun} {key:.12}", f"{number} runs have it")
            for key, number in numbers.items()
            if number > 1
        ]
    return findings


def _outcomes(journal: Journal, sweep: str) -> dict[str, str]:
    """Return the outcome of every job and skipped combination that the sweep ever had, by key; empty while a job is
    pending again."""
    outcomes = {skipped_key(skip.skipped): "skipped" for skip in journal.changes.skipped(sweep, None)}
    for planned in journal.changes.jobs(sweep, None):
        ended = journal.outcomes.ending(planned)
        kind = "measured" if isinstance(ended, Complete) else "failed" if isinstance(ended, Failed) else ""
        outcomes[planned.job.key] = kind
    return outcomes
