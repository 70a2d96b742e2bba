"""The report as Markdown for a pull request: the winners, and below them each device's ranking in a folded section.
Pure."""

import re
from collections.abc import Sequence

from dashboard.margin_sentences import Sentence
from dashboard.report.sections import Section, TextTable

_ESCAPED = re.compile(r"[\\`|~$]|\*(?=\S)|(?<=\S)\*|(?<![^\W_])_|_(?![^\W_])|\](?=[(\[:])")
"""Pattern of Markdown marks that a backslash escapes, only in positions where they have a meaning: a star between
spaces, an underscore within a word and brackets alone have none."""
_REFERRED = re.compile(r"<|^[>#]|&(?=[#\w])|[@#](?=\w)|:(?=//|[\w+-]+:)|(?<=www)\.", re.IGNORECASE)
"""Pattern of characters that begin HTML, mentions, numbers of issues, URLs and emojis, which a backslash does not
break. Markdown's remaining marks have a meaning only at the beginning of a line, where no untrusted text is placed."""
_IN_HTML = re.compile(r"[<>&\"'@#:`*\\\[\]]|(?<=www)\.", re.IGNORECASE)
_MARKS = {"winner": "", "tied": "tied", "provisional": "provisional", "none": "none may ship"}


def markdown(
    sweep: str, sections: Sequence[Section], *, objective: str, version: str, notes: Sequence[str] = ()
) -> str:
    """Return the report in GitHub's Markdown. Text from devices and models is shown literally: no link, mention or
    HTML.

    `notes`: notes about the whole sweep."""
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
    """Escape the characters that Markdown would not show literally. URLs, mentions and emojis are broken, too."""
    escaped = _ESCAPED.sub(lambda match: f"\\{match[0]}", text)
    return _REFERRED.sub(lambda match: f"&#{ord(match[0])};", escaped)


def _html(text: str) -> str:
    """Escape text for an HTML element, in which Markdown's escapes have no effect."""
    return _IN_HTML.sub(lambda match: f"&#{ord(match[0])};", text)
