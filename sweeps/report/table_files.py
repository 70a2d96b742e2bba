"""Results and verdicts as files to download: CSV for spreadsheets, Parquet for programs. Pure.

The names of columns contain the units. pandas and pyarrow are imported only when a Parquet file is requested.
"""

import csv
import io
import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any, Literal, get_type_hints

from sweeps.metrics import METRICS
from sweeps.ranking.overview import PlaceVerdict
from sweeps.results import ResultRow
from sweeps.text import FORMULA_STARTS, plain

if TYPE_CHECKING:
    import pyarrow as pa

Kind = Literal["text", "bool", "int", "float", "texts", "ints", "medians"]
"""The kind of a column's values. `texts` and `ints` are lists; `medians` is a list of (round, milliseconds)."""

_KINDS: dict[Any, Kind] = {str: "text", bool: "bool", int: "int", float: "float"}
_LISTS: dict[str, Kind] = {
    "trust": "texts",
    "sessions": "ints",
    "block_medians_ms": "medians",
    "confirmed_medians_ms": "medians",
    "batch_medians_ms": "medians",
    "check_medians_ms": "medians",
}
_CALLED = {"sessions": "session_starts_s", "value": "metric_value"}
"""The fields whose columns have another name."""
_OWN = {"latency_ci_low_ms": "latency_own_ci_low_ms", "latency_ci_high_ms": "latency_own_ci_high_ms"}
"""The figures of a result that have another value under the same name in a ranking: infra/protocol.md says which file
has which value."""


@dataclass(frozen=True, slots=True)
class Table:
    """Columns with the kind of their values, and rows with one value for each column; `None` is unknown."""

    columns: dict[str, Kind]
    rows: Sequence[Sequence[Any]]


def results_table(results: Iterable[ResultRow]) -> Table:
    """Return one row per result in the given order: its fields, every metric, and `extra_NAME` for each extra metric.

    The interval of a result's latency comes only from the result's own rounds, as the names of its columns show.
    """
    rows_in = list(results)
    extra = sorted({name for row in rows_in for name in row.metrics if name not in METRICS})
    names = [entry.name for entry in fields(ResultRow) if entry.name not in ("metrics", "run_id")]
    columns: dict[str, Kind] = {
        **{_CALLED.get(name, name): _LISTS.get(name) or _KINDS.get(_RESULT[name], "text") for name in names},
        **{_OWN.get(name, name): "float" for name in METRICS},
        **{f"extra_{name}": "float" for name in extra},
    }
    figures = (*METRICS, *extra)
    return Table(
        columns,
        [[*(_field(row, name) for name in names), *(row.metrics.get(name) for name in figures)] for row in rows_in],
    )


def overview_table(verdicts: Iterable[PlaceVerdict]) -> Table:
    """Return one row per verdict in the given order. The unit of `metric_value` is part of the metric's name in the
    column `metric`."""
    kinds = get_type_hints(PlaceVerdict)
    columns = {
        _CALLED.get(name, name): _KINDS.get(kinds[name], "float" if kinds[name] == float | None else "text")
        for name in PlaceVerdict._fields
    }
    return Table(columns, list(verdicts))


def csv_text(table: Table) -> str:
    """Return the table as CSV by RFC 4180, with a line of column names; unknown values are empty. The text is to be
    encoded as `utf-8-sig`, as Excel requires.

    Text that a spreadsheet would run as a formula is prefixed with an apostrophe.
    """
    out = io.StringIO()
    lines = csv.writer(out, quoting=csv.QUOTE_NONNUMERIC)
    lines.writerow([_safe(name) for name in table.columns])
    for row in table.rows:
        lines.writerow([_cell(value, kind) for value, kind in zip(row, table.columns.values(), strict=True)])
    return out.getvalue()


def parquet_bytes(table: Table) -> bytes:
    """Return a Parquet file with typed columns, even if the table is empty; unknown values are null."""
    import pyarrow as pa
    from pyarrow import parquet

    sink = pa.BufferOutputStream()
    parquet.write_table(arrow_table(table), sink, compression="zstd")
    return bytes(sink.getvalue().to_pybytes())


def arrow_table(table: Table) -> "pa.Table":
    """Return the table of `parquet_bytes`, in memory."""
    import pyarrow as pa

    median = pa.struct([("round", pa.int64()), ("ms", pa.float64())])
    types = {
        **{"text": pa.string(), "bool": pa.bool_(), "int": pa.int64(), "float": pa.float64()},
        **{"texts": pa.list_(pa.string()), "ints": pa.list_(pa.int64()), "medians": pa.list_(median)},
    }
    columns = list(zip(*table.rows, strict=True)) or [() for _ in table.columns]
    arrays = [
        pa.array([_typed(value, kind) for value in values], type=types[kind])
        for values, kind in zip(columns, table.columns.values(), strict=True)
    ]
    return pa.table(arrays, names=list(table.columns))


_RESULT = get_type_hints(ResultRow)


def _field(row: ResultRow, name: str) -> Any:
    if name == "settled":
        return "" if row.settled is None else row.settled.message
    return getattr(row, name)


def _cell(value: Any, kind: Kind) -> Any:
    if value is None:
        return ""
    match kind:
        case "text":
            return _safe(value)
        case "texts" | "ints":
            return _safe("; ".join(str(item) for item in value))
        case "medians":
            return json.dumps(value) if value else ""
        case "bool":
            return "true" if value else "false"
        case _:
            return value


def _safe(text: str) -> str:
    shown = plain(text)
    return f"'{shown}" if shown.lstrip().startswith(FORMULA_STARTS) else shown


def _typed(value: Any, kind: Kind) -> Any:
    match kind:
        case "text" if value is not None:
            # A lone surrogate from a device's output is not valid UTF-8.
            return value.encode("utf-8", "replace").decode("utf-8")
        case "medians":
            return [{"round": round_, "ms": ms} for round_, ms in value]
        case "texts" | "ints":
            return list(value)
        case _:
            return value
