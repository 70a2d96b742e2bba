"""The journal's imports: figures from the logs of benchmark tools that a person ran."""

from sweeps.imported import Imported
from sweeps.journal.file import JournalFile
from sweeps.journal.plans import now
from sweeps.json_records import from_json, to_json


class Imports:
    """Table of imported figures. They are added, and never changed or deleted."""

    def __init__(self, file: JournalFile) -> None:
        self._file = file

    def add(self, sweep: str, imported: Imported) -> bool:
        """Accept a figure from a log. Return `False` and change nothing if the sweep has this figure already."""
        with self._file.writing():
            cursor = self._file.db.execute(
                "INSERT OR IGNORE INTO imported (sweep, imported_key, record, created) VALUES (?, ?, ?, ?)",
                (sweep, imported.key, to_json(imported), now()),
            )
            return cursor.rowcount == 1

    def of_sweep(self, sweep: str) -> tuple[Imported, ...]:
        """Return the figures of a sweep in the order of their imports."""
        rows = self._file.rows("SELECT record FROM imported WHERE sweep = ? ORDER BY id", sweep)
        return tuple(from_json(Imported, record) for (record,) in rows)

    def count(self) -> int:
        """Return the number of imported figures, of all sweeps."""
        return int(self._file.row("SELECT count(*) FROM imported")[0])
