"""A place of a sweep with its ranking, from which views and reports are drawn."""

from dataclasses import dataclass

from sweeps.journal.result_place import Place
from sweeps.ranking.values import Ranking
from sweeps.results import ResultRow
from sweeps.spec.objective import ObjectiveSpec


@dataclass(frozen=True, slots=True)
class Ranked:
    """Device and model of a sweep, with the result rows and their ranking, for the views of Decide and for reports."""

    place: Place
    rows: tuple[ResultRow, ...]
    names: dict[str, str]
    """Names of the builds on pages, by job key."""
    objective: ObjectiveSpec
    ranking: Ranking
