"""How many images there are to evaluate with, also those that a sweep file leaves out. Reads names, and no image."""

from dataclasses import dataclass

from sweeps.spec.inputs import DataSpec, DigitsData, FolderData
from workers.models.data_sources import calibrating, digits, images_in, of_one_folder


@dataclass(frozen=True, slots=True, kw_only=True)
class EvaluationImages:
    """The labelled images that accuracy is computed on."""

    used: int
    there: int
    """With those that `data.evaluation.images` leaves out."""
    where: str
    """For people."""


def evaluation_images(data: DataSpec) -> EvaluationImages | None:
    """`None` if there are no labels, or the number is not known before a download. Raises `DataError`."""
    calibration, evaluation = data.calibration, data.evaluation
    match evaluation:
        case DigitsData():
            there, where = len(digits(DigitsData(source="digits"), held_out=True).manifest.images), "the digits"
        case FolderData():
            there, where = images_in(evaluation.path), str(evaluation.path)
            if isinstance(calibration, FolderData) and of_one_folder(calibration, evaluation):
                there -= calibrating(calibration, there)
        case _:
            return None
    return EvaluationImages(used=min(there, evaluation.images or there), there=there, where=where)
