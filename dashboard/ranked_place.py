"""Views and reports are drawn from a place of a sweep with its ranking."""

from dataclasses import dataclass

from sweeps.journal.result_place import Place
from sweeps.ranking.values import Ranking
from sweeps.results import ResultRow
from sweeps.spec.objective import ObjectiveSpec


@dataclass(frozen=True, slots=True)
class Ranked:
    """A device and model of a sweep, and the ranking of its results, for the views of Decide and for reports."""

    place: Place
    rows: tuple[ResultRow, ...]
    names: dict[str, str]
    """The names of the builds on pages, by job key."""
    objective: ObjectiveSpec
    ranking: Ranking
