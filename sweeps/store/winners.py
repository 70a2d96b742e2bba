"""The winners of a ranking as metrics and a tag of the sweep's own run. Pure."""

import json
import math
import re
from collections.abc import Iterator, Mapping
from typing import Any

from sweeps.metrics import METRICS
from sweeps.store.run_content import MAX_TAG_LENGTH, TAG
from sweeps.store.tag_text import cut

RANKING = "ranking.json"
WINNERS = f"{TAG}winners"
"""The tag that names them: JSON, one entry for each device and model, also where nothing won."""
_PREFIX = "winner_"
_KEY_LENGTH, _WORDS_LENGTH = 60, 200
_MOST_METRICS = 900
"""One request may have at most 1,000."""


def winner_metrics(ranking: Mapping[str, Any]) -> dict[str, float]:
    """The figures of each winner: `winner_latency_p50_ms`, or with several devices or models
    `winner_latency_p50_ms/DEVICE/MODEL`. Their own names are those of jobs, which searches find.

    `ranking`: a document of `sweeps.ranking.document`.
    """
    places = list(ranking["devices"])
    figures: dict[str, float] = {}
    for number, place in enumerate(places):
        path = f"/{_key(place['device_id'])}/{_key(place['model'])}" if len(places) > 1 else ""
        for name, value in _figures(place["winner"] or {}):
            # Two long names may be cut to the same one.
            key = f"{_PREFIX}{name}{path}"
            figures[f"{key}-{number}" if key in figures else key] = value
    return dict(list(figures.items())[:_MOST_METRICS])


def withdrawn(metrics: Mapping[str, float], figures: Mapping[str, float]) -> list[str]:
    """The names of winners' figures on a run that are no longer true: MLflow cannot delete a metric."""
    return [
        name for name, value in metrics.items() if name.startswith(_PREFIX) and name not in figures and value == value
    ]


def winner_tag(ranking: Mapping[str, Any]) -> str:
    """JSON of who won where, and why nothing did; as many places as fit."""
    entries = [_entry(place) for place in ranking["devices"]]
    while len(text := json.dumps(entries, ensure_ascii=False)) > MAX_TAG_LENGTH:
        entries = entries[: len(entries) * 9 // 10]
    return text


def _entry(place: Mapping[str, Any]) -> dict[str, str]:
    winner = place["winner"] or {}
    words = {
        "device_id": place["device_id"],
        "model": place["model"],
        "name": winner.get("name"),
        "job_key": winner.get("job_key"),
        "build_key": winner.get("build_key"),
        "no_winner_reason": place["no_winner_reason"],
    }
    return {name: cut(str(value), _WORDS_LENGTH) for name, value in words.items() if value}


def _figures(winner: Mapping[str, Any]) -> Iterator[tuple[str, float]]:
    for name in METRICS:
        value = winner.get(name)
        if value is not None and math.isfinite(value):
            yield name, float(value)


def _key(text: str) -> str:
    """A part of a metric's name that every MLflow accepts: no slash, and not `.` or `..`."""
    return cut_key if (cut_key := re.sub(r"[^A-Za-z0-9_ -]", "_", text)[:_KEY_LENGTH].strip()) else "_"
