"""A YAML reader that returns plain values with the line of every key and list item, so that errors can name the line.

Only YAML 1.2's core types are read, as editors do for a JSON Schema: `no` is text, `1e-3` is a number, a date is text.
"""

import json
import re
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

from sweeps.errors import SpecError

MAX_BYTES = 1 << 20
MAX_NODES = 50_000
"""Most nodes of a file, counted with aliases expanded: otherwise nine lines of nested aliases could fill the memory."""
MAX_DEPTH = 32

Location = tuple[str | int, ...]
"""Location of a value: keys and list positions from the top of the file, e.g. `("grids", 0, "precision")`."""

_TAG = "tag:yaml.org,2002:"
_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028\u2029\ud800-\udfff]")


@dataclass(frozen=True, slots=True)
class Problem:
    """Error in the YAML text itself, independent of the field."""

    at: Location
    line: int
    message: str


@dataclass(frozen=True, slots=True)
class Document:
    """Parsed YAML file: its values, their lines, and errors in the text itself."""

    path: Path
    data: Any
    """The file's value: None, bool, int, float, str, list or dict with text keys, nested."""
    lines: dict[Location, int] = field(default_factory=dict)
    """Line numbers from 1, by location: the line of the key for a key's value, and the first line of a list item."""
    problems: list[Problem] = field(default_factory=list)
    """Duplicate keys, and values that no field accepts (which are read as None); otherwise the file is valid YAML."""

    def line(self, location: Location) -> int:
        """Return the line of `location`, or of the nearest enclosing part that is in the file."""
        while location and location not in self.lines:
            location = location[:-1]
        return self.lines.get(location, 1)


def read_yaml(path: Path) -> Document:
    """Read one YAML file. Raises `SpecError` with file and line if it is not valid YAML."""
    return parsed(_read(path), path)


def parsed(text: str, path: Path) -> Document:
    """Parse `text`, which is or will be the content of `path`. Raises as `read_yaml`."""
    document = Document(path, None)
    try:
        loader = _Loader(text)
    except yaml.reader.ReaderError as error:
        line = text.count("\n", 0, error.position) + 1
        raise _unreadable(path, line, f"the character U+{ord(text[error.position]):04X} is not allowed") from error
    try:
        node = loader.get_single_node()
        if node is None:
            return document
        document.lines[()] = node.start_mark.line + 1
        data = _Values(document).plain(node, ())
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        problem = (error.problem or error.context or "").replace("'\\t'", "tab")
        raise _unreadable(path, mark.line + 1 if mark else 1, f"this is not YAML: {problem}") from error
    except (OverflowError, ValueError) as error:  # PyYAML's scanner: a code point or a version that is none
        raise _unreadable(path, loader.line + 1, "this is not YAML: a number in it is too large") from error
    return Document(path, data, document.lines, document.problems)


def _read(path: Path) -> str:
    if not path.is_file():
        reason = "this is a folder" if path.is_dir() else "there is no such file"
        raise SpecError(f"{path}: {reason}", "give the path of a sweep file; edgesweep init writes one")
    try:
        with path.open("rb") as file:
            content = file.read(MAX_BYTES + 1)
    except OSError as error:
        raise SpecError(f"{path}: cannot be read: {error.strerror}", "check the file's permissions") from error
    if len(content) > MAX_BYTES:
        raise SpecError(f"{path}: larger than 1 MiB", "a sweep file has only a few lines: is this the right file?")
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        raise _unreadable(path, line, f"the byte 0x{content[error.start]:02x} is not UTF-8 text") from error


def _unreadable(path: Path, line: int, problem: str) -> SpecError:
    return SpecError(f"{path}:{line}: {problem}", "correct this line and run the command again", [(line, problem)])


