"""A model and its images, in the form that the driver sends to a builder."""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from sweeps.spec.model_inputs import Argument

Images = NDArray[np.float32]
"""Normalised images, (N, C, H, W): input of the model."""


Logits = NDArray[np.float32]
"""Logits, (N, classes)."""


Labels = NDArray[np.int64]
"""Labels, (N,)."""

_LEAST_VARIATION = 1e-3


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelPackage:
    """A model that can be sent to another machine: source files and a state_dict, no pickled code."""

    name: str
    source: str
    """The model as in the sweep file: a torchvision name or `module:function`."""
    arguments: Mapping[str, Argument]
    files: Mapping[str, bytes]
    """The user's own source files by relative path; empty for torchvision."""
    state: bytes
    """`torch.save` of the state_dict; loaded with `weights_only`."""
    weights_id: str
    weights_text: str = ""
    """The changes made to the checkpoint to load it, for people; empty if it was loaded unchanged."""
    model_source: str
    """`ModelIdentity.source`."""
    input_shape: tuple[int, int, int, int]
    overwrites_input: bool = False
    """Tells whether the model writes into its input tensor."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BuildInputs:
    """Inputs that all builds of one model share."""

    package: ModelPackage
    calibration: Images
    calibration_id: str
    no_calibration: str = ""
    """The reason why there are no calibration images; empty if there are some."""
    verification: Images
    verification_labels: Labels | None
    verification_logits: Logits
    """Logits of the fp32 eager model."""
    versions: Mapping[str, str]


def varies(logits: Logits) -> bool:
    """Tell whether logits (N, classes) differ between images by more than rounding errors."""
    spread = np.abs(logits - logits.mean(axis=0)).max()
    return bool(spread > _LEAST_VARIATION * np.abs(logits).max())
