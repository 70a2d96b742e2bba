"""The likely cause if the original answers wrongly, from its answers, its inputs and the folders around the images.
Pure. Each cause is two texts for people: what is wrong, and the next step."""

from collections.abc import Sequence
from dataclasses import dataclass

from sweeps.spec.folder_levels import Levels

_LEAST_EMBEDDING = 64
_OUTPUTS_PER_FOLDER = 4
"""A model with at least this many times as many outputs as there are folders is more likely one of embeddings than a
classifier."""
_LARGEST_USUAL = 20.0
"""No pixel with a usual normalization reaches this value; unnormalized pixels of 0 to 255 do."""
_LEAST_USUAL = 0.1
"""The distance between black and white is larger than this, unless pixels of 0 to 1 were divided by a standard
deviation meant for 0 to 255."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Answers:
    """The answers of the original on labelled images."""

    labels: Sequence[int]
    predicted: Sequence[int]
    """The class with the largest output, for each image."""
    outputs: int
    classes: Sequence[str] = ()
    """The names of the labels; empty if they have none."""

    @property
    def folders(self) -> int:
        """The number of classes that the data has."""
        return len(self.classes) or 1 + max(self.labels)

    def name(self, label: int) -> str:
        return self.classes[label] if label < len(self.classes) else f"class {label}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Inputs:
    """How the images were prepared that the original answered."""

    low: float
    """The smallest normalized pixel value of the images."""
    high: float
    better: str = ""
    """Another normalization with which the original answers far more of the same images correctly; empty if none is
    known."""
    better_percent: float | None = None
    """The top-1 accuracy with that normalization, in percent."""


def likely_cause(answers: Answers, levels: Levels | None, inputs: Inputs | None) -> tuple[str, str]:
    """Return why the original answers wrongly, and the next step."""
    if levels is not None and levels.doubted:
        return _of_levels(levels)
    if inputs is not None and inputs.better:
        return (
            "the images are prepared in another way than in training: "
            f"with {inputs.better} {inputs.better_percent:.1f} % are right",
            f"write {inputs.better} under data:, in calibration and evaluation",
        )
    if answers.outputs != answers.folders:
        return of_number(answers, levels)
    if inputs is not None and (usual := _of_range(inputs)):
        return usual
    if answers.folders == 1:
        return "there is one class only", "give a folder with one sub-folder for each class"
    return (
        "other weights, mean and std, crop or colours than in training, or the classes in another order",
        "compare them with your training",
    )


def of_number(answers: Answers, levels: Levels | None) -> tuple[str, str]:
    """Return why the numbers of outputs and folders differ, and the next step."""
    if levels is not None and levels.doubted:
        return _of_levels(levels)
    if levels is not None and levels.beside == answers.outputs:
        parent = levels.root.resolve().parent
        return f"{levels.root} is one level too deep, {parent} has {levels.beside} folders", f"give path: {parent}"
    if answers.outputs >= max(_LEAST_EMBEDDING, _OUTPUTS_PER_FOLDER * answers.folders):
        return (
            "its outputs are embeddings, or those of a head that was trained on other classes",
            "give the model with the head that was trained on these classes",
        )
    return (
        "folders of some of its classes are missing, or one is too many",
        "give one folder for each of its classes, in their order (sorted by name)",
    )


def _of_levels(levels: Levels) -> tuple[str, str]:
    return "the folder is not the one that holds the classes", levels.next_step


def _of_range(inputs: Inputs) -> tuple[str, str] | None:
    """Return the cause and the next step if mean and std do not fit pixels of 0 to 1; otherwise `None`."""
    reach = f"the prepared pixels reach from {inputs.low:.4g} to {inputs.high:.4g}"
    step = "give mean and std for pixels from 0 to 1: those for 0 to 255, divided by 255"
    if max(abs(inputs.low), abs(inputs.high)) > _LARGEST_USUAL:
        return f"std (or mean) does not fit pixels from 0 to 1: {reach}", step
    if inputs.high - inputs.low < _LEAST_USUAL:
        return f"mean and std are those of pixels from 0 to 255: {reach}", step
    return None


def sort_step(answers: Answers) -> str:
    lengths = {len(name) for name in answers.classes}
    if all(name.isdecimal() for name in answers.classes) and len(lengths) > 1:
        return "folders are sorted as text, where 10 stands before 2: write numbers with as many digits each (02)"
    return "name the folders so that they sort in the order of your training (0_cat, 1_dog)"
