"""Opens sqlite files: one module for their quoting, their timeouts and their write-ahead log."""

import sqlite3
from pathlib import Path

from sweeps.retry import tries

BUSY_S = 60.0
"""How long (seconds) a statement waits for another process's transaction."""
BRIEF_S = 5.0
"""A shorter wait, for reading or writing that may be skipped this time."""
_TRY_S = 0.02


def connect(
    path: Path | None, *, read_only: bool = False, busy_s: float = BUSY_S, one_thread: bool = True
) -> sqlite3.Connection:
    """Open a database, which is created if it is missing, except with `read_only`; `None`: in memory.

    Each statement is a separate transaction, unless it follows a `BEGIN`. `one_thread`: only the thread that opened the
    database may use it. Raises `sqlite3.Error`.
    """
    # A path may have any character, including `?` and `#`. `resolve`: sqlite writes its log next to the target of a
    # link.
    name = ":memory:" if path is None else f"{path.resolve().as_uri()}?mode={'ro' if read_only else 'rwc'}"
    return sqlite3.connect(name, uri=True, timeout=busy_s, isolation_level=None, check_same_thread=one_thread)


def switch_to_wal(db: sqlite3.Connection, busy_s: float = BUSY_S) -> None:
    """Switch to the write-ahead log, with which readers and the one writer do not wait for each other. Waits for other
    processes for at most `busy_s`, because sqlite ignores the connection's timeout for this statement. Raises
    `sqlite3.Error`."""
    for is_last in tries(busy_s, _TRY_S):
        try:
            db.execute("PRAGMA journal_mode = WAL")
            return
        except sqlite3.OperationalError as error:
            if is_last or error.sqlite_errorcode & 0xFF != sqlite3.SQLITE_BUSY:
                raise
