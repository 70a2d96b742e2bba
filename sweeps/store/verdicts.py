"""The verdicts of all places, stored: an overview of thousands is one query, and only places with news are ranked.

They are a file of the workspace that follows from the journal's table of results: whoever reads brings it up to date,
and it may be lost. Where it cannot be written, it is kept in memory.
"""

import sqlite3
from collections import defaultdict
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import NamedTuple, Self, TypeVar

from sweeps.errors import StoreError
from sweeps.journal.journal import Journal
from sweeps.journal.next_step_hints import hints_of
from sweeps.journal.rebuild import read_results
from sweeps.journal.result_place import Place
from sweeps.journal.results_table import Watermark
from sweeps.ranking.build_costs import costs_of
from sweeps.ranking.overview import PlaceVerdict, verdicts_of, waiting_place
from sweeps.ranking.rank import rank_rows
from sweeps.spec.sweep import SweepSpec
from sweeps.sqlite_file import BRIEF_S, connect, switch_to_wal
from sweeps.store import build_costs, fleet
from sweeps.store.result_files import ResultFiles
from sweeps.workspace import Workspace

Found = TypeVar("Found")
Files = Workspace | ResultFiles
Each = Callable[[int, int], object]
_COLUMNS = PlaceVerdict._fields
_make = partial(tuple.__new__, PlaceVerdict)
"""The function does what `PlaceVerdict._make` does, for thousands in half the time."""
_TABLES = (
    f"""CREATE TABLE verdicts (
        sweep TEXT, device_id TEXT, model TEXT, part INTEGER,
        {", ".join(name for name in _COLUMNS if name not in ("sweep", "device_id", "model", "part"))},
        PRIMARY KEY (sweep, device_id, model, part)
    ) WITHOUT ROWID""",
    """CREATE TABLE seen (
        sweep TEXT PRIMARY KEY, epoch INTEGER NOT NULL, seq INTEGER NOT NULL, plan TEXT NOT NULL,
        objective TEXT NOT NULL
    )""",
    *fleet.TABLES,
    *build_costs.TABLES,
)
_VERSION = 7
"""Files of another version are made anew. To be raised with each change of what a ranking decides."""
_DAMAGED = (sqlite3.SQLITE_NOTADB, sqlite3.SQLITE_CORRUPT)


class Known(NamedTuple):
    """The part of a verdict that a choice of places needs."""

    device_id: str
    device: str
    model: str
    fingerprint: str
    waiting: int
    job_key: str


class _OtherVersionError(Exception):
    """The file is not as this version writes it."""


