"""The fields of the form on the page Launch, as parameters of the page's URL. Pure."""

from typing import Any

from dashboard.sweep_form import (
    AXES,
    MOST_ROUNDS,
    MOST_THREADS,
    SIDES,
    budget_of,
    budget_value,
    gate_of,
    preset_of,
)
from sweeps.spec import catalog


def to_address(name: str, value: Any) -> str:
    """Return a field's value as text for the URL."""
    if isinstance(value, list | tuple):
        return _between(name).join(map(str, value))
    return "" if value is None else str(value)


def _between(name: str) -> str:
    """Return the separator of a list's values: a semicolon for CPUs, whose values contain commas, otherwise a comma."""
    return ";" if name == "cpus" else ","


def of_address(name: str, text: str) -> Any:
    """Parse a field's value from its text in the URL. Raises `ValueError` if the field cannot have this value."""
    if name == "side":
        return _number(text, *SIDES)
    if name == "rounds":
        return _number(text, 1, MOST_ROUNDS) if text else None
    if name == "gate":
        return gate_of(text or None)
    if name == "budget":
        return budget_of(budget_value(text) if text else None)
    if name == "preset":
        return preset_of(text or None)
    if name in AXES or name == "devices":
        parts = dict.fromkeys(part for part in text.split(_between(name)) if part)
        if name in ("devices", "cpus"):
            return tuple(parts)
        if name == "threads":
            return tuple(_number(part, 1, MOST_THREADS) for part in parts)
        if unknown := parts.keys() - set(catalog.values(AXES[name])):
            raise ValueError(*unknown)
        return tuple(parts)
    return text


def _number(text: str, least: int, most: int) -> int:
    if not text.isascii() or not text.isdecimal() or not least <= int(text[:5]) <= most:
        raise ValueError(text)
    return int(text)
