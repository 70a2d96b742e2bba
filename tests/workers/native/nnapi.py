"""NNAPI's C interface from Python: models of one or more operations, built call by call and run on torch tensors."""

import ctypes
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch.backends._nnapi.serializer import NNAPI_OperandCode as Type
from torch.backends._nnapi.serializer import NNAPI_OperationCode as Code

from workers.native.compiler import shared_library

HARD_SWISH = 99
_STORED = {
    Type.TENSOR_FLOAT32: torch.float32,
    Type.TENSOR_INT32: torch.int32,
    Type.TENSOR_QUANT8_ASYMM: torch.uint8,
    Type.TENSOR_QUANT8_SYMM_PER_CHANNEL: torch.int8,
}


class OperandType(ctypes.Structure):
    """ANeuralNetworksOperandType."""

    _fields_ = (
        ("type", ctypes.c_int32),
        ("dimension_count", ctypes.c_uint32),
        ("dimensions", ctypes.POINTER(ctypes.c_uint32)),
        ("scale", ctypes.c_float),
        ("zero_point", ctypes.c_int32),
    )


class ChannelScales(ctypes.Structure):
    """ANeuralNetworksSymmPerChannelQuantParams."""

    _fields_ = (
        ("dimension", ctypes.c_uint32),
        ("count", ctypes.c_uint32),
        ("scales", ctypes.POINTER(ctypes.c_float)),
    )


def load() -> ctypes.CDLL:
    """The reference, compiled if need be, where PyTorch's runtime finds it too."""
    library = ctypes.CDLL(str(shared_library("nnapi_reference.cpp", "libneuralnetworks.so")), mode=ctypes.RTLD_GLOBAL)
    library.edgesweep_reference_last_error.restype = ctypes.c_char_p
    return library


class NnapiError(Exception):
    """A call that did not return ANEURALNETWORKS_NO_ERROR."""

    def __init__(self, code: int, sentence: str) -> None:
        super().__init__(f"{code}: {sentence}")
        self.code = code


@dataclass(frozen=True)
class Kind:
    """The declaration of an operand. `sizes` with 0 for what is not known; `()` with a tensor type: no known rank."""

    type: int
    sizes: tuple[int, ...] = ()
    scale: float = 0.0
    zero_point: int = 0

    def structure(self) -> OperandType:
        dimensions = (ctypes.c_uint32 * len(self.sizes))(*self.sizes)
        return OperandType(self.type, len(self.sizes), dimensions, self.scale, self.zero_point)


@dataclass(frozen=True)
class Values:
    """A tensor as NNAPI stores it. `channel_scales` run along `channel_dimension`."""

    numbers: torch.Tensor
    scale: float = 0.0
    zero_point: int = 0
    channel_scales: tuple[float, ...] = ()
    channel_dimension: int = 0
    is_input: bool = False  # an input of the model, not a constant

    @property
    def kind(self) -> Kind:
        kinds = {stored: kind for kind, stored in _STORED.items()}
        return Kind(kinds[self.numbers.dtype], tuple(self.numbers.shape), self.scale, self.zero_point)

    @property
    def real(self) -> torch.Tensor:
        """The values that the numbers stand for, in float64."""
        values = self.numbers.double()
        if self.channel_scales:
            shape = [1] * values.dim()
            shape[self.channel_dimension] = -1
            return values * as_float32(self.channel_scales).double().reshape(shape)
        return (values - self.zero_point) * as_float32(self.scale).double() if self.scale else values


def as_float32(values: float | Sequence[float]) -> torch.Tensor:
    """Scales cross the C boundary as floats."""
    return torch.tensor(values, dtype=torch.float32)


Argument = Values | int | float | bool | list[int] | None


