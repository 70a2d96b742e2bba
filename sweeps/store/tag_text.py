"""Values of a row as texts of tags and params. Pure."""

import json
from dataclasses import replace

from sweeps.json_records import to_json
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
