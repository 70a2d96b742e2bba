"""Values of a row as texts of tags and params, and back. What is read was written by anyone. Pure."""

import json
import math
from dataclasses import replace
from typing import Any

from sweeps.errors import StoreError
from sweeps.json_records import from_json, to_json
from sweeps.settled import Settled

_MAX_WORDS = 300
"""Longest text (characters) inside a JSON tag: two texts fit into a tag, even with six bytes per character."""


def cut(text: str, length: int) -> str:
    """At most `length` characters, an ellipsis last where some are missing; no NUL, which databases refuse."""
    text = text.replace("\x00", "")
    return text if len(text) <= length else f"{text[: length - 1]}…"


def text_of(value: object) -> str:
    """One field of a row, as a tag or param has it before it is cut."""
    if isinstance(value, str):
        return value
    if isinstance(value, Settled):
        return to_json(replace(value, by=cut(value.by, _MAX_WORDS), message=cut(value.message, _MAX_WORDS)))
    return json.dumps(value, allow_nan=False)


def parsed(name: str, kind: Any, text: str) -> object:
    """The field `name` of a row. `kind`: its type. Raises `ValueError`."""
    if kind is str:
        return text
    if name == "settled":
        return _settled(text)
    value = json.loads(text)
    if name in ("block_medians_ms", "confirmed_medians_ms", "batch_medians_ms", "check_medians_ms"):
        medians_ms = tuple((int(round_), float(ms)) for round_, ms in value)
        if not all(0.0 < ms < math.inf for _, ms in medians_ms):
            raise ValueError(f"block medians must be positive numbers: {cut(text, _MAX_WORDS)}")
        return medians_ms
    if name == "trust":
        return tuple(map(str, value))
    if name == "sessions":
        return tuple(map(int, value))
    if isinstance(value, float) and not math.isfinite(value):
        raise ValueError(f"{name} is {value}")
    return kind(value)


def _settled(text: str) -> Settled | None:
    try:
        return None if text == "null" else from_json(Settled, text)
    except StoreError as error:
        raise ValueError(error.message) from error
