"""Workspaces that an EdgeSweep of November measured, in the tables of today."""

import sqlite3
from contextlib import closing
from pathlib import Path

from sweeps.journal.journal import Journal
from sweeps.journal.rebuild import rebuild


def lift(path: Path) -> None:
    """Write the stored attempts and plans into the tables of today. The table of results follows from them."""
    stored = path.rename(path.with_name("stored.sqlite"))
    Journal.open(path).close()
    with closing(sqlite3.connect(path)) as db, db:
        db.execute("ATTACH ? AS stored", (str(stored),))
        for (table,) in db.execute("SELECT name FROM stored.sqlite_master WHERE type = 'table'").fetchall():
            if table in ("results", "places", "ended", "results_state", "sqlite_sequence"):
                continue
            columns = ", ".join(name for _, name, *_ in db.execute(f"PRAGMA stored.table_info({table})"))
            db.execute(f"INSERT INTO main.{table} ({columns}) SELECT {columns} FROM stored.{table}")
    stored.unlink()
    rebuild(path)
