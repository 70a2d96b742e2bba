"""The journal's manifests: of builds, and of the image sets by which builds were calibrated or their accuracy
measured."""

import json

from sweeps.journal.file import JournalFile
from sweeps.journal.plans import now
from sweeps.manifest import Manifest


class Artifacts:
    """Table of manifests. They are added, and never changed or deleted."""

    def __init__(self, file: JournalFile) -> None:
        self._file = file

    def add(self, manifest: Manifest) -> None:
        """Record a built artifact, unless the same manifest is recorded already."""
        if self.latest(manifest.build_key) == manifest:
            return
        text = json.dumps(manifest.model_dump(mode="json"), allow_nan=False, separators=(",", ":"))
        with self._file.writing():
            self._file.db.execute(
                "INSERT INTO artifacts (build_key, manifest, created) VALUES (?, ?, ?)",
                (manifest.build_key, text, now()),
            )
            self._file.news.keys.add(manifest.build_key)

    def latest(self, build_key: str) -> Manifest | None:
        """Return the manifest of the last build under this key."""
        row = self._file.row("SELECT manifest FROM artifacts WHERE build_key = ? ORDER BY id DESC LIMIT 1", build_key)
        return None if row is None else Manifest.model_validate_json(row[0])

    def add_data(self, sweep: str, manifest_id: str, manifest: str) -> None:
        """Record the images of one data set of this sweep. `manifest` is JSON; the id is derived from its content."""
        with self._file.writing():
            self._file.db.execute(
                "INSERT OR IGNORE INTO data_manifests VALUES (?, ?, ?)", (sweep, manifest_id, manifest)
            )

    def data(self, sweep: str) -> dict[str, str]:
        """Return the data sets of a sweep: each manifest as JSON, by its id."""
        return dict(self._file.rows("SELECT manifest_id, manifest FROM data_manifests WHERE sweep = ?", sweep))
