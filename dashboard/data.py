"""The only cache of the dashboard: data from the store, until the store has changed."""

from dataclasses import dataclass
from pathlib import Path

import streamlit as st

from sweeps.errors import StoreError
from sweeps.journal.journal import Journal
from sweeps.ranking.rank import rank
from sweeps.ranking.values import Ranking
from sweeps.results import SweepInfo, SweepResults
from sweeps.store import reading as store
from sweeps.store.lag import Lag, read_lag
from sweeps.store.uri import dialect, sqlite_path
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
