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
from sweeps.store.claims import answered_names, claims_of, save_claims
from sweeps.store.client import connect, run_pages, translated
from sweeps.store.run_content import ATTEMPT_KEY, JOB_KEY, RECORD
from sweeps.store.sweep_tags import SWEEP
from sweeps.store.together import together
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

    mine: int
    """Of this workspace; where there are no others, with the sweep's own run."""
    others: int = 0


@dataclass(frozen=True, slots=True)
class _Found:
    """An experiment, and the runs in it that are of this workspace."""

    experiment: "Experiment"
    mine: "list[Run]"
    shared: "list[Run]"
    """Of this workspace, and of others, to whom they are left."""
    own: int
    """The number of runs of the sweep itself."""
    others: int
    """Runs that others have."""
    names: frozenset[str]
    """To which this workspace answers."""

    @property
    def published(self) -> Published:
        return Published(len(self.mine) + (0 if self.others else self.own), self.others)


def look_for(workspace: Workspace, sweep: str, keys: Set[str], spared: Set[str] | None = None) -> Published:
    """What MLflow has under this name. `keys`: of this workspace (`Jobs.run_keys`); `spared`: as of `take_out`.
    Raises `StoreError`."""
    uri = workspace.tracking_uri
    if not has_store(uri):
        return Published(0)
    with translated(uri):
        found = [one.published for one in _found(workspace, connect(uri, make=False), sweep, keys, spared)]
    return Published(sum(one.mine for one in found), sum(one.others for one in found))


def take_out(workspace: Workspace, sweep: str, keys: Set[str], spared: Set[str] | None = None) -> int:
    """Delete the runs with these keys, as MLflow deletes (`mlflow gc` on a server frees the space), and the experiment
    if nothing is left in it. A run that another workspace has too is left to it. Files that are in the workspace are
    removed. Returns the number of runs that were deleted. What was cut off can be repeated.

    `spared`: of another sweep of the workspace that has this name now: its runs stay, and the experiment.

    MLflow keeps the name of what it deleted; the experiment gets another one first, so that the name is free. Raises
    `StoreError`.
    """
    uri = workspace.tracking_uri
    if not has_store(uri):
        return 0
    count = 0
    with translated(uri):
        client = connect(uri, make=False)
        for found in list(_found(workspace, client, sweep, keys, spared)):
            experiment = found.experiment
            if found.others or (spared is not None and experiment.name == sweep):
                for run in found.mine:
                    client.delete_run(run.info.run_id)
                    _remove_files(workspace, str(run.info.artifact_uri).removesuffix("/artifacts"))
                for run in found.shared:
                    save_claims(client, run.info.run_id, claims_of(run.data.tags) - found.names)
                count += len(found.mine)
                continue
            with together(client):
                if experiment.name == sweep:
                    name = f"{sweep}{_DELETED}{datetime.now(UTC):%Y-%m-%d %H:%M:%S.%f})"
                    client.rename_experiment(experiment.experiment_id, name)
                client.delete_experiment(experiment.experiment_id)
            _remove_files(workspace, experiment.artifact_location or "")
            count += found.published.mine
    return count


def check_free(workspace: Workspace, journal: Journal, sweep: str, name: str) -> None:
    """Raises `StoreError` if MLflow has an experiment of this name, also one that was deleted: unless it is what the
    sweep itself has left there."""
    uri = workspace.tracking_uri
    if not has_store(uri):
        return
    with translated(uri):
        client = connect(uri, make=False)
        there = client.get_experiment_by_name(name)
        if there is None:
            return
        deleted = there.lifecycle_stage == "deleted"
        if name in journal.sweeps.former_names(sweep) and not deleted:
            left = next(_found(workspace, client, name, journal.jobs.run_keys(sweep)), None)
            if left is not None and not left.others:
                return
    raise StoreError(
        f"MLflow at {redact(uri, uri)} has {'a deleted' if deleted else 'an'} experiment {name!r} already",
        "give another name" + (", or let `mlflow gc` remove what was deleted there" if deleted else ""),
    )


def clear_former_names(workspace: Workspace, journal: Journal, sweep: str) -> None:
    """Delete what MLflow has of a sweep under names that it had. `journal` may be open for reading only. Raises
    `StoreError`; then the next call goes on."""
    for name, keys, spared in former_runs(journal, sweep):
        take_out(workspace, name, keys, spared)
        with Journal.open(journal.path) as writing:
            writing.sweeps.forget_former_name(sweep, name)


def former_runs(journal: Journal, sweep: str) -> Iterator[tuple[str, Set[str], Set[str] | None]]:
    """Each name that the sweep had, the keys of its runs, and those of the sweep that has that name now, if any: it may
    be the same one again, which has left something there that was to be deleted."""
    known = {info.name for info in journal.sweeps.all()}
    for name in journal.sweeps.former_names(sweep):
        yield name, journal.jobs.run_keys(sweep), journal.jobs.run_keys(name) if name in known else None


def _found(
    workspace: Workspace, client: "MlflowClient", sweep: str, keys: Set[str], spared: Set[str] | None = None
) -> "Iterator[_Found]":
    names = answered_names(workspace)
    for experiment in _experiments(client, sweep):
        wanted = keys - spared if spared and experiment.name == sweep else keys
        mine, shared, own, others = [], [], 0, 0
        for page in run_pages(client, [experiment.experiment_id]):
            for run in (one for one in page if one.info.lifecycle_stage == "active"):
                tags = run.data.tags
                kind = tags.get(RECORD)
                if kind == "sweep":
                    own += 1
                elif tags.get(ATTEMPT_KEY if kind == "imported" else JOB_KEY) not in wanted:
                    others += 1
                elif names is None or not (claims := claims_of(tags)) - names:
                    mine.append(run)
                else:
                    others += 1
                    if names & claims:
                        shared.append(run)
        yield _Found(experiment, mine, shared, own, others, names or frozenset())


def _experiments(client: "MlflowClient", sweep: str) -> "Iterator[Experiment]":
    """That of the sweep, and any whose deletion was cut off after it had got its last name."""
    token: str | None = None
    while True:
        page = client.search_experiments(max_results=1000, page_token=token)
        for one in page:
            if one.tags.get(SWEEP) == sweep and (one.name == sweep or one.name.startswith(f"{sweep}{_DELETED}")):
                yield one
        token = page.token
        if not token:
            return


def _remove_files(workspace: Workspace, location: str) -> None:
    parts = urlsplit(location)
    folder = Path(unquote(parts.path)).resolve()
    if parts.scheme == "file" and workspace.mlflow_artifacts.resolve() in folder.parents:
        shutil.rmtree(folder, ignore_errors=True)
