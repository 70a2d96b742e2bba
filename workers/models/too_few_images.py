"""Warns of too few evaluation images for the bounds of the sweep file. Reads names of files, and no image."""

from collections.abc import Iterator

from sweeps.ranking.accuracy_bound import least_images
from sweeps.spec.image_folders import EvaluationImages, evaluation_images
from sweeps.spec.model_inputs import DataSpec
from sweeps.spec.objective import ObjectiveSpec
from sweeps.text import digits


def too_few_images(data: DataSpec, objective: ObjectiveSpec) -> Iterator[str]:
    """Yield a warning for each bound on the accuracy drop that no build can be shown to keep. Raises `DataError`."""
    bounds = [constraint.at_most for constraint in objective.constraints if constraint.metric == "accuracy_drop_points"]
    images = evaluation_images(data) if bounds else None
    for bound in bounds:
        if images is None or bound is None:
            continue
        least = least_images(bound)
        if least is None:
            yield f"no number of images can show that a build loses at most {digits(bound)} points: raise at_most"
        elif images.used < least:
            yield (
                f"{images.used} evaluation images are too few: even of a build that answers like the original, {least} "
                f"are needed to show that it loses at most {digits(bound)} points{_way_out(images, least)}"
            )


def _way_out(images: EvaluationImages, least: int) -> str:
    if images.there is None:
        return f": write data: evaluation: images: {least} or more"
    if images.there >= least:
        return f"; {images.where} has {images.there}: write data: evaluation: images: {least} or more"
    return f"; {images.where} has {images.there}: add {least - images.there} or more, or raise at_most"
