"""Requests that cross to another process or computer without their images, which all requests of a model share."""

from collections.abc import Callable
from dataclasses import fields, replace
from typing import Any

from workers.measure.device_files import Evaluation
from workers.measure.device_runner import AnswerT, Request


def parted(
    request: Request[AnswerT], share: Callable[[str, Evaluation], Any]
) -> tuple[Request[AnswerT], dict[str, Any]]:
    """The request without its images, and by field what `share` makes of them, given a key that names them.

    The images cross beside the request: Ray resolves no reference that is inside of something else. All else is one
    value, because Ray packs each value on its own. `dataclasses.replace` puts the images back.
    """
    values = {field.name: getattr(request, field.name) for field in fields(request)}
    shared = {
        name: share(f"{value.evaluation_id}{value.images.shape}", value)
        for name, value in values.items()
        if isinstance(value, Evaluation)
    }
    without: dict[str, Any] = dict.fromkeys(shared)
    return replace(request, **without), shared
