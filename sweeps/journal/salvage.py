"""The salvage of a damaged journal: readable rows are copied into a new file, which then replaces the damaged one."""

import sqlite3
import threading
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sweeps.errors import StoreError
from sweeps.journal import schema
from sweeps.journal.journal import Journal
from sweeps.journal.journal_check import file_damage, unreadable
from sweeps.journal.rebuild import rebuild
from sweeps.sqlite_file import connect

_MADE_FROM_OTHERS = ("results", "places", "ended", "results_state")
"""Tables that `sweeps.journal.rebuild` computes again from the other tables."""
_SALVAGED = "journal.salvaged.sqlite"
_PART = 1_000
_BEYOND = 2_000
"""How many row numbers are tried after the first known one, if the end of a table cannot be found."""
_LOOK_S = 5.0
"""Time limit of the quick check, in seconds; enough for a file of more than 1 GB."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Salvaged:
    """Numbers of rows that were saved and lost, by table. `damaged`: the new path of the damaged file; `None` after a
    dry run, which leaves the file in place."""

    saved: Mapping[str, int]
    lost: Mapping[str, int]
    """Upper bound: for a page that cannot be read, every row that the page may have held counts."""
    damaged: Path | None


def check_whole(path: Path) -> None:
    """Check the journal's file for up to 5 seconds, before long work writes to it. Raises `StoreError` for damage that
    was found in this time."""
    if not path.exists():
        _look_for_parts(path)
        return
    with closing(connect(path, read_only=True)) as db:
        # sqlite does not call its progress handler within one large table, but `interrupt` ends the check there too.
        enough = threading.Timer(_LOOK_S, db.interrupt)
        enough.start()
        try:
            [[answer]] = db.execute("PRAGMA quick_check(1)").fetchall()
        except sqlite3.OperationalError:
            return  # out of time, or the file is busy or not readable, which its opening reports
        except sqlite3.DatabaseError as error:
            answer = str(error)
        finally:
            enough.cancel()
            enough.join()
    if answer != "ok":
        raise StoreError(
            f"the journal {path} is damaged: {answer.splitlines()[-1]}",
            "edgesweep journal salvage saves what can be read (--dry-run says how much)",
        )


def _look_for_parts(path: Path) -> None:
    """Raise `StoreError` if the files of an interrupted salvage lie beside the missing journal."""
    salvaged = path.with_name(_SALVAGED)
    if salvaged.exists() and list(path.parent.glob("journal.damaged-*.sqlite")):
        raise StoreError(f"there is no journal {path}: a salvage was cut off", f"rename {salvaged.name} to {path.name}")


def salvage(path: Path, each: Callable[[str], object] = lambda _: None, *, dry_run: bool = False) -> Salvaged:
    """Replace a damaged journal by a new one with all its readable rows. The old file stays beside it under another
    name. `each` is called with the name of each table. `dry_run`: only report what would be saved.

    Raises `StoreError` if the journal is not damaged, has another version, or if no table or no plan can be read.
    """
    if not file_damage(path):
        raise StoreError(f"the journal {path} is not damaged", "edgesweep journal verify checks what is in it")
    with suppress(sqlite3.DatabaseError), closing(connect(path, read_only=True)) as db:
        [[version]] = db.execute("PRAGMA user_version")
        schema.check_version(version, path)
    salvaged = path.with_name(_SALVAGED)
    _remove(salvaged)
    Journal.open(salvaged).close()
    lost: Counter[str] = Counter()
    with closing(connect(path, read_only=True)) as old, closing(connect(salvaged)) as new:
        new.execute("BEGIN")
        try:
            old_tables = {name for (name,) in old.execute("SELECT name FROM sqlite_master WHERE type = 'table'")}
        except sqlite3.DatabaseError as error:
            _remove(salvaged)
            raise StoreError(
                f"nothing of the journal {path} can be read: {error}", "take a backup: edgesweep journal restore"
            ) from error
        # Tables are copied in the order of their creation, in which tables come before those that refer to them.
        query = "SELECT name FROM sqlite_master WHERE type = 'table' AND name NOT LIKE 'sqlite_%' ORDER BY rowid"
        tables = [name for (name,) in new.execute(query) if name not in _MADE_FROM_OTHERS]
        for table in tables:
            if table in old_tables:
                each(table)
                lost[table] += _copy(old, new, table)
        lost += _drop_unreadable(new)
        new.commit()
        saved = {table: _count(new, table) for table in tables}
    if not saved["plans"]:
        _remove(salvaged)
        raise StoreError(f"no plan of the journal {path} can be read", "take a backup: edgesweep journal restore")
    lost = +lost
    if dry_run:
        _remove(salvaged)
        return Salvaged(saved=saved, lost=lost, damaged=None)
    rebuild(salvaged)
    with closing(connect(salvaged)) as new:
        new.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    damaged = _put_aside(path)
    for suffix in ("-wal", "-shm"):
        salvaged.with_name(salvaged.name + suffix).unlink(missing_ok=True)
    salvaged.replace(path)
    return Salvaged(saved=saved, lost=lost, damaged=damaged)


def _copy(old: sqlite3.Connection, new: sqlite3.Connection, table: str) -> int:
    """Copy the readable rows of a table. Returns the number of rows that were lost."""
    columns = [name for name in _columns(old, table) if name in _columns(new, table)]
    listed = ", ".join(columns)
    put = f"INSERT OR IGNORE INTO {table} ({listed}) VALUES ({', '.join('?' * len(columns))})"  # noqa: S608  # ours
    get = f"SELECT {listed} FROM {table} WHERE rowid BETWEEN ? AND ?"  # noqa: S608  # names of ours
    lost = 0
    first, last = _ends(old, table)
    for start in range(first, last + 1, _PART):
        for rows in _read(old, get, start, min(last, start + _PART - 1)):
            if rows is None:
                lost += 1
                continue
            for row in rows:
                try:
                    lost += 1 - new.execute(put, row).rowcount
                except sqlite3.IntegrityError:
                    lost += 1
    return lost


def _read(db: sqlite3.Connection, query: str, first: int, last: int) -> Iterator[Sequence[Any] | None]:
    """Yield the rows with numbers from `first` to `last` in lists, and `None` for each row number that cannot be
    read."""
    try:
        yield db.execute(query, (first, last)).fetchall()
    except sqlite3.DatabaseError:
        if first == last:
            yield None
            return
        middle = (first + last) // 2
        yield from _read(db, query, first, middle)
        yield from _read(db, query, middle + 1, last)


def _ends(db: sqlite3.Connection, table: str) -> tuple[int, int]:
    """Return bounds of a table's row numbers, estimated if its first or last row cannot be read."""
    ends = []
    for end in ("min", "max"):
        try:
            [[number]] = db.execute(f"SELECT {end}(rowid) FROM {table}").fetchall()  # noqa: S608  # names of ours
            ends.append(int(number or 0))
        except sqlite3.DatabaseError:
            ends.append(-1)
    first, last = ends
    if last < 0:
        try:
            rows = db.execute("SELECT seq FROM sqlite_sequence WHERE name = ?", (table,)).fetchall()
        except sqlite3.DatabaseError:
            rows = []
        last = int(rows[0][0]) if rows else max(first, 0) + _BEYOND
    # A damaged page may yield any number, so the number of rows is limited by the file's size: a row takes a few bytes.
    [[pages]], [[size]] = (db.execute(f"PRAGMA {name}").fetchall() for name in ("page_count", "page_size"))
    return max(first, 0), min(last, max(first, 0) + pages * size)


