"""The support table as text: for a terminal, as Markdown and as JSON."""

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from support_table import Cell, Column, Row, State, SupportTable, column_of, group_of

from sweeps.manifest import Coverage, Manifest
from sweeps.records import Failed
from sweeps.text import plain
from sweeps.variant import Variant

_VERIFIED = (
    "the SQNR in dB of a verified build: saved, loaded in a new process with its own engine, and compared with the "
    "model in PyTorch. `equal`: bit-identical. The reasons of skipped and failed builds are below."
)
LEGEND = f"A figure is {_VERIFIED}"
PAGE_LEGEND = (
    f"A cell is a lower limit of {_VERIFIED} Only what is the same on every machine stands here: "
    "kinds of CPU add numbers in different orders, and after a training the figures differ by up to 2.5 dB. "
    "`infra/write_support.py` and its `--json` have the figures of your machine."
)

_TAKERS = {"NNAPI takes": False, "delegates take": True}

LEAST_DB = (80, 40, 15, 10)
"""The lower limits in dB that a page shows instead of an SQNR: the first one that the figure reaches. Figures of the
listed models that vary with the training are more than 2.5 dB away from each limit; below 10 dB no int8 build is
verified."""


def terminal_text(table: SupportTable) -> str:
    """Return lines without control characters, about 150 characters wide."""
    lines = [*_header(table), LEGEND.replace("`", "")]
    for group, columns in _groups(table):
        heads = [["", *(column[line] for column in columns)] for line in (0, 1)]
        body = [[row.model, *map(_exact, _figures(row, group, columns))] for row in table.rows]
        widths = _widths([*heads, *body])
        lines += ["", group, *(_padded(head, widths) for head in heads), "─" * (sum(widths) + 2 * (len(widths) - 1))]
        lines += [_padded(cells, widths) for cells in body]
        lines += [f"checked by {checks}" for checks in _checks(table, group)]
    return plain("\n".join([*lines, "", *_reasons(table)]))


def markdown(table: SupportTable, command: str) -> str:
    """Return a Markdown page. `command`: the command that writes it."""
    head = [
        "# What is supported",
        f"Written by `{command}`. Do not edit it.",
        "\n".join(f"* {line}" for line in _header(table)),
        PAGE_LEGEND,
    ]
    parts = []
    for group, columns in _groups(table):
        rows = [["model", *map(_title, columns)]]
        rows += [[row.model, *map(_coarse, _figures(row, group, columns))] for row in table.rows]
        widths = _widths(rows)
        lines = [f"| {_padded(cells, widths, ' | ')} |" for cells in rows]
        lines.insert(1, "|".join(["", "-" * (widths[0] + 2), *("-" * (width + 1) + ":" for width in widths[1:]), ""]))
        parts += [f"## {group}", "\n".join(lines), *(f"Checked by {checks}." for checks in _checks(table, group))]
    return plain("\n\n".join([*head, *parts, "## Reasons and operators", "\n".join(_markdown_details(table))]) + "\n")


def document(table: SupportTable) -> dict[str, Any]:
    """Return the document of `--json`."""
    return {
        "date": table.date,
        "machine": table.machine,
        "versions": dict(table.versions),
        "references": dict(table.references),
        "models": [
            {
                "model": row.model,
                "source": row.source,
                "weights": row.weights,
                "input_shape": list(row.input_shape),
                "cells": [_cell_document(cell) for cell in row.cells],
            }
            for row in table.rows
        ],
    }


def count(table: SupportTable) -> dict[State, int]:
    """Return the number of cells in each state."""
    states: dict[State, int] = {"verified": 0, "skipped": 0, "failed": 0}
    for row in table.rows:
        for cell in row.cells:
            states[cell.state] += 1
    return states


def _groups(table: SupportTable) -> Iterator[tuple[str, list[Column]]]:
    """Yield each part of the table with its columns, in the order of the cells."""
    by_group: dict[str, dict[Column, None]] = {}
    for row in table.rows:
        for cell in row.cells:
            by_group.setdefault(group_of(cell.variant), {})[column_of(cell.variant)] = None
    for group, columns in by_group.items():
        yield group, list(columns)


def _figures(row: Row, group: str, columns: Sequence[Column]) -> list[str | float]:
    """Return the SQNR in dB of each cell, or the word that the table shows instead."""
    cells = {column_of(cell.variant): cell for cell in row.cells if group_of(cell.variant) == group}
    return [_figure(cells[column]) for column in columns]


def _figure(cell: Cell) -> str | float:
    if not isinstance(cell.outcome, Manifest):
        return cell.state
    sqnr_db = cell.outcome.verification.sqnr_db
    return "equal" if sqnr_db is None else sqnr_db


def _exact(figure: str | float) -> str:
    return figure if isinstance(figure, str) else f"{figure:.1f}"


def _coarse(figure: str | float) -> str:
    if isinstance(figure, str):
        return figure
    return next((f"≥ {least}" for least in LEAST_DB if figure >= least), f"< {LEAST_DB[-1]}")


