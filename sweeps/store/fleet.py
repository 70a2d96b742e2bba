"""Sums of the verdicts of each sweep, and the names of its devices and models: stored beside the verdicts.

To make Python values of thousands of verdicts takes most of the time of a look at all of them; nobody sees so many.
"""

import json
import sqlite3
from collections.abc import Sequence
from typing import NamedTuple

from sweeps.journal.result_place import Place

TABLES = (
    """CREATE TABLE sums (
        sweep TEXT PRIMARY KEY, places INTEGER, decided INTEGER, finished INTEGER, waiting INTEGER, builds INTEGER,
        build TEXT, devices TEXT, models TEXT
    )""",
    "CREATE INDEX troubled ON verdicts (sweep, device_id, model) WHERE part = 0 AND failed + untrusted > 0",
)
"""The tables are part of the file of verdicts."""
SUM_UP = """INSERT OR REPLACE INTO sums
    SELECT sweep, sum(part = 0), sum(state = 'winner' AND (part = 0 OR NOT EXISTS (
            SELECT 1 FROM verdicts AS other WHERE other.sweep = verdicts.sweep AND other.state = 'winner'
            AND other.device_id = verdicts.device_id AND other.model = verdicts.model AND other.part < verdicts.part
        ))),
        -- Each part has the counts of its whole place.
        sum(iif(part = 0, finished, 0)), sum(iif(part = 0, waiting, 0)),
        count(DISTINCT iif(winner = '', NULL, setup)), max(iif(winner = '', '', job_key)),
        (SELECT json_group_object(device_id, device) FROM (
            SELECT device_id, device FROM verdicts WHERE sweep = ?1 GROUP BY device_id ORDER BY device_id
        )),
        (SELECT json_group_array(model) FROM (SELECT DISTINCT model FROM verdicts WHERE sweep = ?1 ORDER BY model))
    FROM verdicts WHERE sweep = ?1 GROUP BY sweep"""
"""Once more, after a change of one sweep's verdicts."""


class SweepSum(NamedTuple):
    """The sum says how far a sweep is, and who wins."""

    sweep: str
    places: int
    """Devices and models."""
    decided: int
    """The number of those with a winner that nothing is tied with, and no job to come."""
    finished: int
    """Jobs."""
    waiting: int
    builds: int
    """Different builds, as they are run, that win somewhere."""
    build: str
    """The key of a job that wins; empty if nothing does."""
    devices: str
    """JSON of what `names` gives: of one sweep that is looked at."""
    models: str

    @classmethod
    def empty(cls, sweep: str) -> "SweepSum":
        """Return the sum of a sweep without verdicts."""
        return cls(sweep, 0, 0, 0, 0, 0, "", "{}", "[]")

    @property
    def names(self) -> "Names":
        return Names(json.loads(self.devices), tuple(json.loads(self.models)))


class Trouble(NamedTuple):
    """A place where jobs failed or are not trusted."""

    sweep: str
    device_id: str
    model: str
    device: str
    failed: int
    untrusted: int


class Names(NamedTuple):
    """The names of what a sweep has results of, or waits for."""

    devices: dict[str, str]
    """The devices' text for people, by id."""
    models: tuple[str, ...]


def sums(db: sqlite3.Connection) -> dict[str, SweepSum]:
    """Return the sums of all sweeps, by name."""
    rows = db.execute(f"SELECT {', '.join(SweepSum._fields)} FROM sums")  # noqa: S608  # names of ours
    return {sweep_sum.sweep: sweep_sum for sweep_sum in map(SweepSum._make, rows)}


def having(db: sqlite3.Connection, sweep: str, model: str) -> tuple[str, ...]:
    """The devices that have a model, or wait for it, in order."""
    rows = db.execute(
        "SELECT device_id FROM verdicts WHERE sweep = ? AND model = ? AND part = 0 ORDER BY device_id", (sweep, model)
    )
    return tuple(device_id for (device_id,) in rows)


def with_results(db: sqlite3.Connection, sweep: str) -> set[Place]:
    """The places whose verdict has results: some may have none any more, as a pool whose units no longer share."""
    query = "SELECT sweep, device_id, model FROM verdicts WHERE sweep = ? AND finished + ranked + not_ranked > 0"
    return set(map(Place._make, db.execute(query, (sweep,))))


def troubles(db: sqlite3.Connection, sweeps: Sequence[str], most: int) -> tuple[tuple[Trouble, ...], int]:
    """The first ones in the order of these sweeps, and how many there are."""
    where = "FROM verdicts INDEXED BY troubled WHERE sweep = ? AND part = 0 AND failed + untrusted > 0"
    listed: list[Trouble] = []
    count = 0
    for sweep in sweeps:
        count += db.execute(f"SELECT count(*) {where}", (sweep,)).fetchone()[0]
        query = f"SELECT {', '.join(Trouble._fields)} {where} ORDER BY device_id, model LIMIT ?"
        listed += map(Trouble._make, db.execute(query, (sweep, most - len(listed))))
    return tuple(listed), count
