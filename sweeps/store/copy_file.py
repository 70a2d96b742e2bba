"""The file of a copy: a tracking server's results in the journal's own tables, and which run each is from.

Whoever reads a journal's results reads it as a journal: it has plans and no jobs, results and no attempts. A run that
is gone leaves its row, which is stale then: so the watermark tells readers of that, too.
"""

import hashlib
import os
import re
import sqlite3
import time
from collections import defaultdict
from collections.abc import Iterable
from contextlib import closing, suppress
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple, Self
from urllib.parse import urlsplit

from sweeps.device_facts import canonical_key
from sweeps.errors import StoreError
from sweeps.imported import Imported
from sweeps.journal import schema as journal_schema
from sweeps.journal.journal import Journal
from sweeps.journal.schema import translated
from sweeps.json_records import to_json
from sweeps.quarantine import state_folder
from sweeps.store.reading import Found, OwnRun, StoredRow
from sweeps.store.uri import dialect, sqlite_path

VERSION = 1
"""To be raised with each change of these tables or of what is copied: files of another version are made anew."""
_UNUSED_S = 86400.0
_MISSED_S = 7 * 86400.0
_PRAGMA = "application_id"
_MARK = 0x45530000 + VERSION
"""In the file's header: a copy, of this version."""
_TABLES = f"""
CREATE TABLE IF NOT EXISTS copied_experiments (experiment_id TEXT PRIMARY KEY, sweep TEXT, created_ms INTEGER);
CREATE TABLE IF NOT EXISTS copied_runs (
    run_id TEXT PRIMARY KEY, sweep TEXT NOT NULL, kind TEXT NOT NULL, key TEXT NOT NULL, stamp_s REAL NOT NULL,
    digest TEXT NOT NULL
);
CREATE INDEX IF NOT EXISTS copied_runs_by_key ON copied_runs (sweep, kind, key);
CREATE TABLE IF NOT EXISTS copy_looks (name TEXT PRIMARY KEY, at_s REAL NOT NULL, took_s REAL NOT NULL);
CREATE TABLE IF NOT EXISTS copy_tries (at_s REAL NOT NULL, error TEXT NOT NULL);
PRAGMA {_PRAGMA} = {_MARK};
"""


class CopiedExperiment(NamedTuple):
    """MLflow's experiment of one sweep. A database that was made anew has the same ids, at another time."""

    experiment_id: str
    sweep: str
    created_ms: int