@dataclass
class Model:
    """A model under construction; every call that is refused raises `NnapiError`."""

    library: ctypes.CDLL
    inputs: list[tuple[int, Values]] = field(default_factory=list)
    count: int = 0

    def __post_init__(self) -> None:
        self.handle = self._created("Model_create")

    def call(self, name: str, *arguments: object) -> None:
        code = getattr(self.library, f"ANeuralNetworks{name}")(*arguments)
        if code != 0:
            raise NnapiError(code, self.library.edgesweep_reference_last_error().decode())

    def _created(self, name: str, *arguments: object) -> ctypes.c_void_p:
        handle = ctypes.c_void_p()
        self.call(name, *arguments, ctypes.byref(handle))
        return handle

    def operand(self, kind: Kind) -> int:
        self.call("Model_addOperand", self.handle, ctypes.byref(kind.structure()))
        self.count += 1
        return self.count - 1

    def constant(self, kind: Kind, content: bytes | None) -> int:
        index = self.operand(kind)
        size = 0 if content is None else len(content)
        self.call("Model_setOperandValue", self.handle, index, content, ctypes.c_size_t(size))
        return index

    def argument(self, value: Argument) -> int:
        if isinstance(value, Values):
            if value.is_input:
                index = self.operand(value.kind)
                self.inputs.append((index, value))
                return index
            index = self.constant(value.kind, value.numbers.contiguous().numpy().tobytes())
            if value.channel_scales:
                scales = (ctypes.c_float * len(value.channel_scales))(*value.channel_scales)
                channel_scales = ChannelScales(value.channel_dimension, len(scales), scales)
                self.call("Model_setOperandSymmPerChannelQuantParams", self.handle, index, ctypes.byref(channel_scales))
            return index
        if isinstance(value, list):
            return self.argument(Values(torch.tensor(value, dtype=torch.int32)))
        if value is None:
            return self.constant(Kind(Type.BOOL), None)
        if isinstance(value, bool):
            return self.constant(Kind(Type.BOOL), bytes([value]))
        if isinstance(value, int):
            return self.constant(Kind(Type.INT32), bytes(ctypes.c_int32(value)))
        return self.constant(Kind(Type.FLOAT32), bytes(ctypes.c_float(value)))

    def operation(self, code: int, inputs: Sequence[int], result: Kind) -> int:
        output = self.operand(result)
        self.call("Model_addOperation", self.handle, code, *_indices(inputs), *_indices([output]))
        return output

    def finish(self, outputs: Sequence[int], *, relaxed: bool = False) -> None:
        input_indices = [index for index, _ in self.inputs]
        self.call("Model_identifyInputsAndOutputs", self.handle, *_indices(input_indices), *_indices(outputs))
        self.call("Model_relaxComputationFloat32toFloat16", self.handle, ctypes.c_bool(relaxed))
        self.call("Model_finish", self.handle)

    def compiled(self) -> ctypes.c_void_p:
        compilation = self._created("Compilation_create", self.handle)
        self.call("Compilation_setPreference", compilation, 1)
        self.call("Compilation_finish", compilation)
        return compilation

    def run(self, results: Sequence[tuple[Kind, tuple[int, ...]]]) -> list[torch.Tensor]:
        """The outputs, whose room is made by kind and sizes; the inputs are those that the model was built with."""
        compilation = self.compiled()
        execution = self._created("Execution_create", compilation)
        alive: list[Any] = []
        try:
            for number, (_, values) in enumerate(self.inputs):
                numbers = values.numbers.contiguous()
                alive.append(numbers)
                structure = values.kind.structure()
                self.call(
                    "Execution_setInput",
                    execution,
                    number,
                    ctypes.byref(structure),
                    ctypes.c_void_p(numbers.data_ptr()),
                    ctypes.c_size_t(numbers.nbytes),
                )
            outputs = [torch.empty(sizes, dtype=_STORED[kind.type]) for kind, sizes in results]
            for number, output in enumerate(outputs):
                room = ctypes.c_void_p(output.data_ptr())
                self.call("Execution_setOutput", execution, number, None, room, ctypes.c_size_t(output.nbytes))
            self.call("Execution_compute", execution)
            for number, output in enumerate(outputs):
                assert self.sizes(execution, number) == tuple(output.shape)
            return outputs
        finally:
            self.library.ANeuralNetworksExecution_free(execution)
            self.library.ANeuralNetworksCompilation_free(compilation)

    def sizes(self, execution: ctypes.c_void_p, number: int) -> tuple[int, ...]:
        rank = ctypes.c_uint32()
        self.call("Execution_getOutputOperandRank", execution, number, ctypes.byref(rank))
        dimensions = (ctypes.c_uint32 * rank.value)()
        self.call("Execution_getOutputOperandDimensions", execution, number, dimensions)
        return tuple(dimensions)

    def free(self) -> None:
        self.library.ANeuralNetworksModel_free(self.handle)


def _indices(numbers: Sequence[int]) -> tuple[int, object]:
    return len(numbers), (ctypes.c_uint32 * len(numbers))(*numbers)


def apply(
    library: ctypes.CDLL,
    code: int,
    arguments: Sequence[Argument],
    result: Kind,
    *,
    sizes: tuple[int, ...] | None = None,
    relaxed: bool = False,
) -> torch.Tensor:
    """The result of one operation as stored; `sizes` where `result` does not tell them."""
    model = Model(library)
    try:
        output = model.operation(code, [model.argument(argument) for argument in arguments], result)
        model.finish([output], relaxed=relaxed)
        (numbers,) = model.run([(result, result.sizes if sizes is None else sizes)])
    finally:
        model.free()
    return numbers


__all__ = ["HARD_SWISH", "Code", "Kind", "Model", "NnapiError", "OperandType", "Type", "Values", "apply", "load"]
