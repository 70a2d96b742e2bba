"""infra/glossary.md gives each word of the house one meaning, in one sentence, and the module where it lives."""

import re
from pathlib import Path

ROOT = Path(__file__).parents[1]
TEXT = (ROOT / "infra" / "glossary.md").read_text(encoding="utf-8")
ROWS = [
    tuple(cell.strip() for cell in line.strip("|").split("|"))
    for line in TEXT.splitlines()
    if line.startswith("| ") and not line.startswith("| word |")
]


def test_each_word_stands_there_once() -> None:
    words = [word for word, _, _ in ROWS]
    assert len(words) > 40
    assert [word for word in words if words.count(word) > 1] == []


def test_each_word_has_one_sentence() -> None:
    assert [word for word, meaning, _ in ROWS if not re.fullmatch(r"[A-Z][^.]+\.", meaning)] == []


def test_each_word_lives_in_a_module_that_there_is() -> None:
    missing = {word: where for word, _, where in ROWS if not (ROOT / where.strip("`")).is_file()}
    assert missing == {}, "infra/glossary.md: name the module where the word lives now"