class Verdicts:
    """An open file of verdicts. Use it as a context manager."""

    def __init__(self, db: sqlite3.Connection, each: Each | None = None) -> None:
        """`each` is called with how many places of a sweep are judged, of how many."""
        self.db = db
        """To be read once `bring_up_to_date` was called."""
        self._each = each

    @classmethod
    def open(cls, path: Path, each: Each | None = None) -> Self:
        """`each`: as of the class.

        A damaged file, or one of another version, is made anew. Where it cannot be used otherwise (no right to
        write, another process has locked it), verdicts are in memory."""
        for _ in range(2):
            try:
                return cls(_open(path), each)
            except _OtherVersionError:
                _remove(path)
            except sqlite3.Error as error:
                if not _is_damage(error):
                    break
                _remove(path)
        return cls(_open(None), each)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.db.close()

    def overview(self, journal: Journal, sweep: str | None = None) -> list[PlaceVerdict]:
        """The verdicts of all sweeps (or one) as of now, with the places that wait for their first result.

        Raises `DamagedResultsError` as `Results.watermark` does.
        """
        self.bring_up_to_date(journal, sweep)
        return self.where("true") if sweep is None else self.where("sweep = ?", sweep)

    def where(self, condition: str, *values: str) -> list[PlaceVerdict]:
        """Return the whole verdicts that are stored, by a condition in SQL, in the order of their places."""
        query = f"SELECT {', '.join(_COLUMNS)} FROM verdicts WHERE {condition} ORDER BY 1, 2, 3, 4"  # noqa: S608  # names of ours
        return list(map(_make, self.db.execute(query, values)))

    def known(self, sweep: str) -> list[Known]:
        """Return the sweep's verdicts that are stored, in the order of their places. Of thousands, whole verdicts take
        ten times as long."""
        query = f"SELECT {', '.join(Known._fields)} FROM verdicts WHERE sweep = ? ORDER BY device_id, model, part"  # noqa: S608  # names of ours
        return list(map(Known._make, self.db.execute(query, (sweep,))))

    def bring_up_to_date(self, journal: Journal, sweep: str | None = None) -> None:
        """Raises `DamagedResultsError` as `Results.watermark` does."""
        # Before the watermark, so that no other reader's look is later than it.
        judged_to = {row[0]: row[1:] for row in self.db.execute("SELECT sweep, epoch, seq, plan, objective FROM seen")}
        mark = journal.results.watermark()
        plans = {name: str(plan_id) for name, plan_id in journal.plans.current_ids().items()}
        asked_plans = plans if sweep is None else {sweep: plans[sweep]} if sweep in plans else {}
        late = {
            name: plan
            for name, plan in asked_plans.items()
            if judged_to.get(name, (None,))[:3] != (mark.epoch, mark.seq, plan)
        }
        for name in judged_to.keys() - plans.keys():  # the copied server has it no longer
            for table in ("verdicts", "costs", "sums", "seen"):
                self.db.execute(f"DELETE FROM {table} WHERE sweep = ?", (name,))  # noqa: S608  # names of ours
        if not late:
            return
        # A mark that is later than the journal is of a journal in whose place an older one was put back.
        judged_to = {name: mark_before for name, mark_before in judged_to.items() if mark_before[1] <= mark.seq}
        oldest = min((judged_to[name][1] for name in late if name in judged_to), default=0)
        changed: dict[str, set[Place]] = defaultdict(set)
        for place in journal.results.changed_places(oldest):
            changed[place.sweep].add(place)
        for name, plan in late.items():
            if (
                name in judged_to
                and judged_to[name][0] == mark.epoch
                and judged_to[name][2] == plan
                and not changed[name]
            ):
                self.db.execute("UPDATE seen SET seq = ? WHERE sweep = ?", (mark.seq, name))
                continue
            try:
                spec = journal.plans.spec(name)
            except StoreError:
                if sweep is not None:
                    raise
                continue  # another version has saved it: the others are shown
            self._judge(journal, name, spec, plan, mark, judged_to.get(name), changed[name])

    def _judge(
        self,
        journal: Journal,
        sweep: str,
        spec: SweepSpec,
        plan: str,
        mark: Watermark,
        judged_to: tuple[int, int, str, str] | None,
        changed: set[Place],
    ) -> None:
        """Rank the places of a sweep that have changed, or all of them under a new objective. Under a new plan, other
        jobs wait in all of them."""
        objective = spec.objective.model_dump_json()
        everything = judged_to is None or (judged_to[0], judged_to[3]) != (mark.epoch, objective)
        replanned = everything or judged_to is None or judged_to[2] != plan
        verdicts: list[PlaceVerdict] = []
        costs = {}
        hints = hints_of(spec)
        with_results = journal.results.places(sweep)
        places = (
            set(with_results) if everything else changed | (fleet.with_results(self.db, sweep) - with_results.keys())
        )
        for done, place in enumerate(places):
            if self._each is not None and done % 10 == 0:
                self._each(done, len(places))
            rows = journal.results.rows(sweep, place)
            ranked = rank_rows(rows, spec.objective, sweep, hints=hints)
            verdicts += verdicts_of(sweep, ranked.devices, rows)
            costs[place] = costs_of(rows, spec.objective)
        if replanned and not everything:
            before = self.where("sweep = ?", sweep)
            verdicts += [verdict for verdict in before if verdict.place not in places and not verdict.has_nothing]
        planned = journal.jobs.places(sweep)
        verdicts = [
            verdict.among(planned[verdict.place][1]) if verdict.place in planned else verdict for verdict in verdicts
        ]
        judged = {verdict.place for verdict in verdicts}
        verdicts += [
            waiting_place(*place, device, jobs)
            for place, (device, jobs) in planned.items()
            if place not in judged and (replanned or place in places)
        ]
        self.db.execute("BEGIN IMMEDIATE")
        if replanned:
            self.db.execute("DELETE FROM verdicts WHERE sweep = ?", (sweep,))
        changed_keys = [(place.sweep, place.place_id, place.model) for place in places]
        self.db.executemany("DELETE FROM verdicts WHERE sweep = ? AND device_id = ? AND model = ?", changed_keys)
        put = f"INSERT OR REPLACE INTO verdicts ({', '.join(_COLUMNS)}) VALUES ({', '.join('?' * len(_COLUMNS))})"  # noqa: S608  # names of ours
        self.db.executemany(put, verdicts)
        build_costs.put(self.db, costs, sweep if everything else None)
        self.db.execute("DELETE FROM sums WHERE sweep = ?", (sweep,))
        self.db.execute(fleet.SUM_UP, (sweep,))
        self.db.execute(
            "INSERT OR REPLACE INTO seen VALUES (?, ?, ?, ?, ?)", (sweep, mark.epoch, mark.seq, plan, objective)
        )
        self.db.execute("COMMIT")


