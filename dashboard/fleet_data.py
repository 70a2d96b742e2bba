"""Fleet reads sums and names of all places, and whole verdicts of the places that it draws, until they change.

As in `dashboard.data`, all results are cached for all sessions: never change them.
"""

import json
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import streamlit as st

from dashboard import running
from dashboard.data import ONE, some_rows, spec, sweeps
from dashboard.markdown_escape import line
from dashboard.source import KEYS, ResultTable, Source
from dashboard.words import build_names, device_names, setup_names
from sweeps.errors import StoreError
from sweeps.journal.journal import Journal
from sweeps.ranking.build_costs import Cells, Setup
from sweeps.ranking.overview import PlaceVerdict
from sweeps.ranking.shipping_costs import Shipping, shipping
from sweeps.store import build_costs, fleet
from sweeps.store.fleet import Names, SweepSum, Trouble
from sweeps.store.lag import Lag, read_lag
from sweeps.store.verdicts import Verdicts, read_current
from sweeps.workspace import Workspace

TROUBLED = 3
"""Number of the latest sweeps that are searched for troubles."""
MOST_TROUBLES = 6
LAG_TTL_S = 5


@dataclass(frozen=True, slots=True)
class Standing:
    """Summary of all sweeps."""

    sums: dict[str, SweepSum]
    troubles: tuple[Trouble, ...]
    """First troubles of the latest sweeps, at most `MOST_TROUBLES`."""
    troubled: int
    """Number of all their troubles."""


@st.cache_resource(max_entries=4, show_spinner=False, hash_funcs=KEYS)
def standing(now: Source) -> Standing:
    """Judges the places that have changed, first."""
    latest = [sweep.name for sweep in sweeps(now)[:TROUBLED]]
    sums: dict[str, SweepSum] = {}
    troubles: list[Trouble] = []
    count = 0
    for table, names in now.shares:
        shown = [name for name in latest if name in names]
        stored_sums = read_current(table.files, lambda verdicts: fleet.sums(verdicts.db))
        stored_troubles, more = read_current(table.files, partial(_troubles, shown))
        sums |= {name: sweep_sum for name, sweep_sum in stored_sums.items() if name in names}
        troubles += stored_troubles
        count += more
    troubles.sort(key=lambda trouble: latest.index(trouble.sweep))
    return Standing(sums, tuple(troubles[:MOST_TROUBLES]), count)


def _troubles(sweeps: list[str], verdicts: Verdicts) -> tuple[tuple[Trouble, ...], int]:
    return fleet.troubles(verdicts.db, sweeps, MOST_TROUBLES)


@st.cache_resource(max_entries=64, show_spinner=False, hash_funcs=KEYS)
def names(now: Source, sweep: str) -> Names:
    """Return the devices and models of a sweep."""
    return (standing(now).sums.get(sweep) or SweepSum.empty(sweep)).names


@st.cache_resource(max_entries=64, show_spinner=False, hash_funcs=KEYS)
def having(now: Source, sweep: str, model: str) -> tuple[str, ...]:
    """The devices of a model."""
    return read_current(now.of(sweep).files, lambda verdicts: fleet.having(verdicts.db, sweep, model))


@st.cache_resource(max_entries=64, show_spinner=False, hash_funcs=KEYS)
def drawn(
    now: Source, sweep: str, devices: tuple[str, ...], models: tuple[str, ...]
) -> dict[tuple[str, str], PlaceVerdict]:
    """Return the verdicts of these devices and models, by device id and model."""
    condition = (
        "sweep = ? AND device_id IN (SELECT value FROM json_each(?)) AND model IN (SELECT value FROM json_each(?))"
        " AND part = 0"
    )
    places = read_current(
        now.of(sweep).files,
        lambda verdicts: verdicts.where(condition, sweep, json.dumps(devices), json.dumps(models)),
    )
    return {(verdict.device_id, verdict.model): verdict for verdict in places}


@st.cache_resource(max_entries=64, show_spinner=False, hash_funcs=KEYS)
def winner_names(now: Source, sweep: str, job_keys: tuple[str, ...]) -> dict[str, str]:
    """Return the names of winning builds, by job key."""
    rows = some_rows(now, sweep, job_keys)
    names = setup_names(rows.values())
    return {key: names[row.setup] for key, row in rows.items()}


