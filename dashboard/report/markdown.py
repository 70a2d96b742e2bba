"""The report as Markdown for a pull request: the winners, and each device's ranking folded under them. Pure."""

import re
from collections.abc import Sequence

from dashboard.margin_sentences import Sentence
from dashboard.report.sections import Section, TextTable

_ESCAPED = re.compile(r"[\\`|~$]|\*(?=\S)|(?<=\S)\*|(?<![^\W_])_|_(?![^\W_])|\](?=[(\[:])")
"""Marks where they mean something: a star between spaces, an underscore within a word and brackets alone do not."""
_REFERRED = re.compile(r"<|^[>#]|&(?=[#\w])|[@#](?=\w)|:(?=//|[\w+-]+:)|(?<=www)\.", re.IGNORECASE)
"""HTML, mentions, numbers of issues, addresses and emojis, which an escape does not break. The other marks mean
something at the beginning of a line only, where none of this stands."""
_IN_HTML = re.compile(r"[<>&\"'@#:`*\\\[\]]|(?<=www)\.", re.IGNORECASE)
_MARKS = {"winner": "", "tied": "tied", "provisional": "provisional", "none": "none may ship"}


def markdown(
    sweep: str, sections: Sequence[Section], *, objective: str, version: str, notes: Sequence[str] = ()
) -> str:
    """Text in GitHub's Markdown. What comes from devices and models is shown literally: no link, mention or HTML.

    `notes`: of the whole sweep."""
    summary = TextTable(
        "",
        ("Device", "Model", "Ship", "p50", ""),
        [
            (section.device, section.model, section.headline, section.figure or "–", _MARKS[section.state])
            for section in sections
        ],
        frozenset({"p50"}),
    )
    lines = [f"## EdgeSweep: {_literal(sweep)}", "", *_table(summary), ""]
    lines += [f"Asked for: {_literal(objective)}. EdgeSweep {_literal(version)}.", ""]
    lines += [f"{_literal(note)}.\n" for note in notes]
    for section in sections:
        lines += ["<details>", f"<summary>{_html(section.model)} on {_html(section.device)}</summary>", ""]
        lines += [f"{_sentence(sentence)}\n" for sentence in section.sentences]
        for table in section.tables:
            lines += [f"**{table.title}**", "", *_table(table), ""]
        lines += [f"{_literal(name)}: {_literal(text)}  " for name, text in section.conditions]
        lines += ["", "</details>", ""]
    return "\n".join(lines)


def _table(table: TextTable) -> list[str]:
    ruler = ["---:" if name in table.numbers else "---" for name in table.columns]
    rows = [
        [_literal(name) for name in table.columns],
        ruler,
        *([_literal(cell) for cell in row] for row in table.rows),
    ]
    return [f"| {' | '.join(row)} |" for row in rows]


def _sentence(sentence: Sentence) -> str:
    return (f"**{_literal(sentence.strong)}**" if sentence.strong else "") + _literal(sentence.rest)


def _literal(text: str) -> str:
    """The text unchanged, except for characters that Markdown would not show literally. Addresses, mentions and emojis
    are broken, too."""
    escaped = _ESCAPED.sub(lambda match: f"\\{match[0]}", text)
    return _REFERRED.sub(lambda match: f"&#{ord(match[0])};", escaped)


def _html(text: str) -> str:
    """The text for an element of HTML, where Markdown's escapes do not count."""
    return _IN_HTML.sub(lambda match: f"&#{ord(match[0])};", text)
