"""The only reader and cache of the dashboard: data from the journal's table of results, until that has changed.

What it returns is shared by all sessions: never change it.
"""

import json
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path

import pandas as pd
import streamlit as st
from streamlit.delta_generator import DeltaGenerator

from dashboard import rows as tables
from dashboard.ranked_place import Ranked
from dashboard.source import KEYS, ResultTable, Source
from dashboard.words import build_names, setup_names
from sweeps.errors import StoreError
from sweeps.imported import Imported
from sweeps.journal.journal import Journal
from sweeps.journal.next_step_hints import hints_of
from sweeps.journal.rebuild import whole_results
from sweeps.journal.result_place import Place
from sweeps.journal.results_table import DamagedResultsError, Watermark
from sweeps.journal.sweep_table import SweepRow
from sweeps.ranking.device_classes import ClassRanking
from sweeps.ranking.nnapi_gain import BackendFigure, Best, backend_figure
from sweeps.ranking.overview import PlaceVerdict
from sweeps.ranking.rank import rank_rows
from sweeps.ranking.shared_work import as_of_one_unit
from sweeps.ranking.values import DeviceRanking, Ranking
from sweeps.report.evaluation import images_there
from sweeps.results import ResultRow
from sweeps.spec.model_inputs import DataSpec
from sweeps.spec.objective import ObjectiveSpec
from sweeps.spec.sweep import SweepSpec
from sweeps.store.owner import is_own
from sweeps.store.result_files import ResultFiles, copied_files
from sweeps.store.uri import has_store
from sweeps.store.verdicts import Known, overview, read_current
from sweeps.workspace import Workspace

FOLDER_TTL_S = 300
"""Images in a folder are counted again after so long: a large folder takes seconds."""
MOST_UNITS = 6
"""A page ranks this many units of a class together; more take too long."""
MOST_COMPARED = 24
"""A page compares NNAPI with the CPU on this many devices; of more, only on the device that is looked at."""


@dataclass(frozen=True, slots=True)
class Places:
    """The devices of a sweep with their text for people, and the models and parts of each."""

    devices: dict[str, str]
    models: dict[str, dict[str, list[Known]]]


def copied(root: Path) -> ResultFiles | None:
    """The copy of a server that others write to, with its age; `None` if the workspace's store is its own.

    Raises `StoreError` if there is no copy yet, the server is away, and the workspace has no journal either.
    """
    workspace = Workspace(root)
    if is_own(workspace) and (workspace.journal.exists() or not has_store(workspace.tracking_uri)):
        return None
    with _telling() as each:
        try:
            return copied_files(workspace, wait=False, each=each)
        except StoreError:
            if not workspace.journal.exists():
                raise
            return copied_files(workspace, wait=False)  # with the error


@contextmanager
def _telling() -> Iterator[Callable[[int], None]]:
    """Says how far the first copy of a server is, while it is made; otherwise nothing is drawn."""
    read = 0
    shown: DeltaGenerator | None = None

    def each(results: int) -> None:
        nonlocal read, shown
        read += results
        shown = shown or st.empty()
        shown.info(f"The results of MLflow are copied, once: {read:,} so far.", icon=":material/cloud_sync:")

    try:
        yield each
    finally:
        if shown is not None:
            shown.empty()


def source(root: Path) -> Source | None:
    """The results of a workspace as of now, in about a millisecond; `None` if it has none yet. Raises `StoreError`."""
    workspace = Workspace(root)
    own = own_error = None
    try:
        own = _table(workspace.journal, workspace.verdicts) if workspace.journal.exists() else None
    except StoreError as error:
        own_error = error
    files = copied(root)
    copy = None
    if files is not None and files.journal.exists():
        copy = _table(files.journal, files.verdicts)
    if own_error is not None and copy is None:
        raise own_error
    return None if own is None and copy is None else Source(own, copy, None if own_error is None else str(own_error))


def _table(path: Path, verdicts: Path) -> ResultTable:
    mark = _whole(path)
    with Journal.open(path, read_only=True) as journal:
        plans = tuple(sorted(journal.plans.current_ids().items()))
        return ResultTable(path, verdicts, mark.epoch, mark.seq, plans, journal.imports.count())


ONE = threading.Lock()
"""A session that makes a table of results again, or all verdicts, holds this lock; other sessions wait, and look
again."""


def _whole(path: Path) -> Watermark:
    """The current table of results (see `whole_results`), which may take minutes once, if the table is
    damaged."""
    with suppress(DamagedResultsError), Journal.open(path, read_only=True) as journal:
        return journal.results.watermark()
    text = "The results of this workspace are read anew, once. It takes about a second for 200 jobs."
    bar = st.progress(0.0, text)
    with ONE:
        results = whole_results(path, lambda done, of: bar.progress(done / of, f"{text} {done} of {of} jobs"))
    bar.empty()
    return results


