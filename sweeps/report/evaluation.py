"""The advice whether there are more evaluation images, if more would settle a constraint."""

from collections.abc import Iterable, Iterator
from dataclasses import asdict
from typing import Any

from sweeps.errors import DataError
from sweeps.ranking.accuracy_bound import NEEDED
from sweeps.ranking.overview import PlaceVerdict
from sweeps.ranking.values import DeviceRanking, Ranking
from sweeps.spec.image_folders import EvaluationImages, evaluation_images
from sweeps.spec.model_inputs import DataSpec, FolderData
from sweeps.spec.sweep import SweepSpec


def more_images(spec: SweepSpec, ranking: Ranking) -> Iterator[str]:
    """Yield a line about how many evaluation images are used and available, if more would settle a constraint."""
    if any(map(images_settle, ranking.devices)):
        yield from images_there(spec.data)


def more_images_of(spec: SweepSpec, verdicts: Iterable[PlaceVerdict]) -> Iterator[str]:
    """Yield the same line as `more_images`, from the verdicts of an overview."""
    if any(NEEDED in verdict.reason for verdict in verdicts):
        yield from images_there(spec.data)


def images_document(spec: SweepSpec, ranking: Ranking) -> dict[str, Any] | None:
    """Return the facts of `more_images` for programs: the number of images `used` (at most), the number `there` (`None`
    if not known), and `where` the images are."""
    images = _images(spec.data) if any(map(images_settle, ranking.devices)) else None
    return None if images is None else asdict(images)


def images_settle(entry: DeviceRanking) -> bool:
    """Tell whether a constraint is unresolved that more images would settle."""
    return any(check.images_needed for candidate in (*entry.ranking, *entry.checked) for check in candidate.constraints)


def images_there(data: DataSpec) -> Iterator[str]:
    """Yield a line about how many of the evaluation images are used, if that is known."""
    images = _images(data)
    if images is None:
        return
    if images.there is None:
        yield f"Evaluation images: {images.used} of {images.where} are used; data: evaluation: images: may be more"
    elif images.used < images.there:
        yield (
            f"Evaluation images: {images.used} of {images.there} in {images.where} are used; "
            f"data: evaluation: images: {images.there} uses the others too"
        )
    else:
        more = "; add more to it" if isinstance(data.evaluation, FolderData) else ", and there are no others"
        yield f"Evaluation images: all {images.used} in {images.where} are used{more}"


def _images(data: DataSpec) -> EvaluationImages | None:
    try:
        return evaluation_images(data)
    except DataError:  # The folder no longer exists, or is on another computer.
        return None