class CopyFile(Journal):
    """An open copy. One process writes at a time; others read meanwhile."""

    @classmethod
    def at(cls, path: Path) -> Self:
        """Open it to write. A damaged file, or one of another version, is made anew, for this user alone to read."""
        if not is_copy(path):
            for name in (path, Path(f"{path}-wal"), Path(f"{path}-shm")):
                name.unlink(missing_ok=True)
            _remove_older(path)
            os.close(os.open(path, os.O_CREAT | os.O_WRONLY, 0o600))
        file = cls.open(path)
        with translated(path):
            file.file.db.execute("PRAGMA synchronous = OFF")  # it may be lost
            file.file.db.executescript(_TABLES)
        return file

    # What it has

    def experiments(self) -> set[CopiedExperiment]:
        """Those whose runs were all read once."""
        return {CopiedExperiment._make(row) for row in self.file.rows("SELECT * FROM copied_experiments")}

    def digests(self, run_ids: Iterable[str]) -> dict[str, str]:
        """Of the content of these runs, as far as they were copied."""
        wanted = list(run_ids)
        marks = ", ".join("?" * len(wanted))
        return dict(self.file.rows(f"SELECT run_id, digest FROM copied_runs WHERE run_id IN ({marks})", *wanted))  # noqa: S608

    def runs_of(self, sweep: str) -> set[str]:
        return {run_id for (run_id,) in self.file.rows("SELECT run_id FROM copied_runs WHERE sweep = ?", sweep)}

    def left_out(self) -> int:
        """How many runs of sweeps are not EdgeSweep's, or cannot be read."""
        [count] = self.file.row("SELECT count(*) FROM copied_runs WHERE kind = 'left_out'")
        return int(count)

    def newest_s(self) -> float:
        """The largest time at which a run was written or changed, by its writer's clock."""
        [newest] = self.file.row("SELECT coalesce(max(stamp_s), 0.0) FROM copied_runs")
        return float(newest)

    def looks(self) -> dict[str, tuple[float, float]]:
        """When each look at the server began that came to its end (seconds since 1970), and the seconds it took."""
        return {name: (at_s, took_s) for name, at_s, took_s in self.file.rows("SELECT * FROM copy_looks")}

    def last_try(self) -> tuple[float, str]:
        """When the server was last asked for something, and the error; empty if there was none."""
        return self.file.row("SELECT at_s, error FROM copy_tries") or (0.0, "")

    # What comes in

    def looked(self, names: Iterable[str], at_s: float, took_s: float) -> None:
        with self.file.writing():
            for name in names:
                self.file.db.execute("INSERT OR REPLACE INTO copy_looks VALUES (?, ?, ?)", (name, at_s, took_s))

    def tried(self, at_s: float, error: str) -> None:
        with self.file.writing():
            self.file.db.execute("DELETE FROM copy_tries")
            self.file.db.execute("INSERT INTO copy_tries VALUES (?, ?)", (at_s, error))

    def set_experiments(self, there: Iterable[CopiedExperiment]) -> None:
        """All that there are."""
        with self.file.writing():
            self.file.db.execute("DELETE FROM copied_experiments")
            self.file.db.executemany("INSERT INTO copied_experiments VALUES (?, ?, ?)", list(there))

    def put(self, found: Iterable[Found]) -> list[str]:
        """Take in runs, in the order in which they were started. Of several runs of one job the last written counts.

        Returns the runs that take the place of some that say something else now, and must be read again.
        """
        again: set[str] = set()
        with self.file.writing():
            for one in found:
                again |= self._forget(one.run_id, but=(one.sweep, one.kind, one.key))
                if one.content is not None and self._is_newest(one):
                    try:
                        self._put(one)
                    except (OverflowError, ValueError, TypeError):  # a number that no table takes
                        again |= self._forget(one.run_id)
                        one = replace(one, kind="left_out", key="")
                self.file.db.execute(
                    "INSERT OR REPLACE INTO copied_runs VALUES (?, ?, ?, ?, ?, ?)",
                    (one.run_id, one.sweep, one.kind, one.key, one.stamp_s, one.digest),
                )
        return sorted(again)

    def drop(self, run_ids: Iterable[str]) -> list[str]:
        """Forget runs that are gone. Returns the runs that take their place, which must be read again."""
        gone = set(run_ids)
        with self.file.writing():
            again = {other for run_id in gone for other in self._forget(run_id)}
        return sorted(again - gone)

    def _forget(self, run_id: str, but: tuple[str, str, str] | None = None) -> set[str]:
        """Forget a run, unless it is `but` that. Returns those that take its place; without any, what it had goes."""
        row = self.file.row("SELECT sweep, kind, key FROM copied_runs WHERE run_id = ?", run_id)
        if row is None or row == but:
            return set()
        self.file.db.execute("DELETE FROM copied_runs WHERE run_id = ?", (run_id,))
        if not row[2]:
            return set()
        others = self.file.rows("SELECT run_id FROM copied_runs WHERE sweep = ? AND kind = ? AND key = ?", *row)
        self.file.db.executemany("UPDATE copied_runs SET stamp_s = 0, digest = '' WHERE run_id = ?", others)
        if not others:
            self._withdraw(*row)
        return {other for (other,) in others}

    def _is_newest(self, one: Found) -> bool:
        [newest] = self.file.row(
            "SELECT coalesce(max(stamp_s), 0.0) FROM copied_runs"
            " WHERE sweep = ? AND kind = ? AND key = ? AND run_id != ?",
            *(one.sweep, one.kind, one.key, one.run_id),
        )
        return one.stamp_s >= float(newest)

    def _put(self, one: Found) -> None:
        match one.content:
            case StoredRow(row, evaluation_id):
                row = replace(row, run_id="")
                if self.results.stored(one.sweep, one.key) != (row, evaluation_id):
                    self.results.put([(row, evaluation_id, 0)])
            case Imported() as imported:
                self.file.db.execute(
                    "INSERT OR IGNORE INTO imported (sweep, imported_key, record, created) VALUES (?, ?, ?, ?)",
                    (one.sweep, one.key, to_json(imported), imported.imported),
                )
            case OwnRun() as own:
                self._put_sweep(one.sweep, own)

    def _put_sweep(self, sweep: str, own: OwnRun) -> None:
        key = canonical_key({"spec": own.spec})
        present = self.file.row(
            "SELECT plans.id FROM sweeps JOIN plans ON plans.id = plan_id WHERE name = ? AND content_key = ?",
            sweep,
            key,
        )
        plan_id = present[0] if present else None
        if plan_id is None:
            plan_id = self.file.db.execute(
                "INSERT INTO plans (sweep, content_key, spec, protocol, evaluation_id, created)"
                " VALUES (?, ?, ?, '', '', ?)",
                (sweep, key, own.spec, own.updated),
            ).lastrowid
        self.file.db.execute(
            "INSERT INTO sweeps (name, plan_id, created, updated) VALUES (?, ?, ?, ?)"
            " ON CONFLICT (name) DO UPDATE SET plan_id = excluded.plan_id, updated = excluded.updated",
            (sweep, plan_id, own.created, own.updated),
        )

    def _withdraw(self, sweep: str, kind: str, key: str) -> None:
        """The last run of what it had is gone."""
        if kind == "imported":
            self.file.db.execute("DELETE FROM imported WHERE sweep = ? AND imported_key = ?", (sweep, key))
        elif kind == "sweep":
            self.file.db.execute("DELETE FROM sweeps WHERE name = ?", (sweep,))
        elif kind == "job" and (stored := self.results.stored(sweep, key)) is not None:
            row, evaluation_id = stored
            self.results.put([(replace(row, stale=True), evaluation_id, 0)])


