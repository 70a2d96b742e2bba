from dataclasses import replace

import pytest

from sweeps.device_facts import DeviceFacts
from sweeps.skip_kinds import Skip
from sweeps.variant import Variant
from tests.builders import phone_facts
from workers.runtimes.torchscript.runtime import TorchScript

PHONE = phone_facts("p1", qengines=("qnnpack",))
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
    skip = TorchScript().supports(INT8, PHONE)
    assert skip == Skip("no_quantized_engine", "adb:p1 has no quantized engine x86 (known: qnnpack)")


def test_a_device_without_any_engine_says_so() -> None:
    skip = TorchScript().supports(INT8, replace(HOST, qengines=()))
    assert skip == Skip("no_quantized_engine", "local has no quantized engine x86 (known: none)")


@pytest.mark.parametrize(
    ("variant", "reason"),
    [
        (replace(INT8, fuse=False), "quantization fuses Conv+BN itself: fuse: false is the same artifact"),
        (replace(INT8, quantization="int4"), "int8 is made by static_fx, static_eager, dynamic, qat, not int4"),
        (replace(INT8, interface="wide"), "int8 on the cpu has the interfaces core and full, not wide"),
        (
            replace(INT8, interface="inside"),
            "duplicate of core: on the cpu a model with float ends always quantizes by itself",
        ),
        (
            replace(INT8, quantization="dynamic", interface="full"),
            "dynamic int8 has floats between its layers, and so at its ends",
        ),
        (replace(FP32, quantization="dynamic"), "fp32 takes no quantization"),
        (replace(FP32, precision="fp16"), "torchscript has no precision fp16"),
        (replace(FP32, backend="vulkan"), "torchscript has no backend vulkan"),
        (replace(FP32, format="onnx"), "torchscript writes pt and ptl files, not onnx"),
        (replace(FP32, capture="export"), "torchscript captures by script, trace, mixed, not export"),
        (replace(FP32, layout="nhcw"), "torchscript has no layout nhcw"),
    ],
)
def test_what_makes_no_sense_has_a_reason(variant: Variant, reason: str) -> None:
    skip = TorchScript().supports(variant, HOST)
    assert skip is not None
    assert skip.reason == reason


@pytest.mark.parametrize("method", ["static_fx", "static_eager", "qat", "dynamic"])
@pytest.mark.parametrize("granularity", ["per_tensor", "per_channel"])
def test_int8_is_made_in_four_ways(method: str, granularity: str) -> None:
    assert TorchScript().supports(replace(INT8, quantization=method, granularity=granularity), HOST) is None


NNAPI = replace(FP32, backend="nnapi", capture="mixed", fuse=True, preference="sustained_speed")
METAL = replace(FP32, backend="metal", format="ptl", fuse=True, optimize=True)
CHECKER = replace(HOST, emulates=("metal", "nnapi"))
ANDROID = replace(PHONE, nnapi_level=30)
IPHONE = replace(PHONE, name="ios:1", maker="Apple", soc="Apple A13 Bionic", qengines=())


@pytest.mark.parametrize(("variant", "facts"), [(NNAPI, CHECKER), (METAL, CHECKER), (NNAPI, ANDROID), (METAL, IPHONE)])
def test_a_backend_is_there_or_can_be_checked(variant: Variant, facts: DeviceFacts) -> None:
    assert TorchScript().supports(variant, facts) is None


@pytest.mark.parametrize(
    ("variant", "facts", "reason"),
    [
        (NNAPI, PHONE, "adb:p1 has no NNAPI"),
        (METAL, ANDROID, "adb:p1 has no Metal"),
        (
            NNAPI,
            HOST,
            "NNAPI models are checked here with a library that is compiled on first use: apt-get install g++",
        ),
        (
            METAL,
            HOST,
            "Metal models are checked here with a library that is compiled on first use: apt-get install g++",
        ),
        (replace(NNAPI, precision="int8", quantization="dynamic"), CHECKER, "NNAPI has no dynamic quantization"),
        (
            replace(NNAPI, precision="int8", quantization="static_fx", granularity="per_channel"),
            replace(ANDROID, nnapi_level=28),
            "adb:p1 has NNAPI level 28; weights per channel need 29",
        ),
        (
            replace(METAL, precision="int8", quantization="static_fx"),
            IPHONE,
            "PyTorch's Metal backend has no quantized operators",
        ),
        (replace(METAL, layout="nhwc"), IPHONE, "no effect: Metal keeps a layout of its own"),
        (METAL, replace(IPHONE, soc="Apple A8"), "Metal needs Apple's A9 chip or later; ios:1 has an A8"),
    ],
)
def test_a_backend_that_is_not_there_has_a_reason(variant: Variant, facts: DeviceFacts, reason: str) -> None:
    skip = TorchScript().supports(variant, facts)
    assert skip is not None
    assert skip.reason.startswith(reason)
