"""Lists NNAPI's accelerators on this device, and the operations of a model that each of them supports.

Calls the C API (NeuralNetworks.h) through ctypes, and builds the model like PyTorch's own loader
(`aten/src/ATen/nnapi/nnapi_model_loader.cpp`).
"""

import ctypes
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from sweeps.errors import BuildError
from workers.runtimes.torchscript.nnapi.model import Buffer, NnapiModel, Operand, parse
from workers.runtimes.torchscript.runner.backend import NNAPI_LIBRARY, meaning
from workers.runtimes.torchscript.runner.events import GiveUp

_TYPES = {0: "unknown", 1: "other", 2: "cpu", 3: "gpu", 4: "accelerator"}


@dataclass(frozen=True, slots=True, kw_only=True)
class NnapiDevice:
    """One accelerator, as its driver describes it."""

    name: str
    type: str
    """`accelerator`, `gpu`, `cpu`, `other` or `unknown`."""
    version: str
    feature_level: int
    """The supported NNAPI version: an API level (27 to 31), or from 1000006 on a separate feature level."""
    accepts: tuple[bool, ...] | None = None
    """For each operation of the model, in order, whether it is supported; `None` without a model."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NnapiListing:
    """All accelerators of one machine."""

    devices: tuple[NnapiDevice, ...]
    operations: tuple[str, ...] | None = None
    """The model's operations, in serialized order; `None` without a model."""


class _OperandType(ctypes.Structure):
    _fields_ = (
        ("type", ctypes.c_int32),
        ("dimension_count", ctypes.c_uint32),
        ("dimensions", ctypes.POINTER(ctypes.c_uint32)),
        ("scale", ctypes.c_float),
        ("zero_point", ctypes.c_int32),
    )


class _Nnapi:
    """The C API. Every failed call ends the run."""

    def __init__(self) -> None:
        self._library = ctypes.CDLL(NNAPI_LIBRARY)

    def call(self, name: str, *arguments: object) -> None:
        """Call a function of NNAPI. Raises `GiveUp`: `backend_missing` if this Android lacks the function, else
        `nnapi_compile_failed`."""
        try:
            function = getattr(self._library, f"ANeuralNetworks{name}")
        except AttributeError as error:
            raise GiveUp("backend_missing", f"this NNAPI has no ANeuralNetworks{name}: Android 10 brings it") from error
        result = function(*arguments)
        if result != 0:
            raise GiveUp("nnapi_compile_failed", f"ANeuralNetworks{name} returned error {result} ({meaning(result)})")

    def free(self, model: ctypes.c_void_p) -> None:
        function = self._library.ANeuralNetworksModel_free
        function.restype = None
        function(model)


def listing(model: Any = None, input_dims: tuple[int, ...] | None = None) -> NnapiListing:
    """Return the accelerators of the loaded or installed NNAPI library, with their support for `model` (of
    `torch.jit.load`).

    `input_dims` set the sizes of a model with a flexible batch. Raises `GiveUp` also if `model` has no part for NNAPI
    (`wrong_backend`) or a damaged one (`malformed_nnapi_model`).
    """
    nnapi = _Nnapi()
    handles = list(_handles(nnapi))
    if model is None:
        return NnapiListing(devices=tuple(_described(nnapi, handle) for handle in handles))
    parts = [part for part in model.modules() if hasattr(part, "ser_model")]
    if not parts:
        raise GiveUp("wrong_backend", "the model has no part for NNAPI")
    operations: list[str] = []
    accepts: list[list[bool]] = [[] for _ in handles]
    for part in parts:
        content = _parsed(part, input_dims)
        operations += [operation.name for operation in content.operations]
        with _built(nnapi, content, part) as built:
            for accepted, handle in zip(accepts, handles, strict=True):
                accepted += _accepted(nnapi, built, handle, len(content.operations))
    devices = (_described(nnapi, handle, tuple(accepted)) for handle, accepted in zip(handles, accepts, strict=True))
    return NnapiListing(devices=tuple(devices), operations=tuple(operations))


