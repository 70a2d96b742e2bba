"""A model that is ready to be built and evaluated, with its data."""

from collections.abc import Callable
from dataclasses import dataclass

from workers.models.dataset import DataManifest, Dataset
from workers.models.package import BuildInputs, Logits

PreparationProgress = Callable[[str, float | None], None]
"""Called with the present step and its finished share (0 to 1; `None` if unknown)."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class PreparedModel:
    """The inputs for building and evaluating all variants of one model."""

    build_inputs: BuildInputs
    calibration_manifest: DataManifest
    evaluation_manifest: DataManifest
    evaluation: Dataset
    evaluation_logits: Logits
    """Logits of the fp32 eager model, (N, classes)."""
