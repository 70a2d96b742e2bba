"""Executions, events and memory through the C interface: what is refused, and what is told of results."""

import ctypes
import mmap
import os
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from tests.workers.native.cases import BAD_DATA, BAD_STATE, FLOATS, INSUFFICIENT, UNMAPPABLE, refused, relu_of, values
from tests.workers.native.nnapi import Code, Kind, Model, Type, Values

pytestmark = pytest.mark.compiler


class Run:
    """One execution of RELU over 6 floats, or what `result` and `argument` make of it."""

    def __init__(self, model: Model, argument: Values | None = None, result: Kind | None = None) -> None:
        self.model = model
        self.argument = argument or values(2, 3)
        self.got = torch.zeros(2, 3)
        relu_of(model, self.argument, result)
        self.execution = ctypes.c_void_p()
        model.call("Execution_create", model.compiled(), ctypes.byref(self.execution))

    def set_input(self, kind: Kind | None = None, length: int = 24, index: int = 0) -> None:
        structure = ctypes.byref((kind or self.argument.kind).structure())
        room = ctypes.c_void_p(self.argument.numbers.data_ptr())
        self.model.call("Execution_setInput", self.execution, index, structure, room, ctypes.c_size_t(length))

    def set_output(self, length: int = 24, index: int = 0) -> None:
        room = ctypes.c_void_p(self.got.data_ptr())
        self.model.call("Execution_setOutput", self.execution, index, None, room, ctypes.c_size_t(length))

    def compute(self) -> None:
        self.model.call("Execution_compute", self.execution)


@pytest.fixture
def run(model: Model) -> Iterator[Run]:
    new_run = Run(model)
    yield new_run
    model.library.ANeuralNetworksExecution_free(new_run.execution)


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
    assert torch.equal(run.got, run.argument.numbers.relu())
    assert run.model.sizes(run.execution, 0) == (2, 3)
    refused(BAD_STATE, "computed before", run.compute)
    refused(BAD_STATE, "fixed", run.set_input)


def test_a_batch_of_nothing_is_refused(model: Model) -> None:
    open_batch = Values(torch.zeros(0, 3), is_input=True)
    run = Run(model, open_batch)
    refused(BAD_DATA, r"sizes \[0, 3\]: all must be known and none 0", lambda: run.set_input(length=0))


def test_a_buffer_that_is_too_small_is_told_the_sizes(model: Model) -> None:
    zero_batch = Values(torch.ones(2, 3), is_input=True)
    run = Run(model, zero_batch, Kind(Type.TENSOR_FLOAT32, (0, 3)))
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
    assert torch.equal(run.got, run.argument.numbers.relu())
    run.model.library.ANeuralNetworksEvent_free(event)


def test_events_say_why_a_started_execution_failed(run: Run) -> None:
    run.set_output()
    event = ctypes.c_void_p()
    run.model.call("Execution_startCompute", run.execution, ctypes.byref(event))
    refused(BAD_DATA, "input 0 was never set", lambda: run.model.call("Event_wait", event))
    run.model.library.ANeuralNetworksEvent_free(event)


def memory(model: Model, size: int, protect: int, descriptor: int, offset: int = 0) -> ctypes.c_void_p:
    handle = ctypes.c_void_p()
    parts = ctypes.c_size_t(size), protect, descriptor, ctypes.c_size_t(offset), ctypes.byref(handle)
    model.call("Memory_createFromFd", *parts)
    return handle


def test_values_inputs_and_outputs_come_from_memory(model: Model, tmp_path: Path) -> None:
    access = mmap.PROT_READ | mmap.PROT_WRITE
    file = tmp_path / "shared"
    left, right = torch.arange(6.0), torch.full((6,), 10.0)
    file.write_bytes(bytes(8) + left.numpy().tobytes() + right.numpy().tobytes() + bytes(24))
    descriptor = os.open(file, os.O_RDWR)
    shared = memory(model, 72, access, descriptor, 8)
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
