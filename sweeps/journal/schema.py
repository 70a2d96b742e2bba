"""The journal's tables, and the migration of files of older versions."""

import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from sweeps.errors import StoreError
from sweeps.journal.results_schema import (
    AXES_OF_9,
    AXES_OF_14,
    BATCHES_OF_15,
    BY_ATTEMPT,
    BY_AXES,
    ENDED,
    LATER_AXES,
    LATER_OF_16,
    RESULTS,
)

JOB_DEVICE, JOB_SENTINEL = (
    f"CASE WHEN json_valid(record) THEN json_extract(record, '$.{name}') END" for name in ("device_id", "sentinel")
)
"""The device of a job and its sentinel, as they are indexed."""
BLOCK_SESSION = "CASE WHEN json_valid(record) THEN json_extract(record, '$.session') END"
"""The session of a block, as it is indexed."""

_ATTEMPTS = """CREATE TABLE attempts (
            id INTEGER PRIMARY KEY AUTOINCREMENT,
            key TEXT NOT NULL,
            kind TEXT NOT NULL CHECK (kind IN ({})),
            round INTEGER CHECK ((kind = 'block') = (round IS NOT NULL)),
            record TEXT CHECK ((kind = 'retry') = (record IS NULL)),
            created TEXT NOT NULL
        )"""
_LIVE_FAILURES = """CREATE VIEW live_failures AS
            SELECT failure.id, failure.key, failure.record FROM attempts AS failure
            WHERE failure.kind = 'failure' AND failure.id > (
                SELECT coalesce(max(retry.id), 0) FROM attempts AS retry
                WHERE retry.key = failure.key AND retry.kind = 'retry'
            )"""
"""Failures before a retry no longer count."""

