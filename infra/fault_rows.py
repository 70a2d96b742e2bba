"""The faults that EdgeSweep survives, by number, and the tests that inject them, as infra/faults.md shows them.

A mark on a test says which fault the test injects, how, and what follows: `@pytest.mark.fault(11, "the runner sleeps",
"ended, tried again")`.
"""

import ast
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[1]

REFUSED = "refused before any job"
READS = "only reads"


@dataclass(frozen=True, slots=True)
class Row:
    """One fault. `jobless`: the reason why the fault can harm no job, so that no invariants of jobs are checked."""

    area: str
    fault: str
    jobless: str = ""
    elsewhere: str = ""
    """The reason why no test injects the fault; empty if tests do."""


@dataclass(frozen=True, slots=True)
class Injection:
    """One test that injects a fault. `path` is relative to the repository."""

    row: int
    how: str
    outcome: str
    path: str
    test: str


def _rows(area: str, first: int, *faults: str | tuple[str, ...]) -> dict[int, Row]:
    """Return the rows of an area, numbered from `first`; a fault given as a tuple has the other fields of its row,
    too."""
    fields = [(fault,) if isinstance(fault, str) else fault for fault in faults]
    return {first + place: Row(area, *more) for place, more in enumerate(fields)}


ROWS = {
    **_rows(
        "device",
        1,
        "unplugged during a run",
        "unplugged during a push",
        "offline at the start",
        "unauthorized",
        "adb server killed, or of another version",
        "network adb drops",
        "one phone over USB and network",
        "duplicate or meaningless serial numbers",
        "runner crashes, or is killed for memory",
        "no exit code, or no end line",
        "runner hangs",
        "orphan runner of an earlier sweep",
        "storage full",
        "pushed bytes differ",
        "push hangs",
        "reboot in mid-sweep",
        "thermal throttling",
        "battery low or unreadable",
        "backend silently falls back to the CPU",
        "device clock jumps",
        "output that is not UTF-8, huge, or holds NaN",
        "result file cut off",
        "hostile file names from the device",
        "shell, HTML or markdown in names and properties",
        "properties empty or in another format",
    ),
    **_rows(
        "orchestration",
        26,
        "Ray worker killed during a job",
        "reply lost after the job had finished",
        "second attempt while the first still runs",
        "driver killed with SIGKILL",
        "driver suspended",
        ("Ray cannot start", REFUSED),
        "out of memory during an export",
        "Ctrl-C once and twice",
        "one device stuck",
        "resumed with a changed sweep file, code or model",
        "two drivers on one workspace",
    ),
    **_rows(
        "input",
        37,
        ("malformed sweep file", REFUSED),
        ("impossible combination", "skipped by the plan"),
        "export of one variant fails",
        "NaN logits, or useless accuracy",
        ("hostile checkpoint", REFUSED),
        "corrupt artifact in the cache",
        ("path traversal in a sweep file", REFUSED),
    ),
    **_rows(
        "tracking",
        44,
        "database locked for 30 s",
        "disk of the host full",
        "MLflow down, slow, refusing, or its reply lost",
        "latency that is NaN, infinite, zero or negative",
        "keys and values that are too long or odd",
        ("database schema older or newer", REFUSED),
        "runs left RUNNING by a killed driver",
        ("wrong credentials", REFUSED),
    ),
    **_rows(
        "dashboard",
        52,
        ("empty store, all failed, one device", READS),
        ("100,000 rows and more", READS),
        ("stale cache", READS),
        ("script and markdown injection", READS),
        ("listens on localhost only", READS),
        ("ties shown as ties", READS),
        ("hostile filter text", READS),
    ),
}
"""The rows by number. The tests were written from this list."""


def injections(root: Path = ROOT) -> list[Injection]:
    """Return the injections that marks on tests name, by row, then path and name. Raises `ValueError` for a mark that
    is not a known row and two texts."""
    marked = []
    for path in sorted((root / "tests").rglob("test_*.py")):
        text = path.read_text(encoding="utf-8")
        # Reading a file is quick, and parsing hundreds of them is not.
        for node in ast.walk(ast.parse(text)) if "mark.fault(" in text else ():
            if isinstance(node, ast.FunctionDef):
                shown = path.relative_to(root).as_posix()
                marked += [Injection(*mark, shown, node.name) for mark in _marks(node, shown)]
    return sorted(marked, key=lambda injection: (injection.row, injection.path, injection.test))


def _marks(node: ast.FunctionDef, shown: str) -> Iterator[tuple[int, str, str]]:
    for mark in node.decorator_list:
        if isinstance(mark, ast.Call) and ast.unparse(mark.func) == "pytest.mark.fault":
            values = [value.value for value in mark.args if isinstance(value, ast.Constant)]
            match values:
                case [int() as row, str() as how, str() as outcome] if row in ROWS and not mark.keywords:
                    yield row, how, outcome
                case _:
                    raise ValueError(f"{shown}:{mark.lineno}: a fault is a row, how it is injected, and what follows")


def table() -> str:
    """Return a table for people: every row with how tests inject the fault and what follows, or the reason why no test
    does."""
    by_row: dict[int, list[Injection]] = {}
    for injection in injections():
        by_row.setdefault(injection.row, []).append(injection)
    lines = ["| row | fault | injected how: what follows | tests |", "| --- | --- | --- | --- |"]
    for number, row in ROWS.items():
        ways = dict.fromkeys(f"{injection.how}: {injection.outcome}" for injection in by_row.get(number, []))
        tests = dict.fromkeys(f"`{injection.path}`" for injection in by_row.get(number, []))
        shown = ("; ".join(ways) or row.elsewhere).replace("|", "\\|")
        lines.append(f"| {number} | {row.fault} | {shown} | {', '.join(tests)} |")
    return "\n".join(lines) + "\n"
