"""Escapes text from the store, which is not trusted, so that Markdown shows it literally."""

import re

from sweeps.text import FORMULA_STARTS, plain

NOTHING = "–"
_MARKS = r"\[\]{}#+!|*&"
"""Markdown reads these characters as marks; Streamlit does not replace them afterwards, so a backslash makes them
harmless."""
_HARMLESS = re.compile(
    rf"(?!\d+\))(?:[^\W_]|[{_MARKS}])"
    rf"(?:[^\W_]|[ ·,;()/≈×%°–?'\"{_MARKS}]|:(?= )|(?<=\d):(?=\d)|(?<=[^\W_])[-_.](?=[^\W_]))*"
)
_MARK = re.compile(f"[{_MARKS}]")
_EMOJI = re.compile(r":\d[\w+-]{2,}:")
"""`1:100:2` holds one: `:100:` has a picture, as `:8ball:` has. A time of day (`12:30:05`) holds none."""
_FIGURE = re.compile(r"[+-]\d[\d.,  ]*(?:[×%°]|(?: [^\W\d_]+| ?[%–×])*)")
_ADDRESS = re.compile(r"www|\.[^\W\d]|\d\.\D", re.IGNORECASE)


def line(text: str) -> str:
    """The text as one line without control characters, `–` if empty: for elements without Markdown (`st.text`, cells,
    axes)."""
    return plain(" ".join(text.split())) or NOTHING


def cell(value: object) -> object:
    """A value of a table. Text becomes one line without control characters, with an apostrophe before what a
    spreadsheet would take for a formula; a figure with its unit (`-0.3 points`) is none."""
    if not isinstance(value, str):
        return value
    text = plain(" ".join(value.split()))
    return f"'{text}" if text.startswith(FORMULA_STARTS) and not _FIGURE.fullmatch(text) else text


def inert(text: str) -> str:
    """A Markdown code span that shows `text` literally, for labels and messages that Streamlit renders.

    Backslashes are not enough: Streamlit and remark-gfm replace addresses, `:emoji:`, `:material/icons:` and arrows
    after Markdown's own escapes are resolved, but only in text nodes. A code span is not a text node, and a fence that
    is longer than any run of backticks in the content cannot be closed by it. Streamlit makes one replacement before it
    parses Markdown (`:material/` becomes `:material_`); a word joiner, which has no width, prevents the match.
    """
    shown = line(text).replace(":material/", ":material\u2060/")
    longest = run = 0
    for char in shown:
        run = run + 1 if char == "`" else 0
        longest = max(longest, run)
    fence = "`" * (longest + 1)
    pad = " " if longest else ""
    return f"{fence}{pad}{shown}{pad}{fence}"


def words(text: str) -> str:
    """Text for Markdown that shows literally: as it is if nothing in it can mean anything else, with a backslash where
    that is enough (`model[1]`), otherwise `inert`."""
    shown = line(text)
    if not _HARMLESS.fullmatch(shown) or _ADDRESS.search(shown) or _EMOJI.search(shown) or "__" in shown:
        return inert(text)
    return _MARK.sub(r"\\\g<0>", shown)
