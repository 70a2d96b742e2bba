"""Collects what tests of faults saw, and shows it as a table at the end of `make faults`.

A test is marked with the row of infra/faults.md, how it injects that fault, and what must follow.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import pytest
from fault_rows import ROWS

from sweeps.errors import EdgeSweepError
from tests.faults import seen
from tests.faults.invariants import ALL
from tests.faulty_phone import FaultyPhone

_PROPERTY = "fault"
_INJECT = ("unplug", "hang", "lose_connections", "reboot", "restart_daemon", "stop_daemon", "fill_storage")


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--faults", action="store_true", help="show what was injected, and fail where an invariant was not checked"
    )


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Iterator[None]:
    """The figures go with the report, also from another worker of pytest-xdist."""
    marks = list(item.iter_markers(_PROPERTY))
    if not marks:
        return (yield)
    saw = seen.begin()
    with pytest.MonkeyPatch.context() as patch:
        for name in _INJECT:
            patch.setattr(FaultyPhone, name, _then(getattr(FaultyPhone, name), seen.injected))
        patch.setattr(EdgeSweepError, "__init__", _then(EdgeSweepError.__init__, seen.told))
        try:
            return (yield)
        finally:
            for mark in marks:
                row, how, outcome = mark.args
                item.user_properties.append((_PROPERTY, (row, how, outcome, saw.after_s, sorted(saw.held), saw.vain)))


def _then(call, note):
    """A method that is followed by a note of the time."""

    def noted(self, *arguments, **named):
        answer = call(self, *arguments, **named)
        note()
        return answer

    return noted


@dataclass(slots=True)
class Line:
    """One way of one row, over all tests that take it."""

    row: int
    how: str
    outcome: str
    after_s: list[float] = field(default_factory=list)
    held: set[int] = field(default_factory=set)
    vain: list[int] = field(default_factory=list)
    failed: list[str] = field(default_factory=list)
    not_run: list[str] = field(default_factory=list)


def lines_of(reports: Sequence[pytest.TestReport]) -> list[Line]:
    """The lines of all reports of tests that have run. A report that passed has gone through its call."""
    lines: dict[tuple[int, str, str], Line] = {}
    for report in reports:
        for row, how, outcome, after_s, held, vain in (
            value for name, value in report.user_properties if name == _PROPERTY
        ):
            line = lines.setdefault((row, how, outcome), Line(row, how, outcome))
            line.after_s += [] if after_s is None else [after_s]
            line.vain += [] if vain is None else [vain]
            if report.skipped:
                line.not_run.append(report.nodeid)
            elif report.failed:
                line.failed.append(report.nodeid)
            else:
                line.held |= set(held)
    return sorted(lines.values(), key=lambda line: (line.row, line.how))


def table(lines: Sequence[Line]) -> list[str]:
    """The table for people: fault, injected how, detected after, outcome, invariants, blocks that were begun in
    vain."""
    cells = [("row", "fault", "injected how", "detected after", "outcome", "invariants", "in vain")]
    cells += [
        (
            str(line.row),
            ROWS[line.row].fault,
            line.how,
            "-" if not line.after_s else f"{max(line.after_s):.1f} s",
            "FAILED" if line.failed else "NOT RUN" if line.not_run else line.outcome,
            ROWS[line.row].jobless or ("all six hold" if line.held == ALL else _spans(line.held)),
            ", ".join(map(str, sorted(line.vain))) or "-",
        )
        for line in lines
    ]
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    return ["  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in cells]


def _spans(held: set[int]) -> str:
    return ", ".join(map(str, sorted(held))) or "-"


def unchecked(lines: Sequence[Line]) -> list[int]:
    """Rows of jobs that were injected, with none of their tests having checked all invariants."""
    held: dict[int, set[int]] = {}
    for line in lines:
        held.setdefault(line.row, set()).update(line.held)
    return [row for row, numbers in sorted(held.items()) if not ROWS[row].jobless and numbers != ALL]


class Summary:
    """The reports and the table of the process that starts the workers."""

    def __init__(self) -> None:
        self._reports: list[pytest.TestReport] = []

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.when == "call":
            self._reports.append(report)

    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        if unchecked(lines_of(self._reports)):
            session.exitstatus = pytest.ExitCode.TESTS_FAILED

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        lines = lines_of(self._reports)
        terminalreporter.section("faults")
        for line in table(lines):
            terminalreporter.write_line(line)
        for row in unchecked(lines):
            terminalreporter.write_line(f"row {row}: not every invariant was checked after it")


def pytest_configure(config: pytest.Config) -> None:
    if config.getoption("--faults") and not hasattr(config, "workerinput"):
        config.pluginmanager.register(Summary(), "fault-summary")
