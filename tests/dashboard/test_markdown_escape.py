"""Text of the store has no meaning for Markdown."""

import html
import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from markdown_it import MarkdownIt

from dashboard.markdown_escape import cell, inert, line, words
from dashboard.views import tables

MARKUP = st.text(alphabet=st.sampled_from(list("`*_[]()<>!#$:|~-\\&; \n\tab/\u202e\x1b")), max_size=40)


@given(MARKUP | st.text(max_size=40))
def test_markdown_shows_any_text_to_the_letter(text: str) -> None:
    shown = MarkdownIt("commonmark").render(f"before {inert(text)} after")
    match = re.fullmatch(r"<p>before <code>(.*)</code> after</p>\n", shown)
    assert match is not None, shown
    assert html.unescape(match.group(1)).replace("\u2060", "") == line(text)


MARKED = st.text(alphabet=st.sampled_from(list("[]()!*#+|{}&;a1 .:-'\"x")), max_size=12)


@given(MARKED | MARKUP | st.text(max_size=40))
@pytest.mark.parametrize("before", ["", "before "])
def test_words_are_shown_to_the_letter_wherever_they_stand(before: str, text: str) -> None:
    shown = MarkdownIt("gfm-like", {"linkify": False, "html": True}).render(f"{before}{words(text)}")
    match = re.fullmatch(rf"<p>{before}(?:<code>(.*)</code>|(.*))</p>\n", shown)
    assert match is not None, shown
    letters = match.group(1) or match.group(2)
    assert "<" not in letters
    assert html.unescape(letters).replace("\u2060", "") == line(text)


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("1:100:2", "`1:100:2`"),
        ("1:1234:2", "`1:1234:2`"),
        ("rows 1:100: 2", "`rows 1:100: 2`"),
        ("1:8ball: x", "`1:8ball: x`"),
        ("a 1:1st_place_medal: b", "`a 1:1st_place_medal: b`"),
        ("1:10:2", "1:10:2"),
        ("12:30:05", "12:30:05"),
        ("0:1000", "0:1000"),
    ],
)
def test_a_range_is_shown_as_such_though_the_number_between_its_colons_has_a_picture(text: str, shown: str) -> None:
    assert words(text) == shown


@pytest.mark.parametrize("text", ["", "  ", "\n\t"])
def test_nothing_is_shown_as_a_dash(text: str) -> None:
    assert line(text) == "–"


def test_a_line_has_no_control_characters_and_no_direction_overrides() -> None:
    assert line("a\x1b[31mb\u202ec\nd") == "a�[31mb�c d"


def test_streamlits_own_replacement_of_material_icons_does_not_match() -> None:
    assert ":material/" not in inert("x :material/home: y")


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("=HYPERLINK(1)", "'=HYPERLINK(1)"),
        (" =1+1", "'=1+1"),
        ("@SUM(A1)", "'@SUM(A1)"),
        ("+1+cmd|' /C calc'!A0", "'+1+cmd|' /C calc'!A0"),
        ("-2*3", "'-2*3"),
        ("＝1", "'＝1"),
        ("Pixel\n9\x1b[31m", "Pixel 9�[31m"),
        ("-0.3 points", "-0.3 points"),
        ("+2.1 %", "+2.1 %"),
        ("– ", "–"),
        (7, 7),
        (None, None),
    ],
)
def test_a_cell_is_one_line_and_no_formula(text: object, shown: object) -> None:
    assert cell(text) == shown


def test_tables_are_drawn_in_one_way() -> None:
    """Every other way would bring formulas and newlines of devices into what Streamlit's button downloads."""
    views = Path(tables.__file__).parent
    drawing = re.compile(r"\b(?:st|column|box|place)\.(?:dataframe|table|data_editor)\(")
    assert [path.name for path in views.parent.rglob("*.py") if drawing.search(path.read_text())] == ["tables.py"]
