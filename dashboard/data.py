"""The only cache of the dashboard: data from the store, until the store has changed."""

from dataclasses import dataclass
from pathlib import Path

import streamlit as st

from sweeps.errors import StoreError
from sweeps.journal.journal import Journal
from sweeps.journal.rebuild import whole_results
from sweeps.journal.results_table import Place
from sweeps.ranking.overview import PlaceVerdict
from sweeps.ranking.rank import rank, rank_rows
from sweeps.ranking.values import Ranking
from sweeps.results import ResultRow, SweepInfo, SweepResults
from sweeps.spec.objective import ObjectiveSpec
from sweeps.spec.sweep import SweepSpec
from sweeps.store import reading as store
from sweeps.store.lag import Lag, read_lag
from sweeps.store.uri import dialect, sqlite_path
from sweeps.store.verdicts import overview
from sweeps.workspace import Workspace

LIST_TTL_S = 5
RESULTS_TTL_S = 3600


@dataclass(frozen=True, slots=True)
class Ranked:
    """One sweep from the store, and its ranking."""

    results: SweepResults
    ranking: Ranking


@st.cache_data(ttl=LIST_TTL_S, show_spinner=False)
def sweeps(tracking_uri: str) -> list[SweepInfo]:
    """Every sweep in the store, at most 5 s old; empty if there is no store yet. Raises `StoreError`."""
    if dialect(tracking_uri) == "sqlite" and not sqlite_path(tracking_uri).exists():
        return []
    return store.list_sweeps(tracking_uri)


@st.cache_data(ttl=RESULTS_TTL_S, max_entries=8, show_spinner="Reading the sweep")
def ranked(tracking_uri: str, sweep: str, updated: object) -> Ranked:
    """The sweep and its ranking. A new `updated` (`SweepInfo.updated`) reads them again. Raises `StoreError`."""
    results = store.load(tracking_uri, sweep)
    imported = store.load_imported(tracking_uri, sweep)
    return Ranked(results, rank(results.frame, results.spec.objective, results.name, imported=imported))


@st.cache_data(ttl=LIST_TTL_S, show_spinner=False)
def lag(root: str, sweep: str) -> Lag | None:
    """The finished jobs of a workspace that the store lacks, as of at most 5 s ago; `None` if that is not known."""
    workspace = Workspace(Path(root))
    if not workspace.journal.exists():
        return None
    try:
        with Journal.open(workspace.journal, read_only=True) as journal:
            return read_lag(workspace, journal, sweep)
    except StoreError:  # the store may have sweeps of other workspaces; `edgesweep status` says what a journal lacks
        return None


def forget() -> None:
    """Clear the cache: the next run of the page reads everything again."""
    sweeps.clear()
    lag.clear()
    ranked.clear()


@dataclass(frozen=True, slots=True)
class Source:
    """A journal's table of results, as it is now: a key for caches, equal as long as nothing has changed."""

    path: Path
    epoch: int
    seq: int
    plans: tuple[tuple[str, int], ...]
    """The current plan of each sweep."""


def source(root: Path) -> Source | None:
    """The results of a workspace as of now, in about a millisecond; `None` if it has none yet. Raises `StoreError`."""
    path = Workspace(root).journal
    if not path.exists():
        return None
    mark = whole_results(path)
    with Journal.open(path, read_only=True) as journal:
        plans = tuple(sorted(journal.plan_ids().items()))
    return Source(path, mark.epoch, mark.seq, plans)


@st.cache_resource(max_entries=64, show_spinner=False)
def verdicts(now: Source, root: Path) -> tuple[PlaceVerdict, ...]:
    """The verdicts of all places of all sweeps. Shared by all sessions: never change it."""
    return tuple(overview(Workspace(root)))


@st.cache_resource(max_entries=256, show_spinner=False)
def place_rows(now: Source, place: Place) -> tuple[ResultRow, ...]:
    """All rows of one device and model of a sweep. Shared by all sessions: never change them."""
    with Journal.open(now.path, read_only=True) as journal:
        return tuple(journal.result_rows(place.sweep, place))


@st.cache_resource(max_entries=64, show_spinner=False)
def spec(now: Source, sweep: str) -> SweepSpec:
    """The sweep file of a sweep."""
    with Journal.open(now.path, read_only=True) as journal:
        return journal.spec(sweep)


@st.cache_resource(max_entries=256, show_spinner=False)
def place_ranking(now: Source, place: Place, objective: str | None = None) -> Ranking:
    """The ranking of one device and model. `objective`: JSON of an `ObjectiveSpec` in place of the sweep file's."""
    chosen = spec(now, place.sweep).objective if objective is None else ObjectiveSpec.model_validate_json(objective)
    return rank_rows(list(place_rows(now, place)), chosen, place.sweep)
