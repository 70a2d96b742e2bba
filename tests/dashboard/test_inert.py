"""Text of the store has no meaning for Markdown."""

import html
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st
from markdown_it import MarkdownIt

from dashboard.inert import inert, line

MARKUP = st.text(alphabet=st.sampled_from(list("`*_[]()<>!#$:|~-\\&; \n\tab/\u202e\x1b")), max_size=40)


@given(MARKUP | st.text(max_size=40))
def test_markdown_shows_any_text_to_the_letter(text: str) -> None:
    shown = MarkdownIt("commonmark").render(f"before {inert(text)} after")
    found = re.fullmatch(r"<p>before <code>(.*)</code> after</p>\n", shown)
    assert found is not None, shown
    assert html.unescape(found.group(1)).replace("\u2060", "") == line(text)


@pytest.mark.parametrize("text", ["", "  ", "\n\t"])
def test_nothing_is_shown_as_a_dash(text: str) -> None:
    assert line(text) == "–"


def test_a_line_has_no_control_characters_and_no_direction_overrides() -> None:
    assert line("a\x1b[31mb\u202ec\nd") == "a�[31mb�c d"


def test_streamlits_own_replacement_of_material_icons_does_not_match() -> None:
    assert ":material/" not in inert("x :material/home: y")
