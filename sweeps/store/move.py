"""Rewrites the absolute paths in MLflow's sqlite database after the workspace was moved or copied."""

import sqlite3
from collections.abc import Iterable, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote

from sweeps.errors import StoreError
from sweeps.sqlite_file import connect
from sweeps.store.sweep_tags import SWEEP
from sweeps.store.uri import dialect, redact, sqlite_path

if TYPE_CHECKING:
    from mlflow.entities import Experiment

_COMMAND = "edgesweep store move"
_BUSY_S = 10.0
_COLUMNS = (
    ("experiments", "artifact_location"),
    ("runs", "artifact_uri"),
    ("logged_models", "artifact_location"),
    # Models that a person registered from a sweep.
    ("model_versions", "source"),
    ("model_versions", "storage_location"),
)
"""Where MLflow keeps addresses of artifacts. EdgeSweep's datasets are named by their run, without a path."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Moved:
    """The addresses that were rewritten, or would be. Folders are `file:` addresses with a slash at the end."""

    folders: tuple[str, ...]
    """Where artifacts were, as the database said; none if all of them are true."""
    target: str
    rewritten: dict[str, int]
    """Number of addresses by table."""
    backup: Path | None


def move_paths(uri: str, artifact_root: Path, *, dry_run: bool = False) -> Moved:
    """Let the database at `uri` find the artifacts of sweeps in `artifact_root`, in one transaction.

    A copy of the database as it was is made beside it first. Nothing is changed with `dry_run`, or if all addresses are
    true. Raises `StoreError` if it is no sqlite database of MLflow, or the artifacts are not there.
    """
    if dialect(uri) != "sqlite":
        raise StoreError(
            f"MLflow at {redact(uri, uri)} is no sqlite file: the paths of its artifacts do not depend on this folder",
            f"to move a workspace's own database, unset MLFLOW_TRACKING_URI and run `{_COMMAND}` again",
        )
    path, target = sqlite_path(uri), _folder(artifact_root)
    if not path.is_file():
        raise StoreError(f"there is no database at {path}", "give the workspace's new folder with --workspace")
    with _translated(path), closing(connect(path, busy_s=_BUSY_S)) as db:
        # From here on nobody else writes. The copy is of what is changed.
        db.execute("BEGIN IMMEDIATE")
        try:
            sweeps = _sweeps(db, path)
            folders = tuple(sorted({folder for _, folder, _ in sweeps} - {target}))
            _check(artifact_root, [name for name, folder, has_runs in sweeps if folder in folders and has_runs])
            changes = list(_changes(db, folders, target))
            rewritten = {table: sum(len(rows) for name, _, rows in changes if name == table) for table, _ in _COLUMNS}
            if dry_run or not any(rewritten.values()):
                db.execute("ROLLBACK")
                return Moved(folders=folders, target=target, rewritten=rewritten, backup=None)
            backup = _back_up(path)
            for table, column, rows in changes:
                db.executemany(f"UPDATE {table} SET {column} = ? WHERE rowid = ?", rows)  # noqa: S608
            db.execute("COMMIT")
        except BaseException:
            if db.in_transaction:
                db.execute("ROLLBACK")
            raise
    return Moved(folders=folders, target=target, rewritten=rewritten, backup=backup)


def check_not_moved(uri: str, artifact_root: Path, experiments: Iterable["Experiment"]) -> None:
    """Raises `StoreError` if the workspace was moved and its own database names another folder: artifacts would go
    there."""
    if dialect(uri) != "sqlite" or sqlite_path(uri).resolve().parent != artifact_root.resolve().parent:
        return
    for experiment in experiments:
        folder = _folder_of(experiment.name, experiment.artifact_location)
        if folder is not None and folder != _folder(artifact_root):
            raise StoreError(
                f"this workspace was moved or copied: MLflow keeps artifacts in {unquote(folder)}",
                f"run `{_COMMAND} --workspace {artifact_root.resolve().parent}`",
            )


def _folder(artifact_root: Path) -> str:
    return f"{artifact_root.resolve().as_uri()}/"


def _folder_of(sweep: str, location: object) -> str | None:
    """The folder of all artifacts, if `location` is of a sweep in a workspace."""
    if not isinstance(location, str):
        return None
    folder, _, name = location.rpartition("/")
    in_workspace = location.startswith("file:///") and unquote(name) == sweep
    return f"{folder}/" if in_workspace and folder.endswith("/mlflow-artifacts") else None


def _sweeps(db: sqlite3.Connection, path: Path) -> list[tuple[str, str, bool]]:
    """Each sweep whose artifacts are in a workspace: its name, the folder of all artifacts, and whether some must be
    there, because it has runs and is not deleted."""
    tables = {name for (name,) in db.execute("SELECT name FROM sqlite_master WHERE type = 'table'")}
    if not {"experiments", "experiment_tags", "runs", "alembic_version"} <= tables:
        raise StoreError(f"{path} is not a database of MLflow", "give the workspace's folder with --workspace")
    if (damage := db.execute("PRAGMA quick_check(1)").fetchone()) != ("ok",):
        raise StoreError(f"the database {path} is damaged: {damage[0]}", "move it away: the next run makes a new one")
    rows = db.execute(
        "SELECT value, artifact_location, here.lifecycle_stage = 'active' AND"
        " EXISTS (SELECT 1 FROM runs WHERE runs.experiment_id = here.experiment_id)"
        " FROM experiments AS here JOIN experiment_tags USING (experiment_id) WHERE key = ?",
        (SWEEP,),
    ).fetchall()
    sweeps = ((name, _folder_of(str(name), location), has_runs) for name, location, has_runs in rows)
    return [(str(name), folder, bool(has_runs)) for name, folder, has_runs in sweeps if folder is not None]


def _check(artifact_root: Path, sweeps: Iterable[str]) -> None:
    if missing := sorted(name for name in sweeps if not (artifact_root / name).is_dir()):
        raise StoreError(
            f"the artifacts of {', '.join(missing)} are not in {artifact_root}",
            "move or copy the whole workspace, with its folder mlflow-artifacts, then run the same command again",
        )


def _changes(
    db: sqlite3.Connection, folders: Iterable[str], target: str
) -> Iterator[tuple[str, str, list[tuple[str, int]]]]:
    """By table and column: the new address and the row of each that begins with one of the folders."""
    present = {
        (table, column)
        for table, _ in _COLUMNS
        for (column,) in db.execute("SELECT name FROM pragma_table_info(?)", (table,))
    }
    for table, column in _COLUMNS:
        if (table, column) not in present:
            continue
        rows = []
        for rowid, address in db.execute(f"SELECT rowid, {column} FROM {table} WHERE {column} LIKE 'file:%'"):  # noqa: S608
            old = next((folder for folder in folders if address.startswith(folder)), None)
            if old is not None:
                rows.append((target + address.removeprefix(old), rowid))
        yield table, column, rows


def _back_up(path: Path) -> Path:
    """A copy of the database beside it, under a name that was free. It gets its name when it is whole."""
    names = (path.with_name(f"{path.name}.before-move{end}") for end in ("", *(f"-{n}" for n in range(2, 1000))))
    backup = next(name for name in names if not name.exists())
    part = backup.with_name(f"{backup.name}.new")
    part.unlink(missing_ok=True)
    with closing(connect(path, read_only=True, busy_s=_BUSY_S)) as source, closing(connect(part)) as copy:
        source.backup(copy)
    return part.rename(backup)


@contextmanager
def _translated(path: Path) -> Iterator[None]:
    try:
        yield
    except sqlite3.DatabaseError as error:
        busy = getattr(error, "sqlite_errorcode", 0) & 0xFF in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED)
        raise StoreError(
            f"the database {path} cannot be rewritten: {error}",
            "end what else uses it (an MLflow server, a dashboard)" if busy else "check the file, its disk and rights",
        ) from error
    except OSError as error:
        raise StoreError(f"the database {path} cannot be copied: {error.strerror}", "free space on its disk") from error


def document(moved: Moved) -> dict[str, Any]:
    """For `--json`."""
    return {
        "from": list(moved.folders),
        "to": moved.target,
        "rewritten": moved.rewritten,
        "backup": None if moved.backup is None else str(moved.backup),
    }
