"""Devices and models through the C interface: what is refused, with which code and which sentence."""

import ctypes
from collections.abc import Sequence
from dataclasses import replace

import pytest
import torch

from tests.workers.native.cases import BAD_DATA, BAD_STATE, FLOATS, UNEXPECTED_NULL, refused, relu_of, values
from tests.workers.native.nnapi import Code, Kind, Model, Type, Values, apply

pytestmark = pytest.mark.compiler

EIGHT_BIT = Kind(Type.TENSOR_QUANT8_ASYMM, (1, 4, 4, 2), 0.1, 3)


def device(library: ctypes.CDLL, index: int) -> ctypes.c_void_p:
    handle = ctypes.c_void_p()
    assert library.ANeuralNetworks_getDevice(index, ctypes.byref(handle)) == 0
    return handle


def supported(model: Model, *devices: ctypes.c_void_p, operations: int) -> list[bool]:
    answers = (ctypes.c_bool * operations)()
    listed = (ctypes.c_void_p * len(devices))(*devices)
    model.call("Model_getSupportedOperationsForDevices", model.handle, listed, len(devices), answers)
    return list(answers)


def test_devices_say_what_they_are(library: ctypes.CDLL) -> None:
    count = ctypes.c_uint32()
    assert library.ANeuralNetworks_getDeviceCount(ctypes.byref(count)) == 0
    described = []
    for index in range(count.value):
        name, version, kind, level = ctypes.c_char_p(), ctypes.c_char_p(), ctypes.c_int32(), ctypes.c_int64()
        handle = device(library, index)
        assert library.ANeuralNetworksDevice_getName(handle, ctypes.byref(name)) == 0
        assert library.ANeuralNetworksDevice_getVersion(handle, ctypes.byref(version)) == 0
        assert library.ANeuralNetworksDevice_getType(handle, ctypes.byref(kind)) == 0
        assert library.ANeuralNetworksDevice_getFeatureLevel(handle, ctypes.byref(level)) == 0
        described.append((name.value, version.value, kind.value, level.value))
    assert described == [
        (b"edgesweep-reference-conv8", b"1", 4, 30),
        (b"edgesweep-reference-all", b"1", 2, 30),
    ]
    assert library.ANeuralNetworks_getDevice(2, ctypes.byref(ctypes.c_void_p())) == BAD_DATA


def convolution_and_relu(model: Model) -> None:
    """The RELU is added before the convolution whose result it takes: supported operations count as added."""
    image = Values(torch.zeros(EIGHT_BIT.sizes, dtype=torch.uint8), 0.1, 3, is_input=True)
    weights = Values(torch.ones(2, 1, 1, 2, dtype=torch.uint8), 0.1, 0)
    bias = Values(torch.zeros(2, dtype=torch.int32), 0.1 * 0.1)
    arguments = [model.argument(part) for part in (image, weights, bias, 0, 0, 0, 0, 1, 1, 0)]
    between, output = model.operand(EIGHT_BIT), model.operand(EIGHT_BIT)
    for code, inputs, result in ((Code.RELU, [between], output), (Code.CONV_2D, arguments, between)):
        indices = (ctypes.c_uint32 * len(inputs))(*inputs)
        results = (ctypes.c_uint32 * 1)(result)
        model.call("Model_addOperation", model.handle, code, len(inputs), indices, 1, results)
    model.finish([output])


def test_supported_operations_are_those_that_a_device_takes(library: ctypes.CDLL, model: Model) -> None:
    convolution_and_relu(model)
    accelerator, everything = device(library, 0), device(library, 1)
    assert supported(model, accelerator, operations=2) == [False, True]
    assert supported(model, everything, operations=2) == [True, True]
    assert supported(model, accelerator, everything, operations=2) == [True, True]
    refused(BAD_DATA, "twice", lambda: supported(model, everything, everything, operations=2))