def overview(files: Files, sweep: str | None = None, journal: Journal | None = None) -> list[PlaceVerdict]:
    """The verdicts of a journal or a copy; a damaged table of results is made again first. `journal`: that of `files`,
    if it is open. Raises `StoreError`."""
    return _with_verdicts(files, lambda verdicts, results: verdicts.overview(results, sweep), journal=journal)


def _with_verdicts(
    files: Files, read: Callable[[Verdicts, Journal], Found], each: Each | None = None, journal: Journal | None = None
) -> Found:
    """Return what `read` finds in the verdicts, and a journal to bring them up to date with; the others as of
    `overview`."""
    return read_results(journal or files.journal, lambda whole: _read(whole, files.verdicts, read, each))


def read_current(files: Files, read: Callable[[Verdicts], Found], each: Each | None = None) -> Found:
    """Return what `read` finds in the verdicts, once they are up to date. `each`: as of `Verdicts`. Raises as
    `overview`."""

    def current(verdicts: Verdicts, journal: Journal) -> Found:
        verdicts.bring_up_to_date(journal)
        return read(verdicts)

    return _with_verdicts(files, current, each)


def _read(journal: Journal, path: Path, read: Callable[[Verdicts, Journal], Found], each: Each | None) -> Found:
    try:
        with Verdicts.open(path, each) as verdicts:
            return read(verdicts, journal)
    except sqlite3.Error as error:  # a disk that is full, or a file that another process has locked
        if _is_damage(error):
            _remove(path)
        with Verdicts(_open(None), each) as verdicts:
            return read(verdicts, journal)


def _open(path: Path | None) -> sqlite3.Connection:
    """`None`: in memory. Raises `_OtherVersionError`, `sqlite3.Error`."""
    db = connect(path, busy_s=BRIEF_S)
    try:
        if not _is_made(db):
            switch_to_wal(db, BRIEF_S)
            db.execute("BEGIN IMMEDIATE")
            if not _is_made(db):  # by another process, meanwhile
                for statement in (*_TABLES, f"PRAGMA user_version = {_VERSION}"):
                    db.execute(statement)
            db.execute("COMMIT")
    except BaseException:
        db.close()
        raise
    return db


def _is_made(db: sqlite3.Connection) -> bool:
    """Tell whether the file has its tables. Raises as `_open`."""
    version, tables = db.execute(
        "SELECT user_version, (SELECT count(*) FROM sqlite_master) FROM pragma_user_version"
    ).fetchone()
    if version != _VERSION and (version or tables):
        raise _OtherVersionError
    return bool(version)


def _is_damage(error: sqlite3.Error) -> bool:
    return getattr(error, "sqlite_errorcode", 0) & 0xFF in _DAMAGED


def _remove(path: Path) -> None:
    for name in (path, Path(f"{path}-wal"), Path(f"{path}-shm")):
        with suppress(OSError):
            name.unlink()
