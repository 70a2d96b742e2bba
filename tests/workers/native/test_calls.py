"""The C interface itself: devices, states, memory, events, and what is refused with which code."""

import ctypes
import mmap
import os
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from tests.workers.native.nnapi import Code, Kind, Model, NnapiError, Type, Values, apply

pytestmark = pytest.mark.compiler

UNEXPECTED_NULL, BAD_DATA, BAD_STATE, UNMAPPABLE, INSUFFICIENT = 3, 4, 6, 7, 8
FLOATS = Kind(Type.TENSOR_FLOAT32, (2, 3))
EIGHT_BIT = Kind(Type.TENSOR_QUANT8_ASYMM, (1, 4, 4, 2), 0.1, 3)


def values(*sizes: int) -> Values:
    return Values(torch.arange(float(torch.Size(sizes).numel())).reshape(sizes) - 2, given=True)


@pytest.fixture
def model(library: ctypes.CDLL) -> Iterator[Model]:
    made = Model(library)
    yield made
    made.free()


def relu_of(model: Model, given: Values, result: Kind | None = None) -> None:
    model.finish([model.operation(Code.RELU, [model.argument(given)], result or given.kind)])


def refused(code: int, told: str, call: Callable[[], object]) -> None:
    with pytest.raises(NnapiError, match=told) as error:
        call()
    assert error.value.code == code


def device(library: ctypes.CDLL, index: int) -> ctypes.c_void_p:
    found = ctypes.c_void_p()
    assert library.ANeuralNetworks_getDevice(index, ctypes.byref(found)) == 0
    return found


def supported(model: Model, *devices: ctypes.c_void_p, operations: int) -> list[bool]:
    told = (ctypes.c_bool * operations)()
    listed = (ctypes.c_void_p * len(devices))(*devices)
    model.call("Model_getSupportedOperationsForDevices", model.handle, listed, len(devices), told)
    return list(told)


def test_devices_say_what_they_are(library: ctypes.CDLL) -> None:
    count = ctypes.c_uint32()
    assert library.ANeuralNetworks_getDeviceCount(ctypes.byref(count)) == 0
    described = []
    for index in range(count.value):
        name, version, kind, level = ctypes.c_char_p(), ctypes.c_char_p(), ctypes.c_int32(), ctypes.c_int64()
        one = device(library, index)
        assert library.ANeuralNetworksDevice_getName(one, ctypes.byref(name)) == 0
        assert library.ANeuralNetworksDevice_getVersion(one, ctypes.byref(version)) == 0
        assert library.ANeuralNetworksDevice_getType(one, ctypes.byref(kind)) == 0
        assert library.ANeuralNetworksDevice_getFeatureLevel(one, ctypes.byref(level)) == 0
        described.append((name.value, version.value, kind.value, level.value))
    assert described == [
        (b"edgesweep-reference-conv8", b"1", 4, 30),
        (b"edgesweep-reference-all", b"1", 2, 30),
    ]
    assert library.ANeuralNetworks_getDevice(2, ctypes.byref(ctypes.c_void_p())) == BAD_DATA


def convolution_and_relu(model: Model) -> None:
    """The RELU is added before the convolution whose result it takes: supported operations count as added."""
    image = Values(torch.zeros(EIGHT_BIT.sizes, dtype=torch.uint8), 0.1, 3, given=True)
    weights = Values(torch.ones(2, 1, 1, 2, dtype=torch.uint8), 0.1, 0)
    bias = Values(torch.zeros(2, dtype=torch.int32), 0.1 * 0.1)
    arguments = [model.argument(part) for part in (image, weights, bias, 0, 0, 0, 0, 1, 1, 0)]
    between, output = model.operand(EIGHT_BIT), model.operand(EIGHT_BIT)
    for code, inputs, result in ((Code.RELU, [between], output), (Code.CONV_2D, arguments, between)):
        given = (ctypes.c_uint32 * len(inputs))(*inputs)
        results = (ctypes.c_uint32 * 1)(result)
        model.call("Model_addOperation", model.handle, code, len(inputs), given, 1, results)
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
    ("kind", "told"),
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
def test_operands_that_can_not_be_are_refused(model: Model, kind: Kind, told: str) -> None:
    refused(BAD_DATA, told, lambda: model.operand(kind))


