"""The snapshot of a sweep: its results as one Parquet file, which other computers read.

The file has a column for each column of the journal's table of results, and in its metadata a record of the sweep. A
workspace writes it (`sweeps.store.snapshot_upload`) as an artifact of the sweep's parent run; another computer
downloads it (`sweeps.store.snapshot_download`). A file from a server is hostile until it is parsed: its size, its
columns and each value are checked, and nothing in it is executed.
"""

import hashlib
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import MISSING, dataclass, fields
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sweeps.errors import StoreError
from sweeps.imported import Imported
from sweeps.journal.row_columns import FIGURE_COLUMNS, ROW_COLUMNS, TEXT_AND_NUMBERS, read_row, stored, values_of
from sweeps.json_records import from_json, to_json
from sweeps.metrics import METRICS, is_extra_name
from sweeps.results import ResultRow

if TYPE_CHECKING:
    import pyarrow

FORMAT = 1
"""To be raised when readers of the version before would misread a snapshot; a new figure is only a column more."""
MOST_BYTES, MOST_ROWS, MOST_COLUMNS = 256 << 20, 1_000_000, 1_000
"""Limits of what is read. A sweep of 100,000 results has a tenth of them."""
MOST_RECORD_BYTES = 16 << 20
"""Longest record of the sweep: its file, and the figures of tools that were run by hand."""
_GROUP_ROWS = 5_000
"""The number of rows that are in memory at once."""
_MOST_GROUP_BYTES = 512 << 20
"""Largest text of one group of rows, once it is unpacked."""
_METADATA_KEY = b"edgesweep"
_ARROW_TYPES = {"INTEGER": "int64", "REAL": "double", "TEXT": "string"}
_FIELDS = {entry.name: entry for entry in fields(ResultRow) if entry.name not in ("metrics", "run_id")}
_COLUMN_TYPES = {name: _ARROW_TYPES[kind] for name, kind in (TEXT_AND_NUMBERS | FIGURE_COLUMNS).items()}

StoredValues = tuple[Any, ...]
"""One row as the journal's table has it: the values of `ROW_COLUMNS`."""


