"""How many images there are to evaluate with, also those that a sweep file leaves out. Reads names, and no image."""

from collections.abc import Iterator
from dataclasses import dataclass

from sweeps.ranking.accuracy_bound import least_images
from sweeps.spec.inputs import DataSpec, DigitsData, FolderData, TorchvisionData
from sweeps.spec.objective import ObjectiveSpec
from workers.models.data_sources import calibrating, digits, images_in, of_one_folder


@dataclass(frozen=True, slots=True, kw_only=True)
class EvaluationImages:
    """The labelled images that accuracy is computed on."""

    used: int
    """At most, where it is not known how many there are."""
    there: int | None
    """With those that `data.evaluation.images` leaves out; `None` before a download."""
    where: str
    """For people."""


def evaluation_images(data: DataSpec) -> EvaluationImages | None:
    """`None` if there are no labels, or nothing is known of the number before a download. Raises `DataError`."""
    calibration, evaluation = data.calibration, data.evaluation
    match evaluation:
        case TorchvisionData() if evaluation.images is not None:
            return EvaluationImages(used=evaluation.images, there=None, where=evaluation.dataset)
        case DigitsData():
            there, where = len(digits(DigitsData(source="digits"), held_out=True).manifest.images), "the digits"
        case FolderData():
            there, where = images_in(evaluation.path), str(evaluation.path)
            if isinstance(calibration, FolderData) and of_one_folder(calibration, evaluation):
                there -= calibrating(calibration, there)
        case _:
            return None
    return EvaluationImages(used=min(there, evaluation.images or there), there=there, where=where)


def too_few_images(data: DataSpec, objective: ObjectiveSpec) -> Iterator[str]:
    """A warning for each bound on the accuracy drop that no build can be shown to keep. Raises `DataError`."""
    bounds = [one.at_most for one in objective.constraints if one.metric == "accuracy_drop_points"]
    found = evaluation_images(data) if bounds else None
    for bound in bounds:
        if found is None or bound is None:
            continue
        least = least_images(bound)
        if least is None:
            yield f"no number of images can show that a build loses at most {bound:g} points: raise at_most"
        elif found.used < least:
            yield (
                f"{found.used} evaluation images are too few: even of a build that answers like the original, {least} "
                f"are needed to show that it loses at most {bound:g} points{_way_out(found, least)}"
            )


def _way_out(found: EvaluationImages, least: int) -> str:
    if found.there is None:
        return f": write data: evaluation: images: {least} or more"
    if found.there >= least:
        return f"; {found.where} has {found.there}: write data: evaluation: images: {least} or more"
    return f"; {found.where} has {found.there}: add {least - found.there} or more, or raise at_most"
