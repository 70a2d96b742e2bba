"""Takes the images out of requests that are sent to another process or computer: all requests of a model share them."""

from collections.abc import Callable
from dataclasses import fields, replace
from typing import Any

from workers.measure.device_files import Evaluation
from workers.measure.device_runner import AnswerT, Request


def parted(
    request: Request[AnswerT], share: Callable[[str, Evaluation], Any]
) -> tuple[Request[AnswerT], dict[str, Any]]:
    """Return the request without its images, and for each of its image fields the value that `share` returns for the
    images and a key that identifies them.

    The images are sent beside the request, because Ray resolves no reference inside another object. The rest of the
    request is one value, because Ray packs each value separately. `dataclasses.replace` puts the images back.
    """
    values = {field.name: getattr(request, field.name) for field in fields(request)}
    shared = {
        name: share(f"{value.evaluation_id}{value.images.shape}", value)
        for name, value in values.items()
        if isinstance(value, Evaluation)
    }
    without: dict[str, Any] = dict.fromkeys(shared)
    return replace(request, **without), shared
