"""infra/support.md and infra/support-exported.md are the whole table: every model of the list in every part, and no
cell without an answer."""

import re
from collections.abc import Sequence
from pathlib import Path

import pytest
from support_cells import grids
from support_survey import LISTED, subject
from support_table import column_of, group_of
from support_text import LEAST_DB

from sweeps.spec.sweep import SweepSpec
from tests import runtimes as every_runtime
from workers.native.compiler import compiler
from workers.plan_inputs import plan_sweep
from workers.runtimes import registry
from workers.runtimes.torchscript import references

RUNTIMES = {"support": ("torchscript",), "support-exported": ("executorch", "onnxruntime")}
"""The runtimes of each page."""
ANSWER = re.compile(rf"≥ ({'|'.join(map(str, LEAST_DB))})|equal|skipped|failed")
"""An answer of a cell: no digits that another machine would not print."""

Table = tuple[list[str], dict[str, list[str]]]
"""Titles of the columns, and by model its cells."""


def text_of(page: str) -> str:
    return (Path(__file__).parents[1] / "infra" / f"{page}.md").read_text(encoding="utf-8")


def written(page: str) -> dict[str, Table]:
    """The tables that the page shows, by their headings."""
    tables: dict[str, Table] = {}
    for heading, lines in re.findall(r"^## (.+)\n\n((?:\|.*\n)+)", text_of(page), re.MULTILINE):
        head, _, *rows = ([cell.strip() for cell in line.split("|")[1:-1]] for line in lines.splitlines())
        assert len({row[0] for row in rows}) == len(rows), f"a model stands twice in {heading}"
        tables[heading] = head[1:], {row[0]: row[1:] for row in rows}
    return tables


def groups_of(runtimes: Sequence[str], folder: Path) -> dict[str, list[str]]:
    """The titles of the columns that `write_support.py` makes, by group. Nothing but NNAPI and Metal is skipped."""
    for name in runtimes:
        if lack := every_runtime.lack(name):
            pytest.skip(lack)
    tested = subject("mobilenet_v2")
    spec = SweepSpec(name="support", models=(tested.model,), data=tested.data, grids=grids(runtimes=runtimes))
    plan = plan_sweep(spec, folder, only_builds=True)
    assert {skipped.variant.runtime for skipped in plan.skipped} <= {"torchscript"}
    groups: dict[str, list[str]] = {}
    for variant in (*(job.variant for job in plan.jobs), *(skipped.variant for skipped in plan.skipped)):
        groups.setdefault(group_of(variant), []).append(" ".join(filter(None, column_of(variant))))
    return groups


OTHERS = [pytest.mark.runtime(name) for name in RUNTIMES["support-exported"]]


@pytest.fixture(scope="module", params=["support", pytest.param("support-exported", marks=OTHERS)])
def page(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture(scope="module")
def planned(page: str, tmp_path_factory: pytest.TempPathFactory) -> dict[str, list[str]]:
    return groups_of(RUNTIMES[page], tmp_path_factory.mktemp("plan"))


@pytest.mark.runtime("executorch")
@pytest.mark.runtime("onnxruntime")
def test_other_runtimes_have_parts_of_their_own(tmp_path: Path) -> None:
    int8 = [f"int8 {method} per {part}" for method in ("dynamic", "static") for part in ("channel", "tensor")]
    groups = groups_of(RUNTIMES["support-exported"], tmp_path)
    assert {group: sorted(columns) for group, columns in groups.items()} == {
        "executorch cpu": ["fp32", *int8],
        "executorch portable": ["fp32"],
        "executorch vulkan": ["fp32"],
        "onnxruntime cpu": ["fp16", "fp32", *int8],
    }
    # A sweep that times it needs a device that has Vulkan: here it is only checked.
    tested = subject("mobilenet_v2")
    cells = grids(backends=("vulkan",), runtimes=("executorch",))
    plan = plan_sweep(SweepSpec(name="sweep", models=(tested.model,), data=tested.data, grids=cells), tmp_path)
    assert [job.reference.partition("@")[0] for job in plan.jobs] == ["reference:vulkan"] * (compiler() is not None)


def test_every_part_has_its_table_with_all_columns(page: str, planned: dict[str, list[str]]) -> None:
    assert {group: sorted(columns) for group, (columns, _) in written(page).items()} == {
        group: sorted(columns) for group, columns in planned.items()
    }


def test_every_listed_model_stands_in_every_table(page: str, planned: dict[str, list[str]]) -> None:
    names = [subject(source).model.name for source in LISTED]
    tables = written(page)
    assert {group: [name for name in names if name not in tables[group][1]] for group in planned} == {
        group: [] for group in planned
    }


def test_the_page_is_of_the_builder_and_the_references_of_this_code(page: str) -> None:
    """A table that an older builder or an older reference made says nothing of this one: write it again."""
    (versions,) = re.findall(r"^\* (edgesweep .+)$", text_of(page), re.MULTILINE)
    version_of = dict(entry.rsplit(" ", 1) for entry in versions.split(", "))
    for name in RUNTIMES[page]:
        builder, version = registry.get(name).versions()["builder"].split()
        assert version_of[f"builder {builder}"] == version
    of_mobile = set(references.names().values()) if "torchscript" in RUNTIMES[page] else set()
    assert set(re.findall(r"^Checked by (reference:[^,]+),", text_of(page), re.MULTILINE)) == of_mobile


def test_no_cell_is_blank(page: str) -> None:
    unanswered = [
        (group, model, column)
        for group, (columns, rows) in written(page).items()
        for model, cells in rows.items()
        for column, cell in zip(columns, cells, strict=True)
        if ANSWER.fullmatch(cell) is None
    ]
    assert unanswered == []


def test_what_was_skipped_or_failed_has_its_reason(page: str) -> None:
    sections = dict(re.findall(r"^### (.+)\n((?:(?!#).*\n)*)", text_of(page), re.MULTILINE))
    without = [
        (model, state)
        for _, rows in written(page).values()
        for model, cells in rows.items()
        for state in {"skipped", "failed"} & set(cells)
        if f"\n* {state}: " not in sections.get(model, "")
    ]
    assert without == []
    assert set(sections) >= {subject(source).model.name for source in LISTED}
