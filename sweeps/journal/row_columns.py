"""A `ResultRow` as columns of the journal's table of results."""

import json
import math
from collections.abc import Callable, Collection
from dataclasses import fields
from typing import Any

from sweeps.json_records import from_json, to_json
from sweeps.metrics import METRICS
from sweeps.results import ResultRow
from sweeps.settled import Settled

_FIELDS = {entry.name: entry.type for entry in fields(ResultRow) if entry.name not in ("metrics", "run_id")}
TEXT_AND_NUMBERS = {
    name: "INTEGER" if kind in (int, bool) else "REAL" if kind is float else "TEXT" for name, kind in _FIELDS.items()
} | {"extra_metrics": "TEXT"}
"""Columns that are never NULL, with their types in sqlite: the fields of `ResultRow`, and JSON of the extra metrics."""
FIGURE_COLUMNS = dict.fromkeys(METRICS, "REAL")
"""Columns of figures, NULL for an unknown figure. An older file may lack the columns of new figures."""
ROW_COLUMNS = (*TEXT_AND_NUMBERS, *FIGURE_COLUMNS)


def selected(columns: Collection[str]) -> str:
    """Return `ROW_COLUMNS` as the list of a SELECT from a table with these columns; a figure's column that the table
    lacks becomes NULL."""
    return ", ".join(name if name not in FIGURE_COLUMNS or name in columns else "NULL" for name in ROW_COLUMNS)


def values_of(row: ResultRow) -> list[Any]:
    """Return the values of a row in the order of its columns."""
    extra = {name: value for name, value in row.metrics.items() if name not in METRICS}
    return [
        *(stored(getattr(row, name)) for name in _FIELDS),
        json.dumps(extra),
        *(row.metrics.get(name) for name in METRICS),
    ]


def stored(value: Any) -> Any:
    if isinstance(value, Settled):
        return to_json(value)
    if value is None:
        return ""
    if isinstance(value, str):
        # A lone surrogate from a device's output is in no database, as in no record.
        return value.encode("utf-8", "replace").decode("utf-8")
    return json.dumps(value) if isinstance(value, tuple) else value


def read_row(record: tuple[Any, ...]) -> ResultRow:
    """Parse a record of the table into a row. Raises `ValueError`, `TypeError` or `StoreError` if the record is
    damaged."""
    field_values, extra_metrics, figures = record[: len(_FIELDS)], record[len(_FIELDS)], record[len(_FIELDS) + 1 :]
    if tuple(map(type, field_values)) != _TYPES:
        name = next(
            name for name, kind, value in zip(_FIELDS, _TYPES, field_values, strict=True) if type(value) is not kind
        )
        raise TypeError(f"{name} has another type")
    values = dict(zip(_FIELDS, field_values, strict=True))
    values |= {name: parse(values[name]) for name, parse in _PARSED.items()}
    metrics = {name: value for name, value in zip(METRICS, figures, strict=True) if value is not None}
    if extra_metrics != "{}":
        metrics |= json.loads(extra_metrics)
    if not set(map(type, metrics.values())) <= {float, int} or not all(map(math.isfinite, metrics.values())):
        raise ValueError("a figure that is no number")
    return ResultRow(**values, metrics=metrics)


def _settled(text: str) -> Settled | None:
    return from_json(Settled, text) if text else None


def _list(text: str) -> tuple[Any, ...]:
    return () if text == "[]" else tuple(json.loads(text))


def _medians(text: str) -> tuple[tuple[int, float], ...]:
    medians = tuple((int(round_), float(ms)) for round_, ms in _list(text))
    if not all(0.0 < ms < math.inf for _, ms in medians):
        raise ValueError("block medians that are not positive")
    return medians


_PARSED: dict[str, Callable[[Any], Any]] = {
    "settled": _settled,
    **dict.fromkeys(("block_medians_ms", "confirmed_medians_ms", "batch_medians_ms", "check_medians_ms"), _medians),
    **dict.fromkeys(("trust", "sessions"), _list),
    **{name: bool for name, kind in _FIELDS.items() if kind is bool},
}
_TYPES = tuple(int if kind is bool else str if name in _PARSED else kind for name, kind in _FIELDS.items())
