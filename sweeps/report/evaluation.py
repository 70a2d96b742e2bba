"""Whether there are more evaluation images, where they would settle a constraint."""

from collections.abc import Iterable, Iterator
from dataclasses import asdict
from typing import Any

from sweeps.errors import DataError
from sweeps.ranking.accuracy_bound import NEEDED
from sweeps.ranking.overview import PlaceVerdict
from sweeps.ranking.values import DeviceRanking, Ranking
from sweeps.spec.image_folders import EvaluationImages, evaluation_images
from sweeps.spec.inputs import DataSpec, FolderData
from sweeps.spec.sweep import SweepSpec


def more_images(spec: SweepSpec, ranking: Ranking) -> Iterator[str]:
    """Where images would settle a constraint: whether there are more of them."""
    if any(map(images_settle, ranking.devices)):
        yield from images_there(spec.data)


def more_images_of(spec: SweepSpec, verdicts: Iterable[PlaceVerdict]) -> Iterator[str]:
    """As `more_images`, by an overview."""
    if any(NEEDED in one.reason for one in verdicts):
        yield from images_there(spec.data)


def images_document(spec: SweepSpec, ranking: Ranking) -> dict[str, Any] | None:
    """As `more_images`, for programs: the images `used` (at most), how many are `there` (`None` if that is not known),
    and `where`."""
    found = _images(spec.data) if any(map(images_settle, ranking.devices)) else None
    return None if found is None else asdict(found)


def images_settle(entry: DeviceRanking) -> bool:
    """Whether a constraint is open that more images would settle."""
    return any(check.images_needed for one in (*entry.ranking, *entry.checked) for check in one.constraints)


def images_there(data: DataSpec) -> Iterator[str]:
    """How many of the evaluation images are used, where that is known."""
    found = _images(data)
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
        more = "; add more to it" if isinstance(data.evaluation, FolderData) else ", and there are no others"
        yield f"Evaluation images: all {found.used} in {found.where} are used{more}"


def _images(data: DataSpec) -> EvaluationImages | None:
    try:
        return evaluation_images(data)
    except DataError:  # the folder is no longer there, or on another computer
        return None
