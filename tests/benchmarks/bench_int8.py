"""Whole int8 models on the reference NNAPI, against the x86 engine: MobileNetV2 on the 597 held-out digits.

The model is the demo's (64x64, trained on digits), quantized with x86's own qconfig: weights of 8 bits with one scale
for each tensor, which is all that PyTorch's loader hands NNAPI, and activations of 7 bits, on which the engine's sums
do not saturate. EdgeSweep's converter makes the NNAPI model, PyTorch's runtime runs it, image by image.

The bounds are for the same int8 model with biases in whole units on both sides. As quantized, the two do not compute
the same function: NNAPI's biases are int32, in units of input scale times weight scale, and x86's are floats, so that
each of 53 layers starts from another sum. That arm is reported. So are EdgeSweep's own schemes: for x86, whose ReLU6
has 8 bits and units half as large; and for QNNPACK, which phones run and whose biases are int32 as well, against that
engine and as quantized.
"""

import copy
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

import torch
from report import Figure, at_least, finish
from torch.ao.quantization.quantize_fx import convert_fx, prepare_fx
from torch.fx import GraphModule

from sweeps.spec.inputs import DataSpec, DigitsData, ModelSpec
from sweeps.workspace import Workspace
from tests.workers.native.whole_biases import with_whole_biases
from workers.models import prepare as models
from workers.models.eager import load_eager
from workers.runtimes.torchscript import quantize, references
from workers.runtimes.torchscript.fuse import symbolic
from workers.runtimes.torchscript.interfaces import split
from workers.runtimes.torchscript.nnapi import lower as nnapi
from workers.runtimes.torchscript.nnapi.rewrite import fit
from workers.runtimes.torchscript.quantize.qconfigs import qconfig_mapping
from workers.runtimes.torchscript.runner import backend
from workers.runtimes.torchscript.scheme import Scheme
from workers.runtimes.torchscript.torch_state import build_state

MODEL = ModelSpec(
    source="mobilenet_v2",
    arguments={"width_mult": 0.35, "num_classes": 10},
    weights="demo",
    input_shape=(1, 3, 64, 64),
)
DATA = DataSpec(calibration=DigitsData(source="digits", images=100), evaluation=DigitsData(source="digits"))
CALIBRATION_BATCH = 16
X86 = Scheme(method="static_fx", engine="x86", granularity="per_tensor")
QNNPACK = Scheme(method="static_fx", engine="qnnpack", granularity="per_tensor")
NHWC = nnapi.Options(nhwc=True, preference="sustained_speed", relaxed_fp16=False, flexible_batch=False)

Quantize = Callable[[GraphModule, torch.Tensor, Scheme], GraphModule]


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        say("training the model")
        prepared = models.prepare(MODEL, DATA, Workspace.open(Path(folder)), {}, lambda *_: None)
    backend.prepare("nnapi", references.library("nnapi"))
    graph = fit(symbolic(load_eager(prepared.build_inputs.package)))
    calibration = torch.from_numpy(prepared.build_inputs.calibration)
    images = torch.from_numpy(prepared.evaluation.images)

    def agreement(what: str, quantized: Quantize, scheme: Scheme, *, whole_biases: bool) -> tuple[float, float]:
        """Percent of logits within 1 unit of the engine's, and of images with the same top-1."""
        say(what)
        with build_state(scheme.engine):
            model = quantized(graph, calibration, scheme)
            if whole_biases:
                model = with_whole_biases(model, images[:1])
            right = one_by_one(model, images)
            got = one_by_one(nnapi.lower(model, images[:1], NHWC, "inside", None).module, images)
        output = split(model).output
        assert output is not None
        units = ((got - right) / output.scale).round().abs()
        return percent(units <= 1), percent(got.argmax(1) == right.argmax(1))

    logits, top1 = agreement("x86, biases in whole units", by_torch, X86, whole_biases=True)
    figures = [
        at_least("x86, biases in whole units: logits within 1 unit", logits, "%", 99.5),
        at_least("x86, biases in whole units: same top-1", top1, "%", 99.0),
    ]
    for what, quantized, scheme, whole_biases in (
        ("x86, as quantized", by_torch, X86, False),
        ("EdgeSweep's scheme for x86, biases in whole units", by_edgesweep, X86, True),
        ("EdgeSweep's scheme for QNNPACK, as quantized", by_edgesweep, QNNPACK, False),
    ):
        logits, top1 = agreement(what, quantized, scheme, whole_biases=whole_biases)
        figures += [
            Figure(f"{what}: logits within 1 unit", logits, "%"),
            Figure(f"{what}: same top-1", top1, "%"),
        ]
    finish(f"int8: the reference NNAPI against engines, {len(images)} digits", figures)


def by_torch(graph: GraphModule, calibration: torch.Tensor, scheme: Scheme) -> GraphModule:
    """FX graph mode with the engine's qconfig and nothing else: ReLU6 stays an operator of its own."""
    prepared = prepare_fx(copy.deepcopy(graph), qconfig_mapping(scheme), (calibration[:1],))
    for part in torch.split(calibration, CALIBRATION_BATCH):
        prepared(part)
    return convert_fx(prepared)


def by_edgesweep(graph: GraphModule, calibration: torch.Tensor, scheme: Scheme) -> GraphModule:
    """As builds do."""
    prepared = quantize.prepare(graph, scheme, calibration[:1])
    state = quantize.calibrate(prepared, calibration.numpy(), scheme, CALIBRATION_BATCH, None)
    converted = quantize.convert(prepared, state, scheme)
    assert isinstance(converted, GraphModule)
    return converted


def one_by_one(run: Callable[[torch.Tensor], torch.Tensor], images: torch.Tensor) -> torch.Tensor:
    return torch.cat([run(image[None]) for image in images])


def percent(true: torch.Tensor) -> float:
    return 100 * float(true.float().mean())


def say(what: str) -> None:
    print(what, file=sys.stderr, flush=True)


if __name__ == "__main__":
    main()
