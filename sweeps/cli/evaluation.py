"""What the command line says of the number of evaluation images: too few, and whether there are more."""

from collections.abc import Iterator

from sweeps.errors import DataError
from sweeps.ranking.accuracy_bound import least_images
from sweeps.ranking.values import Ranking
from sweeps.ranking.verdict import DROP
from sweeps.spec.inputs import DataSpec, FolderData
from sweeps.spec.sweep import SweepSpec
from workers.models.evaluation_images import EvaluationImages, evaluation_images


def too_few_images(spec: SweepSpec) -> Iterator[str]:
    """A warning for each bound that no build can be shown to keep. Raises `DataError`."""
    bounds = [one.at_most for one in spec.objective.constraints if one.metric == DROP and one.at_most is not None]
    found = evaluation_images(spec.data) if bounds else None
    for bound in bounds if found else ():
        least = least_images(bound)
        assert found is not None
        if least is None:
            yield f"no number of images can show that a build loses at most {bound:g} points: raise at_most"
        elif found.used < least:
            yield (
                f"{found.used} evaluation images are too few: even of a build that answers like the original, {least} "
                f"are needed to show that it loses at most {bound:g} points{_way_out(found, least)}"
            )


def more_images(spec: SweepSpec, ranking: Ranking) -> Iterator[str]:
    """Where images would settle a constraint: whether there are more of them."""
    shown = [one for entry in ranking.devices for one in (*entry.ranking, *entry.checked)]
    if not any(check.images_needed for one in shown for check in one.constraints):
        return
    found = _images(spec.data)
    if found is not None and found.used < found.there:
        yield (
            f"Evaluation images: {found.used} of {found.there} in {found.where} are used; "
            f"data: evaluation: images: {found.there} uses the others too"
        )
    elif found is not None:
        more = "; add more to it" if isinstance(spec.data.evaluation, FolderData) else ", and there are no others"
        yield f"Evaluation images: all {found.used} in {found.where} are used{more}"


def _images(data: DataSpec) -> EvaluationImages | None:
    try:
        return evaluation_images(data)
    except DataError:  # the folder is no longer there, or on another computer
        return None


def _way_out(found: EvaluationImages, least: int) -> str:
    if found.there >= least:
        return f"; {found.where} has {found.there}: write data: evaluation: images: {least} or more"
    return f"; {found.where} has {found.there}: add {least - found.there} or more, or raise at_most"
