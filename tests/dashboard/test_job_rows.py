"""Rows of the pages of one job, of a comparison and of devices are made of records."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from dashboard import compare_rows, device_rows, job_rows
from dashboard.charts import job_charts as drawing
from dashboard.style import LIGHT
from sweeps.journal.attempts import DatedBlock
from sweeps.journal.job_history import KnownDevice, Look, Sentinel
from sweeps.protocol.sentinel_rules import PlacedBlock, Span
from sweeps.quarantine import DeviceRecord, Quarantine
from sweeps.ranking.overview import waiting_place
from sweeps.records import Conditions
from sweeps.stats import Estimate
from tests.builders import phone_facts
from tests.sweeps.conftest import Records

RECORDS = Records()
BLOCK = RECORDS.block(
    RECORDS.job(0, key="a"),
    0,
    samples_ns=tuple(1_000_000 + 1000 * number for number in range(1000)),
    warmup_ns=(3_000_000, 2_000_000),
    first_inference_ns=9_000_000,
    load_ns=None,
    rss_before_load_bytes=None,
    rss_peak_bytes=None,
    conditions=Conditions(temp_start_c=30.0, temp_end_c=31.0),
    labels=(),
)
FACTS = phone_facts("1", device_id="d")


def test_thinned_samples_keep_every_outlier_and_the_order_of_time() -> None:
    spike = replace(BLOCK, samples_ns=(*BLOCK.samples_ns[:500], 90_000_000, *BLOCK.samples_ns[501:]))
    columns = job_rows.sample_columns([BLOCK, spike], most=100)
    assert len(columns) == 100
    assert max(column["high_ms"] for column in columns) == 90.0
    assert sum(column["samples"] for column in columns) == 2000
    times = [column["at_s"] for column in columns]
    assert times == sorted(times)
    first, second = job_rows.block_spans([BLOCK, spike])
    assert first["to_s"] < second["from_s"]
    assert all(column["at_s"] < first["to_s"] for column in columns if column["block"] == 1)
    assert all(column["at_s"] > second["from_s"] for column in columns if column["block"] == 2)


def test_few_samples_are_all_there_and_none_make_no_column() -> None:
    few = replace(BLOCK, samples_ns=(2_000_000, 1_000_000))
    assert [(column["low_ms"], column["high_ms"]) for column in job_rows.sample_columns([few])] == [
        (2.0, 2.0),
        (1.0, 1.0),
    ]
    assert job_rows.sample_columns([]) == job_rows.block_spans([]) == []


def test_warm_ups_begin_with_the_first_inference() -> None:
    assert [row["ms"] for row in job_rows.warmup_rows([BLOCK])] == [9.0, 3.0, 2.0]


def test_a_block_has_its_conditions_and_the_change_of_its_device_in_words() -> None:
    dated = DatedBlock(placed=PlacedBlock(7, replace(BLOCK, confirms=True)), stored=datetime(2026, 1, 1, tzinfo=UTC))
    [row] = job_rows.block_table([dated], frozenset({7}))
    assert (row["What for"], row["°C"], row["Labels"]) == ("confirms the winner", "30.0 → 31.0", "device_changed")
    assert row["Load (ms)"] is None


def test_spans_of_a_changed_device_have_the_times_of_its_looks() -> None:
    start = datetime(2026, 1, 1, tzinfo=UTC)
    looks = tuple(
        Look(
            stored=start + timedelta(hours=n), position=n, session=1, check=n, ms=4.0, temp_c=None, battery_percent=None
        )
        for n in range(3)
    )
    rows, spans = job_rows.sentinel_rows(Sentinel(looks=looks, spans=(Span(1, 0, 2), Span(1, 2, 99))))
    assert len(rows) == 3
    assert [(span["from"], span["to"]) for span in spans] == [(rows[0]["at"], rows[2]["at"])]


@pytest.mark.parametrize(
    ("stage", "kind", "text"),
    [
        ("run", "not_ready", ": edgesweep run SWEEP.yaml tries"),
        ("build", "not_possible", "take the combination out"),
        ("run", "crashed", "--retry-failed"),
        ("what", "ever", "--retry-failed"),
    ],
)
def test_every_failure_has_a_next_step(stage: str, kind: str, text: str) -> None:
    assert text in job_rows.next_step(stage, kind)


@pytest.mark.parametrize(
    ("uri", "url"),
    [
        ("http://lab:5000", "http://lab:5000/#/experiments/1/runs/r%2F2"),
        ("https://ann:secret@lab/mlflow/", "https://lab/mlflow/#/experiments/1/runs/r%2F2"),
        ("http://[::1]:5000", "http://[::1]:5000/#/experiments/1/runs/r%2F2"),
        ("sqlite:////tmp/x", None),
        ("javascript:alert(1)//http://lab", None),
        ("http://", None),
        ("http://lab:port", None),
    ],
)
def test_only_a_server_has_a_page_of_a_run_and_no_password_is_in_its_address(uri: str, url: str | None) -> None:
    assert job_rows.run_url(uri, "1", "r/2") == url


def test_histograms_end_before_outliers_which_are_counted() -> None:
    a = [replace(BLOCK, samples_ns=(*BLOCK.samples_ns, 900_000_000))]
    rows, beyond = compare_rows.histograms(a, [BLOCK])
    assert beyond == 1
    assert sum(row["samples"] for row in rows if row["side"] == "A") == 1000
    assert {row["base"] for row in rows if row["side"] == "A"} != {row["base"] for row in rows if row["side"] == "B"}
    assert compare_rows.histograms([], []) == ([], 0)


def test_equal_samples_make_one_bin() -> None:
    block = replace(BLOCK, samples_ns=(1_000_000,) * 10)
    rows, beyond = compare_rows.histograms([block], [block])
    assert [row["samples"] for row in rows] == [10, 10]
    assert beyond == 0


def test_a_ratio_has_as_many_digits_as_tell_it_from_1() -> None:
    assert compare_rows.ratio_text(Estimate(1.912, 1.7, 2.14)) == "1.91× (1.70 to 2.14)"
    assert compare_rows.ratio_text(Estimate(1.0123, None, None)) == "1.012×"


def test_sides_are_in_the_url_as_sweep_key_and_session() -> None:
    assert compare_rows.side_of(compare_rows.side_text("s", "k")) == ("s", "k", "")
    assert compare_rows.side_of(compare_rows.side_text("s", "k", 1_800_000_000)) == ("s", "k", "1800000000")
    assert compare_rows.side_of("nothing") == ("nothing", "", "")


def test_the_state_of_a_device_is_the_worst_that_is_known() -> None:
    kept_out = DeviceRecord(device_id="d", name="n", quarantine=Quarantine(since_s=0.0, by="person", reason=""))
    assert device_rows.state_of(kept_out, 7, ()) == "quarantined"
    assert device_rows.state_of(None, 7, ()) == "measuring"
    assert device_rows.state_of(None, None, ()) == "idle"


def test_jobs_are_counted_once_however_many_sets_of_conditions_they_have() -> None:
    first = waiting_place("s", "d", "m", "P", 3)._replace(finished=5)
    verdicts = [first, first._replace(part=1), first._replace(model="other")]
    assert [len(parts) for parts in device_rows.places(verdicts)] == [2, 1]
    [row] = device_rows.overview([KnownDevice(facts=FACTS, sweeps=("s",))], verdicts, {}, {})
    assert (row["Ended"], row["Waiting"]) == (10, 6)


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("local", "this computer"),
        ("host:lab-2/x", "the lab's host lab-2"),
        ("ssh:a@b", "over ssh"),
        ("fake:x", "not known"),
    ],
)
def test_the_host_of_a_device_is_said_as_far_as_its_name_says_it(name: str, text: str) -> None:
    assert text in device_rows.host_of(replace(FACTS, name=name))


def test_charts_have_text_from_the_journal_only_as_data() -> None:
    spec = drawing.sentinel([{"at": "x", "ms": 1.0}], [{"from": "x", "to": "x", "what": "evil"}], LIGHT)
    marks = [layer["mark"] for layer in spec["layer"]]
    assert "evil" not in str(marks)
    assert {layer["data"]["values"][0].get("what") for layer in spec["layer"] if layer["data"]["values"]} >= {"evil"}