@st.cache_resource(max_entries=4, show_spinner=False, hash_funcs=KEYS)
def build_names_of(now: Source, jobs: tuple[tuple[str, str], ...]) -> dict[str, str]:
    """The names of builds that win everywhere, by sweep. `jobs`: sweeps, each with the key of one of its jobs."""
    rows = {sweep: row for sweep, key in jobs for row in some_rows(now, sweep, (key,)).values()}
    return {sweep: build_names([row])[row.job_key] for sweep, row in rows.items()}


@dataclass(frozen=True, slots=True)
class Costs:
    """Costs of the builds of a model on some devices, with the names of the builds."""

    cells: Cells
    names: dict[Setup, str]
    shipping: Shipping | None


@st.cache_resource(max_entries=64, show_spinner="Comparing the builds on every phone", hash_funcs=KEYS)
def costs(now: Source, sweep: str, model: str, devices: tuple[str, ...]) -> Costs:
    """The costs by the sweep's own objective. Raises `StoreError` if this version cannot read the sweep's file."""
    spec(now, sweep)
    cells = read_current(now.of(sweep).files, lambda verdicts: build_costs.cells(verdicts.db, sweep, model, devices))
    jobs = {setup: cell.job_key for by_setup in cells.values() for setup, cell in by_setup.items()}
    called = build_names(some_rows(now, sweep, tuple(sorted(jobs.values()))).values())
    # A row may have changed since the costs were read: then the build's stored axes stand for its name, until the next
    # update.
    names = {setup: called.get(key) or line(" · ".join(filter(None, setup))) for setup, key in jobs.items()}
    return Costs(cells, names, shipping(cells))


@st.cache_resource(max_entries=16, show_spinner=False)
def called(path: Path, plans: tuple[tuple[str, int], ...], sweeps: tuple[str, ...]) -> dict[str, str]:
    """Return the display names of some sweeps' devices, by their names in sweep files. `plans`: as in `Source`, a part
    of the cache's key."""
    with Journal.open(path, read_only=True) as journal:
        classes = {facts.name: facts.device_class for sweep in sweeps for facts in journal.plans.devices(sweep)}
    return device_names(classes)


@st.cache_resource(max_entries=16, show_spinner=False)
def under_way(path: Path, sweep: str, job_keys: tuple[str, ...]) -> dict[str, tuple[str, str]]:
    """Return the display names of jobs, as `dashboard.running.in_words` does. Jobs that the sweep lacks are left out.
    Raises `StoreError`, which is not cached."""
    with Journal.open(path, read_only=True) as journal:
        rows = {key: row for key in job_keys if (row := journal.jobs.waiting_row(sweep, key)) is not None}
        return running.in_words(rows, setup_names(rows.values()))


@st.cache_data(ttl=LAG_TTL_S, show_spinner=False, hash_funcs=KEYS)
def lag(root: str, sweep: str) -> Lag | None:
    """Return the lag of MLflow: the finished jobs that it lacks, as of at most 5 s ago; `None` if it is not known."""
    workspace = Workspace(Path(root))
    try:
        with Journal.open(workspace.journal, read_only=True) as journal:
            return read_lag(workspace, journal, sweep)
    except StoreError:  # the store may have sweeps of other workspaces; `edgesweep status` says what a journal lacks
        return None


def judge_first(now: Source) -> None:
    """Judge all places of a workspace whose verdicts are not stored yet: thousands take half a minute. Draws how far it
    is; a function whose result is cached would draw it again each time."""
    for table, _ in now.shares:
        if table.verdicts.exists() or _JUDGED.get(table.path) == table:
            continue
        with ONE:
            bar = st.progress(0.0, "What wins where is worked out, once.")
            read_current(
                table.files,
                lambda _: None,
                lambda done, of: bar.progress(done / of, f"{_JUDGING} {done:,} of {of:,}."),  # noqa: B023
            )
            bar.empty()
        _JUDGED[table.path] = table


_JUDGED: dict[Path, ResultTable] = {}
"""The last ones that were judged: their verdicts may be on no disk."""
_JUDGING = "What wins where is worked out, once: phones and models:"
