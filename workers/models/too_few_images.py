"""Warns of evaluation images that are too few for what is asked of them. Reads names, and no image."""

from collections.abc import Iterator

from sweeps.ranking.accuracy_bound import least_images
from sweeps.spec.image_folders import EvaluationImages, evaluation_images
from sweeps.spec.inputs import DataSpec
from sweeps.spec.objective import ObjectiveSpec
from sweeps.text import digits


def too_few_images(data: DataSpec, objective: ObjectiveSpec) -> Iterator[str]:
    """A warning for each bound on the accuracy drop that no build can be shown to keep. Raises `DataError`."""
    bounds = [one.at_most for one in objective.constraints if one.metric == "accuracy_drop_points"]
    found = evaluation_images(data) if bounds else None
    for bound in bounds:
        if found is None or bound is None:
            continue
        least = least_images(bound)
        if least is None:
            yield f"no number of images can show that a build loses at most {digits(bound)} points: raise at_most"
        elif found.used < least:
            yield (
                f"{found.used} evaluation images are too few: even of a build that answers like the original, {least} "
                f"are needed to show that it loses at most {digits(bound)} points{_way_out(found, least)}"
            )


def _way_out(found: EvaluationImages, least: int) -> str:
    if found.there is None:
        return f": write data: evaluation: images: {least} or more"
    if found.there >= least:
        return f"; {found.where} has {found.there}: write data: evaluation: images: {least} or more"
    return f"; {found.where} has {found.there}: add {least - found.there} or more, or raise at_most"
