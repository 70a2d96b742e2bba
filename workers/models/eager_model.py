"""Loads the fp32 eager model, as its author wrote it, on any machine, and computes its logits."""

import io
from collections.abc import Callable

import numpy as np
import torch

from workers.models import weights
from workers.models.model_code import construct
from workers.models.one_thread import one_thread
from workers.models.package import Images, Logits, ModelPackage


def load_eager(package: ModelPackage) -> torch.nn.Module:
    """Return the fp32 model with its weights, in eval mode, without gradients, on any machine.

    Raises `ModelError` if the model cannot be built or the weights do not fit it.
    """
    model = construct(package.source, package.arguments, package.files).float()
    state = torch.load(io.BytesIO(package.state), map_location="cpu", weights_only=True)
    weights.fit(model, state, f"the package of {package.name}")
    return model.requires_grad_(False).eval()


def eager_logits(
    module: torch.nn.Module, images: Images, batch: int = 1, progress: Callable[[float], None] | None = None
) -> Logits:
    """Return the logits of `module` (N, classes), float32, for images (N, C, H, W), computed in batches of `batch`."""
    parts: list[Logits] = []
    with torch.no_grad(), one_thread():
        for start in range(0, len(images), batch):
            part = images[start : start + batch]
            # The part is padded with its last image, because some models take only one batch size.
            filled = np.concatenate([part, np.repeat(part[-1:], batch - len(part), axis=0)])
            parts.append(module(torch.from_numpy(filled)).float().numpy()[: len(part)])
            if progress is not None:
                progress((start + len(part)) / len(images))
    return np.concatenate(parts)
