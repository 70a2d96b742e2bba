"""Feeds the reference NNAPI broken models: `python -m tests.workers.native.fuzzer calls 1 4000`.

Ends with exit code 0 and the number of cases that were accepted and refused; a crash ends the process otherwise. What
the caller says of its own memory is always true: buffers are as long as they are said to be, and a pattern behind each
result shows whether more was written.
"""

import copy
import ctypes
import json
import random
import resource
import sys
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import nn
from torch.backends._nnapi.prepare import process_for_nnapi

from tests.workers.native.nnapi import HARD_SWISH, Argument, ChannelScales, Code, Kind, Type, Values, load

GUARD = b"\xa5" * 64
MEMORY = 12 << 30  # bytes; a model that asks for more is to be refused, not to take the machine down
INTERESTING = (0, 1, 2, 3, 4, 5, 7, 8, 127, 255, 256, 65535, 65536, 2**24, 2**30, 2**31 - 1, -1, -2, -(2**31))


@dataclass
class Plan:
    """The calls that build one model and run it once. Everything in it may be changed."""

    operands: list[list[Any]] = field(default_factory=list)  # type, sizes, scale, zero point
    constants: list[list[Any]] = field(default_factory=list)  # operand, content
    channel_scales: list[list[Any]] = field(default_factory=list)  # operand, dimension, scales
    operations: list[list[Any]] = field(default_factory=list)  # code, inputs, outputs
    inputs: list[int] = field(default_factory=list)
    outputs: list[int] = field(default_factory=list)
    feeds: list[list[Any]] = field(default_factory=list)  # input, type as of an operand, content
    rooms: list[list[Any]] = field(default_factory=list)  # output, bytes
    order: list[str] = field(
        default_factory=lambda: ["operands", "constants", "operations", "identify", "relax", "finish", "devices", "run"]
    )


def plan_of(code: int, arguments: list[Argument], result: Kind) -> Plan:
    plan = Plan()
    indices = []
    for argument in arguments:
        values = Values(torch.tensor(argument, dtype=torch.int32)) if isinstance(argument, list) else argument
        index = len(plan.operands)
        indices.append(index)
        if isinstance(values, Values):
            kind = values.kind
            content = values.numbers.contiguous().numpy().tobytes()
            plan.operands.append([kind.type, list(kind.sizes), kind.scale, kind.zero_point])
            if values.channel_scales:
                plan.channel_scales.append([index, values.channel_dimension, list(values.channel_scales)])
            if values.is_input:
                plan.inputs.append(index)
                plan.feeds.append([len(plan.feeds), copy.deepcopy(plan.operands[-1]), content])
                continue
        elif isinstance(values, bool):
            plan.operands.append([Type.BOOL, [], 0.0, 0])
            content = bytes([values])
        elif isinstance(values, int):
            plan.operands.append([Type.INT32, [], 0.0, 0])
            content = bytes(ctypes.c_int32(values))
        else:
            assert isinstance(values, float)
            plan.operands.append([Type.FLOAT32, [], 0.0, 0])
            content = bytes(ctypes.c_float(values))
        plan.constants.append([index, content])
    output = len(plan.operands)
    plan.operands.append([result.type, list(result.sizes), result.scale, result.zero_point])
    # Behind it, so that a mutation has two operations to tangle.
    result_index = len(plan.operands)
    plan.operands.append([result.type, list(result.sizes), result.scale, result.zero_point])
    plan.operations = [[code, indices, [output]], [Code.RELU, [output], [result_index]]]
    plan.outputs = [result_index]
    size = 1 if result.type == Type.TENSOR_QUANT8_ASYMM else 4
    plan.rooms = [[0, size * int(torch.Size(result.sizes).numel())]]
    return plan