def test_an_accelerator_takes_no_float_convolution(library: ctypes.CDLL, model: Model) -> None:
    image, weights = values(1, 3, 3, 1), Values(torch.ones(1, 1, 1, 1))
    bias = Values(torch.zeros(1))
    inputs = [model.argument(part) for part in (image, weights, bias, 0, 0, 0, 0, 1, 1, 0)]
    model.finish([model.operation(Code.CONV_2D, inputs, image.kind)])
    assert supported(model, device(library, 0), operations=1) == [False]


def test_a_compilation_for_devices_that_lack_an_operation_fails(library: ctypes.CDLL, model: Model) -> None:
    convolution_and_relu(model)

    def compile_for(*devices: ctypes.c_void_p) -> None:
        compilation = ctypes.c_void_p()
        listed = (ctypes.c_void_p * len(devices))(*devices)
        model.call("Compilation_createForDevices", model.handle, listed, len(devices), ctypes.byref(compilation))
        try:
            model.call("Compilation_finish", compilation)
        finally:
            library.ANeuralNetworksCompilation_free(compilation)

    refused(BAD_DATA, r"RELU \(operation 0\) is supported by no device", lambda: compile_for(device(library, 0)))
    compile_for(device(library, 0), device(library, 1))


def test_operations_run_in_the_order_that_their_values_ask_for(library: ctypes.CDLL, model: Model) -> None:
    convolution_and_relu(model)
    (got,) = model.run([(EIGHT_BIT, EIGHT_BIT.sizes)])
    assert torch.equal(got, torch.full(EIGHT_BIT.sizes, 3, dtype=torch.uint8))


@pytest.mark.parametrize(
    ("kind", "message"),
    [
        (replace(EIGHT_BIT, scale=0.0), "scale 0"),
        (replace(EIGHT_BIT, scale=float("nan")), "scale nan"),
        (replace(EIGHT_BIT, zero_point=256), "zero point 256"),
        (replace(FLOATS, scale=0.5), "has no scale"),
        (replace(FLOATS, type=99), "no operand type 99"),
        (Kind(Type.INT32, (1,)), "can not have 1 dimensions"),
        (Kind(Type.TENSOR_FLOAT32, (1,) * 9), "can not have 9 dimensions"),
        (Kind(Type.TENSOR_FLOAT32, (65536, 65536, 65536)), "larger than 2 GB"),
    ],
)
def test_operands_that_cannot_be_are_refused(model: Model, kind: Kind, message: str) -> None:
    refused(BAD_DATA, message, lambda: model.operand(kind))


@pytest.mark.parametrize(
    ("content", "message"), [(bytes(20), "24 bytes long, but is 20"), (bytes(28), "24 bytes long, but is 28")]
)
def test_values_have_the_size_of_their_operand(model: Model, content: bytes, message: str) -> None:
    refused(BAD_DATA, message, lambda: model.constant(FLOATS, content))


def test_an_operand_of_open_sizes_has_no_fixed_value(model: Model) -> None:
    refused(BAD_DATA, "fixed value", lambda: model.constant(replace(FLOATS, sizes=(0, 3)), bytes(24)))


IMAGE, WEIGHTS, BIAS = values(1, 3, 3, 1), Values(torch.ones(1, 1, 1, 1)), Values(torch.zeros(1))
CONVOLUTION = [IMAGE, WEIGHTS, BIAS, 0, 0, 0, 0, 1, 1, 0]


@pytest.mark.parametrize(
    ("code", "arguments", "message"),
    [
        (Code.RELU, [values(2), values(2)], "RELU: it does not take 2 operands"),
        (Code.RELU, [], "RELU: it does not take no operands"),
        (Code.RELU, [3], "RELU: it does not take INT32"),
        (Code.ADD, [values(2), values(2), 0.0], "ADD: operand 2 must be an INT32, but is FLOAT32"),
        (Code.CONV_2D, CONVOLUTION[:-1], "CONV_2D: operand"),
        (Code.CONV_2D, [*CONVOLUTION, True, 1, 1, 1], "CONV_2D: it does not take 14 operands"),
        (Code.LOG_SOFTMAX, [Values(torch.zeros(2, dtype=torch.uint8), 0.1), 1.0, 0], "TENSOR_QUANT8_ASYMM"),
        (Code.HASHTABLE_LOOKUP, [values(2)], "knows no operation 10"),
    ],
)
def test_operations_refuse_operands_that_they_do_not_take(
    library: ctypes.CDLL, code: int, arguments: list[object], message: str
) -> None:
    refused(BAD_DATA, message, lambda: apply(library, code, arguments, IMAGE.kind))


