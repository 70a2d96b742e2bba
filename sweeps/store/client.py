"""The way to MLflow: a client for one that answers and fits, its errors as ours, and its pages of runs."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from sweeps.errors import StoreError
from sweeps.store.uri import check_schema, dialect, is_database, next_step, probe, redact, sqlite_path

if TYPE_CHECKING:
    from mlflow import MlflowClient
    from mlflow.entities import Run

FIRST_STEP = "run `edgesweep run sweep.yaml` first"
"""What to do where there is nothing to read."""
_PAGE = 5000
# A request whose reply was lost must not be repeated blindly: `publish` looks up what arrived before it writes again.
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
    """A client for an MLflow that answers and whose database fits. With `make` a missing sqlite database is made."""
    for name, value in _SETTINGS.items():
        os.environ.setdefault(name, value)
    missing = dialect(uri) == "sqlite" and not sqlite_path(uri).exists()
    if missing and not make:
        raise StoreError(f"there are no results at {redact(uri, uri)} yet", FIRST_STEP)
    if missing:
        _make_database(sqlite_path(uri))
    if uri not in _FITTING:
        probe(uri)
    from mlflow import MlflowClient

    if is_database(uri) and uri not in _FITTING:
        import mlflow

        # MLflow itself would migrate some older databases unasked.
        check_schema(uri, Path(mlflow.__file__).parent / "store" / "db_migrations", mlflow.__version__)
        _FITTING.add(uri)
    return MlflowClient(tracking_uri=uri)


_FITTING: set[str] = set()
"""Databases whose schema was checked by this process; MLflow too checks once."""


def _make_database(path: Path) -> None:
    """MLflow makes its tables in seconds, not in one transaction: under another name, so that a kill leaves nothing."""
    new = Path(f"{path}.new")
    probe(f"sqlite:///{new}")
    for leftover in (new, Path(f"{new}-journal")):
        leftover.unlink(missing_ok=True)
    from mlflow import MlflowClient

    MlflowClient(tracking_uri=f"sqlite:///{new}").search_experiments(max_results=1)
    new.rename(path)


@contextmanager
def translated(uri: str) -> Iterator[None]:
    """Turn what MLflow and its database raise into `StoreError`, without secrets."""
    try:
        yield
    except Exception as error:
        from mlflow.exceptions import MlflowException
        from sqlalchemy.exc import SQLAlchemyError

        if not isinstance(error, (MlflowException, SQLAlchemyError, OSError, ImportError)):
            raise
        text = redact(str(error), uri)
        # The cause would show in a traceback with the secrets that `text` is rid of.
        raise StoreError(f"MLflow at {redact(uri, uri)}: {text:.500}", next_step(text)) from None


def active_runs(client: "MlflowClient", experiment_ids: list[str], condition: str = "") -> list["Run"]:
    """Every run that is not deleted, the oldest first.

    Deleted ones are asked for and left out here: pages are cut by number, so with a run deleted between two pages one
    that is not would be missed.
    """
    from mlflow.entities import ViewType

    runs: list[Run] = []
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
        runs += [run for run in page if run.info.lifecycle_stage == "active"]
        token = page.token
        if not token:
            break
    return runs
