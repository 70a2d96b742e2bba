"""A model that is ready to be built and evaluated, with its data."""

from collections.abc import Callable
from dataclasses import dataclass

from sweeps.ranking.reference_doubts import Doubt
from workers.models.dataset import DataManifest, Dataset
from workers.models.package import BuildInputs, Logits

PreparationProgress = Callable[[str, float | None], None]
"""A function that is called with the current step and its finished share (0 to 1; `None` if unknown)."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class PreparedModel:
    """The inputs for building and evaluating all variants of one model."""

    build_inputs: BuildInputs
    calibration_manifest: DataManifest
    evaluation_manifest: DataManifest
    evaluation: Dataset
    evaluation_logits: Logits
    """Logits of the fp32 eager model, (N, classes)."""
    trained: bool
    """Tells whether the weights are trained, not random."""
    doubts: tuple[Doubt, ...] = ()
    """Doubts about the fp32 eager model itself. There are none without labels, or for a model that is not trained."""

    @property
    def texts(self) -> tuple[str, ...]:
        """Lines for people: how the weights were loaded, and how good the model is with them."""
        text = self.build_inputs.package.weights_text
        return (*((text,) if text and self.trained else ()), *self.original_lines)

    @property
    def original_lines(self) -> tuple[str, ...]:
        """Lines for people: the top-1 accuracy of the model as its author wrote it, and the doubts about it. If it
        differs from the author's own figure, the images are prepared in another way. Empty without labels, and for
        random weights."""
        labels = self.evaluation.labels
        if labels is None or not self.trained:
            return ()
        percent = 100 * float((self.evaluation_logits.argmax(axis=1) == labels).mean())
        text = (
            f"the original has {percent:.2f} % top-1 on the {len(labels)} evaluation images; if you know another, "
            "compare mean, std, crop, the order of classes and the batch size with your training"
        )
        return (text, *(doubt.text for doubt in self.doubts))
