"""The lag of MLflow behind the journal is found without MLflow: whoever publishes marks in a file what MLflow has.

The marks are a file of the workspace with one writer at a time, who has the workspace's lock. They may be lost: then
the next run publishes, and marks, what is there already. So nothing is synchronized to the disk.
"""

import sqlite3
from collections.abc import Mapping
from contextlib import closing, suppress
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Self

from sweeps.journal.changes import Position
from sweeps.journal.journal import Journal
from sweeps.journal.results_table import DamagedResultsError
from sweeps.sqlite_file import BRIEF_S, connect
from sweeps.store.owner import server_name
from sweeps.store.uri import dialect, sqlite_path
from sweeps.workspace import Workspace

_TABLES = """
CREATE TABLE IF NOT EXISTS sweeps (
    server TEXT NOT NULL, sweep TEXT NOT NULL, plan_id INTEGER, attempt_id INTEGER, PRIMARY KEY (server, sweep)
);
CREATE TABLE IF NOT EXISTS marks (
    server TEXT NOT NULL, sweep TEXT NOT NULL, job_key TEXT NOT NULL, attempt_id INTEGER NOT NULL,
    PRIMARY KEY (server, sweep, job_key)
);
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Lag:
    """The finished jobs of a sweep that were not published yet."""

    jobs: int
    since: datetime | None
    """When the first of them finished (UTC); `None` if there is none."""

    @property
    def text(self) -> str:
        """For people; empty if there is none."""
        if self.since is None:
            return ""
        jobs = "1 finished job is" if self.jobs == 1 else f"{self.jobs} finished jobs are"
        return f"{jobs} not in MLflow yet, the first since {self.since:%Y-%m-%d %H:%M} UTC"

    def document(self) -> dict[str, object]:
        """A part of `edgesweep status --json`."""
        return {"jobs": self.jobs, "since": None if self.since is None else self.since.isoformat()}


class Marks:
    """The published jobs of one sweep on one tracking server: job keys, each with the newest attempt that was seen; and
    the position in the journal up to which everything is published."""

    def __init__(self, db: sqlite3.Connection, server: str, sweep: str) -> None:
        self._db = db
        self._place = (server, sweep)

    @classmethod
    def open(cls, workspace: Workspace, sweep: str) -> Self:
        """A damaged file is made anew. One that cannot be written stops no publication: its lag is then not known."""
        path = workspace.published
        try:
            db = _open(path)
        except sqlite3.Error:
            with suppress(OSError):
                path.unlink()
            try:
                db = _open(path)
            except sqlite3.Error:
                db = _open(None)
        server = server_name(workspace)
        with suppress(sqlite3.Error):
            if _is_gone(workspace):
                db.execute("DELETE FROM marks WHERE server = ?", (server,))
                db.execute("DELETE FROM sweeps WHERE server = ?", (server,))
            db.execute("INSERT OR IGNORE INTO sweeps VALUES (?, ?, NULL, NULL)", (server, sweep))
        return cls(db, server, sweep)

    @staticmethod
    def forget(workspace: Workspace, sweep: str) -> None:
        """The workspace has no sweep of this name any more. Marks that cannot be written are left."""
        if workspace.published.exists():
            with suppress(sqlite3.Error), closing(_open(workspace.published)) as db:
                db.execute("DELETE FROM marks WHERE sweep = ?", (sweep,))
                db.execute("DELETE FROM sweeps WHERE sweep = ?", (sweep,))

    def close(self) -> None:
        self._db.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def add(self, job_key: str, attempt_id: int) -> int:
        """Mark that all is published which the journal had of this job up to an attempt. A mark that cannot be written
        is missing.

        Returns the attempt that was marked before; -1 if none was.
        """
        with suppress(sqlite3.Error):
            query = "SELECT attempt_id FROM marks WHERE server = ? AND sweep = ? AND job_key = ?"
            row = self._db.execute(query, (*self._place, job_key)).fetchone()
            self._db.execute("INSERT OR REPLACE INTO marks VALUES (?, ?, ?, ?)", (*self._place, job_key, attempt_id))
            return -1 if row is None else int(row[0])
        return -1

    def complete(self, position: Position) -> None:
        """All that the journal had of the sweep up to here is published."""
        with suppress(sqlite3.Error):
            self._db.execute(
                "INSERT OR REPLACE INTO sweeps VALUES (?, ?, ?, ?)",
                (*self._place, position.plan_id, position.attempt_id),
            )


def read_lag(workspace: Workspace, journal: Journal, sweep: str) -> Lag | None:
    """The lag of the jobs in the sweep's plan. `None` if it is not known: nothing was marked for this server yet."""
    marked = _read(workspace, journal, sweep)
    if marked is None:
        return None
    complete_to, marks = marked
    if marks is None:
        return Lag(jobs=0, since=None)
    try:
        journal.results.watermark()
    except DamagedResultsError:
        return None  # a reader makes the table again
    published_to = (
        complete_to.attempt_id
        if complete_to is not None and complete_to.plan_id == journal.changes.position(sweep).plan_id
        else 0
    )
    waiting = [
        attempt
        for key, attempt in journal.results.ended_jobs(sweep, published_to).items()
        if attempt > marks.get(key, -1)
    ]
    since = journal.times.accepted(min(waiting)) if waiting else None
    return Lag(jobs=len(waiting), since=since)


def _read(
    workspace: Workspace, journal: Journal, sweep: str
) -> tuple[Position | None, Mapping[str, int] | None] | None:
    """Up to where all is published, and the marks; `None` in place of these if that is all: there may be very many."""
    path = workspace.published
    if not path.exists():
        return None
    place = (server_name(workspace), sweep)
    try:
        with closing(connect(path, read_only=True, busy_s=BRIEF_S)) as db:
            row = db.execute("SELECT plan_id, attempt_id FROM sweeps WHERE server = ? AND sweep = ?", place).fetchone()
            if row is None:
                return None
            if _is_gone(workspace):
                return None, {}
            complete_to = None if row[0] is None else Position(plan_id=row[0], attempt_id=row[1])
            if complete_to is not None and complete_to == journal.changes.position(sweep):
                return complete_to, None
            marks = db.execute("SELECT job_key, attempt_id FROM marks WHERE server = ? AND sweep = ?", place).fetchall()
    except sqlite3.Error:
        return None  # the lag is only for information, and the next publication makes the file anew
    return complete_to, dict(marks)


def _open(path: Path | None) -> sqlite3.Connection:
    """`None`: in memory."""
    db = connect(path, busy_s=BRIEF_S)
    try:
        db.execute("PRAGMA synchronous = OFF")
        db.executescript(_TABLES)
    except BaseException:
        db.close()
        raise
    return db


def _is_gone(workspace: Workspace) -> bool:
    """Tell whether a person has deleted the database."""
    uri = workspace.tracking_uri
    return dialect(uri) == "sqlite" and not sqlite_path(uri).exists()
