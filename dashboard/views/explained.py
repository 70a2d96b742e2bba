"""Pages explain the words of results by the table of `edgesweep explain`: meaning, cause and remedy."""

import re
from collections.abc import Iterable

import streamlit as st

from sweeps.report.explanations import Explanation, Sort, explained

_OPTION = re.compile(r"--[a-z-]+")
"""Streamlit makes one long dash of two short ones, unless they are code. The texts of the table are our own."""


def tip(sort: Sort, word: str) -> str | None:
    """Markdown for a tooltip; `None` if nothing explains the word."""
    return "\n\n".join(map(_said, explained(sort, word))) or None


def show(found: Iterable[tuple[Sort, str]]) -> None:
    """All of them, each once, where there is no place for tooltips: cells of tables have none."""
    each = list(dict.fromkeys(one for sort, word in found for one in explained(sort, word)))
    if each:
        with st.expander("What these reasons mean, and what to do", icon=":material/info:"):
            for one in each:
                st.markdown(f"**{one.word}**: {_said(one)}")


def _said(one: Explanation) -> str:
    parts = (one.meaning, f"why: {one.why}" if one.why else "", f"what to do: {one.todo}" if one.todo else "")
    said = " ".join(f"{part[0].upper()}{part[1:]}." for part in parts if part)
    return _OPTION.sub(r"`\g<0>`", said)
