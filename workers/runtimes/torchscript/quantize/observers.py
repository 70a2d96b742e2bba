"""Runs calibration images through observers, and stores the observers' results as plain tensors."""

from collections.abc import Mapping

import torch
from torch.ao.quantization import FixedQParamsObserver, ObserverBase

from sweeps.errors import BuildError
from workers.models.package import Images

State = Mapping[str, torch.Tensor]

_SCALE, _ZERO_POINT = ".scale", ".zero_point"


class Calibrated(ObserverBase):
    """The replacement of an observer after calibration, with a fixed result.

    A histogram observer searches its best range in every call of `calculate_qparams`. With the stored result,
    converting takes no time and is deterministic.
    """

    def __init__(self, of: ObserverBase, scale: torch.Tensor, zero_point: torch.Tensor) -> None:
        super().__init__(dtype=of.dtype)
        self.qscheme = of.qscheme
        self.quant_min, self.quant_max = of.quant_min, of.quant_max
        self.ch_axis = getattr(of, "ch_axis", -1)
        self.register_buffer("scale", scale.clone())
        self.register_buffer("zero_point", zero_point)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x

    def calculate_qparams(self, **_: object) -> tuple[torch.Tensor, torch.Tensor]:
        return self.get_buffer("scale"), self.get_buffer("zero_point")

    def scale_of_one(self) -> float:
        """Return the scale of a value that is quantized per tensor."""
        return float(self.get_buffer("scale"))

    def raise_scale(self, least: float) -> None:
        """Raise the scale to `least` if it is smaller; with `least` 0 it stays unchanged."""
        self.get_buffer("scale").clamp_(min=least)


def observe(module: torch.nn.Module, images: Images, batch: int) -> None:
    """Run `module` with its observers on all images, in batches; the last batch may be smaller."""
    for start in range(0, len(images), batch):
        module(torch.from_numpy(images[start : start + batch]))


def observers_of(module: torch.nn.Module) -> dict[ObserverBase, list[str]]:
    """Return every observer of activations, with all its names in `module`: some operators share an observer."""
    names: dict[ObserverBase, list[str]] = {}
    for name, part in module.named_modules(remove_duplicate=False):
        if isinstance(part, ObserverBase) and ".weight_fake_quant" not in name:
            names.setdefault(part, []).append(name)
    return names


def state_of(module: torch.nn.Module) -> dict[str, torch.Tensor]:
    """Return scale and zero point of every observer, by its first name. Raises `BuildError("not_quantizable")`."""
    state: dict[str, torch.Tensor] = {}
    for observer, names in observers_of(module).items():
        if not isinstance(observer, FixedQParamsObserver) and not _has_seen(observer):
            raise BuildError(
                "not_quantizable",
                f"no calibration image reaches {names[0].removesuffix('.activation_post_process')}",
                "remove the part of the model that never runs",
            )
        scale, zero_point = observer.calculate_qparams()  # type: ignore[no-untyped-call]  # torch has no types for it
        state[names[0] + _SCALE] = scale.detach().clone()
        state[names[0] + _ZERO_POINT] = zero_point.detach().clone()
    return state


def _has_seen(observer: ObserverBase) -> bool:
    least = getattr(observer, "min_val", None)
    return least is None or (least.numel() > 0 and bool(least.isfinite().all()))


def install(module: torch.nn.Module, state: State) -> None:
    """Replace the observers of `module` by the stored results of `state_of`."""
    for observer, names in observers_of(module).items():
        calibrated = Calibrated(observer, state[names[0] + _SCALE], state[names[0] + _ZERO_POINT])
        for name in names:
            module.set_submodule(name, calibrated)
