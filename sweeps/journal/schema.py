"""The journal's tables: they are created once, and a file of another version is refused.

Only the columns of figures may differ between two files of one version: a new figure gets its column when the file is
next opened for writing.
"""

import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import fields
from pathlib import Path

from sweeps.errors import StoreError
from sweeps.journal.row_columns import FIGURE_COLUMNS, TEXT_AND_NUMBERS
from sweeps.variant import RunAxes, Variant

VERSION = 16
"""Version of the tables. Each change of them raises it, except for a new column of figures."""

JOB_DEVICE, JOB_SENTINEL = (
    f"CASE WHEN json_valid(record) THEN json_extract(record, '$.{name}') END" for name in ("device_id", "sentinel")
)
"""SQL expressions for a job's device id and for its sentinel's key; indexes use the same expressions."""
BLOCK_SESSION = "CASE WHEN json_valid(record) THEN json_extract(record, '$.session') END"
"""SQL expression for a block's session; an index uses the same expression."""

FILTERS = (
    *("model", "place_id", "device_id", "device", "outcome", "preset"),
    *(axis.name for kind in (Variant, RunAxes) for axis in fields(kind)),
)
"""Columns by which results may be filtered: model, device, outcome and preset, and every axis."""

_FIRST = ("stale", "sweep", "place_id", "model", "device", "latency_p50_ms")
_INDEXED = ", ".join((*_FIRST, *(name for name in FILTERS if name not in _FIRST)))
_TYPED = ", ".join(f"{name} {type_} NOT NULL" for name, type_ in TEXT_AND_NUMBERS.items())
_FIGURES = ", ".join(f"{name} {type_}" for name, type_ in FIGURE_COLUMNS.items())
_SAME_END = "(sweep, device_id, outcome) = (NEW.sweep, NEW.device_id, NEW.outcome)"

RESULTS: tuple[str, ...] = (
    # A row for each finished job and skipped combination of each sweep. `seq` grows with each change.
    f"""CREATE TABLE results (
        seq INTEGER PRIMARY KEY AUTOINCREMENT,
        attempt INTEGER NOT NULL, place_id TEXT NOT NULL, evaluation_id TEXT NOT NULL,
        {_TYPED}, {_FIGURES},
        UNIQUE (sweep, job_key)
    )""",
    # The index covers all columns of filters, so that a filter reads no row with its long texts.
    f"CREATE INDEX results_by_axes ON results ({_INDEXED})",
    # The index finds the results of a sweep that are later than an attempt, without reading the rows.
    """CREATE INDEX results_by_attempt ON results (sweep, attempt, job_key)
        WHERE stale = 0 AND outcome != 'skipped'""",
    """CREATE TABLE places (
        sweep TEXT NOT NULL, place_id TEXT NOT NULL, model TEXT NOT NULL, device TEXT NOT NULL,
        jobs INTEGER NOT NULL,
        PRIMARY KEY (sweep, place_id, model)
    )""",
    """CREATE TABLE results_state (
        id INTEGER PRIMARY KEY CHECK (id = 1),
        is_whole INTEGER NOT NULL, epoch INTEGER NOT NULL, attempt INTEGER NOT NULL
    )""",
    "INSERT INTO results_state SELECT 1, NOT EXISTS (SELECT 1 FROM jobs), abs(random()), 0",
    # Triggers keep, for each device, the count of results that are not stale. There is none for deletion: no single row
    # is ever deleted.
    """CREATE TABLE ended (
        sweep TEXT NOT NULL, device_id TEXT NOT NULL, outcome TEXT NOT NULL, jobs INTEGER NOT NULL,
        PRIMARY KEY (sweep, device_id, outcome)
    )""",
    """CREATE TRIGGER results_replaced BEFORE INSERT ON results BEGIN
        UPDATE ended SET jobs = jobs - 1 WHERE (sweep, device_id, outcome) = (
            SELECT sweep, device_id, outcome FROM results
            WHERE sweep = NEW.sweep AND job_key = NEW.job_key AND stale = 0
        );
    END""",
    # No upsert: in a trigger, the OR REPLACE of the statement outside would be its policy too.
    f"""CREATE TRIGGER results_added AFTER INSERT ON results WHEN NEW.stale = 0 BEGIN
        INSERT INTO ended SELECT NEW.sweep, NEW.device_id, NEW.outcome, 0
        WHERE NOT EXISTS (SELECT 1 FROM ended WHERE {_SAME_END});
        UPDATE ended SET jobs = jobs + 1 WHERE {_SAME_END};
    END""",  # noqa: S608  # words of ours
)
"""Statements that create the table of results and the tables of its counts. All of them follow from the other tables,
and can be computed again (`sweeps.journal.rebuild`)."""

