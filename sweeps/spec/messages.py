"""Translation of pydantic's errors about a sweep file into sentences with line numbers."""

from dataclasses import dataclass
from typing import Any, Final

from pydantic import ValidationError

from sweeps.errors import did_you_mean
from sweeps.spec.yaml_source import Document, Location

SENTENCE: Final = "sentence"
"""Type of errors that this project's own validators raise. Their `ctx` holds the `message`, and in `at` a location
below the field."""

Schema = dict[str, Any]
"""JSON Schema, or a part of one."""


def sentences(document: Document, error: ValidationError | None, schema: Schema) -> list[tuple[int, str]]:
    """Return every problem of the file with its line number, in order of lines; allowed values come from `schema`."""
    texts = {(problem.line, f"{_name(problem.at)}: {problem.message}"): None for problem in document.problems}
    unread = {problem.at for problem in document.problems}
    for detail in error.errors(include_url=False) if error else ():
        ctx = detail.get("ctx", {})
        place = _locate((*detail["loc"], *ctx.get("at", ())), document.data, schema)
        if detail["type"] == "default_factory_not_called":
            continue  # a model's name, when its source is wrong
        if place.at in unread and place.value is None:
            continue  # already reported as unreadable
        if detail["type"] == "too_short" and len(place.value) >= ctx["min_length"]:
            continue  # pydantic does not count invalid values, and each of them has its own message
        if detail["type"] == "literal_error" and "anyOf" in place.part:
            continue  # a word or a number: the number's error names both
        texts[document.line(place.at), _sentence(detail["type"], ctx, place)] = None
    return sorted(texts, key=lambda problem: problem[0])


def show(value: object) -> str:
    """Describe a value of the sweep file in words."""
    match value:
        case None:
            return "nothing"
        case bool():
            return str(value).lower()
        case int() | float():
            return f"the number {value}"
        case str():
            return f"the text {value[:60]!r}"
        case list():
            return "a list"
        case _:
            return "a block of keys"


@dataclass(frozen=True, slots=True)
class _Place:
    """Location of an error, with its part of the schema, the enclosing part of the schema, and the file's value."""

    at: Location
    part: Schema
    around: Schema
    value: Any
    keys: tuple[str, ...]
    """Keys that a block may have at this location."""


def _locate(loc: Location, data: Any, schema: Schema) -> _Place:
    """Follow pydantic's location through file and schema together. The result's location leaves out steps that name a
    member of a union."""
    at: list[str | int] = []
    part, value = _resolve(schema, schema), data
    around = part
    for step in loc:
        around = part
        if "discriminator" in part:
            part = _resolve(schema, {"$ref": part["discriminator"]["mapping"].get(step, "")})
        elif member := [option for option in part.get("anyOf", ()) if option.get("$ref") == f"#/$defs/{step}"]:
            if isinstance(value, dict):  # otherwise no member of the union fits
                part = _resolve(schema, member[0])
        elif isinstance(step, str) and "properties" in part:
            part = _resolve(schema, part["properties"].get(step, {}))
            value = value.get(step) if isinstance(value, dict) else None
            at.append(step)
        elif isinstance(step, str) and isinstance(part.get("additionalProperties"), dict):
            part = _resolve(schema, part["additionalProperties"])
            value = value.get(step) if isinstance(value, dict) else None
            at.append(step)
        elif isinstance(step, int):
            fixed = part.get("prefixItems", [])
            part = _resolve(schema, fixed[step] if step < len(fixed) else part.get("items", {}))
            value = value[step] if isinstance(value, list) and step < len(value) else None
            at.append(step)
    blocks = [_resolve(schema, option) for option in part.get("anyOf", [part])]
    keys = tuple(key for block in blocks for key in block.get("properties", ()))
    return _Place(tuple(at), part, around, value, keys)


def _resolve(schema: Schema, part: Schema) -> Schema:
    """Follow references; for an `anyOf` of null and one option, follow that option."""
    while True:
        options = [option for option in part.get("anyOf", ()) if option.get("type") != "null"]
        if "$ref" in part:
            part = schema["$defs"].get(part["$ref"].removeprefix("#/$defs/"), {})
        elif len(options) == 1:
            part = options[0]
        else:
            return part


