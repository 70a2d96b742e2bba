"""Converts an exported model to fp16 or int8, for static int8 after a calibration."""

import inspect
import logging
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import onnx
import onnxruntime
from onnxruntime.quantization import (
    CalibrationDataReader,
    CalibrationMethod,
    QuantType,
    quant_pre_process,
    quantize_dynamic,
    quantize_static,
)
from onnxruntime.transformers.float16 import convert_float_to_float16

from sweeps.errors import BuildError
from sweeps.temporary import temporary_folder
from sweeps.variant import Variant
from workers.models.package import Images
from workers.runtimes.library_errors import first_words
from workers.runtimes.onnxruntime.export import INPUT

_LINEAR = ("MatMul", "Gemm")


def to_fp16(model: bytes) -> bytes:
    """Return the model in fp16, with float32 inputs and outputs. Raises `BuildError("not_quantizable")`."""
    with _failing("convert the model to fp16"):
        converted = convert_float_to_float16(onnx.load_from_string(model), keep_io_types=True)
        return bytes(converted.SerializeToString(deterministic=True))


def prepare(model: bytes) -> bytes:
    """Return the model with constants folded and shapes known, as quantization needs it. Raises
    `BuildError("not_quantizable")`."""
    with _files(model) as (source, target), _failing("prepare the model for int8"):
        quant_pre_process(source, target, skip_symbolic_shape=True)
        return target.read_bytes()


def keeps_ranges() -> bool:
    """Tell whether the library can store the ranges of a calibration; older releases calibrate again whenever they
    quantize."""
    return "calibration_cache_path" in inspect.signature(quantize_static).parameters


def calibrate(prepared: bytes, images: Images, batch: int) -> bytes:
    """Return the range of every tensor over all images, for `to_static_int8`, if the library can store it. Raises
    `BuildError`."""
    with _files(prepared) as (source, target):
        ranges = target.with_name("ranges.json")
        _quantize(source, target, Variant(), _Batches(images, batch), calibration_cache_path=ranges)
        return ranges.read_bytes()


def to_static_int8(prepared: bytes, ranges: bytes, variant: Variant) -> bytes:
    """Return the model with unsigned 8-bit activations and signed weights of 8 or 7 bits. Raises `BuildError`."""
    with _files(prepared) as (source, target):
        file = target.with_name("ranges.json")
        file.write_bytes(ranges)
        _quantize(source, target, variant, None, calibration_cache_path=file)
        return _with_int8(target, "QuantizeLinear", variant)


def calibrated_int8(prepared: bytes, images: Images, batch: int, variant: Variant) -> bytes:
    """Return the same model as `to_static_int8`, for a library that cannot store ranges. Raises `BuildError`."""
    with _files(prepared) as (source, target):
        _quantize(source, target, variant, _Batches(images, batch))
        return _with_int8(target, "QuantizeLinear", variant)


def to_dynamic_int8(prepared: bytes, variant: Variant) -> bytes:
    """Return the model with int8 in the linear layers only, whose activations are quantized at run time. Raises
    `BuildError`."""
    with _files(prepared) as (source, target), _failing("quantize the model"):
        quantize_dynamic(
            source,
            target,
            op_types_to_quantize=list(_LINEAR),
            per_channel=variant.granularity == "per_channel",
            reduce_range=variant.reduced_range,
            weight_type=QuantType.QInt8,
            extra_options={"MatMulConstBOnly": True},
        )
        return _with_int8(target, "DynamicQuantizeLinear", variant)


def unshared(model: bytes) -> bytes:
    """Return the model with a separate copy of an int8 weight, and of its zero point, for each layer that uses it.

    Exact int8 arithmetic of ONNX Runtime 1.32.0 does not load a weight that two layers share ("Attempt to replace the
    existing tensor"), and the exporter lets all equal weights be shared, such as the norms of a network that was never
    trained.
    """
    read = onnx.load_from_string(model)
    graph = read.graph
    weights = {weight.name: weight for weight in graph.initializer if weight.data_type == onnx.TensorProto.INT8}
    read_by = {
        node.output[0]: node for node in graph.node if node.op_type == "DequantizeLinear" and node.input[0] in weights
    }
    nodes: list[onnx.NodeProto] = []
    copies = 0
    used: set[str] = set()
    for node in graph.node:
        for at, name in enumerate(node.input):
            if name in used and name in read_by:
                own = onnx.NodeProto.FromString(read_by[name].SerializeToString())
                own.name, own.output[0] = (f"{text}_own_{len(nodes)}" for text in (own.name, name))
                node.input[at] = own.output[0]
                nodes.append(own)
            used.add(name)
        nodes.append(node)
    used.clear()
    for node in nodes:
        for at, name in enumerate(node.input):
            if name in used and name in weights:
                copies += 1
                tensor = graph.initializer.add()
                tensor.CopyFrom(weights[name])
                tensor.name = node.input[at] = f"{name}_own_{copies}"
            used.add(name)
    if not copies:
        return model
    del graph.node[:]
    graph.node.extend(nodes)
    return bytes(read.SerializeToString(deterministic=True))


class _Batches(CalibrationDataReader):  # type: ignore[misc]  # the library has no types
    """Calibration images in batches of the model's size; the last batch is filled with images from the start."""

    def __init__(self, images: Images, batch: int) -> None:
        self._batches: Iterator[Images] = (
            images[[index % len(images) for index in range(start, start + batch)]]
            for start in range(0, len(images), batch)
        )

    def get_next(self) -> dict[str, Images] | None:
        images = next(self._batches, None)
        return None if images is None else {INPUT: np.ascontiguousarray(images)}


def _quantize(source: Path, target: Path, variant: Variant, reader: _Batches | None, **cache: Path) -> None:
    with _failing("quantize the model"):
        # CalibMaxIntermediateOutputs is not used: in 1.32.0 it loses ranges, and 7 dB of the signal-to-noise ratio on
        # the digits. Only the extremes of tensors are kept anyway.
        quantize_static(
            source,
            target,
            reader,
            per_channel=variant.granularity == "per_channel",
            reduce_range=variant.reduced_range,
            activation_type=QuantType.QUInt8,
            weight_type=QuantType.QInt8,
            calibrate_method=CalibrationMethod.MinMax,
            **cache,
        )


def _with_int8(file: Path, operator: str, variant: Variant) -> bytes:
    content = file.read_bytes()
    if not any(node.op_type == operator for node in onnx.load_from_string(content).graph.node):
        raise BuildError("nothing_to_quantize", f"the model has no layer that {_version()} can quantize in this way")
    return content if variant.reduced_range else unshared(content)


def _version() -> str:
    return f"onnxruntime {onnxruntime.__version__}"


@contextmanager
def _files(model: bytes) -> Iterator[tuple[Path, Path]]:
    """Provide the model as a file, and the path for another one: the library reads and writes files."""
    with temporary_folder() as folder:
        source = folder / "given.onnx"
        source.write_bytes(model)
        yield source, folder / "made.onnx"


@contextmanager
def _failing(to_do: str) -> Iterator[None]:
    """Turn errors of the library in the block into a `BuildError("not_quantizable")`, and keep its advice out of the
    log."""
    log = logging.getLogger()
    level = log.level
    log.setLevel(logging.ERROR)
    try:
        yield
    except BuildError:
        raise
    except Exception as error:  # the library raises any exception
        raise BuildError("not_quantizable", f"{_version()} cannot {to_do}: {first_words(error)}") from error
    finally:
        log.setLevel(level)
