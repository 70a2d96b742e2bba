"""Text from the store is hostile: here it loses every meaning that Markdown could give it."""

from sweeps.text import plain

NOTHING = "–"


def line(text: str) -> str:
    """One line without control characters, `–` for nothing: for what shows text as it is (`st.text`, cells, axes)."""
    return plain(" ".join(text.split())) or NOTHING


def inert(text: str) -> str:
    """A Markdown code span that shows `text` to the letter, for labels and messages that Streamlit renders.

    Backslashes would not do: Streamlit and remark-gfm turn addresses, `:emoji:`, `:material/icons:` and arrows into
    something else after Markdown's own escapes are resolved, but in text nodes only. A code span is none, and a fence
    that is longer than any run of backticks inside cannot be closed by its content. One replacement is made by
    Streamlit before Markdown is read at all (`:material/` becomes `:material_`); a word joiner, which has no width,
    keeps it from matching.
    """
    shown = line(text).replace(":material/", ":material\u2060/")
    longest = run = 0
    for char in shown:
        run = run + 1 if char == "`" else 0
        longest = max(longest, run)
    fence = "`" * (longest + 1)
    pad = " " if longest else ""
    return f"{fence}{pad}{shown}{pad}{fence}"
