"""The support table has a figure or a reason in every cell, and its three forms say the same."""

import json
import re
from dataclasses import replace

import pytest
from support_table import Cell, Row, SupportTable, table_order
from support_text import count, document, markdown, terminal_text

from sweeps.manifest import Coverage, Manifest, TensorSpec, Verification
from sweeps.records import Failed, Skipped
from sweeps.variant import RunAxes, Variant

COMMAND = "python infra/write_support.py"
SHAPE = (1, 3, 64, 64)
SCRIPT = Variant(layout="nhwc", fuse=True, optimize=True)
TRACE = Variant(layout="nhwc", fuse=True, optimize=True, capture="trace")
QNNPACK = Variant(precision="int8", quantization="static_fx", qengine="qnnpack", granularity="per_tensor")
X86 = Variant(precision="int8", quantization="static_fx", qengine="x86", granularity="per_channel")
NNAPI = Variant(backend="nnapi", capture="mixed", fuse=True)
RELAXED = Variant(backend="nnapi", capture="mixed", fuse=True, relaxed_fp16=True)
METAL_INT8 = Variant(backend="metal", precision="int8", quantization="static_fx", qengine="qnnpack", format="ptl")
REFERENCE = "reference:nnapi@12ab"


def _verified(variant: Variant, sqnr_db: float | None) -> Cell:
    nnapi = variant.backend == "nnapi"
    spec = TensorSpec(shape=SHAPE, dtype="float32")
    manifest = Manifest(
        build_key="k" * 64,
        model="net",
        model_source="torchvision:net",
        weights_id="random:0",
        runtime="torchscript",
        backend=variant.backend,
        variant=variant.axes(),
        file="model.pt",
        file_bytes=1,
        file_sha256="0",
        memory_format="channels_last",
        input=spec,
        output=spec,
        fused=(),
        operators=("aten::add", "prepacked::conv2d_clamp_run"),
        file_version=3,
        bytecode_version=None,
        calibration_id=None,
        versions={},
        verification=Verification(
            images=8,
            engine=variant.qengine,
            sqnr_db=sqnr_db,
            executor=REFERENCE if nnapi else "",
            top1_percent=None,
            reference_top1_percent=None,
        ),
        coverage=Coverage(operations={"CONV_2D": 3}, multiply_adds=5, multiply_adds_covered_percent=100.0)
        if nnapi
        else None,
    )
    return Cell(variant=variant, outcome=manifest)


def _skipped(variant: Variant, reason: str) -> Cell:
    skipped = Skipped(
        name="n", model="net", grid="", variant=variant, run=RunAxes(), device_id="d", kind="no_effect", reason=reason
    )
    return Cell(variant=variant, outcome=skipped)


def _failed(variant: Variant, message: str) -> Cell:
    return Cell(variant=variant, outcome=Failed(stage="build", kind="unsupported_operator", message=message))


def _row(name: str, *cells: Cell) -> Row:
    ordered = tuple(sorted(cells, key=lambda cell: table_order(cell.variant)))
    return Row(model=name, source=f"my_nets:{name}", weights="random", input_shape=SHAPE, cells=ordered)


@pytest.fixture
def table() -> SupportTable:
    good = _row(
        "net",
        _skipped(METAL_INT8, "Metal has no quantized operators"),
        _verified(RELAXED, 38.26),
        _verified(NNAPI, None),
        _verified(X86, 21.04),
        _verified(QNNPACK, 20.0),
        _verified(TRACE, 112.44),
        _verified(SCRIPT, 112.45),
    )
    bad = _row(
        "odd",
        _skipped(METAL_INT8, "Metal has no quantized operators"),
        _failed(NNAPI, "NNAPI does not know aten::bmm"),
        _failed(RELAXED, "NNAPI does not know\n  aten::bmm"),
        _verified(X86, 21.0),
        _failed(QNNPACK, "no kernel"),
        _verified(SCRIPT, 99.0),
        _failed(TRACE, "the branch at x.sum() > 0 depends on the data"),
    )
    return SupportTable(
        date="2026-11-21",
        machine="a machine\x1b[31m",
        versions={"torch": "2.12.1", "builder torchscript": "2"},
        references={"nnapi": REFERENCE},
        rows=(good, bad),
    )


def _line(text: str, start: str, occurrence: int = 0) -> list[str]:
    return [re.split(r"\s{2,}|\s*\|\s*", line.strip("| ")) for line in text.splitlines() if line.startswith(start)][
        occurrence
    ]


def test_the_terminal_shows_each_group_with_a_figure_or_a_state_in_every_cell(table: SupportTable) -> None:
    text = terminal_text(table)
    assert [_line(text, "net  ", number) for number in range(5)] == [
        ["net", "112.5", "112.4"],
        ["net", "20.0"],
        ["net", "21.0"],
        ["net", "equal", "38.3"],
        ["net", "skipped"],
    ]
    assert [_line(text, "odd  ", number) for number in range(5)] == [
        ["odd", "99.0", "failed"],
        ["odd", "failed"],
        ["odd", "21.0"],
        ["odd", "failed", "failed"],
        ["odd", "skipped"],
    ]
    groups = ["cpu fp32", "cpu int8, engine qnnpack", "cpu int8, engine x86", "nnapi", "metal"]
    assert [line for line in text.splitlines() if line in groups] == groups


