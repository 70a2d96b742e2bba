"""Quantization-aware training: fine-tunes the static int8 model for a few steps towards the fp32 model's logits.

* Batch norms are folded before the first step, so their statistics do not change: with a few steps on a few images
  they would only get worse. Nagel et al., "A White Paper on Neural Network Quantization" (arXiv 2106.08295), 4.2.1.
* It starts with the scales of the static calibration, which stay fixed: the white paper's 4.4 finds that a good
  post-training start saves many steps, and Krishnamoorthi (arXiv 1806.08342, 3.2) fine-tunes from the float model.
* The loss is the distance from the logits of the fp32 model: it needs no labels, and it is the criterion for builds
  (SQNR). Distilling into a quantized network: Polino et al. (arXiv 1802.05668), Mishra and Marr (arXiv 1711.05852).
* Gradients of rounding use the straight-through estimator, as in Jacob et al. (arXiv 1712.05877); the learning rate
  falls to 0.
"""

import numpy as np
import torch
from torch.ao.nn.intrinsic.modules.fused import _FusedModule
from torch.ao.quantization import ObserverBase
from torch.ao.quantization.fake_quantize import disable_fake_quant, enable_fake_quant
from torch.fx import GraphModule

from workers.models.package import Images
from workers.runtimes.torchscript.fuse import fuse
from workers.runtimes.torchscript.quantize.observers import State, observers_of

_LEARNING_RATE = 3e-5
"""The learning rate of Adam. With it, MobileNetV2 on digits gains 2.0 dB of signal-to-noise ratio, with 1e-4 1.5 dB,
and with higher rates it loses 1 to 8 dB."""
_HELD_OUT = 5
BATCH = 16
_STEPS = 100
_PIXELS = 100 * 16 * 64 * 64
"""The maximal number of pixels in all steps: 100 steps of 16 images of 64x64, 8 of 224x224."""


class Rounded(torch.nn.Module):
    """A simulation of the kernels' rounding of activations, in float: fixed scale and zero point, 0 to 255."""

    def __init__(self, observer: ObserverBase) -> None:
        super().__init__()
        scale, zero_point = observer.calculate_qparams()  # type: ignore[no-untyped-call]  # torch has no types for it
        self.scale, self.zero_point = float(scale), int(zero_point)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.fake_quantize_per_tensor_affine(x, self.scale, self.zero_point, 0, 255)


def fold(graph: GraphModule) -> tuple[GraphModule, tuple[str, ...]]:
    """Fold batch norms into the layers before them, and undo all other fusions, because prepare_qat_fx fuses by itself.

    Returns the new graph and the fused groups of `fuse`.
    """
    graph, fused = fuse(graph)
    for name, module in list(graph.named_modules()):
        if isinstance(module, _FusedModule):
            graph.set_submodule(name, torch.nn.Sequential(*module.children()))
    return torch.fx.symbolic_trace(graph), fused


def without_rounding(module: torch.nn.Module) -> None:
    """Let `module` compute in float, with active observers."""
    module.apply(disable_fake_quant)


def fine_tune(
    module: torch.nn.Module, images: Images, reference: torch.nn.Module, batch: int = BATCH
) -> dict[str, torch.Tensor]:
    """Return the parameters of the calibrated `module` after some steps of `batch` images towards the logits of
    `reference`.

    Deterministic on one thread. A fifth of the images is held out from training: if the original parameters, those of
    static int8, are better on these images, they are returned.
    """
    for observer, names in observers_of(module).items():
        rounded = Rounded(observer)
        for name in names:
            module.set_submodule(name, rounded)
    module.apply(enable_fake_quant)
    inputs = torch.from_numpy(images)
    with torch.no_grad():
        targets = torch.cat([reference(part) for part in torch.split(inputs, batch)])
        held_out = slice(-max(1, len(inputs) // _HELD_OUT), None)
        before, error_before = _parameters(module), _error(module, inputs[held_out], targets[held_out], batch)
    trained = slice(None, held_out.start if len(inputs) > 1 else None)
    with torch.enable_grad():
        _train(module, inputs[trained], targets[trained], batch)
    with torch.no_grad():
        error = _error(module, inputs[held_out], targets[held_out], batch)
        return _parameters(module) if error < error_before else before


def load_parameters(module: torch.nn.Module, state: State) -> None:
    """Load the result of `fine_tune` into an equally prepared module."""
    for name, parameter in module.named_parameters():
        parameter.data.copy_(state[name])


def _train(module: torch.nn.Module, inputs: torch.Tensor, targets: torch.Tensor, batch: int) -> None:
    size = min(batch, len(inputs))
    steps = max(1, min(_STEPS, _PIXELS // (size * inputs[0, 0].numel())))
    module.requires_grad_(True)
    optimizer = torch.optim.Adam(module.parameters(), lr=_LEARNING_RATE)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, steps)
    scale = targets.var()
    random = np.random.default_rng(0)
    order = np.concatenate([random.permutation(len(inputs)) for _ in range(steps * size // len(inputs) + 1)])
    for step in range(steps):
        chosen = torch.from_numpy(order[step * size :][:size])
        loss = torch.nn.functional.mse_loss(module(inputs[chosen]), targets[chosen]) / scale
        optimizer.zero_grad()
        torch.autograd.backward(loss)
        optimizer.step()
        schedule.step()
    module.requires_grad_(False)


def _parameters(module: torch.nn.Module) -> dict[str, torch.Tensor]:
    return {name: parameter.detach().clone() for name, parameter in module.named_parameters()}


def _error(module: torch.nn.Module, inputs: torch.Tensor, targets: torch.Tensor, batch: int) -> float:
    answers = torch.cat([module(part) for part in torch.split(inputs, batch)])
    return float(torch.nn.functional.mse_loss(answers, targets))