SCHEMA: tuple[str, ...] = (
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
    # The texts that people wrote about a sweep. `tags`: a JSON object.
    "CREATE TABLE sweep_labels (sweep TEXT PRIMARY KEY, tags TEXT NOT NULL, note TEXT NOT NULL)",
    # Names under which MLflow may still have a renamed sweep.
    "CREATE TABLE former_names (sweep TEXT NOT NULL, name TEXT NOT NULL, PRIMARY KEY (sweep, name))",
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
    f"CREATE INDEX jobs_by_device ON jobs ({JOB_DEVICE}, {JOB_SENTINEL})",
    f"CREATE INDEX jobs_by_sentinel ON jobs ({JOB_SENTINEL})",
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
    # Rows are only added. `key` is a job key or a build key. AUTOINCREMENT, because readers select by "newer than".
    """CREATE TABLE attempts (
        id INTEGER PRIMARY KEY AUTOINCREMENT,
        key TEXT NOT NULL,
        kind TEXT NOT NULL CHECK (kind IN ('block', 'accuracy', 'failure', 'retry', 'settled')),
        round INTEGER CHECK ((kind = 'block') = (round IS NOT NULL)),
        record TEXT CHECK ((kind = 'retry') = (record IS NULL)),
        created TEXT NOT NULL
    )""",
    "CREATE INDEX attempts_by_key ON attempts (key, kind)",
    "CREATE UNIQUE INDEX one_block_per_round ON attempts (key, round) WHERE kind = 'block'",
    f"CREATE INDEX attempts_by_session ON attempts ({BLOCK_SESSION}) WHERE kind = 'block'",
    # Failures before a retry no longer count.
    """CREATE VIEW live_failures AS
        SELECT failure.id, failure.key, failure.record FROM attempts AS failure
        WHERE failure.kind = 'failure' AND failure.id > (
            SELECT coalesce(max(retry.id), 0) FROM attempts AS retry
            WHERE retry.key = failure.key AND retry.kind = 'retry'
        )""",
    # The times when deleted sweeps used a device last.
    """CREATE TABLE past_sessions (
        device_id TEXT NOT NULL, session INTEGER NOT NULL, last TEXT NOT NULL, PRIMARY KEY (device_id, session)
    )""",
    # Figures of tools that were run by hand.
    """CREATE TABLE imported (
        id INTEGER PRIMARY KEY AUTOINCREMENT,
        sweep TEXT NOT NULL,
        imported_key TEXT NOT NULL,
        record TEXT NOT NULL,
        created TEXT NOT NULL,
        UNIQUE (sweep, imported_key)
    )""",
    # Batches: short blocks of several jobs in one process; and the jobs that failed in a batch, or cannot be in one.
    """CREATE TABLE batches (
        id INTEGER PRIMARY KEY AUTOINCREMENT,
        session INTEGER NOT NULL,
        number INTEGER NOT NULL,
        device_seconds REAL NOT NULL,
        created TEXT NOT NULL
    )""",
    *(
        f"""CREATE TABLE {name} (
        batch_id INTEGER NOT NULL REFERENCES batches (id),
        job_key TEXT NOT NULL,
        record TEXT NOT NULL,
        PRIMARY KEY (job_key, batch_id)
    )"""
        for name in ("batch_items", "batch_failures")
    ),
    # A row says which unit of a pool measures a variant; the last row of a variant counts. An empty device id: every
    # unit measures the variant.
    """CREATE TABLE assignments (
        id INTEGER PRIMARY KEY AUTOINCREMENT,
        sweep TEXT NOT NULL,
        pool_key TEXT NOT NULL,
        device_id TEXT NOT NULL,
        created TEXT NOT NULL
    )""",
    # Units that differ from the others of their pool, and have left it.
    """CREATE TABLE units_apart (
        sweep TEXT NOT NULL,
        link_key TEXT NOT NULL,
        reason TEXT NOT NULL,
        created TEXT NOT NULL,
        PRIMARY KEY (sweep, link_key)
    )""",
    *RESULTS,
)


def make(db: sqlite3.Connection, path: Path) -> None:
    """Create the tables in an empty file, and add the columns of figures that an existing file lacks.

    Raises `StoreError` for a file of another version, or a file that is not a journal.
    """
    made = is_made(db, path)
    with translated(path):
        if made and not _lacking(db):
            return
        db.execute("BEGIN IMMEDIATE")
        try:
            # Another process may have created the tables while this one waited for the lock.
            for statement in _additions(db) if is_made(db, path) else SCHEMA:
                db.execute(statement)
            db.execute(f"PRAGMA user_version = {VERSION}")
            db.execute("COMMIT")
        except BaseException:
            if db.in_transaction:
                db.execute("ROLLBACK")
            raise


def is_made(db: sqlite3.Connection, path: Path) -> bool:
    """Tell whether the file has the journal's tables; an empty file has none. Raises `StoreError` as `make` does."""
    with translated(path):
        # One statement, so that no other process can make the tables in between. Version 0: a file without tables.
        version, tables = db.execute(
            "SELECT user_version, (SELECT count(*) FROM sqlite_master) FROM pragma_user_version"
        ).fetchone()
    if (version == 0) != (tables == 0):
        raise StoreError(f"{path} is not a journal of EdgeSweep", "give another folder with --workspace")
    check_version(version, path)
    return bool(version == VERSION)


def check_version(version: int, path: Path) -> None:
    """Raise `StoreError`, which names both versions, for a file of another version. A file without tables has version
    0."""
    if version not in (0, VERSION):
        way_out = "update EdgeSweep" if version > VERSION else "use the EdgeSweep that wrote it"
        raise StoreError(
            f"the journal {path} has version {version}; this EdgeSweep reads and writes version {VERSION}",
            f"{way_out}, or give another folder with --workspace",
        )


def result_columns(db: sqlite3.Connection) -> frozenset[str]:
    """Return the names of the columns of the table of results; an empty set if the table does not exist."""
    return frozenset(name for (name,) in db.execute("SELECT name FROM pragma_table_info('results')"))


def _lacking(db: sqlite3.Connection) -> list[str]:
    """Return the figures for which the table of results lacks a column; none if the table itself is missing, because a
    rebuild creates it whole."""
    columns = result_columns(db)
    return [name for name in FIGURE_COLUMNS if name not in columns] if columns else []


def _additions(db: sqlite3.Connection) -> list[str]:
    return [f"ALTER TABLE results ADD COLUMN {name} {FIGURE_COLUMNS[name]}" for name in _lacking(db)]


@contextmanager
def translated(path: Path) -> Iterator[None]:
    """Translate sqlite's errors into `StoreError` with a next step. Errors from misuse of sqlite are bugs, and are not
    translated."""
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
