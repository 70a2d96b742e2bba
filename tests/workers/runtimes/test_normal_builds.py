"""Builds of networks as people write them, which the toolchains refuse as they are."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from sweeps.errors import BuildError
from sweeps.manifest import Manifest
from sweeps.variant import Variant
from tests.workers.runtimes import exported
from workers.models.package import BuildInputs
from workers.runtimes.executorch.runtime import ExecuTorch

# torch's own word on what `Pooled` does.
pytestmark = pytest.mark.filterwarnings("ignore:Using padding='same' with even kernel")

Build = Callable[[BuildInputs, Variant], tuple[Path, Manifest]]
Make = Callable[..., BuildInputs]
FP32 = Variant(fuse=True, optimize=True)
INT8 = replace(FP32, precision="int8", interface="core", qengine="x86")


def overwriting(inputs: BuildInputs) -> BuildInputs:
    """Mark the package as `making.packed` marks one that overwrites its input."""
    return replace(inputs, package=replace(inputs.package, overwrites_input=True))


@pytest.mark.parametrize("method", ["static_fx", "static_eager", "qat"])
def test_a_number_that_is_computed_from_a_size_is_no_obstacle_to_int8(
    make_inputs: Make, build: Build, method: str
) -> None:
    _, manifest = build(make_inputs("nets:Sized"), replace(INT8, quantization=method))
    assert manifest.verification.sqnr_db is not None
    assert manifest.verification.sqnr_db > 20
    assert any(name.startswith("quantized::linear") for name in manifest.operators)


@pytest.mark.parametrize(
    ("network", "variant"),
    [
        ("Sized", FP32),
        ("Overwrites", FP32),
        ("Overwrites", replace(INT8, quantization="static_fx")),
        ("Pooled", FP32),
        ("Pooled", replace(INT8, quantization="static_fx")),
    ],
)
def test_what_pytorch_mobile_refuses_is_built_in_another_form(
    make_inputs: Make, build: Build, network: str, variant: Variant
) -> None:
    inputs = make_inputs(f"nets:{network}")
    _, manifest = build(overwriting(inputs) if network == "Overwrites" else inputs, variant)
    assert manifest.verification.sqnr_db is None or manifest.verification.sqnr_db > (
        100 if variant.precision == "fp32" else 20
    )


@pytest.mark.system
@pytest.mark.runtime("executorch")
@pytest.mark.xdist_group("executorch")
@pytest.mark.parametrize("axes", [{}, {"precision": "int8"}])
def test_what_executorch_refuses_is_built_in_another_form(
    make_inputs: Make, tmp_path: Path, axes: dict[str, str]
) -> None:
    for network in ("Pooled", "Overwrites"):
        inputs = make_inputs(f"nets:{network}")
        inputs = overwriting(inputs) if network == "Overwrites" else inputs
        out = tmp_path / network
        out.mkdir()
        variant = exported.variant_of("executorch", axes)
        verified = ExecuTorch().build(variant, "k" * 64, inputs, out).verification
        assert verified.sqnr_db is None or verified.sqnr_db > (20 if axes else 100)


@pytest.mark.system
@pytest.mark.runtime("executorch")
@pytest.mark.xdist_group("executorch")
def test_an_operator_that_executorch_refuses_to_run_is_named_with_its_line(make_inputs: Make, tmp_path: Path) -> None:
    inputs = make_inputs("nets:CutOff")
    with pytest.raises(BuildError, match="Padding values must be non-negative") as caught:
        ExecuTorch().build(exported.variant_of("executorch", {}), "k" * 64, inputs, tmp_path)
    error, [source] = caught.value, inputs.package.files.values()
    assert (error.kind, error.operator, error.file) == ("run_failed", "aten::constant_pad_nd", "nets.py")
    assert "nn.functional.pad(x, (-1, 1, -1, 1))" in source.decode().splitlines()[error.line - 1]
    assert "0x" not in error.message
