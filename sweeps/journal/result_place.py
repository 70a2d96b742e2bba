"""A place of results: one device or pool of units, and one model, of a sweep."""

from typing import NamedTuple, Self

from sweeps.device_facts import pool_id
from sweeps.results import ResultRow


class Place(NamedTuple):
    """One device (or one pool of units that share the work) and one model of a sweep."""

    sweep: str
    place_id: str
    """Id as in `sweeps.results.ResultRow.place`: the unit's device id, or its pool's id."""
    model: str

    @classmethod
    def of(cls, row: ResultRow) -> Self:
        return cls(row.sweep, pool_id(row.fingerprint) if row.link else row.device_id, row.model)