class SnapshotError(StoreError):
    """A snapshot that cannot be read."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SnapshotRecord:
    """The record of a sweep in its snapshot, beside the rows. Times are ISO texts."""

    format: int
    sweep: str
    created: str
    updated: str
    """When the sweep was last started."""
    spec: str
    """JSON of the sweep file."""
    imported: tuple[Imported, ...] = ()
    """The figures of tools that were run by hand."""


def write_snapshot(path: Path, record: SnapshotRecord, rows: Iterable[ResultRow]) -> int:
    """Write a snapshot, in groups of rows. Returns the number of rows."""
    import pyarrow
    from pyarrow.parquet import ParquetWriter

    schema = pyarrow.schema(list(_COLUMN_TYPES.items())).with_metadata({_METADATA_KEY: to_json(record).encode()})
    count, remaining = 0, iter(rows)
    with ParquetWriter(path, schema, compression="zstd") as file:
        while group := list(islice(remaining, _GROUP_ROWS)):
            columns = zip(*map(values_of, group), strict=True)
            arrays = [
                # A bool is an integer, as in sqlite.
                pyarrow.array(map(int, values) if field.type == pyarrow.int64() else values, field.type)
                for values, field in zip(columns, schema, strict=True)
            ]
            file.write_table(pyarrow.table(arrays, schema=schema))
            count += len(group)
    return count


def sha256_of(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


class Snapshot:
    """An open snapshot whose columns and record have been checked; its rows are checked as they are read.

    Use it as a context manager. Raises `SnapshotError` for a file that is no snapshot, is too large, or is of another
    format; another `StoreError` if this computer cannot read it now.
    """

    def __init__(self, path: Path) -> None:
        from pyarrow import ArrowException
        from pyarrow.parquet import ParquetFile, read_schema

        try:
            size = path.stat().st_size
            if size > MOST_BYTES:
                raise SnapshotError(f"a snapshot has {size:,} bytes, more than {MOST_BYTES:,}", _OTHER)
            text = [name for name in read_schema(path).names if _COLUMN_TYPES.get(name) == "string"]
            # Dictionaries keep a text that is repeated a million times as one text until its length was looked at.
            self._file = ParquetFile(path, read_dictionary=text)
        except (ArrowException, OSError, ValueError) as error:
            raise _unreadable(error) from error
        try:
            self._columns = self._checked_columns()
            self.record = self._checked_record()
        except BaseException:
            self._file.close()
            raise

    def __enter__(self) -> "Snapshot":
        return self

    def __exit__(self, *_: object) -> None:
        self._file.close()

    def groups(self, columns: Sequence[str] = ROW_COLUMNS) -> Iterator[list[StoredValues]]:
        """The values of these columns, group by group. They are checked by `checked_row` alone. Raises
        `SnapshotError`."""
        from pyarrow import ArrowException

        present = [name for name in columns if name in self._columns]
        for number in range(self._file.num_row_groups):
            try:
                table = self._file.read_row_group(number, columns=present)
                _check_text(table)
                values = {name: _python_values(table.column(name)) for name in present}
            except (ArrowException, OSError, ValueError, IndexError) as error:
                raise _unreadable(error) from error
            absent = {name: [_default(name)] * table.num_rows for name in columns if name not in self._columns}
            yield list(zip(*((values | absent)[name] for name in columns), strict=True))

    def checked_row(self, values: StoredValues) -> ResultRow:
        """The row with these values of `ROW_COLUMNS`. Raises `SnapshotError` if it is damaged, or of another sweep."""
        try:
            row = read_row(values)
        except (ValueError, TypeError, RecursionError, StoreError) as error:
            raise _unreadable(error) from error
        if row.sweep != self.record.sweep or row.stale:
            raise SnapshotError("a snapshot has a row that is not of its sweep", _OTHER)
        if set(map(type, row.sessions)) - {int} or set(map(type, row.trust)) - {str}:
            raise SnapshotError("a snapshot has a list of other things than it is of", _OTHER)
        if not all(name in METRICS or is_extra_name(name) for name in row.metrics):
            raise SnapshotError("a snapshot has a figure whose name is none", _OTHER)
        return row

    def _checked_columns(self) -> frozenset[str]:
        """The names of those that this version knows."""
        from pyarrow.types import is_dictionary

        about, schema = self._file.metadata, self._file.schema_arrow
        if about.num_rows > MOST_ROWS or len(schema) > MOST_COLUMNS:
            raise SnapshotError(f"a snapshot has {about.num_rows:,} rows of {len(schema):,} columns", _OTHER)
        groups = [about.row_group(number) for number in range(about.num_row_groups)]
        if any(group.num_rows > _GROUP_ROWS or group.total_byte_size > _MOST_GROUP_BYTES for group in groups):
            raise SnapshotError("a snapshot has a group of rows that is too large", _OTHER)
        for name, kind in _COLUMN_TYPES.items():
            if (at := schema.get_field_index(name)) >= 0:
                column_type = schema.field(at).type
                # Lists have a `value_type`, too: only that of a dictionary stands for the column's own.
                if str(column_type.value_type if is_dictionary(column_type) else column_type) != kind:
                    raise SnapshotError(f"the column {name} of a snapshot is of {column_type}, not of {kind}", _OTHER)
            elif name not in METRICS and _default(name) is MISSING:
                raise SnapshotError(f"a snapshot has no column {name}, or has it twice", _OTHER)
        return frozenset(schema.names) & _COLUMN_TYPES.keys()

    def _checked_record(self) -> SnapshotRecord:
        text = (self._file.schema_arrow.metadata or {}).get(_METADATA_KEY, b"")
        if len(text) > MOST_RECORD_BYTES:
            raise SnapshotError(f"a snapshot has a record of {len(text):,} bytes", _OTHER)
        try:
            record = from_json(SnapshotRecord, text.decode())
            for figure in record.imported:
                to_json(figure)  # `to_json` raises for a figure that no journal takes
        except (StoreError, UnicodeDecodeError, RecursionError) as error:
            raise _unreadable(error) from error
        if record.format != FORMAT:
            raise SnapshotError(
                f"a snapshot is of format {record.format}, and this EdgeSweep reads {FORMAT}",
                "use one version of EdgeSweep on all computers",
            )
        return record


def _check_text(table: "pyarrow.Table") -> None:
    """Raises `SnapshotError` if the texts of a group of rows are too long to be unpacked."""
    from pyarrow import compute, types

    length = 0
    for column in table.columns:
        if types.is_dictionary(column.type):
            for chunk in column.chunks:
                lengths = compute.take(compute.binary_length(chunk.dictionary), chunk.indices)
                length += compute.sum(lengths).as_py() or 0
    if length > _MOST_GROUP_BYTES:
        raise SnapshotError(f"a snapshot has {length:,} bytes of text in a group of rows", _OTHER)


def _python_values(column: "pyarrow.ChunkedArray") -> list[Any]:
    """Return the values as `to_pylist` does, which takes several times as long: a text that is repeated is one object,
    and a figure that nothing has needs no look at each row."""
    from pyarrow import types

    if column.null_count == len(column):
        return [None] * len(column)
    if types.is_dictionary(column.type):
        return [value for chunk in column.chunks for value in _texts(chunk)]
    return list(column.to_pylist() if column.null_count else column.to_numpy().tolist())


def _texts(chunk: "pyarrow.DictionaryArray") -> list[str | None]:
    if chunk.null_count:
        return list(chunk.to_pylist())
    texts: list[str | None] = chunk.dictionary.to_pylist()
    if len(texts) == 1:
        return texts * len(chunk)
    return [texts[index] for index in chunk.indices.to_numpy().tolist()]


def _default(name: str) -> Any:
    """Return the value that a snapshot without this column means; `MISSING` of a column that every snapshot has."""
    if name in METRICS:
        return None
    if name == "extra_metrics":
        return "{}"
    entry = _FIELDS[name]
    return MISSING if entry.default is MISSING else stored(entry.default)


_OTHER = "delete that run in MLflow; what has its results publishes it again"


def _unreadable(error: Exception) -> StoreError:
    """Return a `SnapshotError`, unless the cause is this computer's: its disk, its memory, or too many open files."""
    # Arrow raises an OSError without a number for a damaged file, too.
    if isinstance(error, MemoryError) or (isinstance(error, OSError) and error.errno is not None):
        return StoreError(f"a snapshot cannot be read now: {error!s:.200}", "look again: free memory, check the disk")
    return SnapshotError(f"a snapshot cannot be read: {getattr(error, 'message', str(error)):.200}", _OTHER)
