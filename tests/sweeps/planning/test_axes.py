"""A variant has the axes that matter for it, whatever is in the cell of the grid."""

import itertools
from dataclasses import asdict, replace
from random import Random
from typing import Any, get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sweeps.planning.axes import free_axes, is_calibrated, resolve_variant, without_choice
from sweeps.spec import catalog
from sweeps.spec.grid import GridSpec
from sweeps.spec.label import label_of
from sweeps.variant import Variant

ABIS = ("x86_64", "x86", "arm64-v8a", "armeabi-v7a", "riscv64")


def _values(axis: str) -> list[Any]:
    """All values that a sweep file may give a build axis of TorchScript."""
    releases = ["installed", "onnxruntime==1.31.1"]
    numbers: dict[str, list[Any]] = {"calibration_images": [0, 10, 100], "opset": [0, 18, 20]}
    numbers |= {"toolchain": releases, "runner_toolchain": ["same", *releases]}
    if axis == "runtime" or axis in numbers:
        return ["torchscript"] if axis == "runtime" else numbers[axis]
    (inner, _) = get_args(GridSpec.model_fields[axis].annotation)
    return [True, False] if inner is bool else list(catalog.values(axis))


VALUES = {axis: _values(axis) for axis in asdict(Variant()) if axis in GridSpec.model_fields}
VARIANTS = st.fixed_dictionaries({axis: st.sampled_from(values) for axis, values in VALUES.items()}).map(
    lambda axes: Variant(**axes)
)


def free_axes_of(variant: Variant) -> frozenset[str]:
    return free_axes(variant.runtime, variant.backend, variant.precision, variant.quantization)


CHOICES = [
    ("cpu", "fp32", "none", {"capture", "format", "fuse", "optimize"}),
    ("nnapi", "fp32", "none", {"format", "preference", "flexible_batch", "relaxed_fp16"}),
    ("metal", "fp32", "none", {"capture"}),
]
OF_INT8 = {"quantization", "granularity", "calibration_images", "interface"}


@given(variant=VARIANTS, abi=st.sampled_from(ABIS), features=st.sampled_from([(), ("avx2",), ("avx2", "avx_vnni")]))
def test_what_is_resolved_stays_as_it_is(variant: Variant, abi: str, features: tuple[str, ...]) -> None:
    resolved = resolve_variant(variant, abi, features)
    assert resolve_variant(resolved, abi, features) == resolved


@pytest.mark.parametrize(
    ("grid", "expected"),
    [
        ({}, {}),
        ({"qengine": ("auto",), "calibration_images": ("all",), "capture": ("script", "trace")}, {}),
        (
            {"runtime": ("torchscript", "executorch", "onnxruntime"), "layout": ("nhwc",), "capture": ("trace",)},
            {"executorch": ("capture",), "onnxruntime": ("layout", "capture")},
        ),
        ({"runtime": ("onnxruntime",), "layout": ("nhwc", "nchw16c"), "quantization": ("static",)}, {}),
        ({"runtime": ("onnxruntime",), "layout": ("nchw", "nhwc")}, {"onnxruntime": ("layout",)}),
        # The only value that it has there may be said.
        ({"runtime": ("onnxruntime",), "layout": ("nchw",), "toolchain": ("executorch==1.3.1",)}, {}),
        (
            {"runtime": ("executorch",), "backend": ("cpu", "portable"), "layout": ("nhwc",), "opset": (20,)},
            {"executorch": ("opset",), "executorch portable": ("layout",)},
        ),
        (
            {"backend": ("cpu", "nnapi", "metal"), "capture": ("script", "trace"), "format": ("pt", "ptl")},
            {"torchscript nnapi": ("capture",), "torchscript metal": ("format",)},
        ),
        ({"runtime": ("eager",), "backend": ("nnapi",), "fuse": (True,)}, {"eager": ("backend", "fuse")}),
    ],
)
def test_what_a_grid_says_in_vain_is_known(grid: dict[str, Any], expected: dict[str, tuple[str, ...]]) -> None:
    assert without_choice(GridSpec(**grid)) == expected


INT8 = Variant(precision="int8", quantization="static_fx", qengine="onednn", granularity="auto", interface="core")


@pytest.mark.parametrize("method", ["static_fx", "static_eager", "qat"])
@pytest.mark.parametrize("abi", ["x86_64", "x86"])
@pytest.mark.parametrize("features", [(), ("avx2",), ("avx2", "avx512f")])
def test_onednn_gets_a_reduced_range_where_the_cpu_may_add_int8_products_wrongly(
    method: str, abi: str, features: tuple[str, ...]
) -> None:
    variant = resolve_variant(replace(INT8, quantization=method), abi, features)
    assert variant.reduced_range
    assert variant.axes()["reduced_range"] is True
    assert "int8-onednn" in label_of(variant)
    assert "reduced-range" in label_of(variant)


