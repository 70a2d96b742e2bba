"""The part of the journal for what people do with whole sweeps: rename, tag, note and delete them."""

import json
from collections.abc import Mapping
from dataclasses import dataclass

from sweeps.errors import StoreError
from sweeps.journal.outcomes import Outcomes, build_failure_keys

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
)
"""Tables with a column `sweep`."""


@dataclass(frozen=True, slots=True)
class Labels:
    """What people wrote about a sweep."""

    tags: Mapping[str, str]
    note: str = ""


class KeptSweeps(Outcomes):
    """Sweeps as wholes."""

    def labels(self, sweep: str) -> Labels:
        row = self._row("SELECT tags, note FROM sweep_labels WHERE sweep = ?", sweep)
        return Labels({}) if row is None else Labels(json.loads(row[0]), row[1])

    def label(self, sweep: str, labels: Labels) -> None:
        """Replaces what the sweep had."""
        self._plan_id(sweep)
        with self._writing():
            self._db.execute(
                "INSERT OR REPLACE INTO sweep_labels (sweep, tags, note) VALUES (?, ?, ?)",
                (sweep, json.dumps(dict(sorted(labels.tags.items()))), labels.note),
            )

    def rename_sweep(self, sweep: str, name: str) -> None:
        """Raises `StoreError` if there is a sweep called `name`."""
        self._plan_id(sweep)
        if name in {info.name for info in self.sweeps()}:
            raise StoreError(f"there is a sweep called {name!r} already", "give another name")
        with self._writing():
            for table in _WITH_SWEEP:
                self._db.execute(f"UPDATE {table} SET sweep = ? WHERE sweep = ?", (name, sweep))  # noqa: S608  # ours
            self._db.execute("UPDATE plans SET spec = json_set(spec, '$.name', ?) WHERE sweep = ?", (name, name))
            self._db.execute("UPDATE sweeps SET name = ? WHERE name = ?", (name, sweep))
            self._read_anew()

    def builds_of_it_alone(self, sweep: str) -> frozenset[str]:
        """The keys of its builds that no other sweep has."""
        mine = "SELECT build_key FROM jobs WHERE sweep = ?1 EXCEPT SELECT build_key FROM jobs WHERE sweep != ?1"
        return frozenset(key for (key,) in self._rows(mine, sweep))

    def delete_sweep(self, sweep: str) -> None:
        """With what was measured for it alone."""
        plan_id = self._plan_id(sweep)
        keys = self._attempt_keys(sweep)
        others = {info.name for info in self.sweeps()} - {sweep}
        keys -= {key for other in others for key in self._attempt_keys(other)}
        builds = self.builds_of_it_alone(sweep)
        with self._writing():
            plans = "SELECT id FROM plans WHERE sweep = ?"
            self._db.execute("DELETE FROM sweeps WHERE name = ? AND plan_id = ?", (sweep, plan_id))
            self._db.execute(f"DELETE FROM devices WHERE plan_id IN ({plans})", (sweep,))  # noqa: S608  # ours
            for table in reversed(_WITH_SWEEP):  # plans last: others refer to them
                self._db.execute(f"DELETE FROM {table} WHERE sweep = ?", (sweep,))  # noqa: S608  # a name of ours
            one = [(key,) for key in sorted(keys)]
            self._db.executemany("DELETE FROM attempts WHERE key = ?", one)
            for table in ("batch_items", "batch_failures"):
                self._db.executemany(f"DELETE FROM {table} WHERE job_key = ?", one)  # noqa: S608  # a name of ours
            self._db.executemany("DELETE FROM artifacts WHERE build_key = ?", [(key,) for key in sorted(builds)])
            self._read_anew()

    def _attempt_keys(self, sweep: str) -> set[str]:
        keys: set[str] = set()
        for planned in self.jobs_since(sweep, None):
            keys |= {planned.job.key, planned.job.build_key}
            keys |= set(build_failure_keys(planned.job, planned.evaluation_id))
        return keys

    def _read_anew(self) -> None:
        """Readers that have read some of the results must not go on from there."""
        self._db.execute("UPDATE results_state SET epoch = abs(random())")