@st.cache_resource(max_entries=8, show_spinner=False, hash_funcs=KEYS)
def sweeps(now: Source) -> tuple[SweepRow, ...]:
    """All sweeps, the last updated first."""
    rows: list[SweepRow] = []
    for table, names in now.shares:
        with Journal.open(table.path, read_only=True) as journal:
            rows += [row for row in journal.sweeps.all() if row.name in names]
    return tuple(sorted(rows, key=lambda row: row.updated, reverse=True))


@st.cache_resource(max_entries=3, show_spinner=False, hash_funcs=KEYS)
def verdicts(now: Source, root: Path) -> tuple[PlaceVerdict, ...]:
    """The verdicts of all places of all sweeps. Shared by all sessions: never change it."""
    return tuple(verdict for table, names in now.shares for verdict in overview(table.files) if verdict.sweep in names)


@st.cache_resource(max_entries=64, show_spinner=False, hash_funcs=KEYS)
def verdicts_on(now: Source, place_ids: tuple[str, ...]) -> tuple[PlaceVerdict, ...]:
    """The verdicts (see `verdicts`) of some units and pools."""
    condition = "device_id IN (SELECT value FROM json_each(?))"
    places: list[PlaceVerdict] = []
    for table, names in now.shares:
        stored = read_current(table.files, lambda verdicts: verdicts.where(condition, json.dumps(place_ids)))
        places += [verdict for verdict in stored if verdict.sweep in names]
    return tuple(places)


@st.cache_resource(max_entries=64, show_spinner=False, hash_funcs=KEYS)
def places(now: Source, root: Path, sweep: str) -> Places:
    """The places of which a sweep has results, or for which it waits."""
    devices: dict[str, str] = {}
    models: dict[str, dict[str, list[Known]]] = {}
    for verdict in read_current(now.of(sweep).files, lambda verdicts: verdicts.known(sweep)):
        devices[verdict.device_id] = verdict.device
        models.setdefault(verdict.device_id, {}).setdefault(verdict.model, []).append(verdict)
    return Places(devices, models)


@st.cache_resource(max_entries=256, show_spinner=False, hash_funcs=KEYS)
def place_rows(now: Source, place: Place) -> tuple[ResultRow, ...]:
    """All rows of one device and model of a sweep. Shared by all sessions: never change them."""
    with Journal.open(now.of(place.sweep).path, read_only=True) as journal:
        return tuple(journal.results.rows(place.sweep, place))


@st.cache_resource(max_entries=64, show_spinner=False, hash_funcs=KEYS)
def some_rows(now: Source, sweep: str, job_keys: tuple[str, ...]) -> dict[str, ResultRow]:
    """Single rows of a sweep, by job key; those that it does not have are left out."""
    with Journal.open(now.of(sweep).path, read_only=True) as journal:
        return journal.results.some(sweep, job_keys)


@st.cache_resource(max_entries=64, show_spinner=False, hash_funcs=KEYS)
def spec(now: Source, sweep: str) -> SweepSpec:
    """The sweep file of a sweep."""
    with Journal.open(now.of(sweep).path, read_only=True) as journal:
        return journal.plans.spec(sweep)


def more_images(now: Source, sweep: str) -> tuple[str, ...]:
    """The command's sentences about evaluation images that the sweep does not use; empty if it uses all."""
    return _more_images(spec(now, sweep).data)


@st.cache_data(ttl=FOLDER_TTL_S, max_entries=64, show_spinner=False, hash_funcs={DataSpec: repr})
def _more_images(data: DataSpec) -> tuple[str, ...]:
    """Kept by the data alone: a new result changes no folder."""
    return tuple(images_there(data))


@st.cache_resource(max_entries=64, show_spinner=False, hash_funcs=KEYS)
def imported(now: Source, sweep: str) -> tuple[Imported, ...]:
    """The figures of hand-run tools of a sweep."""
    with Journal.open(now.of(sweep).path, read_only=True) as journal:
        return tuple(journal.imports.of_sweep(sweep))


