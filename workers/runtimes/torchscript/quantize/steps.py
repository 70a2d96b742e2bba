"""The three steps of quantization, for every method."""

import copy
from collections.abc import Mapping

import torch
from torch.ao.nn.quantized import FloatFunctional
from torch.fx import GraphModule

from sweeps.errors import BuildError
from workers.models.package import Images
from workers.runtimes.calibration_images import check_images
from workers.runtimes.library_errors import first_words
from workers.runtimes.torchscript.quantize import dynamic, eager, fx, qat
from workers.runtimes.torchscript.quantize.observers import observe, state_of
from workers.runtimes.torchscript.quantize.prepared import Prepared
from workers.runtimes.torchscript.scheme import Scheme

_NO_VIEW = "view size is not compatible"


def prepare(model: torch.nn.Module, scheme: Scheme, example: torch.Tensor) -> Prepared:
    """Put observers into a copy of the fp32 `model` (eval mode), which takes `example` (B, C, H, W).

    Deterministic and fast. Raises `BuildError`: `not_traceable`, `not_fusable`, `nothing_to_quantize`,
    `already_quantized` or `not_quantizable`.
    """
    _refuse_quantized(model)
    try:
        match scheme.method:
            case "static_fx" | "qat":
                return fx.prepare_graph(model, scheme, example)
            case "static_eager":
                return eager.prepare_eager(model, scheme, example)
            case "dynamic":
                return dynamic.prepare_dynamic(model, example)
            case _:
                raise BuildError("not_quantizable", f"there is no quantization method {scheme.method}")
    except BuildError:
        raise
    except Exception as error:
        raise _failed(scheme, "cannot prepare the model", error) from error


def calibrate(
    prepared: Prepared, calibration: Images, scheme: Scheme, batch: int, reference: torch.nn.Module | None
) -> dict[str, torch.Tensor]:
    """Return the tensors that `convert` needs beside `prepared`; `torch.load(weights_only=True)` can read them.

    Static methods run the images (N, C, H, W) through the observers in batches of `batch`; `dynamic` needs nothing;
    `qat` then fine-tunes the weights towards `reference`, the fp32 eager model, which only it needs.
    Raises `BuildError`: `bad_calibration` or `not_quantizable`.
    """
    if scheme.method == "dynamic":
        return {}
    check_images(calibration, tuple(prepared.example.shape))
    tuned = qat.BATCH
    if prepared.of_one_size:
        batch = tuned = len(prepared.example)
    module = copy.deepcopy(prepared.module)
    try:
        if scheme.method == "qat":
            qat.without_rounding(module)
        observe(module, calibration, batch)
        state = state_of(module)
        if scheme.method == "qat":
            assert reference is not None
            state |= qat.fine_tune(module, calibration, reference, tuned)
        return state
    except BuildError:
        raise
    except Exception as error:
        raise _failed(scheme, "cannot be calibrated", error) from error


def convert(prepared: Prepared, state: Mapping[str, torch.Tensor], scheme: Scheme) -> torch.nn.Module:
    """Return the int8 model with float input and output; bit-identical for the same `state`.

    `scheme.engine` must be set, because it packs the weights. Raises `BuildError`: `engine_not_in_force` or
    `not_quantizable`.
    """
    if torch.backends.quantized.engine != scheme.engine:
        raise BuildError(
            "engine_not_in_force",
            f"the model is quantized for {scheme.engine}, but {torch.backends.quantized.engine} is in force",
            "convert inside build_state(engine)",
        )
    try:
        match scheme.method:
            case "dynamic":
                converted = dynamic.convert_dynamic(prepared, scheme)
            case "static_eager":
                converted = eager.convert_eager(prepared, state, scheme)
            case _:
                converted = fx.convert_graph(prepared, state, scheme)
        _run(converted, prepared.example)
    except BuildError:
        raise
    except Exception as error:
        raise _failed(scheme, "does not run", error) from error
    return converted


def _run(converted: torch.nn.Module, example: torch.Tensor) -> None:
    """Run the model once, so that missing quantized kernels are found here, not on a phone.

    int8 kernels answer in channels_last, for which a `view` that joins channels with pixels is impossible: if it fails,
    each `view` becomes a `reshape`, which copies.
    """
    try:
        converted(example)
    except RuntimeError as error:
        if _NO_VIEW not in str(error) or not isinstance(converted, GraphModule):
            raise
        for node in converted.graph.nodes:
            if node.op == "call_method" and node.target == "view":
                node.target = "reshape"
        converted.recompile()
        converted(example)


def _refuse_quantized(model: torch.nn.Module) -> None:
    for name, module in model.named_modules():
        kind = type(module)
        quantized = kind.__module__.startswith("torch.ao.nn.") and ".quantized" in kind.__module__
        if quantized and kind is not FloatFunctional:
            raise BuildError(
                "already_quantized",
                f"{name or 'the model'} is a {kind.__module__}.{kind.__name__}: packed for one engine already",
                "give the fp32 model",
            )


def _failed(scheme: Scheme, failure: str, error: Exception) -> BuildError:
    return BuildError(
        "not_quantizable",
        f"{scheme.method} for {scheme.engine} {failure}: {first_words(error)}",
        "try another quantization method",
    )
