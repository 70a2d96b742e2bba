"""Takes a sweep of this workspace out of MLflow. What others publish to the same server stays."""

import shutil
from collections.abc import Iterator, Set
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import unquote, urlsplit

from sweeps.errors import StoreError
from sweeps.journal.journal import Journal
from sweeps.store.client import active_runs, connect, translated
from sweeps.store.owner import answered_marks
from sweeps.store.run_content import ATTEMPT_KEY, JOB_KEY, RECORD
from sweeps.store.sweep_tags import OWNER, PARENT, SWEEP
from sweeps.store.uri import has_store, redact
from sweeps.workspace import Workspace

if TYPE_CHECKING:
    from mlflow import MlflowClient
    from mlflow.entities import Experiment, Run

_DELETED = " (deleted "
"""In the name of an experiment that is being deleted, after the sweep's."""


@dataclass(frozen=True, slots=True)
class Published:
    """Runs in MLflow under a sweep's name."""

    own_runs: int
    """The number of runs of this workspace: its parent run, and the runs of that."""
    other_runs: int = 0


@dataclass(frozen=True, slots=True)
class _PublishedRuns:
    """An experiment, and its runs."""

    experiment: "Experiment"
    own_runs: "list[Run]"
    other_runs: int


def look_for(workspace: Workspace, sweep: str, spared: Set[str] | None = None) -> Published:
    """The runs that MLflow has under this name. `spared`: as of `take_out`. Raises `StoreError`."""
    uri = workspace.tracking_uri
    if not has_store(uri):
        return Published(0)
    with translated(uri):
        published = list(_published(workspace, connect(uri, make=False), sweep, spared))
    return Published(sum(len(runs.own_runs) for runs in published), sum(runs.other_runs for runs in published))


def take_out(workspace: Workspace, sweep: str, spared: Set[str] | None = None) -> int:
    """Delete this workspace's runs of a sweep, as MLflow deletes (`mlflow gc` on a server frees the space), and the
    experiment if nothing is left in it. Files that are in the workspace are removed. Returns the number of runs that
    were deleted. What was cut off can be repeated: parent runs, by which the others are known, are deleted last.

    `spared`: the keys of another sweep of the workspace that has this name now: its runs stay, and the experiment.

    MLflow keeps the name of what it deleted; the experiment gets another one first, so that the name is free. Raises
    `StoreError`.
    """
    uri = workspace.tracking_uri
    if not has_store(uri):
        return 0
    count = 0
    with translated(uri):
        client = connect(uri, make=False)
        for published in list(_published(workspace, client, sweep, spared)):
            experiment = published.experiment
            count += len(published.own_runs)
            if published.other_runs or (spared is not None and experiment.name == sweep):
                for run in sorted(published.own_runs, key=_is_parent):
                    client.delete_run(run.info.run_id)
                    _remove_files(workspace, str(run.info.artifact_uri).removesuffix("/artifacts"))
                continue
            if experiment.name == sweep:
                name = f"{sweep}{_DELETED}{datetime.now(UTC):%Y-%m-%d %H:%M:%S.%f})"
                client.rename_experiment(experiment.experiment_id, name)
            client.delete_experiment(experiment.experiment_id)
            _remove_files(workspace, experiment.artifact_location or "")
    return count


def check_free(workspace: Workspace, journal: Journal, sweep: str, name: str) -> None:
    """Raises `StoreError` if MLflow has an experiment of this name, also one that was deleted: unless it is what the
    sweep itself has left there."""
    uri = workspace.tracking_uri
    if not has_store(uri):
        return
    with translated(uri):
        client = connect(uri, make=False)
        experiment = client.get_experiment_by_name(name)
        if experiment is None:
            return
        deleted = experiment.lifecycle_stage == "deleted"
        if name in journal.sweeps.former_names(sweep) and not deleted:
            left = next(_published(workspace, client, name), None)
            if left is not None and not left.other_runs:
                return
    raise StoreError(
        f"MLflow at {redact(uri, uri)} has {'a deleted' if deleted else 'an'} experiment {name!r} already",
        "give another name" + (", or let `mlflow gc` remove what was deleted there" if deleted else ""),
    )


def clear_former_names(workspace: Workspace, journal: Journal, sweep: str) -> None:
    """Delete what MLflow has of a sweep under names that it had. `journal` may be open for reading only. Raises
    `StoreError`; then the next call goes on."""
    for name, spared in former_runs(journal, sweep):
        take_out(workspace, name, spared)
        with Journal.open(journal.path) as writing:
            writing.sweeps.forget_former_name(sweep, name)


def former_runs(journal: Journal, sweep: str) -> Iterator[tuple[str, Set[str] | None]]:
    """Each name that the sweep had, and the keys of the sweep that has that name now, if any: it may be the same one
    again, which has left something there that was to be deleted."""
    known = {info.name for info in journal.sweeps.all()}
    for name in journal.sweeps.former_names(sweep):
        yield name, journal.jobs.run_keys(name) if name in known else None


def _published(
    workspace: Workspace, client: "MlflowClient", sweep: str, spared: Set[str] | None = None
) -> Iterator[_PublishedRuns]:
    names = answered_marks(workspace)
    for experiment in _experiments(client, sweep):
        runs = active_runs(client, [experiment.experiment_id])
        parents = {str(run.info.run_id) for run in runs if _is_parent(run) and run.data.tags.get(OWNER, "") in names}
        own_runs = [
            run for run in runs if (str(run.info.run_id) if _is_parent(run) else run.data.tags.get(PARENT)) in parents
        ]
        other_runs = len(runs) - len(own_runs)
        if spared is not None and experiment.name == sweep:
            own_runs = [run for run in own_runs if not _is_parent(run) and _key(run) not in spared]
        yield _PublishedRuns(experiment, own_runs, other_runs)


def _is_parent(run: "Run") -> bool:
    return bool(run.data.tags.get(RECORD) == "sweep")


def _key(run: "Run") -> str:
    tags = run.data.tags
    return str(tags.get(ATTEMPT_KEY if tags.get(RECORD) == "imported" else JOB_KEY, ""))


def _experiments(client: "MlflowClient", sweep: str) -> "Iterator[Experiment]":
    """Yield the sweep's experiment, and any whose deletion was cut off after it had got its last name."""
    token: str | None = None
    while True:
        page = client.search_experiments(max_results=1000, page_token=token)
        for experiment in page:
            if experiment.tags.get(SWEEP) == sweep and (
                experiment.name == sweep or experiment.name.startswith(f"{sweep}{_DELETED}")
            ):
                yield experiment
        token = page.token
        if not token:
            return


def _remove_files(workspace: Workspace, location: str) -> None:
    parts = urlsplit(location)
    folder = Path(unquote(parts.path)).resolve()
    if parts.scheme == "file" and workspace.mlflow_artifacts.resolve() in folder.parents:
        shutil.rmtree(folder, ignore_errors=True)
