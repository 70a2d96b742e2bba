"""Profiles and captures of a job, as artifacts of its run in MLflow."""

from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING

from sweeps.journal.journal import Journal
from sweeps.records import Job
from sweeps.store.client import active_runs, connect, translated
from sweeps.store.run_content import JOB_KEY
from sweeps.store.run_writer import upload, uploaded
from sweeps.store.uri import has_store
from sweeps.stored_profiles import ProfileFiles, profiles_of_run
from sweeps.workspace import Workspace

if TYPE_CHECKING:
    from mlflow import MlflowClient

PLACE = "profiles"


def bring_profiles(client: "MlflowClient", journal: Journal, job: Job, run_id: str) -> None:
    """Upload what the journal's workspace has of a job and its run has not. Files of the same name and size are taken
    for the same: whoever profiles a job again has `attach_profiles` replace them. Raises `StoreError`."""
    files = _files(profiles_of_run(Workspace(journal.path.parent), job.build_key, job.device_id, job.run))
    if not files:
        return
    place = client.get_run(run_id).info.artifact_uri
    sizes = uploaded(client, place, PLACE)
    if missing := {name: path for name, path in files.items() if sizes.get(name) != path.stat().st_size}:
        upload(client, place, missing)


def attach_profiles(workspace: Workspace, sweep: str, job_key: str, profiles: Iterable[ProfileFiles]) -> bool:
    """Put them on the job's run; `False` where MLflow has none: it gets them when it is published. Raises
    `StoreError`."""
    uri = workspace.tracking_uri
    if not has_store(uri):
        return False
    with translated(uri):
        client = connect(uri, make=False)
        experiment = client.get_experiment_by_name(sweep)
        experiment_ids = [] if experiment is None else [experiment.experiment_id]
        runs = active_runs(client, experiment_ids, f"tags.`{JOB_KEY}` = '{job_key}'")
        for run in runs:
            upload(client, run.info.artifact_uri, _files(profiles))
        return bool(runs)


def _files(profiles: Iterable[ProfileFiles]) -> dict[str, Path]:
    """Return the files by name; one that is gone, or is no file of its own, is left out."""
    paths = [path for profile in profiles for path in (profile.document, profile.file)]
    return {f"{PLACE}/{path.name}": path for path in paths if path.is_file() and not path.is_symlink()}
