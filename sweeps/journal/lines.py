"""The whole journal as JSON lines, which any program can read without EdgeSweep."""

import json
from collections.abc import Iterator
from contextlib import closing
from importlib.metadata import version
from pathlib import Path
from typing import Any

from sweeps.errors import StoreError
from sweeps.journal import schema as journal_schema
from sweeps.sqlite_file import connect


def json_lines(path: Path) -> Iterator[str]:
    """Yield each row of each table as `{"table": ..., "row": {column: value}}`, all from one snapshot. Records, which
    the tables hold as JSON text, are written as JSON objects.

    The first line has the journal's version and the number of rows of each table; the last line is `{"rows": ...}`, by
    which a reader recognizes a file that was cut off. Raises `StoreError` if the journal cannot be read.
    """
    if not path.exists():
        raise StoreError(f"there is no journal at {path}", "name the folder of a workspace with --workspace")
    with (
        journal_schema.translated(path),
        closing(connect(path, read_only=True)) as db,
    ):
        journal_schema.is_made(db, path)  # `is_made` raises for another version
        db.execute("BEGIN")
        [journal_version] = db.execute("PRAGMA user_version").fetchone()
        names = "SELECT name FROM sqlite_master WHERE type = 'table' AND name NOT LIKE 'sqlite_%' ORDER BY name"
        # Names of tables are quoted for SQL: the file may be another person's.
        tables = {name: '"' + name.replace('"', '""') + '"' for (name,) in db.execute(names)}
        counts = {
            name: db.execute(f"SELECT count(*) FROM {quoted}").fetchone()[0]  # noqa: S608  # a quoted name
            for name, quoted in tables.items()
        }
        yield _line({"journal": journal_version, "edgesweep": version("edgesweep"), "tables": counts})
        for name, quoted in tables.items():
            rows = db.execute(f"SELECT * FROM {quoted} ORDER BY rowid")  # noqa: S608  # a quoted name
            columns = [column[0] for column in rows.description]
            for row in rows:
                yield _line({"table": name, "row": dict(zip(columns, map(_value, row), strict=True))})
        yield _line({"rows": sum(counts.values())})


def _value(value: Any) -> Any:
    if isinstance(value, str) and value[:1] in ("{", "["):
        try:
            return json.loads(value)
        except ValueError:
            return value
    return value


def _line(content: dict[str, Any]) -> str:
    return json.dumps(content, ensure_ascii=False, separators=(",", ":"))
