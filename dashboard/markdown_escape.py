"""The escaping of untrusted text from the store, so that Markdown shows it literally."""

import re

from sweeps.text import FORMULA_STARTS, plain

NOTHING = "–"
_MARKS = r"\[\]{}#+!|*&"
"""Characters that Markdown takes for marks, and that a backslash makes harmless, because Streamlit does not replace
them afterwards."""
_HARMLESS = re.compile(
    rf"(?!\d+\))(?:[^\W_]|[{_MARKS}])"
    rf"(?:[^\W_]|[ ·,;()/≈×%°–?'\"{_MARKS}]|:(?= )|(?<=\d):(?=\d)|(?<=[^\W_])[-_.](?=[^\W_]))*"
)
_MARK = re.compile(f"[{_MARKS}]")
_EMOJI = re.compile(r":\d[\w+-]{2,}:")
"""Pattern of emoji names that begin with a digit: `1:100:2` contains `:100:`, which has a picture, like `:8ball:`. A
time of day (`12:30:05`) contains none."""
_FIGURE = re.compile(r"[+-]\d[\d.,  ]*(?:[×%°]|(?: [^\W\d_]+| ?[%–×])*)")
_ADDRESS = re.compile(r"www|\.[^\W\d]|\d\.\D", re.IGNORECASE)


def line(text: str) -> str:
    """Return the text as one line without control characters, `–` if empty, for elements without Markdown (`st.text`,
    cells, axes)."""
    return plain(" ".join(text.split())) or NOTHING


def cell(value: object) -> object:
    """Return a value for a table's cell. Text becomes one line without control characters, with an apostrophe before
    text that a spreadsheet would take for a formula; a figure with its unit (`-0.3 points`) gets none."""
    if not isinstance(value, str):
        return value
    text = plain(" ".join(value.split()))
    return f"'{text}" if text.startswith(FORMULA_STARTS) and not _FIGURE.fullmatch(text) else text


def inert(text: str) -> str:
    """Return a Markdown code span that shows `text` literally, for labels and messages that Streamlit renders.

    Backslashes are not enough: Streamlit and remark-gfm replace URLs, `:emoji:`, `:material/icons:` and arrows after
    Markdown's own escapes are resolved, but only in text nodes. A code span is not a text node, and a fence that is
    longer than any run of backticks in the content cannot be closed by it. Streamlit makes one replacement before it
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
    """Return text that Markdown shows literally: unchanged if it contains no marks, with backslashes if they are enough
    (`model[1]`), otherwise as `inert`."""
    shown = line(text)
    if not _HARMLESS.fullmatch(shown) or _ADDRESS.search(shown) or _EMOJI.search(shown) or "__" in shown:
        return inert(text)
    return _MARK.sub(r"\\\g<0>", shown)
