"""The results of a server's sweeps in a file with the journal's tables: whoever reads a journal's results reads it.

It has plans and no jobs, results and no attempts. It follows from the snapshots of which it is made, and may be lost.
Where several workspaces have published one sweep, a job that several have measured is one row: the one that was
measured, and not failed or skipped; then the one of the later session; then the one of more rounds. So no result is
shown twice, and none is hidden by a snapshot that lacks it. A row that is in no snapshot any more becomes stale.
"""

import json
import os
import sqlite3
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from sweeps.device_facts import canonical_key
from sweeps.errors import StoreError
from sweeps.journal.journal import Journal
from sweeps.journal.result_place import Place
from sweeps.journal.results_table import COLUMNS
from sweeps.journal.row_columns import ROW_COLUMNS, values_of
from sweeps.json_records import to_json
from sweeps.sqlite_file import connect
from sweeps.store.snapshot import Snapshot, SnapshotError, StoredValues

VERSION = 1
"""To be raised with each change of what is written here: a file of another version is made anew."""
_MARK = 0x45530000 + VERSION
"""In the file's header (`application_id`): no journal, but a copy of this version."""
_KEY = ROW_COLUMNS.index("job_key")
_READ = (
    f"SELECT {', '.join(ROW_COLUMNS)} FROM results"  # noqa: S608  # names of ours
    " WHERE sweep = ? AND stale = 0 AND job_key IN (SELECT value FROM json_each(?))"
)
_PUT = f"INSERT OR REPLACE INTO results ({', '.join(COLUMNS)}) VALUES ({', '.join('?' * len(COLUMNS))})"  # noqa: S608
_AS_STALE = ", ".join("1" if name == "stale" else name for name in COLUMNS)
_WITHDRAW = f"INSERT OR REPLACE INTO results ({', '.join(COLUMNS)}) SELECT {_AS_STALE} FROM results"  # noqa: S608
_PRECEDENCE = ("job_key", "outcome", "sessions", "rounds")
_OUTCOMES = {"measured": 2, "failed": 1}
_BUSY_S = 10.0
_NOT_NOW = (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED, sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_IOERR)


def is_whole(path: Path) -> bool:
    """Tell whether there is such a file, of this version, whose table of results is whole. Raises `sqlite3.Error` or
    `StoreError` if it cannot be read now."""
    if not path.exists():
        return False
    try:
        with closing(connect(path, busy_s=_BUSY_S)) as db:
            [mark] = db.execute("PRAGMA application_id").fetchone()
        if mark != _MARK:
            return False
        with Journal.open(path) as journal:  # opening adds the columns of new figures
            journal.results.watermark()
    except (sqlite3.Error, StoreError) as error:
        cause = error.__cause__ if isinstance(error, StoreError) else error
        if getattr(cause, "sqlite_errorcode", 0) & 0xFF in _NOT_NOW:  # the low byte is the primary code
            raise
        return False
    return True


def make_file(path: Path) -> None:
    """An empty one, for this user alone to read, in place of what is there."""
    for name in (path, *_beside(path)):
        name.unlink(missing_ok=True)
    os.close(os.open(path, os.O_CREAT | os.O_WRONLY, 0o600))
    Journal.open(path).close()
    with closing(connect(path)) as db:
        db.execute(f"PRAGMA application_id = {_MARK}")


def put_in_place(new: Path, path: Path) -> None:
    """Let a file that nobody has open be the one at this path, in one step. Whoever reads that one reads on in it."""
    for name in _beside(path):  # sqlite would take the log of the other file for the new one's
        name.unlink(missing_ok=True)
    new.replace(path)


def _beside(path: Path) -> tuple[Path, Path]:
    return Path(f"{path}-wal"), Path(f"{path}-shm")


def put_sweep(path: Path, snapshots: Sequence[Snapshot]) -> None:
    """Let the file have what all snapshots of one sweep have together. Rows that are as they were are not touched.

    Raises `SnapshotError` if one of them cannot be read: then the file is as it was.
    """
    chosen = _chosen(snapshots) if len(snapshots) > 1 else None
    newest = max(snapshots, key=lambda snapshot: _utc(snapshot.record.updated)).record
    sweep = newest.sweep
    with _writing(path) as db:
        keys: set[str] = set()
        for number, snapshot in enumerate(snapshots):
            for group in snapshot.groups():
                counting = group if chosen is None else [row for row in group if chosen[row[_KEY]] == number]
                _put_rows(db, snapshot, counting)
                keys.update(values[_KEY] for values in counting)
        present = {key for (key,) in db.execute("SELECT job_key FROM results WHERE sweep = ? AND stale = 0", (sweep,))}
        _withdraw(db, sweep, present - keys)
        created = min(_utc(snapshot.record.created) for snapshot in snapshots)
        _put_plan(db, sweep, newest.spec, created, _utc(newest.updated))
        figures = {figure.key: figure for snapshot in snapshots for figure in snapshot.record.imported}
        db.execute("DELETE FROM imported WHERE sweep = ?", (sweep,))
        db.executemany(
            "INSERT INTO imported (sweep, imported_key, record, created) VALUES (?, ?, ?, ?)",
            [(sweep, key, to_json(figure), figure.imported) for key, figure in figures.items()],
        )


