"""Results on this host's disk, until the driver that requested them has them in its journal.

They survive the driver and the agent, and from the next `sync` on a power failure. A result is stored once: a second
one under the same id is ignored.
"""

import os
import sqlite3
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from threading import Lock
from typing import Any

from sweeps.errors import StoreError
from sweeps.sqlite_file import BRIEF_S, connect, switch_to_wal
from workers.hosts.disk import lack_of_room

_CAP_BYTES = 2**30
_STEP_S = 60.0
"""A clock that changed by this much more or less than the time that passed was set."""
KEPT_DAYS = 7
"""The days after which a result that no driver has fetched is dropped: its sweep measures it again, or was decided
without it."""
_TABLES = """
CREATE TABLE IF NOT EXISTS results (
    number INTEGER PRIMARY KEY AUTOINCREMENT,
    id TEXT NOT NULL UNIQUE,
    device_id TEXT NOT NULL,
    epoch INTEGER NOT NULL,
    version TEXT NOT NULL,
    answer BLOB NOT NULL,
    at_s REAL NOT NULL DEFAULT 0
);
CREATE TABLE IF NOT EXISTS epochs (id INTEGER PRIMARY KEY, last INTEGER NOT NULL);
"""


class Outbox:
    """The results in one sqlite file, to which one process writes. Methods may be called from several threads. It is
    one class, since the file, its connection, its lock and the clock that ages its rows change together.

    All methods raise `StoreError` if the file cannot be read or written.
    """

    def __init__(
        self,
        file: Path,
        version: str,
        cap_bytes: int = _CAP_BYTES,
        now: Callable[[], float] = time.time,
        passed: Callable[[], float] = time.monotonic,
    ) -> None:
        """Open the file. `version`: the version of EdgeSweep; results of another version are dropped, because they may
        not be readable. `now` returns seconds since 1970. `passed` returns seconds and is never set.

        On a full disk the file is opened later, by the first call once there is space.
        """
        self._file = file
        self._version = version
        self._cap_bytes = cap_bytes
        self._now = now
        self._passed = passed
        self._last = now(), passed()
        self._ageing = Lock()
        self._lock = Lock()
        self._connection: sqlite3.Connection | None = None
        self.trouble: StoreError | None = None
        """The reason why the last write to the file failed; `None` if it succeeded."""
        self._is_unsynced = False
        self._syncing = Lock()
        self.dropped = ""
        """The number of dropped results of other versions, in words; empty if none was dropped."""
        try:
            self._opened()
        except (sqlite3.Error, OSError) as error:
            self.trouble = self._error(error)
            if not lack_of_room(file.parent):
                raise self.trouble from error

    def keep(self, result_id: str, device_id: str, epoch: int, answer: bytes, acknowledged: Sequence[str] = ()) -> None:
        """Store a result, and delete those that are `acknowledged`, in one commit.

        The result then survives the end of any process; a power failure only after `sync`. To wait for the disk in this
        call would take longer than the rest of it, and the driver has the answer long before. If the results have too
        many bytes, the oldest are dropped.
        """
        with self._time() as now_s:
            self._commit(
                *_forget(acknowledged),
                (
                    "INSERT OR IGNORE INTO results (id, device_id, epoch, version, answer, at_s)"
                    " VALUES (?, ?, ?, ?, ?, ?)",
                    (result_id, device_id, epoch, self._version, answer, now_s),
                ),
                (
                    "DELETE FROM results WHERE number IN (SELECT number FROM (SELECT number, SUM(LENGTH(answer))"
                    " OVER (ORDER BY number DESC) AS bytes FROM results) WHERE bytes > ?) AND id != ?",
                    (self._cap_bytes, result_id),
                ),
            )

    def find(self, result_id: str) -> bytes | None:
        rows = self._read("SELECT answer FROM results WHERE id = ?", (result_id,))
        return bytes(rows[0][0]) if rows else None

    def acknowledge(self, result_ids: Sequence[str]) -> None:
        """Delete these results. Unknown ids are no error: they may have been acknowledged before."""
        if result_ids:
            self._commit(*_forget(result_ids))

    def expire(self) -> None:
        """Drop results that have waited for `KEPT_DAYS`. This costs next to nothing; to be called from time to time."""
        with self._time() as now_s:
            last_s = now_s - KEPT_DAYS * 86400
            oldest = self._read("SELECT MIN(at_s) FROM results")[0][0]
            if oldest is not None and oldest < last_s:
                self._commit(("DELETE FROM results WHERE at_s < ?", (last_s,)))

    def count(self) -> int:
        """Return the number of results that no driver has acknowledged."""
        return int(self._read("SELECT COUNT(*) FROM results")[0][0])

    def next_epoch(self) -> int:
        """Return a number larger than all returned before, including those before a power failure of the host."""
        with (
            self._writing() as connection,
            closing(
                connection.execute(
                    "INSERT INTO epochs VALUES (1, 1) ON CONFLICT (id) DO UPDATE SET last = last + 1 RETURNING last"
                )
            ) as cursor,
        ):
            epoch = int(cursor.fetchall()[0][0])
        self.sync()
        return epoch

    def sync(self) -> None:
        """Wait until everything that was written is on the disk. To be called every second or so."""
        with self._syncing:
            if not self._is_unsynced:
                return
            self._is_unsynced = False
            try:
                # The wait for the disk is outside the lock of the file: nobody else waits.
                written = os.open(f"{self._file}-wal", os.O_RDONLY)
                try:
                    os.fsync(written)
                finally:
                    os.close(written)
            except FileNotFoundError:  # sqlite has synced it into the file itself
                return
            except OSError as error:
                self._is_unsynced = True
                self.trouble = self._error(error)
                raise self.trouble from error

    def close(self) -> None:
        if self._connection is not None:
            self._connection.close()

    def _opened(self) -> sqlite3.Connection:
        if self._connection is not None:
            return self._connection
        self._file.parent.mkdir(parents=True, exist_ok=True)
        self._file.touch(mode=0o600)
        self._file.chmod(0o600)
        connection = connect(self._file, busy_s=BRIEF_S, one_thread=False)
        try:
            switch_to_wal(connection, BRIEF_S)
            connection.execute("PRAGMA synchronous = NORMAL")  # `sync` does the rest
            connection.executescript(_TABLES)
            if "at_s" not in {row[1] for row in connection.execute("PRAGMA table_info(results)")}:
                # The rows were written before this host was updated: their waiting time begins now.
                connection.execute("ALTER TABLE results ADD COLUMN at_s REAL NOT NULL DEFAULT 0")
                connection.execute("UPDATE results SET at_s = ?", (self._now(),))
            # Results that were stored while the clock was ahead wait from now on.
            connection.execute("UPDATE results SET at_s = ? WHERE at_s > ?", (self._now(), self._now()))
            other_versions = connection.execute(
                "SELECT version, COUNT(*) FROM results WHERE version != ? GROUP BY version", (self._version,)
            ).fetchall()
            if other_versions:
                connection.execute("DELETE FROM results WHERE version != ?", (self._version,))
        except sqlite3.Error:
            connection.close()
            raise
        named = " and ".join(f"{count} of EdgeSweep {version}" for version, count in other_versions)
        self.dropped = f"results that cannot be read by {self._version} were dropped: {named}" if named else ""
        self._connection = connection
        return connection

    @contextmanager
    def _time(self) -> Iterator[float]:
        """Yield the seconds since 1970. If the clock was set since the last call, the ages of waiting results are
        corrected."""
        with self._ageing:
            now_s, passed_s = self._now(), self._passed()
            step_s = (now_s - self._last[0]) - (passed_s - self._last[1])
            if abs(step_s) > _STEP_S:
                self._commit(("UPDATE results SET at_s = MIN(at_s + ?, ?)", (step_s, now_s)))
            self._last = now_s, passed_s
            yield now_s

    def _commit(self, *statements: tuple[str, Sequence[object]]) -> None:
        """Run all of the statements or none."""
        with self._writing() as connection:
            try:
                connection.execute("BEGIN IMMEDIATE")
                for statement, values in statements:
                    connection.execute(statement, values)
                connection.execute("COMMIT")
            except sqlite3.Error:
                with suppress(sqlite3.Error):  # sqlite may have ended it already
                    connection.execute("ROLLBACK")
                raise

    @contextmanager
    def _writing(self) -> Iterator[sqlite3.Connection]:
        with self._lock:
            try:
                yield self._opened()
            except (sqlite3.Error, OSError) as error:
                self.trouble = self._error(error)
                raise self.trouble from error
            self.trouble, self._is_unsynced = None, True

    def _read(self, statement: str, values: Sequence[object] = ()) -> list[tuple[Any, ...]]:
        with self._lock:
            try:
                with closing(self._opened().execute(statement, values)) as cursor:
                    return cursor.fetchall()
            except (sqlite3.Error, OSError) as error:
                self.trouble = self._error(error)
                raise self.trouble from error

    def _error(self, error: Exception) -> StoreError:
        return StoreError(
            f"the results that wait on this host cannot be stored in {self._file}: {error}",
            "free space on its disk, and check who owns the file",
        )


def _forget(result_ids: Sequence[str]) -> list[tuple[str, Sequence[object]]]:
    return [("DELETE FROM results WHERE id = ?", (result_id,)) for result_id in result_ids]
