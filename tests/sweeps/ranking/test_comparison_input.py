"""The blocks of a result know their runs and sessions."""

from dataclasses import replace

import pytest

from sweeps.ranking.comparison_input import Origin, Result, differing, origins
from sweeps.ranking.same_conditions import alike
from sweeps.results import read_rows, to_frame

FIRST, SECOND = 1_790_000_000, 1_790_100_000


@pytest.fixture
def row(records):
    visits = ((FIRST * 1000, 10.0), ((FIRST + 60) * 1000 + 1, 10.1), (SECOND * 1000 + 2, 10.2))
    return records.row(records.job(0), block_medians_ms=visits, sessions=(FIRST, SECOND))


def test_a_row_says_for_each_block_its_run_and_its_session(row):
    (read,) = read_rows(to_frame([row]), "s")
    of_row = Result.of_row(read)
    assert of_row.medians_ms == (10.0, 10.1, 10.2)
    assert [origin.session for origin in of_row.origins] == [FIRST, FIRST, SECOND]
    assert [origin.run for origin in of_row.origins] == [str(FIRST), str(FIRST + 60), str(SECOND)]


def test_only_some_runs_are_kept_with_their_blocks(row):
    subset = Result.of_row(row).only({str(SECOND), "another"})
    assert (subset.medians_ms, subset.origins) == ((10.2,), (Origin(run=str(SECOND), session=SECOND),))


def test_numbers_of_the_oldest_journals_are_runs_of_their_sweep_alone():
    (monday,), (tuesday,) = origins([0], (), "monday"), origins([0], (), "tuesday")
    assert monday.run != tuesday.run
    assert (monday.session, tuesday.session) == (0, 0)
    assert origins([FIRST], (), "monday") == origins([FIRST], (), "tuesday")


def test_blocks_of_unknown_origin_are_of_one_session(row):
    of_row = Result.of_row(row)
    assert replace(of_row, origins=()).of_blocks == (Origin(),) * 3


def test_versions_of_a_runtime_are_compared_where_the_sweep_chose_them(records):
    def row(version, release="installed"):
        row = records.row(records.job(0), runtime_version=f"onnxruntime {version}", runner_toolchain=release)
        return replace(row, runtime="onnxruntime")

    now, before, chosen = row("1.32.0"), row("1.31.1"), row("1.31.1", "onnxruntime==1.31.1")
    assert alike([now, chosen]) == [[now, chosen]]
    assert len(alike([now, before])) == 2
    assert differing(Result.of_row(now), Result.of_row(chosen)) == []
    assert differing(Result.of_row(now), Result.of_row(before)) == [
        "runtime version: onnxruntime 1.32.0 and onnxruntime 1.31.1"
    ]