def plans() -> list[Plan]:
    """A valid plan for each operation and form."""

    def real(*sizes: int, is_input: bool = False) -> Values:
        return Values(torch.randn(sizes), is_input=is_input)

    def byte(*sizes: int, is_input: bool = False) -> Values:
        return Values(torch.randint(0, 256, sizes, dtype=torch.uint8), 0.1, 7, is_input=is_input)

    def floats(*sizes: int) -> Kind:
        return Kind(Type.TENSOR_FLOAT32, sizes)

    def bytes_of(*sizes: int, scale: float = 0.1, zero_point: int = 7) -> Kind:
        return Kind(Type.TENSOR_QUANT8_ASYMM, sizes, scale, zero_point)

    image, pixels = real(1, 5, 5, 2, is_input=True), byte(1, 5, 5, 2, is_input=True)
    whole = Values(torch.zeros(4, dtype=torch.int32), 0.1 * 0.1)
    channels = Values(torch.ones(4, 3, 3, 2, dtype=torch.int8), channel_scales=(0.1, 0.2, 0.3, 0.4))
    unscaled = Values(torch.zeros(4, dtype=torch.int32))
    pair = Values(torch.tensor([[0, 0], [1, 1], [1, 2], [0, 0]], dtype=torch.int32))
    flat, row = real(2, 6, is_input=True), byte(2, 6, is_input=True)
    cases: list[tuple[int, list[Argument], Kind]] = [
        (Code.CONV_2D, [image, real(4, 3, 3, 2), real(4), 1, 1, 1, 1, 1, 1, 1, False, 1, 1], floats(1, 5, 5, 4)),
        (Code.CONV_2D, [pixels, byte(4, 3, 3, 2), whole, 1, 2, 2, 3, False], bytes_of(1, 3, 3, 4)),
        (Code.CONV_2D, [pixels, channels, unscaled, 1, 1, 1, 0], bytes_of(1, 5, 5, 4)),
        (Code.DEPTHWISE_CONV_2D, [image, real(1, 3, 3, 4), real(4), 2, 1, 1, 2, 0], floats(1, 3, 3, 4)),
        (Code.GROUPED_CONV_2D, [image, real(4, 3, 3, 1), real(4), 2, 1, 1, 2, 0, False], floats(1, 3, 3, 4)),
        (Code.TRANSPOSE_CONV_2D, [pixels, byte(4, 3, 3, 2), whole, 1, 1, 1, 1, 2, 2, 0, False], bytes_of(1, 9, 9, 4)),
        (
            Code.TRANSPOSE_CONV_2D,
            [image, real(4, 3, 3, 2), real(4), [1, 10, 10, 4], 1, 2, 2, 0, False],
            floats(1, 10, 10, 4),
        ),
        (Code.AVERAGE_POOL_2D, [image, 1, 1, 1, 1, 2, 2, 3, 3, 0, False], floats(1, 3, 3, 2)),
        (Code.MAX_POOL_2D, [pixels, 2, 1, 1, 2, 2, 0], bytes_of(1, 4, 4, 2)),
        (Code.FULLY_CONNECTED, [flat, real(3, 6), real(3), 1], floats(2, 3)),
        (Code.ADD, [row, byte(1, 6), 3], bytes_of(2, 6)),
        (Code.DIV, [flat, real(6), 0], floats(2, 6)),
        (Code.SOFTMAX, [flat, 1.0, -1], floats(2, 6)),
        (Code.MEAN, [row, [1], 1], bytes_of(2, 1)),
        (Code.RESHAPE, [row, [3, -1]], bytes_of(3, 4)),
        (Code.TRANSPOSE, [flat, [1, 0]], floats(6, 2)),
        (Code.CONCATENATION, [row, byte(1, 6), 0], bytes_of(3, 6)),
        (Code.STRIDED_SLICE, [flat, [0, 1], [2, 6], [1, 2], 0, 0, 0], floats(2, 3)),
        (Code.SLICE, [flat, [0, 1], [2, -1]], floats(2, 5)),
        (Code.PAD, [pixels, pair], bytes_of(1, 7, 8, 2)),
        (Code.SQUEEZE, [real(1, 6, is_input=True), [0]], floats(6)),
        (Code.EXPAND_DIMS, [flat, 1], floats(2, 1, 6)),
        (Code.RESIZE_NEAREST_NEIGHBOR, [pixels, 7, 3, False, False, True], bytes_of(1, 3, 7, 2)),
        (Code.RESIZE_NEAREST_NEIGHBOR, [image, 2.0, 1.5, False], floats(1, 7, 10, 2)),
        (Code.CHANNEL_SHUFFLE, [flat, 3, 1], floats(2, 6)),
        (Code.PRELU, [flat, real(6)], floats(2, 6)),
        (Code.QUANTIZE, [flat], bytes_of(2, 6)),
        (Code.DEQUANTIZE, [row], floats(2, 6)),
        (Code.CAST, [row], floats(2, 6)),
        (HARD_SWISH, [flat], floats(2, 6)),
    ]
    return [plan_of(*case) for case in cases]


def number(chance: random.Random, like: int) -> int:
    return chance.choice([chance.choice(INTERESTING), like + chance.choice([-1, 1]), chance.randrange(12)])


