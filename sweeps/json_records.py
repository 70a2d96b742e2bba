"""The conversion of records to JSON text and back, without loss. Like JSON, records may not contain NaN or lone
surrogates."""

import json
from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from typing import TYPE_CHECKING, Any, TypeVar

from pydantic import TypeAdapter, ValidationError

from sweeps.errors import StoreError

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

Record = TypeVar("Record")


def document(record: "DataclassInstance") -> dict[str, Any]:
    """Return the record's fields by name, without those that are `LEFT_OUT_WHEN_EMPTY`."""
    return {
        entry.name: _plain(value)
        for entry in fields(record)
        if (value := getattr(record, entry.name)) or not entry.metadata.get("left_out_when_empty")
    }


def _plain(value: Any) -> Any:
    """Return a value converted as `dataclasses.asdict` does, but without copying each sample of a block: the copy took
    most of the time of storing a block."""
    if isinstance(value, tuple | list):
        return value if _ATOMS.issuperset(map(type, value)) else type(value)(map(_plain, value))
    if is_dataclass(value):
        return {entry.name: _plain(getattr(value, entry.name)) for entry in fields(value)}
    if isinstance(value, Mapping):  # The `json` module accepts no other mapping than a `dict`.
        return {key: _plain(item) for key, item in value.items()}
    return value


_ATOMS = frozenset({int, float, str, bool, type(None)})


def to_json(record: "DataclassInstance") -> str:
    """Return the record as one line of JSON, its fields in their order.

    A lone surrogate (from a device's output that is not UTF-8) becomes `?`, because no store accepts it.
    Raises `StoreError` if a figure is NaN or infinite.
    """
    try:
        text = json.dumps(document(record), separators=(",", ":"), allow_nan=False, ensure_ascii=False)
    except ValueError as error:
        raise StoreError(
            f"a {type(record).__name__} with a figure that is not finite is not stored: {record!r:.300}",
            "unknown figures are None; this is a bug in EdgeSweep: please report it",
        ) from error
    return text.encode("utf-8", "replace").decode("utf-8")


def from_json(kind: type[Record], text: str) -> Record:
    """Return the record that `to_json` wrote. Fields that were added later get their defaults.

    Raises `StoreError` if the text is not a record of this kind.
    """
    adapter: TypeAdapter[Record] = _ADAPTERS.get(kind) or _ADAPTERS.setdefault(kind, TypeAdapter(kind))
    try:
        return adapter.validate_json(text, strict=True)
    except ValidationError as error:
        raise StoreError(
            f"a stored {kind.__name__} cannot be read: {error.errors()[0]['msg']}: {text:.200}",
            "the journal is damaged or from another version of EdgeSweep: move it away, or use that version",
        ) from error


_ADAPTERS: dict[type[Any], TypeAdapter[Any]] = {}
