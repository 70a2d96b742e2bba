"""When a session begins, and which runs belong to it."""

from datetime import UTC, datetime, timedelta

import pytest

from sweeps.protocol.sessions import begins_session, has_start, run_of, sessions_of, start_text
from tests.sweeps.conftest import Records

START = 1_790_000_000


@pytest.mark.parametrize(("minutes", "begins"), [(29.9, False), (30, True), (600, True), (-1, False)])
def test_a_session_begins_with_a_start_at_least_30_minutes_after_the_last_block(minutes: float, begins: bool) -> None:
    last = datetime.fromtimestamp(START, UTC) - timedelta(minutes=minutes)
    assert begins_session(START, last.isoformat(timespec="microseconds")) is begins


def test_a_run_belongs_to_the_last_session_that_began_before_it() -> None:
    assert sessions_of((4, 5, 7, 9, 100), (5, 9)) == (0, 5, 5, 9, 9)
    assert sessions_of((4, 5), ()) == (0, 0)


def test_the_run_of_a_visit_is_the_block_s_session() -> None:
    records = Records()
    assert run_of(records.block(records.job(0), 7, session=START).visit) == START


def test_a_number_that_is_no_time_is_no_start() -> None:
    assert [has_start(run) for run in (0, 7, START, 10**15)] == [False, False, True, False]


def test_a_start_is_written_as_the_journal_writes_times() -> None:
    assert start_text(START) == "2026-09-21T14:13:20.000000+00:00"
