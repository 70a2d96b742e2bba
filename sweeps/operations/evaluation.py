"""Whether there are more evaluation images, where they would settle a constraint."""

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

from sweeps.errors import DataError
from sweeps.ranking.accuracy_bound import NEEDED
from sweeps.ranking.overview import PlaceVerdict
from sweeps.ranking.values import Ranking
from sweeps.spec.inputs import DataSpec, FolderData
from sweeps.spec.sweep import SweepSpec

if TYPE_CHECKING:
    from workers.models.evaluation_images import EvaluationImages


def more_images(spec: SweepSpec, ranking: Ranking) -> Iterator[str]:
    """Where images would settle a constraint: whether there are more of them."""
    shown = [one for entry in ranking.devices for one in (*entry.ranking, *entry.checked)]
    if any(check.images_needed for one in shown for check in one.constraints):
        yield from images_there(spec)


def more_images_of(spec: SweepSpec, verdicts: Iterable[PlaceVerdict]) -> Iterator[str]:
    """As `more_images`, by an overview."""
    if any(NEEDED in one.reason for one in verdicts):
        yield from images_there(spec)


def images_there(spec: SweepSpec) -> Iterator[str]:
    """How many of the evaluation images are used, where that is known."""
    found = _images(spec.data)
    if found is None:
        return
    if found.there is None:
        yield f"Evaluation images: {found.used} of {found.where} are used; data: evaluation: images: may be more"
    elif found.used < found.there:
        yield (
            f"Evaluation images: {found.used} of {found.there} in {found.where} are used; "
            f"data: evaluation: images: {found.there} uses the others too"
        )
    else:
        more = "; add more to it" if isinstance(spec.data.evaluation, FolderData) else ", and there are no others"
        yield f"Evaluation images: all {found.used} in {found.where} are used{more}"


def _images(data: DataSpec) -> "EvaluationImages | None":
    from workers.models.evaluation_images import evaluation_images  # numpy, which a ranking need not wait for

    try:
        return evaluation_images(data)
    except DataError:  # the folder is no longer there, or on another computer
        return None