@st.cache_resource(max_entries=256, show_spinner=False, hash_funcs=KEYS)
def place_ranking(now: Source, place: Place, objective: str | None = None) -> Ranking:
    """The ranking of one device and model. `objective`: JSON of an `ObjectiveSpec` in place of the sweep file's."""
    chosen = spec(now, place.sweep).objective if objective is None else ObjectiveSpec.model_validate_json(objective)
    with_results: set[tuple[str, str]] = set()
    if by_hand := imported(now, place.sweep):
        with Journal.open(now.of(place.sweep).path, read_only=True) as journal:
            with_results = {
                (entry.place_id, entry.model) for entry in journal.results.places(place.sweep) if entry != place
            }
    beside = [entry for entry in by_hand if entry.place not in with_results]
    hints = hints_of(spec(now, place.sweep))
    return rank_rows(list(place_rows(now, place)), chosen, place.sweep, imported=beside, hints=hints)


@st.cache_resource(max_entries=256, show_spinner=False, hash_funcs=KEYS)
def place_names(now: Source, place: Place) -> dict[str, str]:
    """The names of a place's builds on pages, by job key."""
    return build_names(place_rows(now, place))


@st.cache_resource(max_entries=256, show_spinner=False, hash_funcs=KEYS)
def ranked(now: Source, place: Place, objective: str | None = None) -> Ranked:
    """The ranking of a place (see `place_ranking`), with the rows and names that it is made from."""
    chosen = spec(now, place.sweep).objective if objective is None else ObjectiveSpec.model_validate_json(objective)
    return Ranked(place, place_rows(now, place), place_names(now, place), chosen, place_ranking(now, place, objective))


@st.cache_resource(max_entries=256, show_spinner=False, hash_funcs=KEYS)
def ranking_tables(
    now: Source, place: Place, objective: str | None, part: int
) -> tuple[DeviceRanking, pd.DataFrame, pd.DataFrame]:
    """One set of conditions: its ranking, `dashboard.rows.ranked` and `dashboard.rows.checked` of it."""
    result = ranked(now, place, objective)
    device = result.ranking.devices[part]
    return device, tables.ranked(device, result.names), tables.checked(device, result.names)


@st.cache_resource(max_entries=16, show_spinner=False, hash_funcs=KEYS)
def chosen_results(
    now: Source, sweep: str, filters: tuple[tuple[str, str], ...], most: int
) -> tuple[int, tuple[ResultRow, ...]]:
    """The number of results of a sweep that have these values in these columns, and the fastest of them."""
    values = {name: [value] for name, value in filters}
    with Journal.open(now.of(sweep).path, read_only=True) as journal:
        count = sum(journal.results.matching_places(values, sweep).values())
        return count, tuple(journal.results.matching(values, sweep, most=most))


@st.cache_resource(max_entries=64, show_spinner=False, hash_funcs=KEYS)
def waiting(now: Source, place: Place) -> tuple[str, ...]:
    """The names of the builds that wait for a result on a place; none where that is not known."""
    if not now.knows_jobs(place.sweep):
        return ()
    ended = place_rows(now, place)
    with Journal.open(now.measured.path, read_only=True) as journal:
        waiting_jobs = journal.jobs.waiting_rows(place)
    names = build_names((*ended, *waiting_jobs))
    return tuple(names[row.job_key] for row in waiting_jobs)


@st.cache_resource(max_entries=64, show_spinner=False, hash_funcs=KEYS)
def device_class(
    now: Source, sweep: str, units: tuple[Place, ...]
) -> tuple[tuple[ClassRanking, ...], dict[tuple[str, ...], str]]:
    """The rankings of several units of one class, as one; and what their builds are called."""
    rows = [row for unit in units for row in place_rows(now, unit)]
    ordered = sorted(rows, key=lambda row: (row.name, row.job_key))
    return rank_rows(ordered, spec(now, sweep).objective, sweep).classes, setup_names(rows)


@st.cache_resource(max_entries=64, show_spinner=False, hash_funcs=KEYS)
def backends(now: Source, places: tuple[Place, ...], objective: str | None) -> BackendFigure | None:
    """NNAPI against the CPU on several devices of a sweep; the builds have the names that pages have for them."""
    chosen = spec(now, places[0].sweep).objective if objective is None else ObjectiveSpec.model_validate_json(objective)
    rows = [row for place in places for row in place_rows(now, place)]
    figure = backend_figure(as_of_one_unit(sorted(rows, key=lambda row: (row.name, row.job_key))), chosen)
    if figure is None:
        return None
    setups = setup_names(rows)
    names = {row.name: setups[row.setup] for row in rows}

    def named(best: Best | None) -> Best | None:
        return best and replace(best, variant=names.get(best.name, best.variant))

    return replace(
        figure, pairs=tuple(replace(pair, cpu=named(pair.cpu), nnapi=named(pair.nnapi)) for pair in figure.pairs)
    )
