"""Explanations of the words of results, from the table of `edgesweep explain`: meaning, cause and remedy."""

import re
from collections.abc import Iterable

import streamlit as st

from sweeps.report.explanations import Explanation, Sort, explained

_OPTION = re.compile(r"--[a-z-]+")
"""Pattern of command-line options in explanations, which become code: otherwise Streamlit replaces their two dashes by
one long dash."""


def tip(sort: Sort, word: str) -> str | None:
    """Return the explanation of a word in Markdown, for a tooltip; `None` if there is none."""
    return "\n\n".join(map(_said, explained(sort, word))) or None


def show(reasons: Iterable[tuple[Sort, str]]) -> None:
    """Draw the explanations of these words, each once, in places without tooltips: table cells have none."""
    explanations = list(dict.fromkeys(explanation for sort, word in reasons for explanation in explained(sort, word)))
    if explanations:
        with st.expander("What these reasons mean, and what to do", icon=":material/info:"):
            for explanation in explanations:
                st.markdown(f"**{explanation.word}**: {_said(explanation)}")


def _said(explanation: Explanation) -> str:
    parts = (
        explanation.meaning,
        f"why: {explanation.why}" if explanation.why else "",
        f"what to do: {explanation.todo}" if explanation.todo else "",
    )
    sentences = " ".join(f"{part[0].upper()}{part[1:]}." for part in parts if part)
    return _OPTION.sub(r"`\g<0>`", sentences)