class _Loader(yaml.SafeLoader):
    """Loader that composes nodes and resolves YAML 1.2's core types; PyYAML constructs no values."""

    yaml_implicit_resolvers = {}  # noqa: RUF012  # a class attribute by PyYAML's design

    def __init__(self, text: str) -> None:
        super().__init__(text)
        self._count = 0
        self._depth = 0

    def compose_node(self, parent: yaml.Node | None, index: int) -> yaml.Node | None:
        self._count += 1
        self._depth += 1
        if self._count > MAX_NODES or self._depth > MAX_DEPTH:
            much = "nested too deeply" if self._depth > MAX_DEPTH else f"more than {MAX_NODES:,} values"
            mark = self.peek_event().start_mark  # type: ignore[no-untyped-call]  # untyped in the stubs
            raise yaml.composer.ComposerError(None, None, much, mark)
        try:
            return super().compose_node(parent, index)
        finally:
            self._depth -= 1


for _name, _pattern, _first in (
    ("null", r"~|null|Null|NULL|", ["~", "n", "N", ""]),
    ("bool", r"true|True|TRUE|false|False|FALSE", list("tTfF")),
    ("int", r"[-+]?[0-9]{1,18}", list("-+0123456789")),
    ("float", r"[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?", list("-+.0123456789")),
    ("float", r"[-+]?\.(inf|Inf|INF)|\.(nan|NaN|NAN)", list("-+.")),
):
    _Loader.add_implicit_resolver(_TAG + _name, re.compile(rf"(?:{_pattern})\Z"), _first)


class _Values:
    """Converter of nodes into plain values, which records lines and problems in the document."""

    def __init__(self, document: Document) -> None:
        self._document = document
        self._open: list[yaml.Node] = []
        self._count = 0

    def plain(self, node: yaml.Node, at: Location) -> Any:
        self._count += 1
        if self._count > MAX_NODES:
            problem = f"more than {MAX_NODES:,} values with aliases expanded"
            raise yaml.composer.ComposerError(None, None, problem, node.start_mark)
        if node in self._open:
            raise yaml.composer.ComposerError(None, None, "an alias holds itself", node.start_mark)
        self._open.append(node)
        try:
            if isinstance(node, yaml.MappingNode) and node.tag == _TAG + "map":
                return self._mapping(node, at)
            if isinstance(node, yaml.SequenceNode) and node.tag == _TAG + "seq":
                for position, item in enumerate(node.value):
                    self._document.lines[(*at, position)] = item.start_mark.line + 1
                return [self.plain(item, (*at, position)) for position, item in enumerate(node.value)]
            return self._scalar(node, at)
        finally:
            self._open.pop()

    def _mapping(self, node: yaml.MappingNode, at: Location) -> dict[str, Any]:
        values: dict[str, Any] = {}
        for key_node, value_node in node.value:
            line = key_node.start_mark.line + 1
            if not isinstance(key_node, yaml.ScalarNode) or _CONTROL.search(key_node.value):
                self._wrong(at, "a key must be one line of text", line)
                continue
            # Keys are always read as text: `1: x` has the key "1".
            place = (*at, key_node.value)
            if key_node.value in values:
                first = self._document.lines[place]
                self._wrong(place, f"this key is here twice (lines {first} and {line})", line)
                continue
            self._document.lines[place] = line
            values[key_node.value] = self.plain(value_node, place)
        return values

    def _scalar(self, node: yaml.Node, at: Location) -> Any:
        text = node.value if isinstance(node, yaml.ScalarNode) else ""
        try:
            match node.tag.removeprefix(_TAG):
                case "str" if _CONTROL.search(text):
                    shown = json.dumps(text[:60])
                    self._wrong(at, f"text must be one line without control characters, not {shown}")
                case "str":
                    return text
                case "null":
                    return None
                case "bool":
                    return text.lower() == "true"
                case "int":
                    return int(text)
                case "float":
                    return float(text.lower().replace(".inf", "inf").replace(".nan", "nan"))
                case _:
                    self._wrong(at, f"the tag {node.tag!r} is not allowed")
        except ValueError:
            self._wrong(at, f"{text[:60]!r} does not fit its tag")
        return None

    def _wrong(self, at: Location, message: str, line: int | None = None) -> None:
        self._document.problems.append(Problem(at, line or self._document.line(at), message))
