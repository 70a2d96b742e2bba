"""The job that a page or a report names in words: `fp32 · NHWC · 1 thread`."""

from collections.abc import Iterable

from dashboard.words import build_names
from sweeps.errors import EdgeSweepError
from sweeps.results import ResultRow


def job_named(rows: Iterable[ResultRow], text: str, model: str | None = None) -> str:
    """The name of the job that pages call `text`, or `text` itself if they call none so. `model`: of this one only.

    `rows`: all of the places that are meant, since what tells two builds of a place apart is in both of their names.
    Raises `EdgeSweepError` if several jobs are called so.
    """
    places: dict[tuple[str, str], list[ResultRow]] = {}
    for row in rows:
        if model in (None, row.model):
            places.setdefault(row.place, []).append(row)
    said = " ".join(text.casefold().split())
    found: dict[str, ResultRow] = {}
    for there in places.values():
        names = build_names(there)
        found |= {row.name: row for row in there if names[row.job_key].casefold() == said}
    if len(found) > 1:
        devices = "; ".join(f"{row.model} on {row.device} ({row.device_id})" for row in found.values())
        raise EdgeSweepError(
            f"{len(found)} jobs are called {text!r}: {devices}", "choose with --model and --device too"
        )
    return next(iter(found), text)