@pytest.mark.parametrize(
    ("content", "told"), [(bytes(20), "24 bytes long, but is 20"), (bytes(28), "24 bytes long, but is 28")]
)
def test_values_have_the_size_of_their_operand(model: Model, content: bytes, told: str) -> None:
    refused(BAD_DATA, told, lambda: model.constant(FLOATS, content))


def test_an_operand_of_open_sizes_has_no_fixed_value(model: Model) -> None:
    refused(BAD_DATA, "fixed value", lambda: model.constant(replace(FLOATS, sizes=(0, 3)), bytes(24)))


IMAGE, WEIGHTS, BIAS = values(1, 3, 3, 1), Values(torch.ones(1, 1, 1, 1)), Values(torch.zeros(1))
CONVOLUTION = [IMAGE, WEIGHTS, BIAS, 0, 0, 0, 0, 1, 1, 0]


@pytest.mark.parametrize(
    ("code", "arguments", "told"),
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
    library: ctypes.CDLL, code: int, arguments: list[object], told: str
) -> None:
    refused(BAD_DATA, told, lambda: apply(library, code, arguments, IMAGE.kind))  # type: ignore[arg-type]


def changed(position: int, value: object) -> list[object]:
    return [*CONVOLUTION[:position], value, *CONVOLUTION[position + 1 :]]


@pytest.mark.parametrize(
    ("arguments", "told"),
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
def test_convolutions_refuse_what_does_not_fit(library: ctypes.CDLL, arguments: list[object], told: str) -> None:
    refused(BAD_DATA, told, lambda: apply(library, Code.CONV_2D, arguments, IMAGE.kind))  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("code", "scale", "zero_point", "told"),
    [
        (Code.RELU, 0.2, 3, "those of operand 0"),
        (Code.LOGISTIC, 0.1, 3, "1/256 and 0"),
        (Code.TANH, 1 / 128, 0, "1/128 and 128"),
    ],
)
def test_results_are_quantized_as_nnapi_wants(
    library: ctypes.CDLL, code: int, scale: float, zero_point: int, told: str
) -> None:
    given = Values(torch.zeros(EIGHT_BIT.sizes, dtype=torch.uint8), 0.1, 3, given=True)
    result = replace(EIGHT_BIT, scale=scale, zero_point=zero_point)
    refused(BAD_DATA, told, lambda: apply(library, code, [given], result))


def test_products_need_a_coarser_scale_and_biases_the_product_of_scales(library: ctypes.CDLL) -> None:
    given = Values(torch.zeros(EIGHT_BIT.sizes, dtype=torch.uint8), 0.5, 0, given=True)
    refused(BAD_DATA, "scale above 0.25", lambda: apply(library, Code.MUL, [given, given, 0], EIGHT_BIT))
    weights = Values(torch.ones(2, 1, 1, 2, dtype=torch.uint8), 0.5, 0)
    bias = Values(torch.zeros(2, dtype=torch.int32), 0.2)
    arguments = [given, weights, bias, 0, 0, 0, 0, 1, 1, 0]
    refused(BAD_DATA, "bias, has scale 0.2", lambda: apply(library, Code.CONV_2D, arguments, EIGHT_BIT))


def test_channel_scales_are_needed_and_fit(library: ctypes.CDLL, model: Model) -> None:
    given = Values(torch.zeros(EIGHT_BIT.sizes, dtype=torch.uint8), 0.1, 3, given=True)
    numbers = torch.ones(2, 1, 1, 2, dtype=torch.int8)
    bias = Values(torch.zeros(2, dtype=torch.int32))

    def run(weights: Values) -> torch.Tensor:
        return apply(library, Code.CONV_2D, [given, weights, bias, 0, 0, 0, 0, 1, 1, 0], EIGHT_BIT)

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
    both = [model.argument(values(2, 3)), model.argument(Values(torch.ones(2, 3)))]
    output = model.operation(Code.ADD, [*both, model.constant(Kind(Type.INT32), None)], FLOATS)
    model.finish([output])
    refused(BAD_DATA, r"ADD \(operation 0\): operand 2 has no value", lambda: model.run([(FLOATS, (2, 3))]))