def _handles(nnapi: _Nnapi) -> Iterator[ctypes.c_void_p]:
    count = ctypes.c_uint32()
    nnapi.call("_getDeviceCount", ctypes.byref(count))
    for index in range(count.value):
        handle = ctypes.c_void_p()
        nnapi.call("_getDevice", ctypes.c_uint32(index), ctypes.byref(handle))
        yield handle


def _described(nnapi: _Nnapi, handle: ctypes.c_void_p, accepts: tuple[bool, ...] | None = None) -> NnapiDevice:
    name, version = ctypes.c_char_p(), ctypes.c_char_p()
    type_, feature_level = ctypes.c_int32(), ctypes.c_int64()
    nnapi.call("Device_getName", handle, ctypes.byref(name))
    nnapi.call("Device_getType", handle, ctypes.byref(type_))
    nnapi.call("Device_getVersion", handle, ctypes.byref(version))
    nnapi.call("Device_getFeatureLevel", handle, ctypes.byref(feature_level))
    return NnapiDevice(
        name=(name.value or b"").decode("utf-8", "replace"),
        type=_TYPES.get(type_.value, "unknown"),
        version=(version.value or b"").decode("utf-8", "replace"),
        feature_level=feature_level.value,
        accepts=accepts,
    )


def _parsed(part: Any, input_dims: tuple[int, ...] | None) -> NnapiModel:
    import torch

    if input_dims is not None:
        part.shape_compute_module.prepare(part.ser_model, [torch.empty(input_dims)])
    words = part.ser_model.contiguous()
    try:
        return parse(ctypes.string_at(words.data_ptr(), words.numel() * words.element_size()))
    except BuildError as error:
        raise GiveUp(error.kind, error.message) from error


@contextmanager
def _built(nnapi: _Nnapi, content: NnapiModel, part: Any) -> Iterator[ctypes.c_void_p]:
    """Build the model in NNAPI, and free it at the end of the block. It points into the weights of `part`, which must
    stay alive."""
    weights = [weight.contiguous() for weight in part.weights]
    model = ctypes.c_void_p()
    nnapi.call("Model_create", ctypes.byref(model))
    try:
        for operand in content.operands:
            nnapi.call("Model_addOperand", model, ctypes.byref(_operand_type(operand)))
        for index, value in content.values.items():
            if isinstance(value, Buffer):
                weight = weights[value.number] if value.number < len(weights) else None
                if weight is None or value.offset + value.length > weight.numel() * weight.element_size():
                    raise GiveUp("malformed_nnapi_model", f"operand {index} lies outside of the weights")
                at = ctypes.c_void_p(weight.data_ptr() + value.offset)
                nnapi.call("Model_setOperandValue", model, ctypes.c_int32(index), at, ctypes.c_size_t(value.length))
            else:
                length = ctypes.c_size_t(len(value.content))
                nnapi.call("Model_setOperandValue", model, ctypes.c_int32(index), value.content, length)
        for operation in content.operations:
            ends = (*_indices(operation.inputs), *_indices(operation.outputs))
            nnapi.call("Model_addOperation", model, ctypes.c_int32(operation.code), *ends)
        ends = (*_indices(content.inputs), *_indices(content.outputs))
        nnapi.call("Model_identifyInputsAndOutputs", model, *ends)
        nnapi.call("Model_relaxComputationFloat32toFloat16", model, ctypes.c_bool(part.relax_f32_to_f16))
        nnapi.call("Model_finish", model)
        yield model
    finally:
        nnapi.free(model)


def _operand_type(operand: Operand) -> _OperandType:
    _, dimensions = _indices(operand.dimensions)
    return _OperandType(operand.type, len(operand.dimensions), dimensions, operand.scale, operand.zero_point)


def _indices(numbers: tuple[int, ...]) -> tuple[ctypes.c_uint32, Any]:
    return ctypes.c_uint32(len(numbers)), (ctypes.c_uint32 * len(numbers))(*numbers)


def _accepted(nnapi: _Nnapi, model: ctypes.c_void_p, device: ctypes.c_void_p, operations: int) -> list[bool]:
    supported = (ctypes.c_bool * operations)()
    devices = (ctypes.c_void_p * 1)(device)
    nnapi.call("Model_getSupportedOperationsForDevices", model, devices, ctypes.c_uint32(1), supported)
    return list(supported)
