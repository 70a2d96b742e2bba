"""Parses a tensor that PyTorch's C++ printed (`std::cout << tensor`, aten/src/ATen/core/Formatting.cpp).

    Columns 1 to 100.01 *
     0.3291  0.7182  0.1562  0.3616  0.8385  0.2422  1.0216  0.5169  0.2825  3.6127

    Columns 11 to 120.01 *
     0.0550  0.3438
    [ CPUFloatType{1,12} ]

There is no separator between the last column's number and the scale or first value: here columns 1 to 10, times 0.01.
"""

import math
import re
from itertools import pairwise

from sweeps.errors import RunnerError

_FOOTER = re.compile(
    r"\[ ([\w\[\]]{1,80})\{([0-9]{0,12}(?:,[0-9]{1,12}){0,8})\}(, qscheme: [^\n]{1,400})? \]", re.ASCII
)
_FLOATS = re.compile(r"(?:Variable\[)?(?:Quantized)?CPU(?:Float|Double|Half|BFloat16|QUInt8|QInt8)Type\]?", re.ASCII)
_COLUMNS = re.compile(r"^Columns ([0-9]{1,12}) to ", re.MULTILINE | re.ASCII)
_SCALE = re.compile(r"\s*([0-9.]{1,40}(?:e[+-]?[0-9]{1,3})?) \*\n", re.ASCII)
_NUMBER = re.compile(r"-?(?:[0-9]{1,40}(?:\.[0-9]{1,40})?(?:e[+-]?[0-9]{1,3})?|inf|nan)", re.ASCII)


def read_matrix(text: str) -> list[list[float]]:
    """Return the rows of one printed matrix of real numbers; a quantized one is printed dequantized.

    PyTorch prints four decimals of the values or, if they are large or small, of the values divided by the scale. So
    parsed values differ from the tensor by at most 5e-5, times its largest absolute value if that is above 1. NaN and
    infinity stay. Raises `RunnerError`: `bad_output` if the text is not such a matrix, `garbled` if it is incomplete.
    """
    values, newline, footer = text.rstrip().rpartition("\n")
    match = _FOOTER.fullmatch(footer)
    if match is None:
        raise RunnerError("bad_output", f"the model answers something else than one tensor: {footer[:80]!r}")
    kind, shape = match[1], tuple(int(size) for size in match[2].split(",") if size)
    if len(shape) != 2 or _FLOATS.fullmatch(kind) is None:
        raise RunnerError("bad_output", f"the model answers {kind} of shape {shape}, not floats of (batch, classes)")
    rows, columns = shape
    parts = [_part(block, rows, width) for block, width in _blocks(values + newline, columns)]
    return [[value for part in parts for value in part[row]] for row in range(rows)]


def _blocks(text: str, columns: int) -> list[tuple[str, int]]:
    """Return for each group of columns its text without the heading, and its number of columns."""
    headings = list(_COLUMNS.finditer(text))
    if not headings:
        return [(text, columns)]
    if text[: headings[0].start()].strip():
        raise _garbled("something stands before its first column")
    firsts = [int(heading[1]) for heading in headings]
    ends = [heading.start() for heading in headings[1:]] + [len(text)]
    blocks = []
    for heading, end, (first, next_) in zip(headings, ends, pairwise([*firsts, columns + 1]), strict=True):
        block, last = text[heading.end() : end], str(next_ - 1)
        if next_ <= first or not block.startswith(last):
            raise _garbled(f"its columns from {first} on do not end at {last}")
        blocks.append((block.removeprefix(last), next_ - first))
    if firsts[0] != 1:
        raise _garbled(f"its first column is {firsts[0]}")
    return blocks


def _part(block: str, rows: int, columns: int) -> list[list[float]]:
    scale = 1.0
    if match := _SCALE.match(block):
        scale, block = _number(match[1]), block[match.end() :]
    words = block.split()
    if len(words) != rows * columns:
        raise _garbled(f"{len(words)} numbers stand where {rows} x {columns} were printed")
    values = [_number(word) * scale for word in words]
    return [values[row * columns : (row + 1) * columns] for row in range(rows)]


def _number(word: str) -> float:
    if _NUMBER.fullmatch(word) is None:
        raise _garbled(f"{word[:40]!r} is no number")
    value = float(word)
    return math.nan if math.isnan(value) else value


def _garbled(why: str) -> RunnerError:
    return RunnerError("garbled", f"the printed output is invalid: {why}")
