"""Variants have labels: all built-in ones as before, and those of another package as its entry says."""

from dataclasses import replace

import pytest
from support_table import column_of, group_of, table_order

from sweeps.spec import built_in, catalog
from sweeps.spec.entries import BackendEntry
from sweeps.spec.label import label_of
from sweeps.variant import Variant

INT8 = {"precision": "int8", "quantization": "static_fx", "qengine": "qnnpack", "granularity": "per_tensor"}


@pytest.mark.parametrize(
    ("variant", "label", "group", "column"),
    [
        (Variant(), "cpu fp32 nchw script", "cpu fp32", ("fp32", "script, not fused")),
        (
            Variant(fuse=True, optimize=True, capture="trace", format="ptl"),
            "cpu fp32 nchw trace fused optimized ptl",
            "cpu fp32",
            ("fp32", "trace"),
        ),
        (
            Variant(**INT8, interface="full", fuse=True),
            "cpu int8-qnnpack full nchw script fused",
            "cpu int8, engine qnnpack",
            ("static_fx", "script"),
        ),
        (
            Variant(backend="nnapi", capture="mixed", fuse=True, relaxed_fp16=True, preference="low_power"),
            "nnapi fp32 nchw low_power relaxed-fp16",
            "nnapi",
            ("fp32", "relaxed fp16"),
        ),
        (
            Variant(backend="nnapi", **INT8, interface="inside", capture="mixed", fuse=True, format="ptl"),
            "nnapi int8-qnnpack inside nchw ptl",
            "nnapi",
            ("int8 static_fx", "inside"),
        ),
        (
            Variant(backend="metal", capture="trace", format="ptl", fuse=True, optimize=True),
            "metal fp32 nchw trace",
            "metal",
            ("fp32", "trace"),
        ),
        (Variant(backend="metal", **INT8), "metal int8-qnnpack nchw script pt", "metal", ("int8 static_fx", "")),
    ],
)
def test_built_in_variants_are_called_as_ever(
    variant: Variant, label: str, group: str, column: tuple[str, str]
) -> None:
    assert label_of(variant) == label
    assert (group_of(variant), column_of(variant)) == (group, column)


def test_a_release_is_named_and_what_runs_it_where_that_is_another_one() -> None:
    usual = Variant(runtime="onnxruntime", capture="export", format="onnx", graph_optimization="all")
    assert label_of(usual) == "onnxruntime cpu fp32 nchw"
    older = replace(usual, toolchain="onnxruntime==1.31.1", runner_toolchain="onnxruntime==1.31.1")
    assert label_of(older) == "onnxruntime cpu fp32 nchw onnxruntime-1.31.1"
    crossed = replace(older, runner_toolchain="installed")
    assert label_of(crossed) == "onnxruntime cpu fp32 nchw onnxruntime-1.31.1 run-by-installed"


def test_a_backend_of_another_package_is_called_and_sorted_by_its_entry_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    backend = BackendEntry(
        name="npu",
        fixed={"capture": "trace", "format": "npu"},
        unsaid=frozenset({"capture", "format"}),
        support_columns={"fp32": "layout"},
    )
    monkeypatch.setitem(catalog.runtimes(), "other", replace(built_in.TORCHSCRIPT, name="other", backends=(backend,)))
    variant = Variant(runtime="other", backend="npu", capture="trace", format="npu", fuse=True)
    assert label_of(variant) == "other npu fp32 nchw fused"
    assert (group_of(variant), column_of(variant)) == ("other npu", ("fp32", "nchw"))
    assert table_order(variant) > table_order(Variant(backend="metal"))


@pytest.mark.parametrize(
    ("columns", "fixed", "fuse", "column"),
    [
        ({}, {}, False, "not fused"),
        ({}, {}, True, ""),
        ({}, {"fuse": False}, False, ""),
        ({"fp32": "layout"}, {}, False, "nchw, not fused"),
        ({"fp32": "relaxed_fp16"}, {}, False, "not fused"),
    ],
)
def test_a_column_of_another_package_names_what_there_is(
    monkeypatch: pytest.MonkeyPatch, columns: dict[str, str], fixed: dict[str, bool], fuse: bool, column: str
) -> None:
    backend = BackendEntry(name="npu", axes=frozenset({"fuse"} - fixed.keys()), fixed=fixed, support_columns=columns)
    monkeypatch.setitem(catalog.runtimes(), "other", replace(built_in.TORCHSCRIPT, name="other", backends=(backend,)))
    assert column_of(Variant(runtime="other", backend="npu", fuse=fuse)) == ("fp32", column)


def test_a_variant_of_a_package_that_is_gone_has_a_label_that_names_all() -> None:
    variant = Variant(runtime="gone", backend="npu", capture="taught", format="table")
    assert label_of(variant) == "gone npu fp32 nchw taught table"
