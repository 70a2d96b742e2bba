"""Reads from an ExecuTorch file what a runner must know before it gives data to it. Standard library only.

A file for NHWC data that gets NCHW data computes wrong answers without an error: ExecuTorch compares no layouts. The
file is a FlatBuffer of the schema `program.fbs`; a field's number is its place in its table of the schema.
"""

import struct
from dataclasses import dataclass
from pathlib import Path

IDENTIFIER = "ET12"
"""The identifier of files that ExecuTorch 1.3 and 1.5 read and write."""
MOST_BYTES = 8 * 1024 * 1024
"""The bytes that are read of a file, from its beginning: weights and delegates' data come after its head."""

_PLANS = 1
_NAME, _VALUES, _INPUTS, _OUTPUTS, _OPERATORS, _DELEGATES = 0, 2, 3, 4, 6, 7
_KIND, _VALUE = 0, 1
_TENSOR = 5
_SIZES, _DIM_ORDER = 2, 3


class NoProgram(Exception):  # noqa: N818  # what it says of the file
    """The file is not an ExecuTorch file, or is damaged."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Tensor:
    """An input or output of a method."""

    sizes: tuple[int, ...]
    dim_order: tuple[int, ...]
    """The tensor's dimensions from the outermost to the innermost in memory: (0, 2, 3, 1) is NHWC."""

    @property
    def memory_format(self) -> str:
        return "channels_last" if self.dim_order == (0, 2, 3, 1) else "contiguous_format"


@dataclass(frozen=True, slots=True, kw_only=True)
class Head:
    """The facts about the method `forward` at the beginning of a file."""

    identifier: str
    version: int
    inputs: tuple[Tensor, ...]
    outputs: tuple[Tensor, ...]
    operators: tuple[str, ...]
    """The operators that are not in a delegate, as their kernels are named: `aten::add.out`."""
    delegates: tuple[str, ...]
    """The backends to which the model was lowered, each once: `XnnpackBackend`."""


def read(file: Path) -> Head:
    """Return the head of a file. Raises `NoProgram`, and `OSError`."""
    with file.open("rb") as content:
        head = content.read(MOST_BYTES)
    try:
        return of_bytes(head)
    except (struct.error, IndexError, UnicodeDecodeError, ValueError) as error:
        raise NoProgram(f"{file.name} is damaged, or no file of ExecuTorch") from error


def of_bytes(content: bytes) -> Head:
    """Return the head of a complete file, or of the first `MOST_BYTES` of one. Raises `ValueError`, `struct.error` or
    `IndexError` if the file is damaged."""
    identifier = content[4:8].decode("ascii")
    if not identifier.startswith("ET"):
        raise ValueError("another identifier")
    program = _Table(content, _at("<I", content, 0))
    for plan in program.tables(_PLANS):
        if plan.text(_NAME) == "forward":
            values = plan.tables(_VALUES)
            return Head(
                identifier=identifier,
                version=program.number(0, "<I"),
                inputs=tuple(_tensor(values[index]) for index in plan.numbers(_INPUTS, "<i")),
                outputs=tuple(_tensor(values[index]) for index in plan.numbers(_OUTPUTS, "<i")),
                operators=tuple(sorted({_operator(table) for table in plan.tables(_OPERATORS)})),
                delegates=tuple(sorted({table.text(0) for table in plan.tables(_DELEGATES)})),
            )
    raise ValueError("no method forward")


def _tensor(value: "_Table") -> Tensor:
    if value.number(_KIND, "<B") != _TENSOR:
        raise ValueError("not a tensor")
    tensor = value.table(_VALUE)
    return Tensor(sizes=tensor.numbers(_SIZES, "<i"), dim_order=tensor.numbers(_DIM_ORDER, "<B"))


def _operator(table: "_Table") -> str:
    name, overload = table.text(0), table.text(1)
    return f"{name}.{overload}" if overload else name


class _Table:
    """A table of a FlatBuffer. Offsets outside of the content raise `struct.error` or `ValueError`."""

    def __init__(self, content: bytes, position: int) -> None:
        self._content = content
        self._position = position
        self._fields = position - _at("<i", content, position)

    def _field(self, number: int) -> int | None:
        slot = 4 + 2 * number
        if slot >= _at("<H", self._content, self._fields):
            return None
        offset = _at("<H", self._content, self._fields + slot)
        return self._position + offset if offset else None

    def number(self, field: int, format: str) -> int:
        place = self._field(field)
        return 0 if place is None else _at(format, self._content, place)

    def _target(self, field: int) -> int | None:
        place = self._field(field)
        return None if place is None else place + _at("<I", self._content, place)

    def table(self, field: int) -> "_Table":
        target = self._target(field)
        if target is None:
            raise ValueError("a table is missing")
        return _Table(self._content, target)

    def _vector(self, field: int, size: int) -> tuple[int, int]:
        target = self._target(field)
        if target is None:
            return 0, 0
        count = _at("<I", self._content, target)
        if target + 4 + count * size > len(self._content):
            raise ValueError("a vector ends outside")
        return target + 4, count

    def numbers(self, field: int, format: str) -> tuple[int, ...]:
        size = struct.calcsize(format)
        first, count = self._vector(field, size)
        return tuple(_at(format, self._content, first + size * index) for index in range(count))

    def tables(self, field: int) -> list["_Table"]:
        first, count = self._vector(field, 4)
        places = (first + 4 * index for index in range(count))
        return [_Table(self._content, place + _at("<I", self._content, place)) for place in places]

    def text(self, field: int) -> str:
        first, count = self._vector(field, 1)
        return self._content[first : first + count].decode()


def _at(format: str, content: bytes, position: int) -> int:
    if position < 0:
        raise ValueError("an offset before the file")
    value: int = struct.unpack_from(format, content, position)[0]
    return value
