"""The journal's file: opening, migration, reads, and one transaction per write."""

import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Self

from sweeps.errors import StoreError
from sweeps.journal import schema as journal_schema
from sweeps.sqlite_file import connect, switch_to_wal

FIRST_STEP = "run `edgesweep run sweep.yaml` first"


class JournalFile:
    """An open journal. Use it as a context manager, or call `close()`. It belongs to the thread that opened it."""

    def __init__(self, db: sqlite3.Connection, path: Path) -> None:
        self._db = db
        self.path = path
        self._touched: set[str] = set()
        """Job keys and build keys with news in the open transaction."""

    @classmethod
    def open(cls, path: Path, *, read_only: bool = False, busy_timeout_s: float = 60.0) -> Self:
        """Open the file, and create or migrate it if needed. With `read_only`, it must exist.

        Raises `StoreError` if it cannot be used, is missing, or was written by a newer EdgeSweep.
        """
        if read_only and not path.exists():
            raise StoreError(f"there is no journal at {path}", FIRST_STEP)
        db = _connected(path, read_only, busy_timeout_s)
        try:
            if read_only and journal_schema.is_older(db, path):
                # Alone: the last connection puts the log of a migration into the file, unless it is a reader.
                db.close()
                cls.open(path, busy_timeout_s=busy_timeout_s).close()
                db = _connected(path, read_only, busy_timeout_s)
            journal_schema.migrate(db, path)
            if not read_only:
                with journal_schema.translated(path):
                    switch_to_wal(db, busy_timeout_s)
                    db.execute("PRAGMA synchronous = FULL")
        except BaseException:
            db.close()
            raise
        return cls(db, path)

    def close(self) -> None:
        self._db.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def data_version(self) -> int:
        """Another number after another connection has written to the file."""
        return int(self._row("PRAGMA data_version")[0])

    @property
    def is_copy(self) -> bool:
        """Whether its results are those of a tracking server, and follow from no attempts."""
        return bool(self._row("PRAGMA application_id")[0])

    @contextmanager
    def together(self) -> Iterator[None]:
        """All writes of the block are one transaction, and reach the disk together when it ends.

        Nothing in the block may take long, and nobody may be told of a write before the block has ended: until then, a
        killed process loses them all.
        """
        with self._writing():
            yield

    def _rows(self, query: str, *values: str | int) -> list[Any]:
        with journal_schema.translated(self.path):
            return self._db.execute(query, values).fetchall()

    def _row(self, query: str, *values: str | int) -> Any:
        return next(iter(self._rows(query, *values)), None)

    @contextmanager
    def _writing(self) -> Iterator[None]:
        if self._db.in_transaction:  # of `together`
            yield
            return
        with journal_schema.translated(self.path):
            self._db.execute("BEGIN IMMEDIATE")
            try:
                yield
                self._before_commit()
                self._db.execute("COMMIT")
            except BaseException:
                # If the disk is full, sqlite has rolled back already.
                if self._db.in_transaction:
                    self._db.execute("ROLLBACK")
                self._after_rollback()
                raise
            finally:
                self._touched.clear()

    def _before_commit(self) -> None:
        """What follows from the writes of the transaction is written with them."""

    def _after_rollback(self) -> None:
        """What is known of the writes of the transaction is forgotten: their ids will be those of others."""


def _connected(path: Path, read_only: bool, busy_timeout_s: float) -> sqlite3.Connection:
    with journal_schema.translated(path):
        return connect(path, read_only=read_only, busy_s=busy_timeout_s)
