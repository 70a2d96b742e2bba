"""The CPU backend of PyTorch Mobile: from an eager model to the saved file."""

import zipfile
from dataclasses import dataclass
from pathlib import Path

import torch
from torch.utils.mobile_optimizer import optimize_for_mobile

from sweeps.errors import BuildError
from sweeps.records import Variant
from workers.runtimes.interface import Images
from workers.runtimes.torchscript.capture import ChannelsLast, script, trace
from workers.runtimes.torchscript.failures import first_words
from workers.runtimes.torchscript.fuse import fuse, symbolic
from workers.runtimes.torchscript.quantize import quantize

FILE_NAME = "model.pt"
"""One name for every artifact: `torch.jit.save` writes the file's name into the archive, and so into its hash."""

_CALIBRATION_BATCH = 16


@dataclass(frozen=True, slots=True, kw_only=True)
class Lowered:
    """A saved model, and what is known of it without loading it."""

    file: Path
    fused: tuple[str, ...]
    operators: tuple[str, ...]
    file_version: int


def lower(
    model: torch.nn.Module, variant: Variant, input_shape: tuple[int, ...], calibration: Images, out: Path
) -> Lowered:
    """Fuse, quantize, capture, optimize and save `model` (eval mode) as `variant` says, into the folder `out`.

    The variant's engine must be in force. Raises `BuildError` with the step that failed.
    """
    channels_last = variant.layout == "nhwc"
    fused: tuple[str, ...] = ()
    if variant.precision == "int8":
        batch = max(_CALIBRATION_BATCH, input_shape[0])
        batches = (torch.from_numpy(calibration[start : start + batch]) for start in range(0, len(calibration), batch))
        model, fused = quantize(symbolic(model), batches, variant.qengine)
    elif variant.fuse:
        model, fused = fuse(symbolic(model))
    if channels_last:
        model = ChannelsLast(model.to(memory_format=torch.channels_last)).eval()  # type: ignore[call-overload]  # typed for 4-D tensors only
    captured = trace(model, _example(calibration, input_shape)) if variant.capture == "trace" else script(model)
    if variant.optimize:
        try:
            # Frozen first: optimize_for_mobile's own folding of Conv+BN drops the bias that folding makes (pytorch
            # issue 76807, still in 2.12.1). Traced, or scripted with control flow, such models answered at 1 dB.
            captured = optimize_for_mobile(torch.jit.freeze(captured))
        except Exception as error:
            raise BuildError(
                "not_optimizable", f"optimize_for_mobile fails: {first_words(error)}", "try optimize: [false]"
            ) from error
    file = out / FILE_NAME
    try:
        torch.jit.save(captured, str(file))
        operators = tuple(sorted(torch.jit.export_opnames(captured)))  # type: ignore[no-untyped-call]  # torch has no types for it
    except Exception as error:
        raise BuildError("not_savable", f"torch.jit.save fails: {first_words(error)}") from error
    return Lowered(file=file, fused=fused, operators=operators, file_version=_file_version(file))


def _example(calibration: Images, input_shape: tuple[int, ...]) -> torch.Tensor:
    """Calibration images in the batch that the runner hands over; seeded noise where there is none."""
    if len(calibration) == 0:
        return torch.rand(input_shape, generator=torch.Generator().manual_seed(0))
    return torch.from_numpy(calibration[[index % len(calibration) for index in range(input_shape[0])]])


def _file_version(file: Path) -> int:
    # From version 6 on (ViT's operators need it) torch keeps it in another place.
    places = (f"{file.stem}/version", f"{file.stem}/.data/version")
    with zipfile.ZipFile(file) as archive:
        return int(archive.read(next(name for name in archive.namelist() if name in places)))