def _drop_unreadable(db: sqlite3.Connection) -> Counter[str]:
    """Delete records that cannot be parsed, and rows that refer to missing rows. Returns the numbers of deleted rows by
    table."""
    dropped: Counter[str] = Counter()
    for table, row in list(unreadable(db)):
        dropped[table] += db.execute(f"DELETE FROM {table} WHERE rowid = ?", (row,)).rowcount  # noqa: S608  # ours
    while missing := db.execute("PRAGMA foreign_key_check").fetchall():
        for table, row, _, _ in missing:
            dropped[table] += db.execute(f"DELETE FROM {table} WHERE rowid = ?", (row,)).rowcount  # noqa: S608  # ours
    return dropped


def _columns(db: sqlite3.Connection, table: str) -> list[str]:
    return [row[1] for row in db.execute(f"PRAGMA table_info({table})")]


def _count(db: sqlite3.Connection, table: str) -> int:
    [[count]] = db.execute(f"SELECT count(*) FROM {table}").fetchall()  # noqa: S608  # a name of ours
    return int(count)


def _put_aside(path: Path) -> Path:
    number = 1
    while (aside := path.with_name(f"journal.damaged-{number}.sqlite")).exists():
        number += 1
    for suffix in ("", "-wal", "-shm"):
        part = path.with_name(path.name + suffix)
        if part.exists():
            part.replace(aside.with_name(aside.name + suffix))
    return aside


def _remove(path: Path) -> None:
    for suffix in ("", "-wal", "-shm"):
        path.with_name(path.name + suffix).unlink(missing_ok=True)
