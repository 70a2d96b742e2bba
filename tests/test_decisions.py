"""infra/DECISIONS.md has the decisions that stand: each a number, a title, a status and one paragraph."""

import re
from pathlib import Path

TEXT = (Path(__file__).parents[1] / "infra" / "DECISIONS.md").read_text(encoding="utf-8")
DECISIONS = {
    int(number): body.strip() for number, body in re.findall(r"^### (\d+)\. .+\n((?:(?!#).*\n?)+)", TEXT, re.MULTILINE)
}


def test_each_number_stands_there_once() -> None:
    numbers = re.findall(r"^### (.+?)\. \S", TEXT, re.MULTILINE)
    assert len(numbers) > 50
    assert sorted(numbers, key=int) == sorted(map(str, DECISIONS), key=int)


def test_each_has_a_date_a_status_and_one_paragraph() -> None:
    headed = re.compile(r"\*\d{4}-\d{2}-\d{2}; [^*]+\.\* \S")
    assert [number for number, body in DECISIONS.items() if not headed.match(body) or "\n\n" in body] == []


def test_what_narrows_a_decision_stands_there_and_what_was_replaced_does_not() -> None:
    statuses = {number: body.split("*")[1] for number, body in DECISIONS.items()}
    narrowing = {int(other) for status in statuses.values() for other in re.findall(r"narrowed by (\d+)", status)}
    replaced = {int(other) for status in statuses.values() for other in re.findall(r"replaces (\d+)", status)}
    assert narrowing
    assert narrowing <= DECISIONS.keys()
    assert replaced & DECISIONS.keys() == set()
