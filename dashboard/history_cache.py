"""Cached reads of one job, of a pair of jobs, and of one device, from the journal.

As in `dashboard.data`, a `Source` is the key: equal as long as nothing has changed. Where results are a copy of a
tracking server, they are read from the workspace's own journal, as far as it has them.
"""

from typing import NamedTuple

import streamlit as st

from dashboard.compare_rows import only
from dashboard.data import place_rows
from dashboard.source import EVIDENCE_KEYS, Source
from sweeps.journal.job_history import JobEvidence, KnownDevice, Sentinel, known_devices, read_job, read_sentinels
from sweeps.journal.journal import Journal
from sweeps.journal.result_place import Place
from sweeps.journal.sentinel_series import sentinel_series
from sweeps.ranking.comparison import Comparison, compare
from sweeps.ranking.comparison_input import Result
from sweeps.results import ResultRow


class Side(NamedTuple):
    """A result that is compared with another one."""

    place: Place
    job_key: str
    session: int = 0
    """The start of the only session that counts; 0: all of them."""


MARGIN_PERCENT = 5.0
"""The margin of `edgesweep compare`."""


@st.cache_resource(max_entries=64, show_spinner=False, hash_funcs=EVIDENCE_KEYS)
def job(now: Source, sweep: str, job_key: str) -> JobEvidence | None:
    """The evidence of a job; `None` if the sweep never had the job. Shared by all sessions: never change it."""
    with Journal.open(now.measured.path, read_only=True) as journal:
        return read_job(journal, sweep, job_key)


@st.cache_resource(max_entries=8, show_spinner=False, hash_funcs=EVIDENCE_KEYS)
def devices(now: Source) -> tuple[KnownDevice, ...]:
    """The devices of the current plans of all sweeps."""
    with Journal.open(now.measured.path, read_only=True) as journal:
        return tuple(known_devices(journal))


@st.cache_resource(max_entries=64, show_spinner=False, hash_funcs=EVIDENCE_KEYS)
def sentinels(now: Source, device_id: str) -> tuple[Sentinel, ...]:
    """The looks of all sentinels of a device of the current plans."""
    [known] = [known for known in devices(now) if known.facts.device_id == device_id]
    with Journal.open(now.measured.path, read_only=True) as journal:
        return read_sentinels(journal, known)


@st.cache_resource(max_entries=64, show_spinner=False)
def comparison(now: Source, a: Side, b: Side) -> Comparison:
    """The comparison that `edgesweep compare` makes of two timed results."""
    rows = [row(now, side) for side in (a, b)]
    left, right = (Result.of_row(row) for row in rows if row is not None)
    series = sentinel_series(now.measured.path, sorted({left.device_id, right.device_id}))
    names = [f"{row.sweep}:{row.name}" for row in rows if row is not None]
    return compare((names[0], [left]), (names[1], [right]), MARGIN_PERCENT, named=True, sentinels=series)


def row(now: Source, side: Side) -> ResultRow | None:
    """The result of one job of a place, of one session or of all."""
    match = next((stored for stored in place_rows(now, side.place) if stored.job_key == side.job_key), None)
    return match if match is None or not side.session else only(match, side.session)