def mutate(plan: Plan, chance: random.Random) -> None:
    """One random change somewhere."""
    places: list[tuple[list[Any], int]] = []

    def collect(part: list[Any]) -> None:
        for i, item in enumerate(part):
            places.append((part, i))
            if isinstance(item, list):
                collect(item)

    for name in vars(plan):
        collect(getattr(plan, name))
    part, i = chance.choice(places)
    item = part[i]
    kind = chance.randrange(8)
    if kind == 0:
        del part[i]
    elif kind == 1:
        part.insert(i, copy.deepcopy(item))
    elif kind == 2:
        other = chance.randrange(len(part))
        part[i], part[other] = part[other], part[i]
    elif isinstance(item, bytes) and item:
        at = chance.randrange(len(item))
        if kind == 3:
            part[i] = item[:at]
        elif kind == 4:
            part[i] = item + bytes(chance.choice([1, 4, 100]))
        elif len(item) == 4:
            part[i] = bytes(ctypes.c_int32(number(chance, int.from_bytes(item, "little", signed=True))))
        else:
            part[i] = item[:at] + bytes([chance.randrange(256)]) + item[at + 1 :]
    elif isinstance(item, float):
        part[i] = chance.choice([0.0, -1.0, 1e-30, 1e30, float("inf"), float("nan"), item * 2, 1 / 256])
    elif isinstance(item, int):
        part[i] = number(chance, item)


class Broken:
    """Makes the calls of a plan, whatever it says; their codes count."""

    def __init__(self, library: ctypes.CDLL, plan: Plan) -> None:
        self.library, self.plan = library, plan
        self.codes: Counter[int] = Counter()

    def call(self, name: str, *arguments: object) -> int:
        code = int(getattr(self.library, f"ANeuralNetworks{name}")(*arguments))
        assert 0 <= code <= 9
        if code:
            assert self.library.edgesweep_reference_last_error()
        self.codes[code] += 1
        return code

    def run(self) -> int:
        """The code of the computation, or -1 if it did not come to one."""
        self.model, self.computed = ctypes.c_void_p(), -1
        self.call("Model_create", ctypes.byref(self.model))
        steps: dict[str, Callable[[], object]] = {
            "operands": self.operands,
            "constants": self.constants,
            "operations": self.operations,
            "identify": self.identify,
            "relax": lambda: self.call("Model_relaxComputationFloat32toFloat16", self.model, True),
            "finish": lambda: self.call("Model_finish", self.model),
            "devices": self.devices,
            "run": self.execute,
        }
        for step in self.plan.order:
            steps[step]()
        self.library.ANeuralNetworksModel_free(self.model)
        return self.computed

    def operands(self) -> None:
        for operand in self.plan.operands:
            structure = kind_of(operand)
            if structure is not None:
                self.call("Model_addOperand", self.model, ctypes.byref(structure))

    def constants(self) -> None:
        for index, content in whole(self.plan.constants, int, bytes):
            self.call("Model_setOperandValue", self.model, index, content, ctypes.c_size_t(len(content)))
        for index, dimension, scales in whole(self.plan.channel_scales, int, int, list):
            floats = [scale for scale in scales if isinstance(scale, float)]
            channel_scales = ChannelScales(dimension & 0xFFFFFFFF, len(floats), (ctypes.c_float * len(floats))(*floats))
            self.call("Model_setOperandSymmPerChannelQuantParams", self.model, index, ctypes.byref(channel_scales))

    def operations(self) -> None:
        for code, inputs, outputs in whole(self.plan.operations, int, list, list):
            self.call("Model_addOperation", self.model, code, *listed(inputs), *listed(outputs))

    def identify(self) -> None:
        self.call("Model_identifyInputsAndOutputs", self.model, *listed(self.plan.inputs), *listed(self.plan.outputs))

    def devices(self) -> None:
        device = ctypes.c_void_p()
        self.call("_getDevice", 0, ctypes.byref(device))
        answers = (ctypes.c_bool * (len(self.plan.operations) + 1))()
        arguments = self.model, ctypes.byref(device), 1, answers
        self.call("Model_getSupportedOperationsForDevices", *arguments)

    def execute(self) -> None:
        compilation, execution = ctypes.c_void_p(), ctypes.c_void_p()
        self.call("Compilation_create", self.model, ctypes.byref(compilation))
        self.call("Compilation_finish", compilation)
        self.call("Execution_create", compilation, ctypes.byref(execution))
        alive: list[Any] = []
        for index, kind, content in whole(self.plan.feeds, int, object, bytes):
            structure = kind_of(kind)
            buffer = ctypes.create_string_buffer(content, max(1, len(content)))
            alive += [structure, buffer]
            reference = None if structure is None else ctypes.byref(structure)
            self.call("Execution_setInput", execution, index, reference, buffer, ctypes.c_size_t(len(content)))
        rooms = []
        for index, size in whole(self.plan.rooms, int, int):
            size = min(abs(size), 1 << 16)
            rooms.append((size, ctypes.create_string_buffer(bytes(size) + GUARD, size + len(GUARD))))
            self.call("Execution_setOutput", execution, index, None, rooms[-1][1], ctypes.c_size_t(size))
        self.computed = self.call("Execution_compute", execution)
        for size, room in rooms:
            assert room.raw[size:] == GUARD
        rank = ctypes.c_uint32()
        if self.call("Execution_getOutputOperandRank", execution, 0, ctypes.byref(rank)) == 0:
            dimensions = (ctypes.c_uint32 * rank.value)()
            self.call("Execution_getOutputOperandDimensions", execution, 0, dimensions)
        self.library.ANeuralNetworksExecution_free(execution)
        self.library.ANeuralNetworksCompilation_free(compilation)


