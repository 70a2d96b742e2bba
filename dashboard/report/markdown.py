"""The report as Markdown for a pull request: the winners, and each device's ranking folded under them. Pure."""

import re
from collections.abc import Sequence

from dashboard.beats import Sentence
from dashboard.report.sections import Section, TextTable

_SPECIAL = re.compile(r"[\\`*_{}\[\]#|<>~$:@&/]|\.(?=[^\W\d])")
"""The other marks mean something at the beginning of a line only, where none of this stands."""
_MARKS = {"winner": "", "tied": "tied", "provisional": "provisional", "none": "none may ship"}


def markdown(sweep: str, there: Sequence[Section], *, objective: str, version: str, notes: Sequence[str] = ()) -> str:
    """Text in GitHub's Markdown. What comes from devices and models is shown literally: no link, mention or HTML.

    `notes`: of the whole sweep."""
    summary = TextTable(
        "",
        ("Device", "Model", "Ship", "p50", ""),
        [(one.device, one.model, one.headline, one.figure or "–", _MARKS[one.state]) for one in there],
        frozenset({"p50"}),
    )
    lines = [f"## EdgeSweep: {_literal(sweep)}", "", *_table(summary), ""]
    lines += [f"Asked for: {_literal(objective)}. EdgeSweep {_literal(version)}.", ""]
    lines += [f"{_literal(note)}.\n" for note in notes]
    for one in there:
        lines += ["<details>", f"<summary>{_html(one.model)} on {_html(one.device)}</summary>", ""]
        lines += [f"{_sentence(said)}\n" for said in one.sentences]
        for table in one.tables:
            lines += [f"**{table.title}**", "", *_table(table), ""]
        lines += [f"{_literal(name)}: {_literal(text)}  " for name, text in one.conditions]
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


def _sentence(said: Sentence) -> str:
    return (f"**{_literal(said.strong)}**" if said.strong else "") + _literal(said.rest)


def _literal(text: str) -> str:
    """Every mark of Markdown escaped; an address, a mention and an emoji are broken by it too."""
    return _SPECIAL.sub(lambda found: _html(found[0]) if found[0] in "<>&@:/.#" else rf"\{found[0]}", text)


def _html(text: str) -> str:
    """As character references, where Markdown's escapes do not count."""
    return "".join(char if char.isalnum() or char in " ·-–×%,;°" else f"&#{ord(char)};" for char in text)