def _allowed(part: Schema) -> list[str]:
    if "discriminator" in part:
        return list(part["discriminator"]["mapping"])
    values = part.get("enum", [part["const"]] if "const" in part else [])
    return [str(value).lower() if isinstance(value, bool) else str(value) for value in values]


def _name(at: Location) -> str:
    text = "".join(f"[{step}]" if isinstance(step, int) else f".{step}" for step in at)
    return text.removeprefix(".") or "the file"


def _choice(at: Location, value: object, allowed: list[str]) -> str:
    listed = ", ".join(allowed)
    return f"{_name(at)}: {show(value)} is not allowed (allowed: {listed}){did_you_mean(value, allowed)}"


def _sentence(kind: str, ctx: dict[str, Any], place: _Place) -> str:
    at, part, value = place.at, place.part, place.value
    name = _name(at)
    match kind:
        case "sentence":
            return f"{name}: {ctx['message']}"
        case "missing" if isinstance(at[-1], int):
            return f"{_name(at[:-1])}: too few values; {len(place.around['prefixItems'])} are needed"
        case "missing":
            about = part.get("description", "")
            return f"{_name(at[:-1])}: the key {at[-1]!r} is missing" + (f": {about}" if about else "")
        case "extra_forbidden":
            keys = list(place.around.get("properties", ()))
            near = did_you_mean(at[-1], keys)
            return f"{_name(at[:-1])}: the key {at[-1]!r} is unknown (allowed: {', '.join(keys)}){near}"
        case "literal_error":
            return _choice(at, value, _allowed(part))
        case "union_tag_invalid":
            return _choice((*at, "source"), value["source"], _allowed(part))
        case "union_tag_not_found":
            return f"{name}: the key 'source' is missing (allowed: {', '.join(_allowed(part))})"
        case "too_short":
            return f"{name}: the list is empty; give at least one value"
        case "too_long":
            return f"{name}: {len(value)} values; {ctx['max_length']} are needed"
        case "greater_than_equal" | "greater_than" | "less_than_equal" | "less_than":
            sign, bound = next((sign, bound) for sign, bound in ctx.items() if sign in _BOUNDS)
            limit = bound if isinstance(bound, int) else f"{bound:g}"
            return f"{name}: must be {_BOUNDS[sign]} {limit}, not {value}"
        case "finite_number" if "anyOf" not in part:
            return f"{name}: must be a finite number"
        case "string_too_short":
            return f"{name}: must not be empty"
        case "string_too_long":
            return f"{name}: must be at most {ctx['max_length']} characters long"
        case _:
            return f"{name}: must be {_expected(part)}, not {show(value)}" + _remedy(place)


_BOUNDS = {"ge": "at least", "gt": "more than", "le": "at most", "lt": "less than"}


def _expected(part: Schema) -> str:
    """Return the kind of value that a part of the schema requires, in words."""
    if "discriminator" in part:
        return "a block of keys with a 'source'"
    kinds = {
        "string": "text",
        "integer": "a whole number",
        "number": "a number",
        "boolean": "true or false",
        "array": "a list",
        "object": "a block of keys",
    }
    options = part.get("anyOf", [part])
    types = [option.get("type") for option in options]
    words = [
        " or ".join(_allowed(option)) or kinds[option.get("type", "object")]
        for option in options
        if option.get("type", "object") in kinds and (option.get("type") != "integer" or "number" not in types)
    ]
    return " or ".join(words)


def _remedy(place: _Place) -> str:
    part, value = place.part, place.value
    if part.get("type") == "array" and isinstance(value, str | int | float):
        inner = str(value).lower() if isinstance(value, bool) else value
        return f"; write [{inner}]"
    if part.get("type") == "array" and isinstance(value, dict):
        return "; begin each of its blocks with '- '"
    if part.get("type") == "string" and isinstance(value, int | float):
        return "; put it in quotes"
    words = [word for option in part.get("anyOf", ()) for word in _allowed(option)]
    near = did_you_mean(value, words) if isinstance(value, str) else ""
    return f"; its keys: {', '.join(place.keys)}{near}" if place.keys else near
