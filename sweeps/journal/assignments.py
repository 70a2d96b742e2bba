"""The journal's assignments of shared work: which unit of a pool measures a variant, and which units have left their
pool."""

from collections.abc import Mapping

from sweeps.journal.file import JournalFile
from sweeps.journal.plans import now

EVERY_UNIT = ""
"""Value in place of a device id for the anchor: the variant that every unit measures, by which the units are
compared."""


class Assignments:
    """Table of assignments. They are added, and never changed or deleted; the last one of a variant counts."""

    def __init__(self, file: JournalFile) -> None:
        self._file = file

    def assign(self, sweep: str, device_of: Mapping[str, str]) -> None:
        """Record the device id of each variant, by the variant's key in its pool; `EVERY_UNIT` for the anchor."""
        known = self.of_sweep(sweep)
        new = [(sweep, key, device, now()) for key, device in device_of.items() if known.get(key) != device]
        if new:
            with self._file.writing():
                self._file.db.executemany(
                    "INSERT INTO assignments (sweep, pool_key, device_id, created) VALUES (?, ?, ?, ?)", new
                )

    def of_sweep(self, sweep: str) -> dict[str, str]:
        """Return the last assigned device id of each variant, by the variant's key in its pool."""
        return dict(self._file.rows("SELECT pool_key, device_id FROM assignments WHERE sweep = ? ORDER BY id", sweep))

    def set_apart(self, sweep: str, link_key: str, reason: str) -> None:
        """Record that a unit is no longer in its pool. `link_key`: the key of the unit's job of the anchor. If the unit
        has a reason already, that one stays."""
        with self._file.writing():
            self._file.db.execute(
                "INSERT OR IGNORE INTO units_apart (sweep, link_key, reason, created) VALUES (?, ?, ?, ?)",
                (sweep, link_key, reason, now()),
            )

    def units_apart(self, sweep: str) -> dict[str, str]:
        """Return the reasons why units have left their pools, by the key of each unit's job of the anchor."""
        return dict(self._file.rows("SELECT link_key, reason FROM units_apart WHERE sweep = ? ORDER BY created", sweep))
