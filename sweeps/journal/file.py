"""The journal's sqlite file: opening, queries, and one transaction per write."""

import sqlite3
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Self

from sweeps.errors import StoreError
from sweeps.journal import schema as journal_schema
from sweeps.sqlite_file import connect, switch_to_wal

FIRST_STEP = "run `edgesweep run sweep.yaml` first"


@dataclass(slots=True)
class News:
    """Writes of the open transaction that change results."""

    keys: set[str] = field(default_factory=set)
    """Keys of the jobs, builds and sentinels that were written."""
    sweep: str = ""
    """The sweep with a new plan; empty if there is none."""
    affected: frozenset[str] = frozenset()
    """The keys of that sweep's jobs whose results may differ under the new plan."""


class JournalFile:
    """Open sqlite file with the journal's tables, which all parts of a journal share.

    Only the thread that opened the file may use it.
    """

    def __init__(self, db: sqlite3.Connection, path: Path) -> None:
        self.db = db
        self.path = path
        self.news = News()
        self.before_commit: Callable[[News], object] | None = None
        """Callback that adds to a transaction the results that follow from its writes."""
        self.after_rollback: Callable[[], object] | None = None
        """Callback that clears caches of a transaction's writes: later writes will get the same ids."""

    @classmethod
    def open(cls, path: Path, *, read_only: bool = False, busy_timeout_s: float = 60.0) -> Self:
        """Open the file, and create the tables and columns that it lacks. With `read_only`, the file must exist.

        Raises `StoreError` if it cannot be used, is missing, or has another version.
        """
        if read_only and not path.exists():
            raise StoreError(f"there is no journal at {path}", FIRST_STEP)
        db = _connected(path, read_only, busy_timeout_s)
        try:
            if read_only and not journal_schema.is_made(db, path):
                # This read-only connection closes first: the connection that closes last moves the write-ahead log into
                # the file, which a read-only one cannot.
                db.close()
                cls.open(path, busy_timeout_s=busy_timeout_s).close()
                db = _connected(path, read_only, busy_timeout_s)
            if not read_only:
                journal_schema.make(db, path)
                with journal_schema.translated(path):
                    switch_to_wal(db, busy_timeout_s)
                    db.execute("PRAGMA synchronous = FULL")
        except BaseException:
            db.close()
            raise
        return cls(db, path)

    def close(self) -> None:
        self.db.close()

    def rows(self, query: str, *values: str | int) -> list[Any]:
        with journal_schema.translated(self.path):
            return self.db.execute(query, values).fetchall()

    def row(self, query: str, *values: str | int) -> Any:
        """Return the first row, or `None`."""
        return next(iter(self.rows(query, *values)), None)

    @contextmanager
    def writing(self) -> Iterator[None]:
        """Run the `with` block as one transaction, or as a part of the transaction that is open."""
        if self.db.in_transaction:
            yield
            return
        with journal_schema.translated(self.path):
            self.db.execute("BEGIN IMMEDIATE")
            try:
                yield
                if self.before_commit is not None:
                    self.before_commit(self.news)
                self.db.execute("COMMIT")
            except BaseException:
                # If the disk is full, sqlite has rolled back already.
                if self.db.in_transaction:
                    self.db.execute("ROLLBACK")
                if self.after_rollback is not None:
                    self.after_rollback()
                raise
            finally:
                self.news = News()


def _connected(path: Path, read_only: bool, busy_timeout_s: float) -> sqlite3.Connection:
    with journal_schema.translated(path):
        return connect(path, read_only=read_only, busy_s=busy_timeout_s)