def copy_path(uri: str) -> Path:
    """The file of a server's copy: its name tells nothing of the server, nor of the password. Each version has its own:
    two that are in use would make the other's anew at every look."""
    if dialect(uri) == "sqlite":
        uri = str(sqlite_path(uri).resolve())
    parts = urlsplit(uri)
    user, at, host = parts.netloc.rpartition("@")
    named = parts._replace(netloc=f"{user.partition(':')[0]}{at}{host}").geturl()
    digest = hashlib.sha256(named.encode("utf-8", "replace")).hexdigest()[:24]
    return state_folder() / "copies" / f"{digest}.v{VERSION}-{journal_schema.VERSION}.sqlite"


def _remove_older(path: Path) -> None:
    """The copies of this server by other versions that nobody has used for a day."""
    server, mine = path.name.partition(".")[0], f"{path.stem}."
    versions: dict[str, list[Path]] = defaultdict(list)
    with suppress(OSError):
        for other in path.parent.glob(f"{server}.*"):
            if not other.name.startswith(mine):
                version = re.match(rf"{server}(\.v[\d-]+)?", other.name)
                versions[version[0] if version else ""].append(other)
        for files in versions.values():
            if max(one.stat().st_mtime for one in files) < time.time() - _UNUSED_S:
                for one in files:
                    one.unlink(missing_ok=True)


def remove_unused_verdicts(path: Path, newest_s: float) -> None:
    """Of the files of verdicts that workspaces have beside this copy, those that have missed a week of its results.

    `newest_s`: as of `CopyFile.newest_s`. A file that is in use has seen the newest result.
    """
    oldest_s = min(newest_s, time.time()) - _MISSED_S
    with suppress(OSError):
        for file in path.parent.glob(f"{path.stem}.*verdicts.sqlite"):
            if file.stat().st_mtime < oldest_s:
                for one in (file, Path(f"{file}-wal"), Path(f"{file}-shm")):
                    one.unlink(missing_ok=True)


def is_copy(path: Path) -> bool:
    """Whether there is a copy of this version whose table of results is whole."""
    if not path.exists():
        return False
    try:
        with closing(sqlite3.connect(f"{path.resolve().as_uri()}?mode=ro", uri=True)) as db:
            [mark] = db.execute(f"PRAGMA {_PRAGMA}").fetchone()
            [version] = db.execute("PRAGMA user_version").fetchone()
        if (mark, version) != (_MARK, journal_schema.VERSION):
            return False
        with CopyFile.open(path, read_only=True) as file:
            file.results.watermark()
            file.looks()
    except (sqlite3.Error, StoreError):
        return False
    return True
