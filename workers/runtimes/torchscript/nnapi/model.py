"""Reads the models that PyTorch serializes for NNAPI. Torch-free: device listings read artifacts with it.

The format is the one that torch's loader (`aten/src/ATen/nnapi/nnapi_model_loader.cpp`) reads: 32-bit words in the
byte order of the machine (little, on every phone), a header of counts, then one section after the other.
"""

import struct
from collections import Counter
from dataclasses import dataclass

from sweeps.errors import BuildError

OPERATIONS = {
    0: ("ADD", 1),
    1: ("AVERAGE_POOL_2D", 1),
    2: ("CONCATENATION", 1),
    3: ("CONV_2D", 1),
    4: ("DEPTHWISE_CONV_2D", 1),
    6: ("DEQUANTIZE", 1),
    9: ("FULLY_CONNECTED", 1),
    14: ("LOGISTIC", 1),
    17: ("MAX_POOL_2D", 1),
    18: ("MUL", 1),
    19: ("RELU", 1),
    20: ("RELU1", 1),
    21: ("RELU6", 1),
    22: ("RESHAPE", 1),
    25: ("SOFTMAX", 1),
    28: ("TANH", 1),
    30: ("DIV", 2),
    31: ("MEAN", 2),
    35: ("STRIDED_SLICE", 2),
    36: ("SUB", 2),
    37: ("TRANSPOSE", 2),
    38: ("ABS", 3),
    49: ("EXP", 3),
    50: ("EXPAND_DIMS", 3),
    55: ("GROUPED_CONV_2D", 3),
    64: ("LOG_SOFTMAX", 3),
    71: ("PRELU", 3),
    72: ("QUANTIZE", 3),
    83: ("RSQRT", 3),
    91: ("TRANSPOSE_CONV_2D", 3),
    94: ("RESIZE_NEAREST_NEIGHBOR", 3),
    99: ("HARD_SWISH", 4),
    102: ("BATCH_MATMUL", 6),
}
"""Operations in EdgeSweep's models, by code: name, and the NNAPI feature level that introduced it.

Feature levels 1 to 5 are the Android API levels 27 to 31 (NeuralNetworks.h); 6 came with updates of Android 12.
"""

_MAX_COUNT = 1 << 24
"""The loader's own limit for every count."""
_IMMEDIATE, _BUFFER = 0, 2


@dataclass(frozen=True, slots=True)
class Operand:
    """One operand. A dimension of 0 is set at the first run (flexible batch)."""

    type: int
    dimensions: tuple[int, ...]
    scale: float
    zero_point: int


@dataclass(frozen=True, slots=True)
class Immediate:
    """A value that is stored in the model itself."""

    content: bytes


@dataclass(frozen=True, slots=True)
class Buffer:
    """A value that is stored in one of the weights, outside the model."""

    number: int
    offset: int
    length: int


@dataclass(frozen=True, slots=True)
class Operation:
    """One operation; inputs and outputs are indices of operands."""

    code: int
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]

    @property
    def name(self) -> str:
        """The name in NeuralNetworks.h, without the prefix; `OPERATION_<code>` if it is not in `OPERATIONS`."""
        return OPERATIONS[self.code][0] if self.code in OPERATIONS else f"OPERATION_{self.code}"


@dataclass(frozen=True, slots=True)
class NnapiModel:
    """A serialized model. `values` contains the constant operands, by index."""

    operands: tuple[Operand, ...]
    values: dict[int, Immediate | Buffer]
    operations: tuple[Operation, ...]
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]

    def counts(self) -> dict[str, int]:
        """Return the number of each operation, by name, the most frequent first."""
        return dict(Counter(operation.name for operation in self.operations).most_common())

    def feature_level(self) -> int:
        """Return the NNAPI feature level that the model needs, at least 3: torch sets the layout flag of every
        convolution."""
        levels = (OPERATIONS[operation.code][1] for operation in self.operations if operation.code in OPERATIONS)
        return max([3, *levels])


def parse(content: bytes) -> NnapiModel:
    """Read a serialized model, and check it completely.

    Raises `BuildError("malformed_nnapi_model")` for everything that torch's loader would refuse, for invalid operand
    indices, and for extra bytes at the end.
    """
    reader = _Reader(content)
    version, *counts = reader.words("6i")
    if version != 1:
        raise _malformed(f"version {version} instead of 1")
    if not all(0 <= count < _MAX_COUNT for count in counts):
        raise _malformed(f"counts out of range: {counts}")
    operand_count, value_count, operation_count, input_count, output_count = counts
    heads = [reader.words("iIfi") for _ in range(operand_count)]
    sources = [reader.words("iiI") for _ in range(value_count)]
    shapes = [reader.words("iII") for _ in range(operation_count)]
    operands = tuple(
        Operand(type=code, dimensions=reader.indices(rank), scale=scale, zero_point=zero_point)
        for code, rank, scale, zero_point in heads
    )
    values = {index: _value(reader, source, length) for index, source, length in sources}
    operations = tuple(
        Operation(code=code, inputs=reader.indices(takes), outputs=reader.indices(gives))
        for code, takes, gives in shapes
    )
    model = NnapiModel(operands, values, operations, reader.indices(input_count), reader.indices(output_count))
    if reader.left():
        raise _malformed(f"{reader.left()} bytes after its end")
    used = [*values, *model.inputs, *model.outputs]
    used += [index for operation in operations for index in (*operation.inputs, *operation.outputs)]
    if wrong := next((index for index in used if not 0 <= index < operand_count), None):
        raise _malformed(f"operand {wrong} of {operand_count}")
    return model


def _value(reader: "_Reader", source: int, length: int) -> Immediate | Buffer:
    if source == _IMMEDIATE:
        return Immediate(reader.padded(length))
    if source != _BUFFER:
        raise _malformed(f"a value from the unknown source {source}")
    if length != 12:
        raise _malformed(f"a buffer described in {length} bytes instead of 12")
    return Buffer(*reader.words("3I"))


class _Reader:
    def __init__(self, content: bytes) -> None:
        self._content = content
        self._at = 0

    def left(self) -> int:
        return len(self._content) - self._at

    def take(self, length: int) -> bytes:
        if length > self.left():
            raise _malformed(f"it ends after {len(self._content)} bytes, {length - self.left()} too early")
        self._at += length
        return self._content[self._at - length : self._at]

    def words(self, layout: str) -> tuple[int, ...]:
        layout = f"<{layout}"
        return struct.unpack(layout, self.take(struct.calcsize(layout)))

    def indices(self, count: int) -> tuple[int, ...]:
        return struct.unpack(f"<{count}I", self.take(4 * count))

    def padded(self, length: int) -> bytes:
        content = self.take(length)
        self.take(-length % 4)
        return content


def _malformed(why: str) -> BuildError:
    return BuildError(
        "malformed_nnapi_model", f"this is not an NNAPI model of PyTorch: {why}", "build the artifact again"
    )
