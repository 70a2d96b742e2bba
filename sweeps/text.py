"""Text for people: durations, and text from outside (devices, models, files) made safe to print on a terminal."""

from collections.abc import Sequence

LONGEST = 300
"""The largest number of characters of a reason in a line or table: three lines of a wide terminal."""


FORMULA_STARTS = ("=", "+", "-", "@", "＝", "＋", "－", "＠")
"""A spreadsheet treats a cell that begins with one of these as a formula."""

MOST_NAMES = 4
"""The largest number of names in a line; further names are only counted, because the table next to the line has
them."""


LONGEST_NAME = 120
"""The largest number of characters shown of a name that comes from a file."""


def short_name(name: str) -> str:
    """Return a name from a file as one line; if it is long, its beginning and its number of characters."""
    line = plain(name[:LONGEST_NAME]).replace("\n", "�")
    return line if len(name) <= LONGEST_NAME else f"{line}... ({len(name):,} characters)"


def some(names: Sequence[str], most: int = MOST_NAMES) -> str:
    """Return the names as text; if there are more than `most`, only the first ones: `a, b, c, d and 9 more`."""
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
    """Return the shortest text that is exactly this number: `1`, `0.12345678`, `1234567`."""
    return repr(float(value)).removesuffix(".0")


def duration(seconds: float) -> str:
    """Return a duration as text like `40 s`, `3 min` or `2.5 h`."""
    if seconds < 90:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 5400 else f"{seconds / 3600:.1f} h"
