"""The costs of each build on each device are stored beside the verdicts: an overview of a model does without its
rows."""

import json
import sqlite3
from collections.abc import Iterable, Mapping

from sweeps.journal.result_place import Place
from sweeps.ranking.build_costs import Cell, Cells, Setup

TABLES = (
    """CREATE TABLE costs (
        sweep TEXT, model TEXT, device_id TEXT, cells TEXT NOT NULL, PRIMARY KEY (sweep, model, device_id)
    ) WITHOUT ROWID""",
)
"""The tables are part of the file of verdicts. `cells`: a JSON list of the fields of `Cell` and the setup, for each
build."""


def put(db: sqlite3.Connection, costs: Mapping[Place, Mapping[Setup, Cell]], alone: str | None = None) -> None:
    """In place of what these places had before; `alone`: the sweep that has no others."""
    if alone is not None:
        db.execute("DELETE FROM costs WHERE sweep = ?", (alone,))
    rows = [
        (place.sweep, place.model, place.place_id, json.dumps([(*cell, setup) for setup, cell in by_setup.items()]))
        for place, by_setup in costs.items()
    ]
    db.executemany("INSERT OR REPLACE INTO costs VALUES (?, ?, ?, ?)", rows)


def cells(db: sqlite3.Connection, sweep: str, model: str, devices: Iterable[str]) -> Cells:
    """Return the costs of a model's builds, under the objective of the sweep's file."""
    query = "SELECT cells FROM costs WHERE sweep = ? AND model = ? AND device_id = ?"
    rows = {device: db.execute(query, (sweep, model, device)).fetchone() for device in devices}
    return {
        device: {} if stored is None else {tuple(setup): Cell(*cell) for *cell, setup in json.loads(stored[0])}
        for device, stored in rows.items()
    }