def changed(position: int, value: object) -> list[object]:
    return [*CONVOLUTION[:position], value, *CONVOLUTION[position + 1 :]]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (changed(7, 0), r"CONV_2D \(operation 0\): operand 7 is 0"),
        (changed(3, -1), "operand 3 is -1"),
        (changed(3, 2**31 - 1), "operand 3 is 2147483647"),
        (changed(9, 4), "operand 9 is 4"),
        (changed(1, Values(torch.ones(1, 1, 1, 2))), r"filter of sizes \[1, 1, 1, 2\] does not fit 1 channels"),
        (changed(1, Values(torch.ones(1, 1, 1))), "operand 1 must have 4 dimensions, but has 3"),
        (changed(1, Values(torch.ones(1, 4, 4, 1))), r"tensor of sizes \[1, 0, 0, 1\]"),
        (changed(2, Values(torch.zeros(2))), "operand 2, the bias, must have size 1"),
        ([*CONVOLUTION, False, 2], "only one of its two dilations"),
    ],
)
def test_convolutions_refuse_what_does_not_fit(library: ctypes.CDLL, arguments: list[object], message: str) -> None:
    refused(BAD_DATA, message, lambda: apply(library, Code.CONV_2D, arguments, IMAGE.kind))


@pytest.mark.parametrize(
    ("code", "scale", "zero_point", "message"),
    [
        (Code.RELU, 0.2, 3, "those of operand 0"),
        (Code.LOGISTIC, 0.1, 3, "1/256 and 0"),
        (Code.TANH, 1 / 128, 0, "1/128 and 128"),
    ],
)
def test_results_are_quantized_as_nnapi_wants(
    library: ctypes.CDLL, code: int, scale: float, zero_point: int, message: str
) -> None:
    pixels = Values(torch.zeros(EIGHT_BIT.sizes, dtype=torch.uint8), 0.1, 3, is_input=True)
    result = replace(EIGHT_BIT, scale=scale, zero_point=zero_point)
    refused(BAD_DATA, message, lambda: apply(library, code, [pixels], result))


def test_products_need_a_coarser_scale_and_biases_the_product_of_scales(library: ctypes.CDLL) -> None:
    pixels = Values(torch.zeros(EIGHT_BIT.sizes, dtype=torch.uint8), 0.5, 0, is_input=True)
    refused(BAD_DATA, "scale above 0.25", lambda: apply(library, Code.MUL, [pixels, pixels, 0], EIGHT_BIT))
    weights = Values(torch.ones(2, 1, 1, 2, dtype=torch.uint8), 0.5, 0)
    bias = Values(torch.zeros(2, dtype=torch.int32), 0.2)
    arguments = [pixels, weights, bias, 0, 0, 0, 0, 1, 1, 0]
    refused(BAD_DATA, "bias, has scale 0.2", lambda: apply(library, Code.CONV_2D, arguments, EIGHT_BIT))


