"""The search for a build by the name that pages and reports show, such as `fp32 · NHWC · 1 thread`."""

import shlex
from collections.abc import Iterable, Sequence

from dashboard.words import build_names
from sweeps.errors import EdgeSweepError, did_you_mean
from sweeps.results import ResultRow
from sweeps.spec.label import names_of_job


def job_named(rows: Iterable[ResultRow], text: str, model: str | None = None) -> str:
    """Return the name of the job whose build has the name `text` on pages, or `text` itself if no build has it.
    `model`: if given, only jobs of this model count.

    `rows`: all result rows of the places that are searched, because a build's name depends on the other builds of its
    place. Raises `EdgeSweepError` if several jobs match.
    """
    by_name = {row.name: row for row in _called((row for row in rows if model in (None, row.model)), text)}
    if len(by_name) > 1:
        devices = "; ".join(f"{row.model} on {row.device} ({row.device_id})" for row in by_name.values())
        raise EdgeSweepError(
            f"{len(by_name)} jobs are called {text!r}: {devices}", "choose with --model and --device too"
        )
    return next(iter(by_name), text)


def build_named(rows: Sequence[ResultRow], text: str, device: str) -> ResultRow:
    """Return the measured row of the build whose name on a page or in the ranking is `text`: its row on `device` (a
    device's display name or id) if it was measured there, otherwise its row on any device.

    `rows`: all result rows of one sweep. Raises `EdgeSweepError` if several builds match, or none.
    """
    built = [row for row in rows if row.outcome == "measured"]
    on_page = {row.job_key for row in _called(rows, text)}
    matches = [
        row
        for row in built
        if row.job_key in on_page or text in {row.variant, *names_of_job(row.name, row.name_here, row.model)}
    ]
    if not matches:
        known = [name for row in built for name in (row.name.removeprefix(f"{row.model} · "), row.name)]
        sweep = f" {shlex.quote(rows[0].sweep)}" if rows else ""
        raise EdgeSweepError(
            f"no measured job is called {text!r}{did_you_mean(text, known)}",
            f"find the names with: edgesweep rank{sweep} --all",
        )
    matches = [row for row in matches if device in (row.device, row.device_id)] or matches
    # One build that was run in several ways or on several devices is one build.
    if len({row.build_key for row in matches}) > 1:
        names = "; ".join(dict.fromkeys(row.name for row in matches))
        raise EdgeSweepError(
            f"{len(matches)} jobs are called {text!r}", f"give one whole, or choose a --device: {names}"
        )
    return matches[0]


def _called(rows: Iterable[ResultRow], text: str) -> list[ResultRow]:
    """Return the result rows of the builds whose name on the pages is `text`; letter case and spaces do not matter."""
    places: dict[tuple[str, str], list[ResultRow]] = {}
    for row in rows:
        places.setdefault(row.place, []).append(row)
    folded = " ".join(text.casefold().split())
    matches = []
    for place_rows in places.values():
        names = build_names(place_rows)
        matches += [row for row in place_rows if names[row.job_key].casefold() == folded]
    return matches