@pytest.mark.parametrize(
    ("changes", "abi", "features"),
    [
        ({}, "x86_64", ("avx2", "avx_vnni")),
        ({}, "x86_64", ("avx2", "avx512f", "avx512_vnni")),
        ({}, "x86_64", ("amx_int8",)),
        ({}, "arm64-v8a", ("asimddp",)),
        ({"qengine": "x86"}, "x86_64", ("avx2",)),
        ({"qengine": "auto"}, "x86_64", ("avx2",)),
        ({"qengine": "qnnpack"}, "x86_64", ("avx2",)),
        ({"backend": "nnapi"}, "x86_64", ("avx2",)),
        ({"backend": "metal"}, "x86_64", ("avx2",)),
        ({"precision": "fp32"}, "x86_64", ("avx2",)),
        ({"quantization": "dynamic"}, "x86_64", ("avx2",)),
        ({"runtime": "eager"}, "x86_64", ("avx2",)),
    ],
)
def test_nothing_else_has_a_reduced_range_nor_a_word_of_it(
    changes: dict[str, str], abi: str, features: tuple[str, ...]
) -> None:
    variant = resolve_variant(replace(INT8, **changes), abi, features)
    assert not variant.reduced_range
    assert "reduced_range" not in variant.axes()
    assert "reduced" not in label_of(variant)


def test_a_variant_that_comes_from_another_device_loses_its_reduced_range() -> None:
    reduced = resolve_variant(INT8, "x86_64", ("avx2",))
    assert not resolve_variant(reduced, "x86_64", ("avx512_vnni",)).reduced_range
    assert not resolve_variant(replace(reduced, qengine="x86"), "x86_64", ("avx2",)).reduced_range


def test_variants_that_differ_once_resolved_have_labels_that_differ() -> None:
    seeded = Random(0)
    drawn = {
        resolve_variant(Variant(**{axis: seeded.choice(values) for axis, values in VALUES.items()}), abi, features)
        for _ in range(4000)
        for abi, features in (("x86_64", ()), ("x86_64", ("avx_vnni",)), ("arm64-v8a", ()), ("riscv64", ()))
    }
    assert len(drawn) > 1000
    assert len({label_of(variant) for variant in drawn}) == len(drawn)


@given(variant=VARIANTS, abi=st.sampled_from(ABIS), data=st.data())
def test_an_axis_without_a_choice_has_one_value_whatever_was_given(
    variant: Variant, abi: str, data: st.DataObject
) -> None:
    fixed = sorted(VALUES.keys() - free_axes_of(variant))
    other = {axis: data.draw(st.sampled_from(VALUES[axis])) for axis in fixed}
    assert resolve_variant(replace(variant, **other), abi) == resolve_variant(variant, abi)


@given(variant=VARIANTS, data=st.data())
def test_an_axis_with_a_choice_keeps_what_was_given(variant: Variant, data: st.DataObject) -> None:
    axis = data.draw(st.sampled_from(sorted(free_axes_of(variant))))
    value = getattr(variant, axis)
    meant = {"static": "static_fx"}.get(value, value)
    assert value == "auto" or getattr(resolve_variant(variant, "x86_64"), axis) == meant


@pytest.mark.parametrize(
    ("backend", "precision", "quantization", "own"),
    [
        *CHOICES,
        ("cpu", "int8", "static_fx", {"capture", "format", "fuse", "optimize", "qengine"} | OF_INT8),
        ("nnapi", "int8", "qat", {"format", "preference", "flexible_batch"} | OF_INT8),
        ("metal", "int8", "static_eager", {"capture"} | OF_INT8),
        ("nnapi", "int8", "dynamic", {"format", "preference", "flexible_batch"} | OF_INT8 - {"calibration_images"}),
    ],
)
def test_each_backend_and_precision_has_its_own_axes(
    backend: str, precision: str, quantization: str, own: set[str]
) -> None:
    everywhere = {"runtime", "backend", "precision", "layout"}
    assert free_axes("torchscript", backend, precision, quantization) == everywhere | own


def test_granularity_follows_the_engine_that_auto_stands_for() -> None:
    auto = Variant(precision="int8", quantization="static_fx", qengine="auto", granularity="auto", interface="core")
    variants = {
        (abi, backend): resolve_variant(replace(auto, backend=backend), abi)
        for abi, backend in itertools.product(("x86_64", "arm64-v8a"), ("cpu", "nnapi", "metal"))
    }
    assert {key: (variant.qengine, variant.granularity) for key, variant in variants.items()} == {
        ("x86_64", "cpu"): ("x86", "per_channel"),
        ("arm64-v8a", "cpu"): ("qnnpack", "per_tensor"),
        **{(abi, other): ("qnnpack", "per_tensor") for abi in ("x86_64", "arm64-v8a") for other in ("nnapi", "metal")},
    }
    assert resolve_variant(auto, "riscv64").qengine == "auto"


def test_only_static_and_trained_int8_needs_calibration_data() -> None:
    methods = ("static_fx", "static_eager", "qat", "dynamic")
    are_calibrated = [is_calibrated(Variant(precision="int8", quantization=method)) for method in methods]
    assert are_calibrated == [True, True, True, False]
    assert not is_calibrated(Variant())
