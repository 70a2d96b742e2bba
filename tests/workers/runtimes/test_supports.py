from dataclasses import replace

import pytest

from sweeps.records import DeviceFacts, Variant
from workers.runtimes.torchscript.runtime import TorchScript

PHONE = DeviceFacts(
    device_id="p1",
    name="adb:p1",
    maker="Maker",
    model="Phone",
    soc="SoC",
    os_build="14",
    abi="arm64-v8a",
    cores=8,
    ram_bytes=None,
    qengines=("qnnpack",),
)
HOST = replace(PHONE, name="local", abi="x86_64", qengines=("qnnpack", "onednn", "x86"))
FP32 = Variant()
INT8 = Variant(precision="int8", quantization="static_fx", interface="core", qengine="x86", fuse=True)


@pytest.mark.parametrize("capture", ["script", "trace"])
@pytest.mark.parametrize("layout", ["nchw", "nhwc"])
@pytest.mark.parametrize("optimize", [True, False])
@pytest.mark.parametrize("fuse", [True, False])
def test_fp32_takes_every_combination(capture: str, layout: str, optimize: bool, fuse: bool) -> None:
    variant = replace(FP32, capture=capture, layout=layout, optimize=optimize, fuse=fuse)
    assert TorchScript().supports(variant, PHONE) is None


@pytest.mark.parametrize(("facts", "engine"), [(PHONE, "qnnpack"), (HOST, "x86"), (HOST, "onednn")])
def test_int8_runs_under_the_engines_of_the_device(facts: DeviceFacts, engine: str) -> None:
    assert TorchScript().supports(replace(INT8, qengine=engine), facts) is None


def test_an_engine_that_the_device_lacks_is_named() -> None:
    reason = TorchScript().supports(INT8, PHONE)
    assert reason == "adb:p1 has no quantized engine x86 (it has: qnnpack)"


def test_a_device_without_any_engine_says_so() -> None:
    reason = TorchScript().supports(INT8, replace(HOST, qengines=()))
    assert reason == "local has no quantized engine x86 (it has: none)"


@pytest.mark.parametrize(
    ("variant", "reason"),
    [
        (replace(INT8, fuse=False), "FX quantization fuses Conv+BN itself: fuse: false is the same artifact"),
        (replace(INT8, quantization="dynamic"), "int8 is made by static_fx, not dynamic"),
        (replace(INT8, interface="full"), "int8 on the cpu has the interface core, not full"),
        (replace(FP32, quantization="dynamic"), "fp32 takes no quantization"),
        (replace(FP32, precision="fp16"), "the cpu backend has no precision fp16"),
        (replace(FP32, backend="vulkan"), "torchscript has no backend vulkan"),
        (replace(FP32, format="ptl"), "the cpu backend builds pt files, not ptl"),
        (replace(FP32, capture="mixed"), "torchscript captures by script or trace, not mixed"),
        (replace(FP32, layout="nhcw"), "the cpu backend has no layout nhcw"),
    ],
)
def test_what_makes_no_sense_has_a_reason(variant: Variant, reason: str) -> None:
    assert TorchScript().supports(variant, HOST) == reason
