"""The advice whether there are more evaluation images, where they would settle a constraint."""

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
    """Say whether there are more images, where they would settle a constraint."""
    if any(map(images_settle, ranking.devices)):
        yield from images_there(spec.data)


def more_images_of(spec: SweepSpec, verdicts: Iterable[PlaceVerdict]) -> Iterator[str]:
    """Say the same as `more_images`, by an overview."""
    if any(NEEDED in verdict.reason for verdict in verdicts):
        yield from images_there(spec.data)


def images_document(spec: SweepSpec, ranking: Ranking) -> dict[str, Any] | None:
    """Return the facts of `more_images` for programs: the images `used` (at most), how many are `there` (`None` if that
    is not known), and `where`."""
    images = _images(spec.data) if any(map(images_settle, ranking.devices)) else None
    return None if images is None else asdict(images)


def images_settle(entry: DeviceRanking) -> bool:
    """Tell whether a constraint is open that more images would settle."""
    return any(check.images_needed for candidate in (*entry.ranking, *entry.checked) for check in candidate.constraints)


def images_there(data: DataSpec) -> Iterator[str]:
    """Say how many of the evaluation images are used, where that is known."""
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
    except DataError:  # The folder is no longer there, or on another computer.
        return None