def test_cycles_are_refused(model: Model) -> None:
    first, second = model.operand(FLOATS), model.operand(FLOATS)
    for source, target in ((first, second), (second, first)):
        one, other = (ctypes.c_uint32 * 1)(source), (ctypes.c_uint32 * 1)(target)
        model.call("Model_addOperation", model.handle, Code.RELU, 1, one, 1, other)
    refused(BAD_DATA, "cycle", lambda: model.finish([second]))


def test_an_operand_has_one_writer(model: Model) -> None:
    source = model.argument(values(2, 3))
    output = model.operation(Code.RELU, [source], FLOATS)
    one, other = (ctypes.c_uint32 * 1)(source), (ctypes.c_uint32 * 1)(output)
    refused(
        BAD_DATA,
        "has a value already",
        lambda: model.call("Model_addOperation", model.handle, Code.RELU, 1, one, 1, other),
    )


def test_indices_out_of_range_are_refused(model: Model) -> None:
    model.argument(values(2, 3))
    many = 2**30
    refused(BAD_DATA, "input 7 does not exist", lambda: model.operation(Code.RELU, [7], FLOATS))
    one = (ctypes.c_uint32 * 1)(0)
    refused(
        BAD_DATA,
        f"{many} of them",
        lambda: model.call("Model_addOperation", model.handle, Code.RELU, many, one, 1, one),
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


class Run:
    """One execution of RELU over 6 floats, or what `result` and `given` make of it."""

    def __init__(self, model: Model, given: Values | None = None, result: Kind | None = None) -> None:
        self.model = model
        self.given = given or values(2, 3)
        self.got = torch.zeros(2, 3)
        relu_of(model, self.given, result)
        self.execution = ctypes.c_void_p()
        model.call("Execution_create", model.compiled(), ctypes.byref(self.execution))

    def set_input(self, kind: Kind | None = None, length: int = 24, index: int = 0) -> None:
        structure = ctypes.byref((kind or self.given.kind).structure())
        room = ctypes.c_void_p(self.given.numbers.data_ptr())
        self.model.call("Execution_setInput", self.execution, index, structure, room, ctypes.c_size_t(length))

    def set_output(self, length: int = 24, index: int = 0) -> None:
        room = ctypes.c_void_p(self.got.data_ptr())
        self.model.call("Execution_setOutput", self.execution, index, None, room, ctypes.c_size_t(length))

    def compute(self) -> None:
        self.model.call("Execution_compute", self.execution)


@pytest.fixture
def run(model: Model) -> Iterator[Run]:
    made = Run(model)
    yield made
    model.library.ANeuralNetworksExecution_free(made.execution)


def test_inputs_and_outputs_must_be_there_and_fit(run: Run) -> None:
    refused(BAD_DATA, "24 bytes long, but is 20", lambda: run.set_input(length=20))
    refused(BAD_DATA, r"sizes \[3, 2\]", lambda: run.set_input(replace(FLOATS, sizes=(3, 2))))
    refused(BAD_DATA, "but is 0", lambda: run.set_input(length=0))
    refused(BAD_DATA, "is a TENSOR_INT32", lambda: run.set_input(replace(FLOATS, type=Type.TENSOR_INT32)))
    refused(BAD_DATA, "no input 1", lambda: run.set_input(index=1))
    refused(BAD_DATA, "no output -1", lambda: run.set_output(index=-1))
    refused(BAD_DATA, "24 bytes long, but is 32", lambda: run.set_output(length=32))
    refused(BAD_DATA, "input 0 was never set", run.compute)


def test_an_execution_is_computed_once(run: Run) -> None:
    refused(BAD_STATE, "not been computed", lambda: run.model.sizes(run.execution, 0))
    run.set_input()
    run.set_output()
    run.compute()
    assert torch.equal(run.got, run.given.numbers.relu())
    assert run.model.sizes(run.execution, 0) == (2, 3)
    refused(BAD_STATE, "computed before", run.compute)
    refused(BAD_STATE, "fixed", run.set_input)


def test_a_batch_of_nothing_is_refused(model: Model) -> None:
    open_batch = Values(torch.zeros(0, 3), given=True)
    run = Run(model, open_batch)
    refused(BAD_DATA, r"sizes \[0, 3\]: all must be known and none 0", lambda: run.set_input(length=0))


def test_a_buffer_that_is_too_small_is_told_the_sizes(model: Model) -> None:
    given = Values(torch.ones(2, 3), given=True)
    run = Run(model, given, Kind(Type.TENSOR_FLOAT32, (0, 3)))
    run.set_input()
    run.set_output(length=20)
    refused(INSUFFICIENT, "needs 24 bytes, but has 20", run.compute)
    assert not run.got.any()
    rank = ctypes.c_uint32()
    call = model.library.ANeuralNetworksExecution_getOutputOperandRank
    assert call(run.execution, 0, ctypes.byref(rank)) == INSUFFICIENT
    assert rank.value == 2


def test_events_wait_for_what_was_started(run: Run) -> None:
    run.set_input()
    run.set_output()
    event = ctypes.c_void_p()
    run.model.call("Execution_startCompute", run.execution, ctypes.byref(event))
    run.model.call("Event_wait", event)
    run.model.call("Event_wait", event)
    assert torch.equal(run.got, run.given.numbers.relu())
    run.model.library.ANeuralNetworksEvent_free(event)


def test_events_say_why_a_started_execution_failed(run: Run) -> None:
    run.set_output()
    event = ctypes.c_void_p()
    run.model.call("Execution_startCompute", run.execution, ctypes.byref(event))
    refused(BAD_DATA, "input 0 was never set", lambda: run.model.call("Event_wait", event))
    run.model.library.ANeuralNetworksEvent_free(event)


def memory(model: Model, size: int, protect: int, descriptor: int, offset: int = 0) -> ctypes.c_void_p:
    made = ctypes.c_void_p()
    parts = ctypes.c_size_t(size), protect, descriptor, ctypes.c_size_t(offset), ctypes.byref(made)
    model.call("Memory_createFromFd", *parts)
    return made


def test_values_inputs_and_outputs_come_from_memory(model: Model, tmp_path: Path) -> None:
    both = mmap.PROT_READ | mmap.PROT_WRITE
    file = tmp_path / "shared"
    left, right = torch.arange(6.0), torch.full((6,), 10.0)
    file.write_bytes(bytes(8) + left.numpy().tobytes() + right.numpy().tobytes() + bytes(24))
    descriptor = os.open(file, os.O_RDWR)
    shared = memory(model, 72, both, descriptor, 8)
    os.close(descriptor)
    source, fixed = model.operand(FLOATS), model.operand(FLOATS)
    size = ctypes.c_size_t(24)
    model.call("Model_setOperandValueFromMemory", model.handle, fixed, shared, size, size)
    model.inputs.append((source, values(2, 3)))
    model.finish([model.operation(Code.ADD, [source, fixed, model.argument(0)], FLOATS)])
    execution = ctypes.c_void_p()
    model.call("Execution_create", model.compiled(), ctypes.byref(execution))
    zero, last = ctypes.c_size_t(0), ctypes.c_size_t(48)
    model.call("Execution_setInputFromMemory", execution, 0, None, shared, zero, size)
    model.call("Execution_setOutputFromMemory", execution, 0, None, shared, last, size)
    beyond = ctypes.c_size_t(2**64 - 8)
    refused(
        BAD_DATA,
        "not inside a memory",
        lambda: model.call("Execution_setInputFromMemory", execution, 0, None, shared, beyond, size),
    )
    model.call("Execution_compute", execution)
    assert torch.equal(torch.frombuffer(bytearray(file.read_bytes()[56:80]), dtype=torch.float32), left + right)
    model.library.ANeuralNetworksExecution_free(execution)
    model.library.ANeuralNetworksMemory_free(shared)


def test_memory_lies_inside_a_file(model: Model, tmp_path: Path) -> None:
    file = tmp_path / "short"
    file.write_bytes(bytes(16))
    with file.open("rb") as opened:
        refused(BAD_DATA, "not inside the file's 16 bytes", lambda: memory(model, 17, 1, opened.fileno()))
        refused(BAD_DATA, "not inside", lambda: memory(model, 16, 1, opened.fileno(), 2**64 - 4))
    reading, writing = os.pipe()
    refused(UNMAPPABLE, "no file", lambda: memory(model, 16, 1, reading))
    os.close(reading)
    os.close(writing)