def drop_sweep(path: Path, sweep: str) -> None:
    """The server has it no longer."""
    with _writing(path) as db:
        present = {key for (key,) in db.execute("SELECT job_key FROM results WHERE sweep = ? AND stale = 0", (sweep,))}
        _withdraw(db, sweep, present)
        db.execute("DELETE FROM imported WHERE sweep = ?", (sweep,))
        db.execute("DELETE FROM sweeps WHERE name = ?", (sweep,))


def _chosen(snapshots: Sequence[Snapshot]) -> Mapping[str, int]:
    """By job key: which of the snapshots has the row that counts; of equal ones the first."""
    best: dict[str, tuple[Any, int]] = {}
    for number, snapshot in enumerate(snapshots):
        for group in snapshot.groups(_PRECEDENCE):
            for key, outcome, sessions, rounds in group:
                rank = (_OUTCOMES.get(outcome, 0), _last_session(sessions), rounds or 0)
                if key not in best or rank > best[key][0]:
                    best[key] = rank, number
    return {key: number for key, (_, number) in best.items()}


def _last_session(text: str) -> int:
    """The start of the last session of a row."""
    try:
        return max(map(int, json.loads(text)), default=0)
    except (ValueError, TypeError, RecursionError) as error:
        raise SnapshotError(f"a snapshot has sessions that cannot be read: {text!r:.60}", "publish it again") from error


def _put_rows(db: sqlite3.Connection, snapshot: Snapshot, rows: Sequence[StoredValues]) -> None:
    keys = json.dumps([values[_KEY] for values in rows])
    before = {values[_KEY]: values for values in db.execute(_READ, (snapshot.record.sweep, keys))}
    changed = [snapshot.checked_row(values) for values in rows if before.get(values[_KEY]) != values]
    db.executemany(_PUT, [[0, Place.of(row).place_id, "", *values_of(row)] for row in changed])


def _withdraw(db: sqlite3.Connection, sweep: str, keys: set[str]) -> None:
    """The rows get new numbers, by which readers learn of it."""
    db.executemany(f"{_WITHDRAW} WHERE sweep = ? AND job_key = ?", [(sweep, key) for key in sorted(keys)])


def _put_plan(db: sqlite3.Connection, sweep: str, spec: str, created: str, updated: str) -> None:
    key = canonical_key({"spec": spec})
    present = db.execute("SELECT id FROM plans WHERE sweep = ? AND content_key = ?", (sweep, key)).fetchone()
    plan_id = present[0] if present else None
    if plan_id is None:
        plan_id = db.execute(
            "INSERT INTO plans (sweep, content_key, spec, protocol, evaluation_id, created)"
            " VALUES (?, ?, ?, '', '', ?)",
            (sweep, key, spec, updated),
        ).lastrowid
    db.execute(
        "INSERT INTO sweeps (name, plan_id, created, updated) VALUES (?, ?, ?, ?) ON CONFLICT (name) DO UPDATE SET"
        " plan_id = excluded.plan_id, created = excluded.created, updated = excluded.updated",
        (sweep, plan_id, created, updated),
    )


def _utc(text: str) -> str:
    try:
        return datetime.fromisoformat(text).astimezone(UTC).isoformat(timespec="microseconds")
    except (ValueError, OverflowError) as error:
        raise SnapshotError(f"a snapshot has a time that is none: {text!r:.60}", "publish it again") from error


@contextmanager
def _writing(path: Path) -> Iterator[sqlite3.Connection]:
    """One transaction. Raises `sqlite3.Error` if the file cannot be written."""
    with closing(connect(path, busy_s=_BUSY_S)) as db:
        db.execute("BEGIN IMMEDIATE")
        try:
            yield db
            db.execute("COMMIT")
        except BaseException:
            if db.in_transaction:
                db.execute("ROLLBACK")
            raise
