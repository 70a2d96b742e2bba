"""Reading serialized NNAPI models: what PyTorch writes, and garbage."""

import struct

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch.backends._nnapi.serializer import serialize_model

from sweeps.errors import BuildError
from workers.runtimes.torchscript.nnapi.model import Buffer, Immediate, parse


def serialized() -> bytes:
    """A convolution and a ReLU, by torch's own serializer."""
    model = torch.nn.Sequential(torch.nn.Conv2d(3, 4, 3), torch.nn.ReLU()).eval()
    example = torch.zeros(1, 3, 8, 8)
    with torch.no_grad():
        traced = torch.jit.freeze(torch.jit.trace(model, example))
        return bytes(serialize_model(traced, [example])[0].tobytes())


CONTENT = serialized()


def test_what_torch_serialized_is_read_whole() -> None:
    model = parse(CONTENT)
    assert model.counts() == {"CONV_2D": 1, "RELU": 1}
    assert model.feature_level() == 3
    convolution, relu = model.operations
    assert convolution.inputs[0] == model.inputs[0]
    assert relu.inputs == convolution.outputs
    assert relu.outputs == model.outputs
    assert model.operands[model.inputs[0]].dimensions == (1, 3, 8, 8)
    assert model.operands[model.outputs[0]].dimensions == (1, 4, 6, 6)
    assert model.operands[convolution.inputs[1]].dimensions == (4, 3, 3, 3)
    assert model.values[convolution.inputs[1]] == Buffer(number=1, offset=0, length=4 * 4 * 3 * 3 * 3)
    assert model.values[convolution.inputs[7]] == Immediate(struct.pack("<i", 1))


def test_an_operation_that_is_not_listed_goes_by_its_code() -> None:
    words = bytearray(CONTENT)
    at = CONTENT.index(struct.pack("<iII", 19, 1, 1))  # RELU
    words[at : at + 4] = struct.pack("<i", 777)
    assert parse(bytes(words)).counts() == {"CONV_2D": 1, "OPERATION_777": 1}


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"", "0 bytes"),
        (struct.pack("<i", 2) + CONTENT[4:], "version 2"),
        (CONTENT[:-4], "4 too early"),
        (CONTENT + bytes(4), "4 bytes after its end"),
        (CONTENT[:-4] + struct.pack("<I", 9999), "operand 9999"),
        (struct.pack("<6i", 1, -1, 0, 0, 0, 0), "counts out of range"),
        (struct.pack("<6i", 1, 1 << 24, 0, 0, 0, 0), "counts out of range"),
    ],
)
def test_what_is_no_model_is_refused_with_what_is_wrong(content: bytes, words: str) -> None:
    with pytest.raises(BuildError, match=words) as caught:
        parse(content)
    assert caught.value.kind == "malformed_nnapi_model"


@given(at=st.integers(0, len(CONTENT) - 1), bits=st.integers(1, 255))
def test_a_model_with_a_wrong_byte_is_read_or_refused(at: int, bits: int) -> None:
    content = bytearray(CONTENT)
    content[at] ^= bits
    try:
        model = parse(bytes(content))
    except BuildError as error:
        assert error.kind == "malformed_nnapi_model"  # noqa: PT017  # either this or a model
    else:
        operands = range(len(model.operands))
        assert all(index in operands for operation in model.operations for index in operation.inputs)


@given(st.binary(max_size=200))
def test_garbage_is_refused(content: bytes) -> None:
    with pytest.raises(BuildError, match="not an NNAPI model"):
        parse(content)
