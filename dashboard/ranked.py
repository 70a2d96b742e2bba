"""One place of a sweep with its ranking: what views and reports are drawn from."""

from dataclasses import dataclass

from sweeps.journal.result_place import Place
from sweeps.ranking.values import Ranking
from sweeps.results import ResultRow
from sweeps.spec.objective import ObjectiveSpec


@dataclass(frozen=True, slots=True)
class Ranked:
    """One device and model of a sweep, and its ranking, for the views of Decide and for reports."""

    place: Place
    rows: tuple[ResultRow, ...]
    names: dict[str, str]
    """What the builds are called on pages, by job key."""
    objective: ObjectiveSpec
    ranking: Ranking
