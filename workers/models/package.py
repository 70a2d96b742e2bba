"""A model and its images, in the form that the driver sends to a builder."""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Images = NDArray[np.float32]
"""(N, C, H, W), already normalised: input of the model."""


Logits = NDArray[np.float32]
"""(N, classes)."""


Labels = NDArray[np.int64]
"""(N,)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelPackage:
    """A model that can be sent to another machine: source files and a state_dict, no pickled code."""

    name: str
    source: str
    """As in the sweep file: a torchvision name or `module:function`."""
    arguments: Mapping[str, str | int | float | bool]
    files: Mapping[str, bytes]
    """The user's own source files by relative path; empty for torchvision."""
    state: bytes
    """`torch.save` of the state_dict; loaded with `weights_only`."""
    weights_id: str
    model_source: str
    """`ModelIdentity.source`."""
    input_shape: tuple[int, int, int, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class BuildInputs:
    """Inputs that all builds of one model share."""

    package: ModelPackage
    calibration: Images
    calibration_id: str
    no_calibration: str = ""
    """Why there are no calibration images; empty if there are some."""
    verification: Images
    verification_labels: Labels | None
    verification_logits: Logits
    """Logits of the fp32 eager model."""
    versions: Mapping[str, str]
