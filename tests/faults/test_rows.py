"""Every fault of the list is injected by a test, or says why none does; and the table shows what was seen."""

import time
from pathlib import Path

import pytest
from fault_rows import READS, ROWS, Injection, injections

from tests.faults import seen
from tests.faults.invariants import ALL
from tests.faults.plugin import Line, lines_of, table, unchecked


def test_all_58_rows_are_injected_or_say_why_not() -> None:
    assert list(ROWS) == list(range(1, 59))
    injected = {injection.row for injection in injections()}
    assert [number for number, row in ROWS.items() if (number in injected) == bool(row.elsewhere)] == []


def test_a_mark_that_does_not_say_how_is_refused(tmp_path: Path) -> None:
    test = tmp_path / "tests" / "test_one.py"
    test.parent.mkdir()
    body = "def test_it():\n    pass\n"
    test.write_text(f'@pytest.mark.fault(3, "unplugged", "named")\n{body}')
    assert injections(tmp_path) == [Injection(3, "unplugged", "named", "tests/test_one.py", "test_it")]
    for wrong in ('3, "unplugged"', '99, "unplugged", "named"', '"unplugged", 3, "named"'):
        test.write_text(f"@pytest.mark.fault({wrong})\n{body}")
        with pytest.raises(ValueError, match=r"tests/test_one\.py:1: a fault is a row"):
            injections(tmp_path)


def report(outcome: str, *properties: tuple[int, str, str, float | None, list[int], int | None]) -> pytest.TestReport:
    user = [("fault", entry) for entry in properties]
    return pytest.TestReport("t.py::t", ("t.py", 1, "t"), {}, outcome, None, "call", user_properties=user)


def test_the_table_has_a_line_per_way_with_what_all_its_tests_saw() -> None:
    lines = lines_of(
        [
            report(
                "passed", (2, "pulled", "sent later", 1.25, [1, 2, 3], 2), (1, "pulled", "waited for", None, [1], None)
            ),
            report("passed", (2, "pulled", "sent later", 3.5, [4, 5, 6], 0)),
            report("failed", (4, "no key", "left out", 0.5, [], None)),
            report("passed", (52, "no store", "says so", None, [], None)),
        ]
    )
    head, *rows = table(lines)
    assert head.split("  ")[0] == "row"
    shown = [[cell.strip() for cell in row.split("  ") if cell.strip()] for row in rows]
    assert shown == [
        ["1", ROWS[1].fault, "pulled", "-", "waited for", "1", "-"],
        ["2", ROWS[2].fault, "pulled", "3.5 s", "sent later", "all six hold", "0, 2"],
        ["4", ROWS[4].fault, "no key", "0.5 s", "FAILED", "-", "-"],
        ["52", ROWS[52].fault, "no store", "-", "says so", READS, "-"],
    ]
    assert unchecked(lines) == [1, 4]


def test_a_row_is_checked_by_all_of_its_ways_together() -> None:
    some = [Line(7, "a", "b", held={1, 2, 3}), Line(7, "c", "d", held={4, 5})]
    assert unchecked(some) == [7]
    assert unchecked([*some, Line(7, "e", "f", held={*ALL})]) == []


def test_the_first_word_counts_and_the_last_injection_before_it() -> None:
    saw = seen.begin()
    seen.told()
    assert saw.after_s is None, "of something else: nothing was injected yet"
    seen.injected()
    time.sleep(0.01)
    seen.injected()
    last = saw.injected
    seen.told()
    first = saw.told
    seen.injected()
    seen.told()
    assert (saw.injected, saw.told) == (last, first)
    assert saw.after_s is not None
    assert saw.after_s >= 0