MIGRATIONS: tuple[tuple[str, ...], ...] = (
    (
        # One row per distinct content of a sweep file with its devices. A job has the facts and protocol of its last
        # plan, so a stale job keeps those under which it was measured.
        """CREATE TABLE plans (
            id INTEGER PRIMARY KEY,
            sweep TEXT NOT NULL,
            content_key TEXT NOT NULL,
            spec TEXT NOT NULL,
            protocol TEXT NOT NULL,
            evaluation_id TEXT NOT NULL,
            created TEXT NOT NULL
        )""",
        """CREATE TABLE devices (
            plan_id INTEGER NOT NULL REFERENCES plans (id),
            device_id TEXT NOT NULL,
            position INTEGER NOT NULL,
            facts TEXT NOT NULL,
            PRIMARY KEY (plan_id, device_id)
        )""",
        """CREATE TABLE sweeps (
            name TEXT PRIMARY KEY,
            plan_id INTEGER NOT NULL REFERENCES plans (id),
            created TEXT NOT NULL,
            updated TEXT NOT NULL
        )""",
        # A job is stale if its plan is not its sweep's current plan; no column marks it.
        """CREATE TABLE jobs (
            sweep TEXT NOT NULL,
            job_key TEXT NOT NULL,
            build_key TEXT NOT NULL,
            plan_id INTEGER NOT NULL REFERENCES plans (id),
            position INTEGER NOT NULL,
            record TEXT NOT NULL,
            PRIMARY KEY (sweep, job_key)
        )""",
        "CREATE INDEX jobs_by_key ON jobs (job_key)",
        "CREATE INDEX jobs_by_build ON jobs (build_key)",
        """CREATE TABLE skipped (
            sweep TEXT NOT NULL,
            skipped_key TEXT NOT NULL,
            plan_id INTEGER NOT NULL REFERENCES plans (id),
            position INTEGER NOT NULL,
            record TEXT NOT NULL,
            PRIMARY KEY (sweep, skipped_key)
        )""",
        """CREATE TABLE artifacts (
            id INTEGER PRIMARY KEY,
            build_key TEXT NOT NULL,
            manifest TEXT NOT NULL,
            created TEXT NOT NULL
        )""",
        "CREATE INDEX artifacts_by_build ON artifacts (build_key)",
        # The images of calibration and evaluation sets, by hash.
        """CREATE TABLE data_manifests (
            sweep TEXT NOT NULL,
            manifest_id TEXT NOT NULL,
            manifest TEXT NOT NULL,
            PRIMARY KEY (sweep, manifest_id)
        )""",
        # Append-only. `key` is a job key or a build key. AUTOINCREMENT, because readers select by "newer than".
        _ATTEMPTS.format("'block', 'accuracy', 'failure', 'retry'"),
        "CREATE INDEX attempts_by_key ON attempts (key, kind)",
        "CREATE UNIQUE INDEX one_block_per_round ON attempts (key, round) WHERE kind = 'block'",
        _LIVE_FAILURES,
    ),
    # Version 2: why a job's rounds ended. sqlite cannot change a CHECK in place.
    (
        "DROP VIEW live_failures",
        "ALTER TABLE attempts RENAME TO attempts_1",
        "DROP INDEX attempts_by_key",
        "DROP INDEX one_block_per_round",
        _ATTEMPTS.format("'block', 'accuracy', 'failure', 'retry', 'settled'"),
        "INSERT INTO attempts SELECT id, key, kind, round, record, created FROM attempts_1",
        "DROP TABLE attempts_1",
        "CREATE INDEX attempts_by_key ON attempts (key, kind)",
        "CREATE UNIQUE INDEX one_block_per_round ON attempts (key, round) WHERE kind = 'block'",
        _LIVE_FAILURES,
    ),
    # Version 3: figures of tools that were run by hand.
    (
        """CREATE TABLE imported (
            id INTEGER PRIMARY KEY AUTOINCREMENT,
            sweep TEXT NOT NULL,
            imported_key TEXT NOT NULL,
            record TEXT NOT NULL,
            created TEXT NOT NULL,
            UNIQUE (sweep, imported_key)
        )""",
    ),
    # Version 4: short blocks of several jobs in one process.
    (
        """CREATE TABLE batches (
            id INTEGER PRIMARY KEY AUTOINCREMENT,
            session INTEGER NOT NULL,
            number INTEGER NOT NULL,
            device_seconds REAL NOT NULL,
            created TEXT NOT NULL
        )""",
        """CREATE TABLE batch_items (
            batch_id INTEGER NOT NULL REFERENCES batches (id),
            job_key TEXT NOT NULL,
            record TEXT NOT NULL,
            PRIMARY KEY (job_key, batch_id)
        )""",
    ),
    # Version 5: what failed in a process with others, or cannot be in one.
    (
        """CREATE TABLE batch_failures (
            batch_id INTEGER NOT NULL REFERENCES batches (id),
            job_key TEXT NOT NULL,
            record TEXT NOT NULL,
            PRIMARY KEY (job_key, batch_id)
        )""",
    ),
    # Version 6: which unit measures a variant that several units share, and units that are not like the others.
    (
        # The last row of a variant counts. Without a device: it is measured on every unit.
        """CREATE TABLE assignments (
            id INTEGER PRIMARY KEY AUTOINCREMENT,
            sweep TEXT NOT NULL,
            pool_key TEXT NOT NULL,
            device_id TEXT NOT NULL,
            created TEXT NOT NULL
        )""",
        """CREATE TABLE units_apart (
            sweep TEXT NOT NULL,
            link_key TEXT NOT NULL,
            reason TEXT NOT NULL,
            created TEXT NOT NULL,
            PRIMARY KEY (sweep, link_key)
        )""",
    ),
    # Version 7: the results, as they were then.
    tuple(
        one.replace(f"{LATER_AXES}, ", "").replace(f"{BATCHES_OF_15}, ", "").replace(f"{', '.join(LATER_OF_16)}, ", "")
        for one in RESULTS
        if one not in (BY_AXES, BY_ATTEMPT, *ENDED)
    ),
    # Version 8: one index for places and axes, made with version 14, which has the last axes. Version 9 has those of
    # ONNX Runtime.
    ("DROP INDEX IF EXISTS results_by_place",),
    tuple(f"ALTER TABLE results ADD COLUMN {one}" for one in AXES_OF_9),
    (  # Version 10: the jobs of a device and of a sentinel, among a hundred thousand.
        f"CREATE INDEX IF NOT EXISTS jobs_by_device ON jobs ({JOB_DEVICE}, {JOB_SENTINEL})",
        f"CREATE INDEX IF NOT EXISTS jobs_by_sentinel ON jobs ({JOB_SENTINEL})",
    ),
    (  # Version 11: the last session, and the jobs that have ended.
        f"CREATE INDEX IF NOT EXISTS attempts_by_session ON attempts ({BLOCK_SESSION}) WHERE kind = 'block'",
        *ENDED,
        BY_ATTEMPT,
        "INSERT INTO ended SELECT sweep, device_id, outcome, count(*) FROM results WHERE stale = 0 GROUP BY 1, 2, 3",
    ),
    # Version 12: what people wrote about a sweep. `tags`: a JSON object.
    ("CREATE TABLE sweep_labels (sweep TEXT PRIMARY KEY, tags TEXT NOT NULL, note TEXT NOT NULL)",),
    (  # Version 13: names under which MLflow may still have a renamed sweep; when deleted sweeps used a device last.
        "CREATE TABLE IF NOT EXISTS former_names (sweep TEXT NOT NULL, name TEXT NOT NULL, PRIMARY KEY (sweep, name))",
        """CREATE TABLE IF NOT EXISTS past_sessions (
            device_id TEXT NOT NULL, session INTEGER NOT NULL, last TEXT NOT NULL, PRIMARY KEY (device_id, session)
        )""",
    ),
    (  # Version 14: releases of a runtime's library.
        *(f"ALTER TABLE results ADD COLUMN {one}" for one in AXES_OF_14),
        "DROP INDEX IF EXISTS results_by_axes",
        BY_AXES,
    ),
    # Version 15: what blocks in batches say of the device's states.
    (f"ALTER TABLE results ADD COLUMN {BATCHES_OF_15}",),
    # Version 16: the limits of the gate that a device did not keep; what tells the device in a job's name.
    tuple(f"ALTER TABLE results ADD COLUMN {one}" for one in LATER_OF_16),
)
"""The statements that lead from each version to the next. Entry 0 makes version 1 from an empty file."""


