"""The MLflow client: connecting with checks, translating its errors, reading its pages of runs."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from sweeps.errors import StoreError
from sweeps.store.run_content import PUBLISHED
from sweeps.store.sweep_tags import SWEEP
from sweeps.store.uri import check_schema, dialect, is_database, next_step, probe, redact, sqlite_path

if TYPE_CHECKING:
    from mlflow import MlflowClient
    from mlflow.entities import Experiment, Run

FIRST_STEP = "run `edgesweep run sweep.yaml` first"
"""The next step if there is nothing to read."""
_PAGE = 5000
_LAST_TIME_S = 1e11
# MLflow must not retry a request whose reply was lost: `publish` first looks up what arrived.
_SETTINGS = {
    "DO_NOT_TRACK": "true",
    "MLFLOW_DISABLE_TELEMETRY": "true",
    "MLFLOW_ENABLE_ARTIFACTS_PROGRESS_BAR": "false",
    "MLFLOW_HTTP_REQUEST_MAX_RETRIES": "0",
    "MLFLOW_HTTP_REQUEST_TIMEOUT": "30",
    "MLFLOW_LOGGING_LEVEL": "ERROR",
    "MLFLOW_SUPPRESS_PRINTING_URL_TO_STDOUT": "true",
}


def connect(uri: str, *, make: bool) -> "MlflowClient":
    """A client for an MLflow that answers and has the right schema. `make`: create a missing sqlite database."""
    for name, value in _SETTINGS.items():
        os.environ.setdefault(name, value)
    missing = dialect(uri) == "sqlite" and not sqlite_path(uri).exists()
    if missing and not make:
        raise StoreError(f"there are no results at {redact(uri, uri)} yet", FIRST_STEP)
    if missing:
        _make_database(sqlite_path(uri))
    if uri not in _CHECKED:
        probe(uri)
    from mlflow import MlflowClient

    if is_database(uri) and uri not in _CHECKED:
        import mlflow

        # MLflow itself would migrate some older databases without asking.
        check_schema(uri, Path(mlflow.__file__).parent / "store" / "db_migrations", mlflow.__version__)
        _CHECKED.add(uri)
    return MlflowClient(tracking_uri=uri)


_CHECKED: set[str] = set()
"""Databases whose schema this process has checked; MLflow also checks only once."""


def _make_database(path: Path) -> None:
    """Create a database. MLflow needs seconds and several transactions for its tables, so the file gets its name last:
    a killed process leaves no incomplete database."""
    new = Path(f"{path}.new")
    probe(f"sqlite:///{new}")
    for leftover in (new, Path(f"{new}-journal")):
        leftover.unlink(missing_ok=True)
    from mlflow import MlflowClient

    MlflowClient(tracking_uri=f"sqlite:///{new}").search_experiments(max_results=1)
    new.rename(path)


@contextmanager
def translated(uri: str) -> Iterator[None]:
    """Translate errors of MLflow and its database into `StoreError`, without secrets."""
    try:
        yield
    except Exception as error:
        from mlflow.exceptions import MlflowException
        from sqlalchemy.exc import SQLAlchemyError

        if not isinstance(error, (MlflowException, SQLAlchemyError, OSError, ImportError)):
            raise
        # sqlalchemy adds its statement, with values, and an address.
        text = redact(str(error).partition("\n[SQL: ")[0], uri)
        # No `from error`: a traceback would show the secrets that are removed from `text`.
        raise StoreError(f"MLflow at {redact(uri, uri)}: {text:.500}", next_step(text)) from None


def active_runs(client: "MlflowClient", experiment_ids: list[str], condition: str = "") -> list["Run"]:
    """Every run that is not deleted, the one that was measured first comes first."""
    pages = run_pages(client, experiment_ids, condition)
    return [run for page in pages for run in page if run.info.lifecycle_stage == "active"]


def run_pages(client: "MlflowClient", experiment_ids: list[str], condition: str = "") -> Iterator[list["Run"]]:
    """Every run, page by page, the one that was measured first comes first; deleted ones, too.

    Pages are cut by number: without deleted runs, one that is deleted between two pages would shift the next page, and
    another run would be missed.
    """
    from mlflow.entities import ViewType

    token: str | None = None
    while experiment_ids:
        page = client.search_runs(
            experiment_ids,
            filter_string=condition,
            run_view_type=ViewType.ALL,
            max_results=_PAGE,
            order_by=["attributes.start_time ASC"],
            page_token=token,
        )
        yield list(page)
        token = page.token
        if not token:
            return


def experiments(client: "MlflowClient") -> list["Experiment"]:
    """Return the experiments of sweeps, without deleted ones."""
    listed: list[Experiment] = []
    token: str | None = None
    while True:
        page = client.search_experiments(max_results=1000, page_token=token)
        listed += [experiment for experiment in page if experiment.tags.get(SWEEP) == experiment.name]
        token = page.token
        if not token:
            return listed


def published_s(run: "Run") -> float:
    """When a run was written or last changed, in seconds since 1970; 0 for runs of early versions, and where another
    program has left what is no time."""
    stamped_s = float(run.data.metrics.get(PUBLISHED, 0.0))
    return stamped_s if 0.0 <= stamped_s < _LAST_TIME_S else 0.0