def kind_of(operand: Any) -> Any:
    """The structure of an operand whose description still has its four parts."""
    if not isinstance(operand, list) or len(operand) != 4 or not isinstance(operand[1], list):
        return None
    kind, sizes, scale, zero_point = operand
    numbers = isinstance(kind, int) and isinstance(zero_point, int) and isinstance(scale, float)
    if not numbers or not all(isinstance(size, int) for size in sizes):
        return None
    return Kind(kind, tuple(size & 0xFFFFFFFF for size in sizes), scale, zero_point).structure()


def whole(entries: list[list[Any]], *parts: type) -> list[list[Any]]:
    """The entries that mutations left with all parts, each of the type that a call takes."""
    alike = [entry for entry in entries if isinstance(entry, list) and len(entry) == len(parts)]
    return [entry for entry in alike if all(map(isinstance, entry, parts))]


def listed(indices: Any) -> tuple[int, object]:
    numbers = [index & 0xFFFFFFFF for index in indices if isinstance(index, int)]
    return len(numbers), (ctypes.c_uint32 * len(numbers))(*numbers)


def fuzz_calls(library: ctypes.CDLL, chance: random.Random, count: int) -> Counter[int]:
    """Count the codes with which computing ended; -1: it was never reached."""
    valid = plans()
    for plan in valid:
        assert Broken(library, plan).run() == 0, library.edgesweep_reference_last_error()
    ended: Counter[int] = Counter()
    for _ in range(count):
        plan = copy.deepcopy(chance.choice(valid))
        for _ in range(chance.choice([1, 1, 1, 2, 4])):
            mutate(plan, chance)
        ended[Broken(library, plan).run()] += 1
    return ended


class Net(nn.Module):
    """Operations of several kinds for PyTorch's serializer."""

    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Conv2d(3, 4, 3, padding=1)
        self.depthwise = nn.Conv2d(4, 4, 3, stride=2, groups=4)
        self.last = nn.Linear(4, 5)

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        features = torch.relu(self.first(images))
        features = torch.cat([features[:, :2], features[:, 2:]], 1)
        features = self.depthwise(torch.max_pool2d(features, 2, 2)) * torch.sigmoid(images[:, :1, :3, :3])
        return self.last(features.mean([2, 3])).softmax(1)


def fuzz_serialized(library: ctypes.CDLL, chance: random.Random, count: int) -> Counter[int]:
    """Count as `fuzz_calls` does, through the loader of PyTorch: 0 for models that ran, 1 for those that were
    refused."""
    example = torch.randn(1, 3, 14, 14)
    net = torch.jit.trace(Net().eval(), example)
    _, model, weights, _, _, _ = process_for_nnapi(net, [example])
    weights = [weight.contiguous() for weight in weights]
    ended: Counter[int] = Counter()
    for i in range(count + 1):
        broken = model.clone()
        for _ in range(0 if i == 0 else chance.choice([1, 1, 2, 4])):
            at = chance.randrange(1 if chance.random() < 0.05 else 6, len(broken))
            value = number(chance, int(broken[at]))
            # PyTorch's loader itself reads astray where a count in the header is below 0.
            broken[at] = max(-(2**31), min(2**31 - 1, abs(value) if at < 6 else value))
        compilation = torch.classes._nnapi.Compilation()
        try:
            compilation.init2(broken, weights, 1, chance.random() < 0.5)
            compilation.run([example], [torch.zeros(1, 5)])
            ended[0] += 1
        except RuntimeError:
            ended[1] += 1
        assert i > 0 or ended[0] == 1
    return ended


def main() -> None:
    kind, seed, count = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
    torch.set_num_threads(1)
    torch.manual_seed(seed)
    library = load()
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
    fuzz = {"calls": fuzz_calls, "serialized": fuzz_serialized}[kind]
    sys.stdout.write(json.dumps(fuzz(library, random.Random(seed), count)) + "\n")


if __name__ == "__main__":
    main()
