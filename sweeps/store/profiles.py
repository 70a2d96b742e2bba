"""Profiles and captures of a job, as artifacts of its run in MLflow."""

from collections.abc import Iterable
from pathlib import Path

from sweeps.journal.journal import Journal
from sweeps.kept_profiles import Kept, kept_of
from sweeps.records import Job
from sweeps.store.client import active_runs, connect, translated
from sweeps.store.run_content import JOB_KEY
from sweeps.store.run_writer import upload
from sweeps.store.uri import has_store
from sweeps.workspace import Workspace

PLACE = "profiles"


def profiles_of(journal: Journal, job: Job) -> dict[str, Path]:
    """What the journal's workspace has of a job, for a run that is written now. By name in the run."""
    return _files(kept_of(Workspace(journal.path.parent), job.build_key, job.device_id, job.run))


def attach_profiles(workspace: Workspace, sweep: str, job_key: str, kept: Iterable[Kept]) -> bool:
    """Put them on the job's run; `False` where MLflow has none: it gets them when it is published. Raises
    `StoreError`."""
    uri = workspace.tracking_uri
    if not has_store(uri):
        return False
    with translated(uri):
        client = connect(uri, make=False)
        experiment = client.get_experiment_by_name(sweep)
        there = [] if experiment is None else [experiment.experiment_id]
        runs = active_runs(client, there, f"tags.`{JOB_KEY}` = '{job_key}'")
        for run in runs:
            upload(client, run.info.artifact_uri, _files(kept))
        return bool(runs)


def _files(kept: Iterable[Kept]) -> dict[str, Path]:
    """What is gone, or is no file of its own, is left out."""
    paths = [path for one in kept for path in (one.document, one.file)]
    return {f"{PLACE}/{path.name}": path for path in paths if path.is_file() and not path.is_symlink()}