def _checks(table: SupportTable, group: str) -> list[str]:
    """Return the executors that verified the cells of a group, and the references that they were compared with."""
    checks: dict[str, None] = {}
    for row in table.rows:
        for cell in row.cells:
            if group_of(cell.variant) == group and isinstance(cell.outcome, Manifest):
                verification = cell.outcome.verification
                executor = verification.executor or "this machine's CPU"
                checks[f"{executor}, against {verification.against}"] = None
    return sorted(checks)


def _header(table: SupportTable) -> list[str]:
    states = count(table)
    return [
        f"{table.date} on {table.machine}",
        ", ".join(f"{name} {version}" for name, version in table.versions.items()),
        f"{states['verified']} verified, {states['skipped']} skipped, {states['failed']} failed",
    ]


def _described(row: Row) -> str:
    shape = "x".join(map(str, row.input_shape))
    return f"{row.model}: {row.source}, {row.weights} weights, input {shape}"


def _title(column: Column) -> str:
    return " ".join(filter(None, column))


def _grouped(texts: Iterable[tuple[str, Variant]]) -> list[str]:
    """Return each text once, with all columns that it applies to."""
    by_text: dict[str, dict[str, list[str]]] = {}
    for text, variant in texts:
        groups = by_text.setdefault(" ".join(text.split()), {})
        groups.setdefault(group_of(variant), []).append(_title(column_of(variant)))
    places = {
        text: "; ".join(f"{group}: {', '.join(titles)}" for group, titles in groups.items())
        for text, groups in by_text.items()
    }
    return [f"{text} ({where})" for text, where in places.items()]


def _coverage(row: Row, *, by_delegates: bool) -> list[str]:
    """Return the part of the model that NNAPI, or the delegates of a runtime, compute, for each verified build."""
    texts = []
    for cell in row.cells:
        coverage = cell.outcome.coverage if isinstance(cell.outcome, Manifest) else None
        if coverage is not None and (coverage.delegates is not None) == by_delegates:
            operations = ", ".join(f"{name} {number}" for name, number in sorted(coverage.operations.items()))
            share = f"{coverage.multiply_adds_covered_percent:.0f} % of multiply-adds"
            left = ", ".join(
                f"{name} {number}{_percent(coverage, name)}" for name, number in sorted(coverage.left.items())
            )
            texts.append(("; ".join(filter(None, (share, operations, left and f"not {left}"))), cell.variant))
    return _grouped(texts)


def _percent(coverage: Coverage, operator: str) -> str:
    percent = coverage.left_percent.get(operator)
    return "" if percent is None else f" ({percent:.0f} % of multiply-adds)"


def _operators(row: Row) -> list[str]:
    """Return the operators, per backend or runtime, that a phone's runtime must know to load the model's builds."""
    by_backend: dict[str, set[str]] = {}
    for cell in row.cells:
        if isinstance(cell.outcome, Manifest):
            by_backend.setdefault(group_of(cell.variant).partition(" ")[0], set()).update(cell.outcome.operators)
    return [f"{backend}: {', '.join(sorted(names))}" for backend, names in by_backend.items()]


def _details(row: Row) -> Iterator[tuple[str, list[str]]]:
    for state in ("failed", "skipped"):
        yield state, _grouped((cell.reason, cell.variant) for cell in row.cells if cell.state == state)


def _reasons(table: SupportTable) -> Iterator[str]:
    for row in table.rows:
        yield _described(row)
        for state, lines in _details(row):
            yield from (f"  {state}: {line}" for line in lines)


def _markdown_details(table: SupportTable) -> Iterator[str]:
    for row in table.rows:
        yield f"### {row.model}\n\n{_described(row)}.\n"
        covered = [(title, _coverage(row, by_delegates=delegates)) for title, delegates in _TAKERS.items()]
        for title, lines in (*_details(row), *covered, ("operators", _operators(row))):
            yield from (f"* {title}: {_escaped(line)}" for line in lines)
        yield ""


def _escaped(line: str) -> str:
    return line.replace("<", "&lt;").replace("_", r"\_").replace("*", r"\*")


def _cell_document(cell: Cell) -> dict[str, Any]:
    details: dict[str, Any] = {}
    if isinstance(cell.outcome, Manifest):
        details = {
            "verification": cell.outcome.verification.model_dump(mode="json"),
            "operators": list(cell.outcome.operators),
            "coverage": cell.outcome.coverage and cell.outcome.coverage.model_dump(mode="json"),
            "build_key": cell.outcome.build_key,
        }
    elif isinstance(cell.outcome, Failed):
        details = {"stage": cell.outcome.stage, "kind": cell.outcome.kind}
    return {
        "group": group_of(cell.variant),
        "column": _title(column_of(cell.variant)),
        "variant": cell.variant.axes(),
        "state": cell.state,
        "reason": cell.reason,
        **details,
    }


def _widths(rows: Sequence[Sequence[str]]) -> list[int]:
    return [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]


def _padded(cells: Sequence[str], widths: Sequence[int], between: str = "  ") -> str:
    first, *rest = (
        cell.rjust(width) if column else cell.ljust(width)
        for column, (cell, width) in enumerate(zip(cells, widths, strict=True))
    )
    return between.join([first, *rest])
