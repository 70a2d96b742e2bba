"""The text for people: durations, and text from outside (devices, models, files) made safe to print on a terminal."""

from collections.abc import Sequence

LONGEST = 300
"""The number of characters of a reason in a line or table: three lines of a wide terminal."""


FORMULA_STARTS = ("=", "+", "-", "@", "＝", "＋", "－", "＠")
"""A cell that begins so is a formula to a spreadsheet."""

MOST_NAMES = 4
"""A line counts the names beyond this number: the table beside it has them."""


LONGEST_NAME = 120
"""The number of characters of a name that a file gave to something."""


def short_name(name: str) -> str:
    """Write a name from a file, in one line: of a long one the beginning, and how many characters it has."""
    line = plain(name[:LONGEST_NAME]).replace("\n", "�")
    return line if len(name) <= LONGEST_NAME else f"{line}... ({len(name):,} characters)"


def some(names: Sequence[str], most: int = MOST_NAMES) -> str:
    """Write the names, of more than `most` only the first ones: `a, b, c, d and 9 more`."""
    rest = len(names) - most
    return ", ".join(names[:most]) + (f" and {rest} more" if rest > 0 else "")


def plain(text: str) -> str:
    """Return `text` without control characters, so that it cannot move the cursor or change colours."""
    return "".join(char if char.isprintable() or char == "\n" else "�" for char in text)


def shortened(text: str, whole: str) -> str:
    """Return `text`, or its beginning with the command that prints all of it (`whole`). Errors of torch may have
    thousands of characters."""
    return text if len(text) <= LONGEST else f"{text[:LONGEST].rstrip()} ... (all of it: {whole})"


def digits(value: float) -> str:
    """Write the shortest text that is this number, and no other one: `1`, `0.12345678`, `1234567`."""
    return repr(float(value)).removesuffix(".0")


def duration(seconds: float) -> str:
    """Write a duration like `40 s`, `3 min` or `2.5 h`."""
    if seconds < 90:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 5400 else f"{seconds / 3600:.1f} h"
