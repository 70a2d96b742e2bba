"""Text for people: durations, and text from outside (devices, models, files) made safe to print on a terminal."""

from collections.abc import Sequence

LONGEST = 300
"""Characters of a reason in a line or table: three lines of a wide terminal."""


FORMULA_STARTS = ("=", "+", "-", "@", "＝", "＋", "－", "＠")
"""A cell that begins so is a formula to a spreadsheet."""

MOST_NAMES = 4
"""More than these are counted in a line: the table beside it has them."""


LONGEST_NAME = 120
"""Characters of a name that a file gave to something."""


def short_name(name: str) -> str:
    """A name from a file, in one line: of a long one the beginning, and how many characters it has."""
    line = plain(name[:LONGEST_NAME]).replace("\n", "�")
    return line if len(name) <= LONGEST_NAME else f"{line}... ({len(name):,} characters)"


def some(names: Sequence[str], most: int = MOST_NAMES) -> str:
    """The names, of more than `most` only the first ones: `a, b, c, d and 9 more`."""
    rest = len(names) - most
    return ", ".join(names[:most]) + (f" and {rest} more" if rest > 0 else "")


def plain(text: str) -> str:
    """`text` without control characters, so that it cannot move the cursor or change colours."""
    return "".join(char if char.isprintable() or char == "\n" else "�" for char in text)


def shortened(text: str, whole: str) -> str:
    """`text`, or its beginning with the command that prints all of it (`whole`). Errors of torch may have thousands of
    characters."""
    return text if len(text) <= LONGEST else f"{text[:LONGEST].rstrip()} ... (all of it: {whole})"


def digits(value: float) -> str:
    """The shortest text that is this number, and no other one: `1`, `0.12345678`, `1234567`."""
    return repr(float(value)).removesuffix(".0")


def duration(seconds: float) -> str:
    """`40 s`, `3 min` or `2.5 h`."""
    if seconds < 90:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 5400 else f"{seconds / 3600:.1f} h"