def test_reasons_stand_beneath_once_for_all_cells_that_share_them(table: SupportTable) -> None:
    text = terminal_text(table)
    assert (
        "  failed: build, unsupported_operator: NNAPI does not know aten::bmm (nnapi: fp32, fp32 relaxed fp16)"
    ) in text
    assert text.count("aten::bmm") == 1
    assert text.count("Metal has no quantized operators") == 2  # once for each model


def test_what_comes_from_outside_cannot_steer_the_terminal(table: SupportTable) -> None:
    assert "\x1b" not in terminal_text(table) + markdown(table, COMMAND)


def test_markdown_has_tables_that_are_whole_and_says_where_it_comes_from(table: SupportTable) -> None:
    text = markdown(table, f"{COMMAND} --output docs/support.md")
    assert "Written by `python infra/write_support.py --output docs/support.md`" in text
    assert "2026-11-21" in text
    assert "torch 2.12.1" in text
    assert f"Checked by {REFERENCE}, against fp32 eager." in text
    tables = re.findall(r"(?:^\|.*\n)+", text, re.MULTILINE)
    assert len(tables) == 5
    for block in tables:
        head, rule, *rows = block.splitlines()
        assert set(rule) <= set("|-:")
        for line in (rule, *rows):
            assert line.count("|") == head.count("|")
        for line in rows:
            assert all(cell.strip() for cell in line.strip("|").split("|"))
    assert "100 % of multiply-adds; CONV\\_2D 3" in text
    assert "prepacked::conv2d\\_clamp\\_run" in text


def test_where_nothing_is_delegated_the_page_says_what_is_not(table: SupportTable) -> None:
    cell = _verified(SCRIPT, 99.0)
    assert isinstance(cell.outcome, Manifest)
    coverage = Coverage(
        operations={}, left={"aten::mul": 2}, delegates=0, multiply_adds=5, multiply_adds_covered_percent=0.0
    )
    rows = (_row("net", replace(cell, outcome=cell.outcome.model_copy(update={"coverage": coverage}))),)
    assert "* delegates take: 0 % of multiply-adds; not aten::mul 2 (" in markdown(replace(table, rows=rows), "command")


def test_a_page_says_only_what_training_on_another_kind_of_cpu_would_not_change(table: SupportTable) -> None:
    """The figures next to the limits that trained models of the list had on 2026-11-21."""

    def shown(sqnr_db: float) -> str:
        row = _row("net", _verified(SCRIPT, sqnr_db), *table.rows[0].cells[1:])
        (line, *_) = re.findall(r"^\| net .*", markdown(replace(table, rows=(row,)), COMMAND), re.MULTILINE)
        return line.split("|")[2].strip()

    for sqnr_db, least in ((24.3, "≥ 15"), (37.3, "≥ 15"), (43.2, "≥ 40"), (68.8, "≥ 40"), (125.9, "≥ 80")):
        assert {shown(sqnr_db + moved_db) for moved_db in (-2.5, 0.0, 2.5)} == {least}
    assert (shown(10.0), shown(9.9)) == ("≥ 10", "< 10")


def test_json_holds_every_cell_with_its_variant(table: SupportTable) -> None:
    parsed = json.loads(json.dumps(document(table), allow_nan=False))
    cells = [cell for model in parsed["models"] for cell in model["cells"]]
    assert len(cells) == 14
    assert all(cell["state"] == "verified" or cell["reason"] for cell in cells)
    assert Variant(**cells[0]["variant"]) == SCRIPT
    nnapi = next(cell for cell in cells if (cell["group"], cell["column"]) == ("nnapi", "fp32"))
    assert nnapi["verification"]["sqnr_db"] is None
    assert nnapi["verification"]["executor"] == REFERENCE
    assert next(cell["kind"] for cell in cells if cell["state"] == "failed") == "unsupported_operator"


@pytest.mark.parametrize(
    ("axis", "last_known"),
    [
        ("backend", "metal"),
        ("precision", "int8"),
        ("quantization", "dynamic"),
        ("interface", "inside"),
        ("capture", "mixed"),
    ],
)
def test_a_value_that_only_another_package_has_stands_last(axis: str, last_known: str) -> None:
    of_another = replace(Variant(), **{axis: "taught"})
    known = replace(Variant(), **{axis: last_known})
    assert sorted([of_another, known, Variant()], key=table_order) == [Variant(), known, of_another]


def test_states_are_counted(table: SupportTable) -> None:
    assert count(table) == {"verified": 8, "skipped": 2, "failed": 4}
    assert "8 verified, 2 skipped, 4 failed" in terminal_text(table)


def test_a_table_with_a_hole_is_refused(table: SupportTable) -> None:
    whole, other = table.rows
    hole = SupportTable(
        date=table.date,
        machine=table.machine,
        versions=table.versions,
        references=table.references,
        rows=(whole, _row(other.model, *other.cells[:-1])),
    )
    with pytest.raises(KeyError):
        terminal_text(hole)