def migrate(db: sqlite3.Connection, path: Path) -> None:
    """Migrate the open file to this version in one transaction, if it is older.

    Raises `StoreError` for a file of a newer version, or a file that is not a journal.
    """
    if not is_older(db, path):
        return
    with translated(path):
        db.execute("BEGIN IMMEDIATE")
        try:
            # Another process may have migrated it while this one waited for the lock.
            for statements in MIGRATIONS[_checked_version(db, path) :]:
                for statement in statements:
                    db.execute(statement)
            db.execute(f"PRAGMA user_version = {len(MIGRATIONS)}")
            db.execute("COMMIT")
        except BaseException:
            if db.in_transaction:
                db.execute("ROLLBACK")
            raise


def is_older(db: sqlite3.Connection, path: Path) -> bool:
    """Raises `StoreError` as `migrate` does."""
    return _checked_version(db, path) < len(MIGRATIONS)


def _checked_version(db: sqlite3.Connection, path: Path) -> int:
    with translated(path):
        # One statement, so that no other process can migrate the file in between. Version 0: a file without tables.
        found, tables = db.execute(
            "SELECT user_version, (SELECT count(*) FROM sqlite_master) FROM pragma_user_version"
        ).fetchone()
    if found > len(MIGRATIONS):
        raise StoreError(
            f"the journal {path} has version {found}; this EdgeSweep knows versions up to {len(MIGRATIONS)}",
            "update EdgeSweep, or give another folder with --workspace",
        )
    if (found == 0) != (tables == 0):
        raise StoreError(f"{path} is not a journal of EdgeSweep", "give another folder with --workspace")
    return int(found)


@contextmanager
def translated(path: Path) -> Iterator[None]:
    """Translate sqlite's errors into `StoreError` with a next step. Errors from misuse of sqlite are bugs and pass."""
    try:
        yield
    except sqlite3.Error as error:
        code = getattr(error, "sqlite_errorcode", None)
        if code is None:
            raise
        next_step = _NEXT_STEPS.get(code & 0xFF)  # the low byte is the primary code
        if next_step is None:
            raise
        raise StoreError(f"the journal {path} cannot be used: {error}", next_step) from error


_CHECK_FILE = "check that the folder exists and that you may write to it, or give another one with --workspace"
_NEXT_STEPS = {
    sqlite3.SQLITE_BUSY: "another process uses it: wait until it has finished, then run the same command again",
    sqlite3.SQLITE_LOCKED: "another process uses it: wait until it has finished, then run the same command again",
    sqlite3.SQLITE_FULL: "free space on its disk, then run the same command again: nothing accepted is lost",
    sqlite3.SQLITE_IOERR: "check its disk (full, unplugged, read-only?), then run the same command again",
    **dict.fromkeys((sqlite3.SQLITE_READONLY, sqlite3.SQLITE_PERM, sqlite3.SQLITE_CANTOPEN), _CHECK_FILE),
    sqlite3.SQLITE_NOTADB: "it is not a journal: move it away; a new one will be created",
    sqlite3.SQLITE_CORRUPT: "it is damaged: edgesweep journal salvage saves what can be read (--dry-run says how much)",
}
