"""The opener of sqlite files: one place for their quoting, their timeouts and their write-ahead log."""

import sqlite3
from pathlib import Path

from sweeps.retry import tries

BUSY_S = 60.0
"""A statement waits so long for another process's transaction."""
BRIEF_S = 5.0
"""The wait is shorter where the reading or writing may be left out this time."""
_TRY_S = 0.02


def connect(
    path: Path | None, *, read_only: bool = False, busy_s: float = BUSY_S, one_thread: bool = True
) -> sqlite3.Connection:
    """Open a database, which is created if it is missing, but for `read_only`; `None`: in memory.

    Each statement is a transaction of its own, unless it follows a `BEGIN`. `one_thread`: only the thread that opened
    it may use it. Raises `sqlite3.Error`.
    """
    # A path may have any character, `?` and `#` too. `resolve`: sqlite puts its log beside what a link leads to.
    name = ":memory:" if path is None else f"{path.resolve().as_uri()}?mode={'ro' if read_only else 'rwc'}"
    return sqlite3.connect(name, uri=True, timeout=busy_s, isolation_level=None, check_same_thread=one_thread)


def switch_to_wal(db: sqlite3.Connection, busy_s: float = BUSY_S) -> None:
    """Use the write-ahead log: readers and the one writer do not wait for each other. Waits for others for at most
    `busy_s`, as sqlite ignores the connection's timeout for this statement. Raises `sqlite3.Error`."""
    for is_last in tries(busy_s, _TRY_S):
        try:
            db.execute("PRAGMA journal_mode = WAL")
            return
        except sqlite3.OperationalError as error:
            if is_last or error.sqlite_errorcode & 0xFF != sqlite3.SQLITE_BUSY:
                raise
