"""Files to download: they hold every figure, and a spreadsheet runs nothing of them."""

import csv
import io
import subprocess
import sys

import pyarrow as pa
import pytest
from pyarrow import parquet

from sweeps.metrics import METRICS
from sweeps.ranking.overview import waiting_place
from sweeps.records import Job
from sweeps.report.table_files import Table, csv_text, overview_table, parquet_bytes, results_table
from sweeps.results import ResultRow
from sweeps.settled import Settled
from tests.sweeps.conftest import Records


def read_csv(text: str) -> list[dict[str, str]]:
    return list(csv.DictReader(io.StringIO(text, newline="")))


def read_parquet(content: bytes) -> pa.Table:
    return parquet.read_table(pa.BufferReader(content))


@pytest.fixture
def job(records: Records) -> Job:
    return records.job(1)


def row(records: Records, job: Job, **changes: object) -> ResultRow:
    return records.row(job, ms=1.25, trust=("ungated", "noisy"), sessions=(1_700_000_000,), **changes)


def test_both_files_have_every_figure_under_a_name_with_its_unit(records: Records, job: Job) -> None:
    plain = row(records, job)
    with_extra = row(records, records.job(2), metrics=dict(plain.metrics) | {"watts": 1.5})
    table = results_table([plain, with_extra])
    first, second = read_csv(csv_text(table))
    interval = {"latency_ci_low_ms", "latency_ci_high_ms"}  # names by which a ranking calls its own figures
    assert set(METRICS) - set(first) == interval
    assert {first[f"latency_own_ci_{end}_ms"] for end in ("low", "high")} == {"1.25"}
    assert float(first["latency_p50_ms"]) == 1.25
    assert (first["temp_end_c"], first["extra_watts"], second["extra_watts"]) == ("", "", "1.5")
    assert (first["threads"], first["fuse"], first["trust"]) == ("2", "true", "ungated; noisy")
    assert first["session_starts_s"] == "1700000000"
    assert first["block_medians_ms"] == "[[0, 1.25], [1, 1.25], [2, 1.25]]"
    stored = read_parquet(parquet_bytes(table)).to_pylist()
    assert list(stored[0]) == list(first)
    assert stored[0]["latency_p50_ms"] == 1.25
    assert (stored[0]["temp_end_c"], stored[1]["extra_watts"]) == (None, 1.5)
    assert (stored[0]["trust"], stored[0]["fuse"]) == (["ungated", "noisy"], True)
    assert stored[0]["block_medians_ms"][2] == {"round": 2, "ms": 1.25}


@pytest.mark.parametrize("sign", ["=", "+", "-", "@", " =", "\t=", "\r=", "\n=", "＝"])
def test_a_spreadsheet_runs_no_name_of_a_device(records: Records, job: Job, sign: str) -> None:
    hostile = f'{sign}cmd|"/c calc"!A0'
    [read] = read_csv(csv_text(results_table([row(records, job, device=hostile, name=f"a\n{hostile}")])))
    assert not read["device"].lstrip().startswith(("=", "+", "-", "@", "＝"))
    assert 'cmd|"/c calc"!A0' in read["device"]  # nothing is lost
    assert read["name"].startswith("a\n")
    stored = read_parquet(parquet_bytes(results_table([row(records, job, device=hostile)])))
    assert stored.column("device").to_pylist() == [hostile]  # to a program it is text


def test_a_negative_figure_stays_a_number(records: Records, job: Job) -> None:
    [read] = read_csv(csv_text(results_table([row(records, job)])))
    assert read["accuracy_drop_low_points"] == "-0.1"


def test_texts_that_are_no_utf8_are_in_both_files(records: Records, job: Job) -> None:
    settled = Settled(job_key=job.key, budget="race", rounds=3, reason="best", message="best of\x00 5")
    table = results_table([row(records, job, reason="a\udcff\x1b[2J", settled=settled)])
    [read] = read_csv(csv_text(table).encode("utf-8-sig").decode("utf-8-sig"))
    assert (read["reason"], read["settled"]) == ("a��[2J", "best of� 5")
    assert read_parquet(parquet_bytes(table)).column("reason").to_pylist() == ["a?\x1b[2J"]


def test_an_empty_table_has_its_columns_and_their_types(records: Records, job: Job) -> None:
    table = results_table([])
    assert csv_text(table).count("\r\n") == 1
    assert next(csv.reader([csv_text(table)])) == list(table.columns)
    full = parquet_bytes(results_table([row(records, job)]))
    assert read_parquet(parquet_bytes(table)).schema == read_parquet(full).schema


def test_verdicts_are_a_table_too() -> None:
    table = overview_table([waiting_place("s", "phone-1", "net", "-Phone", 5)])
    [read] = read_csv(csv_text(table))
    assert (read["device"], read["waiting"], read["metric_value"], read["latency_p50_ms"]) == ("'-Phone", "5", "", "")
    [stored] = read_parquet(parquet_bytes(table)).to_pylist()
    assert (stored["device"], stored["waiting"], stored["latency_p50_ms"]) == ("-Phone", 5, None)


def test_names_of_columns_are_no_formulas_either() -> None:
    assert csv_text(Table({"=A1": "int"}, [[1]])) == '"\'=A1"\r\n1\r\n'


def test_a_table_needs_no_pandas() -> None:
    check = (
        "import sys, sweeps.report.table_files, sweeps.store.verdicts; print({'pandas', 'pyarrow'} & set(sys.modules))"
    )
    assert subprocess.check_output([sys.executable, "-c", check], text=True).strip() == "set()"