def test_channel_scales_are_needed_and_fit(library: ctypes.CDLL, model: Model) -> None:
    pixels = Values(torch.zeros(EIGHT_BIT.sizes, dtype=torch.uint8), 0.1, 3, is_input=True)
    numbers = torch.ones(2, 1, 1, 2, dtype=torch.int8)
    bias = Values(torch.zeros(2, dtype=torch.int32))

    def run(weights: Values) -> torch.Tensor:
        return apply(library, Code.CONV_2D, [pixels, weights, bias, 0, 0, 0, 0, 1, 1, 0], EIGHT_BIT)

    refused(BAD_DATA, "has no scales per channel", lambda: run(Values(numbers)))
    refused(BAD_DATA, "3 scales", lambda: run(Values(numbers, channel_scales=(1.0, 1.0, 1.0))))
    refused(BAD_DATA, "channel scale 0", lambda: run(Values(numbers, channel_scales=(1.0, 0.0))))
    wrong = Values(numbers, channel_scales=(1.0, 1.0), channel_dimension=3)
    refused(BAD_DATA, "along dimension 3, not 0", lambda: run(wrong))


def test_a_value_that_nothing_writes_is_refused(model: Model) -> None:
    loose = model.operand(FLOATS)
    output = model.operation(Code.RELU, [loose], FLOATS)
    refused(BAD_DATA, f"operand {loose} is read, but nothing gives it a value", lambda: model.finish([output]))


def test_only_optional_operands_may_be_left_out(model: Model) -> None:
    addends = [model.argument(values(2, 3)), model.argument(Values(torch.ones(2, 3)))]
    output = model.operation(Code.ADD, [*addends, model.constant(Kind(Type.INT32), None)], FLOATS)
    model.finish([output])
    refused(BAD_DATA, r"ADD \(operation 0\): operand 2 has no value", lambda: model.run([(FLOATS, (2, 3))]))


def test_cycles_are_refused(model: Model) -> None:
    first, second = model.operand(FLOATS), model.operand(FLOATS)
    for source, target in ((first, second), (second, first)):
        index, other = (ctypes.c_uint32 * 1)(source), (ctypes.c_uint32 * 1)(target)
        model.call("Model_addOperation", model.handle, Code.RELU, 1, index, 1, other)
    refused(BAD_DATA, "cycle", lambda: model.finish([second]))


def test_an_operand_has_one_writer(model: Model) -> None:
    source = model.argument(values(2, 3))
    output = model.operation(Code.RELU, [source], FLOATS)
    index, other = (ctypes.c_uint32 * 1)(source), (ctypes.c_uint32 * 1)(output)
    refused(
        BAD_DATA,
        "has a value already",
        lambda: model.call("Model_addOperation", model.handle, Code.RELU, 1, index, 1, other),
    )


def test_indices_out_of_range_are_refused(model: Model) -> None:
    model.argument(values(2, 3))
    many = 2**30
    refused(BAD_DATA, "input 7 does not exist", lambda: model.operation(Code.RELU, [7], FLOATS))
    index = (ctypes.c_uint32 * 1)(0)
    refused(
        BAD_DATA,
        f"{many} of them",
        lambda: model.call("Model_addOperation", model.handle, Code.RELU, many, index, 1, index),
    )


@pytest.mark.parametrize("outputs", [[], [0], [5]])
def test_outputs_are_results_of_operations(model: Model, outputs: Sequence[int]) -> None:
    model.argument(values(2, 3))
    refused(BAD_DATA, "output|input or output", lambda: model.finish(list(outputs)))


def test_a_finished_model_does_not_change_and_an_unfinished_one_does_not_compile(model: Model) -> None:
    refused(BAD_STATE, "not finished", model.compiled)
    relu_of(model, values(2, 3))
    refused(BAD_STATE, "finished", lambda: model.operand(FLOATS))
    refused(BAD_STATE, "finished", lambda: model.call("Model_finish", model.handle))


def test_nothing_is_done_with_null(library: ctypes.CDLL) -> None:
    for name in ("Model_create", "Model_finish", "Compilation_finish", "Execution_compute", "Event_wait"):
        assert getattr(library, f"ANeuralNetworks{name}")(None) == UNEXPECTED_NULL
    library.ANeuralNetworksModel_free(None)
    assert library.ANeuralNetworksModel_addOperand(None, None) == UNEXPECTED_NULL
