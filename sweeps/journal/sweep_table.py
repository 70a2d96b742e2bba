"""The journal's sweeps as wholes: listing, tags and notes, renaming, deletion."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime

from sweeps.errors import StoreError
from sweeps.journal.file import JournalFile
from sweeps.journal.plans import Plans
from sweeps.journal.schema import BLOCK_SESSION, JOB_DEVICE, JOB_SENTINEL

_WITH_SWEEP = (
    "plans",
    "jobs",
    "skipped",
    "data_manifests",
    "imported",
    "assignments",
    "units_apart",
    "results",
    "places",
    "ended",
    "sweep_labels",
    "former_names",
)
"""Tables with a column `sweep`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SweepRow:
    """One sweep of the workspace. `updated`: when its plan was last saved, that is, when the sweep was last started."""

    name: str
    created: datetime
    updated: datetime


@dataclass(frozen=True, slots=True)
class Labels:
    """Tags and note that people wrote about a sweep."""

    tags: Mapping[str, str]
    note: str = ""


class Sweeps:
    """Table of the workspace's sweeps."""

    def __init__(self, file: JournalFile, plans: Plans) -> None:
        self._file = file
        self._plans = plans

    def all(self) -> list[SweepRow]:
        """Return all sweeps, the last updated first."""
        rows = self._file.rows("SELECT name, created, updated FROM sweeps ORDER BY updated DESC, rowid DESC")
        return [
            SweepRow(name=name, created=datetime.fromisoformat(created), updated=datetime.fromisoformat(updated))
            for name, created, updated in rows
        ]

    def latest(self) -> str | None:
        return next((row.name for row in self.all()), None)

    def labels(self, sweep: str) -> Labels | None:
        """Return the labels of a sweep; `None` if nobody has written any."""
        row = self._file.row("SELECT tags, note FROM sweep_labels WHERE sweep = ?", sweep)
        return None if row is None else Labels(json.loads(row[0]), row[1])

    def label(self, sweep: str, labels: Labels) -> None:
        """Replace the labels of a sweep."""
        self._plans.current_id(sweep)
        with self._file.writing():
            self._file.db.execute(
                "INSERT OR REPLACE INTO sweep_labels (sweep, tags, note) VALUES (?, ?, ?)",
                (sweep, json.dumps(dict(sorted(labels.tags.items()))), labels.note),
            )

    def check_unused(self, name: str) -> None:
        """Check that no sweep has this name. Raises `StoreError` if one has."""
        if name in {info.name for info in self.all()}:
            raise StoreError(f"there is a sweep called {name!r} already", "give another name")

    def rename(self, sweep: str, name: str) -> None:
        """Give a sweep another name. Raises `StoreError` as `check_unused`."""
        self._plans.current_id(sweep)
        with self._file.writing():
            self.check_unused(name)
            for table in _WITH_SWEEP:
                self._file.db.execute(f"UPDATE {table} SET sweep = ? WHERE sweep = ?", (name, sweep))  # noqa: S608  # ours
            self._file.db.execute("UPDATE plans SET spec = json_set(spec, '$.name', ?) WHERE sweep = ?", (name, name))
            self._file.db.execute("UPDATE sweeps SET name = ? WHERE name = ?", (name, sweep))
            self._file.db.execute("INSERT OR IGNORE INTO former_names VALUES (?, ?)", (name, sweep))
            self._read_anew()

    def former_names(self, sweep: str) -> list[str]:
        """Return the names that the sweep had before, under which MLflow may still have its runs."""
        return [
            name for (name,) in self._file.rows("SELECT name FROM former_names WHERE sweep = ? ORDER BY name", sweep)
        ]

    def forget_former_name(self, sweep: str, name: str) -> None:
        """Delete a former name under which MLflow has no runs of the sweep any more."""
        with self._file.writing():
            self._file.db.execute("DELETE FROM former_names WHERE sweep = ? AND name = ?", (sweep, name))

    def builds_of_it_alone(self, sweep: str) -> frozenset[str]:
        """Return the keys of builds that only this sweep has."""
        return self._in_no_other_sweep("build_key", sweep)

    def delete(self, sweep: str) -> None:
        """Delete a sweep with the measurements that no other sweep uses. Rows from which other sweeps' results are
        computed stay: batches that timed jobs of other sweeps too, and the times when their devices were used."""
        self._plans.current_id(sweep)
        with self._file.writing():
            [newest] = self._file.row("SELECT coalesce(max(id), 0) FROM attempts")
            jobs, builds = self._in_no_other_sweep("job_key", sweep), self._in_no_other_sweep("build_key", sweep)
            measured = jobs | self._in_no_other_sweep(JOB_SENTINEL, sweep)
            self._keep_sessions(sweep, measured)
            plans = "SELECT id FROM plans WHERE sweep = ?"
            self._file.db.execute("DELETE FROM sweeps WHERE name = ?", (sweep,))
            self._file.db.execute(f"DELETE FROM devices WHERE plan_id IN ({plans})", (sweep,))  # noqa: S608  # ours
            for table in reversed(_WITH_SWEEP):  # plans last: others refer to them
                self._file.db.execute(f"DELETE FROM {table} WHERE sweep = ?", (sweep,))  # noqa: S608  # a name of ours
            self._file.db.executemany("DELETE FROM attempts WHERE key = ?", [(key,) for key in measured])
            self._file.db.executemany(
                "DELETE FROM attempts WHERE key = ?1 OR (key > ?1 || '@' AND key < ?1 || 'A')",
                [(key,) for key in builds],
            )
            self._file.db.executemany("DELETE FROM artifacts WHERE build_key = ?", [(key,) for key in builds])
            self._file.db.executemany("DELETE FROM batch_failures WHERE job_key = ?", [(key,) for key in jobs])
            # The seconds of a process are divided by the number of its items.
            self._file.db.execute(
                "DELETE FROM batch_items WHERE batch_id NOT IN"
                " (SELECT batch_id FROM batch_items WHERE job_key IN (SELECT job_key FROM jobs))"
            )
            self._file.db.execute(
                "DELETE FROM batches WHERE id NOT IN (SELECT batch_id FROM batch_items)"
                " AND id NOT IN (SELECT batch_id FROM batch_failures)"
            )
            self._file.db.execute(
                "UPDATE results_state SET is_whole = is_whole AND attempt = ?,"
                " attempt = (SELECT coalesce(max(id), 0) FROM attempts)",
                (newest,),
            )
            self._read_anew()

    def _in_no_other_sweep(self, column: str, sweep: str) -> frozenset[str]:
        """Return the values of `column` that only this sweep's jobs have. `column`: a column of the table of jobs, or
        an SQL expression."""
        rows = self._file.rows(
            f"SELECT {column} FROM jobs WHERE sweep = ?1"  # noqa: S608  # ours
            f" EXCEPT SELECT {column} FROM jobs WHERE sweep != ?1",
            sweep,
        )
        return frozenset(key for (key,) in rows if key)

    def _keep_sessions(self, sweep: str, keys: frozenset[str]) -> None:
        """Copy the times when these attempts last used devices of other sweeps to `past_sessions`: the starts of those
        sweeps' sessions depend on them."""
        rows = self._file.rows(
            f"SELECT DISTINCT job_key, {JOB_SENTINEL}, {JOB_DEVICE} AS device FROM jobs WHERE sweep = ?1"  # noqa: S608
            f" AND device IN (SELECT {JOB_DEVICE} FROM jobs WHERE sweep != ?1)",
            sweep,
        )
        used = {(key, device) for job, sentinel, device in rows for key in (job, sentinel) if key in keys}
        self._file.db.executemany(
            f"INSERT INTO past_sessions SELECT ?2, {BLOCK_SESSION} AS session, max(created) FROM attempts"  # noqa: S608
            " WHERE key = ?1 AND kind = 'block' AND session > 0 GROUP BY session"
            " ON CONFLICT (device_id, session) DO UPDATE SET last = max(last, excluded.last)",
            sorted(used),
        )

    def _read_anew(self) -> None:
        """Change the epoch, so that readers load all results again instead of only those after their last watermark."""
        self._file.db.execute("UPDATE results_state SET epoch = abs(random())")
