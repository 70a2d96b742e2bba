"""Changes of single values in the text of a sweep file; the rest stays as it is, with its comments. Pure."""

import copy
import math
from functools import lru_cache
from pathlib import Path
from typing import Any

import yaml

from sweeps.errors import SpecError
from sweeps.spec.yaml_source import Location, parsed
from sweeps.spec.yaml_text import Dumper, dumped

GONE = object()
"""Marker in place of a value: the value's key is removed from the file."""


@lru_cache(maxsize=16)
def values(text: str) -> dict[str, Any] | None:
    """Parse the values of a file; `None` if it is not a YAML mapping. The result is cached, because all fields of a
    form use it: never change it."""
    try:
        data = parsed(text, Path("sweep.yaml")).data
    except SpecError:
        return None
    return {} if data is None else data if isinstance(data, dict) else None


def value_at(data: Any, at: Location) -> Any:
    """Return the value at a location of `values`; `None` if it is missing. Raises `TypeError` if the location leads
    through a value that is no mapping or list."""
    node: Any = data
    for key in at:
        if node is None or (isinstance(key, int) and isinstance(node, list) and key >= len(node)):
            return None
        if not isinstance(node, list if isinstance(key, int) else dict):
            raise TypeError(f"{key} of {type(node).__name__}")
        node = node[int(key)] if isinstance(node, list) else node.get(key)
    return node


def changed(text: str, at: Location, value: Any) -> str:
    """Return the text with another value at a location, which is created if it is missing. The text must be a YAML
    mapping (`values`).

    If the text cannot be changed only at that location, it is written from its values, which loses its comments.
    """
    target = _with(values(text) or {}, at, value)
    patched = _patched(text, at, value)
    if patched is not None and values(patched) == target:
        return patched
    return dumped(target)


def flow(value: Any) -> str:
    """Return a value as one line of YAML."""
    style: dict[str, Any] = {"sort_keys": False, "default_flow_style": True, "allow_unicode": True, "width": math.inf}
    return str(yaml.dump([value], Dumper=Dumper, **style)).strip()[1:-1]


def _with(data: dict[str, Any], at: Location, value: Any) -> dict[str, Any]:
    whole = copy.deepcopy(data)
    node: Any = whole
    for step, key in enumerate(at):
        is_last = step == len(at) - 1
        if is_last and value is GONE:
            if isinstance(node, dict):
                node.pop(key, None)
            break
        below: Any = value if is_last else [] if isinstance(at[step + 1], int) else {}
        if isinstance(node, list):
            if int(key) >= len(node):
                node.append(below)
            elif is_last or not isinstance(node[int(key)], dict | list):
                node[int(key)] = below
            node = node[min(int(key), len(node) - 1)]
        else:
            if is_last or not isinstance(node.get(key), type(below)):
                node[key] = below
            node = node[key]
    return whole


def _patched(text: str, at: Location, value: Any) -> str | None:
    """Return the text with one value replaced in place; `None` for structures where that is not supported."""
    node = yaml.compose(text, Loader=yaml.SafeLoader)
    parent: yaml.Node | None = None
    key_node = None
    for step, key in enumerate(at):
        if isinstance(node, yaml.MappingNode):
            pair = next(((name, child) for name, child in node.value if name.value == key), None)
            if pair is None:
                return text if value is GONE else _inserted(text, node, at[step:], value)
            parent, (key_node, node) = node, pair
        elif isinstance(node, yaml.SequenceNode) and isinstance(key, int) and key < len(node.value):
            parent, key_node, node = node, None, node.value[key]
        else:
            return None
    if node is None or key_node is None or node.start_mark.index < key_node.end_mark.index:  # an alias
        return None
    if value is GONE:
        is_line = isinstance(parent, yaml.MappingNode) and not parent.flow_style
        return _without_lines(text, key_node.start_mark.index, _end(node)) if is_line else None
    return _replaced(text, key_node, node, flow(value))


def _inserted(text: str, node: yaml.MappingNode, at: Location, value: Any) -> str | None:
    """Return the text with a new key added to the mapping `node`."""
    key, *rest = at
    for below in reversed(rest):
        value = [value] if isinstance(below, int) else {below: value}
    entry = f"{key}: {flow(value)}"
    if node.flow_style:
        start = node.start_mark.index + 1
        return f"{text[:start]}{entry}{', ' if node.value else ''}{text[start:]}"
    line_end = text.find("\n", _end(node))
    line_end = len(text) if line_end < 0 else line_end
    return f"{text[:line_end]}\n{' ' * node.value[0][0].start_mark.column}{entry}{text[line_end:]}"


def _replaced(text: str, key_node: yaml.Node, node: yaml.Node, new: str) -> str | None:
    start, end = node.start_mark.index, _end(node)
    colon = text.find(":", key_node.end_mark.index) + 1
    if not isinstance(node, yaml.CollectionNode) or node.flow_style:
        return f"{text[:start]}{' ' * (start == colon)}{new}{text[end:]}"
    # The value moves from the lines below its key to the key's line; a comment between them stays.
    return f"{text[:colon]} {new}{text[colon:start].rstrip()}{text[end:]}"


def _without_lines(text: str, start: int, end: int) -> str:
    line_end = text.find("\n", end)
    return text[:start].rstrip(" ") + ("" if line_end < 0 else text[line_end + 1 :])


def _end(node: yaml.Node) -> int:
    """Return the position after a node's last character. PyYAML ends a block where the next one begins, with the
    comments in between, so a block's end is computed from its parts."""
    if not isinstance(node, yaml.CollectionNode) or node.flow_style:
        return int(node.end_mark.index)
    parts = [part for pair in node.value for part in (pair if isinstance(pair, tuple) else (pair,))]
    return max((_end(part) for part in parts), default=int(node.end_mark.index))
