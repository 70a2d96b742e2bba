"""What an MLflow run holds of a job, and what a reader gets back."""

from dataclasses import replace

import pytest

from sweeps.batches import BatchShare
from sweeps.journal.journal import Journal
from sweeps.journal.result_row import row_of_job
from sweeps.protocol.blocks import summarize
from sweeps.protocol.presets import PRESETS
from sweeps.records import Measured
from sweeps.settled import Settled
from sweeps.store import run_content
from sweeps.store.run_content import MAX_TAG_LENGTH, TAG, of_job
from sweeps.variant import Variant
from tests.mlflow_rows import row_of

SETTLED = Settled(
    job_key="k",
    budget="race",
    rounds=4,
    reason="slower",
    message="left after 4 rounds",
    by="net · other",
    ratio=1.1,
    ratio_low=1.06,
    error=0.02,
)


def content_of(planned, outcome, blocks, manifest, *about):
    return of_job(row_of_job("phones", planned, outcome, blocks, manifest, *about), planned, blocks, manifest)


@pytest.fixture
def run(records, tmp_path):
    """The content of a finished job's run; blocks may be changed first."""

    def make(settled=None, blocks=None, job=None, accuracy=None, journal="journal", sessions=(), batches=None):
        job = job or records.job(0)
        with Journal.open(tmp_path / f"{journal}.sqlite") as journal:
            journal.save_plan(records.plan(job))
            for block in blocks or [records.block(job, round_) for round_ in range(2)]:
                journal.attempts.add_block(block)
            journal.attempts.add_accuracy(accuracy or records.accuracy(job))
            planned = journal.jobs.planned("phones", job.key)
            outcome = journal.outcomes.in_sweep("phones", job)
            assert isinstance(outcome, Measured)
            content = (outcome, journal.attempts.blocks(job.key), None, settled, sessions, batches)
            return content_of(planned, *content)

    return make


def read(content):
    return row_of("phones", "run", content.params, content.metrics, content.tags)


@pytest.mark.parametrize("settled", [None, SETTLED, replace(SETTLED, reason="best", by="", ratio=None, ratio_low=None)])
def test_why_the_rounds_ended_comes_back_as_it_was(run, settled):
    assert read(run(settled)).settled == settled


def test_the_host_is_the_one_where_each_block_was_measured(run, records):
    job = records.job(0)
    blocks = [replace(records.block(job, round_), host=host) for round_, host in enumerate(["lab-2", "lab-1", "lab-2"])]
    moved = run(blocks=blocks)
    assert moved.host == "lab-2, lab-1"
    stayed = run(journal="other")
    assert stayed.host == "", "without a lab it is the computer that publishes"
    assert run(blocks=[replace(block, host="") for block in blocks], journal="third").attempt_key == moved.attempt_key


def test_a_run_tells_a_reduced_range_and_with_a_full_range_is_as_it_was_before(run, records):
    full = run()
    assert "reduced_range" not in full.params
    assert read(full).reduced_range is False
    variant = Variant(precision="int8", quantization="static_fx", qengine="onednn", reduced_range=True)
    reduced = run(job=records.job(0, variant=variant))
    assert reduced.params["reduced_range"] == "true"
    assert read(reduced).reduced_range is True


def test_an_endless_reason_is_cut_and_not_its_json(run):
    content = run(replace(SETTLED, message="\u0001" * 9000, by="\U0001f600" * 9000))
    assert len(content.tags[f"{TAG}settled"]) <= MAX_TAG_LENGTH
    found = read(content).settled
    assert (found.reason, found.ratio_low) == ("slower", 1.06)


def test_what_a_stock_tool_does_not_tell_is_no_metric_and_its_name_is_a_tag(run, records):
    tool = {"runner": "speed_benchmark_torch 0123456789ab", "runtime_version": "unknown"}
    unknown = {"first_inference_ns": None, "load_ns": None, "rss_before_load_bytes": None, "rss_peak_bytes": None}
    content = run(blocks=[records.block(records.job(0), round_, **tool, **unknown) for round_ in range(2)])
    assert content.metrics["latency_p50_ms"] == pytest.approx(5.003)
    assert content.metrics.keys().isdisjoint({"first_inference_ms", "load_ms", "model_rss_mb"})
    assert content.tags[f"{TAG}runner"] == "speed_benchmark_torch 0123456789ab"
    assert content.tags[f"{TAG}runtime_version"] == "unknown"
    row = read(content)
    assert (row.runner, row.runtime_version) == (tool["runner"], "unknown")


def test_device_time_and_waits_are_summed_over_the_blocks(run, records):
    job = records.job(0)
    blocks = [records.block(job, round_, device_seconds=2.5, samples_ns=(400_000_000,)) for round_ in range(2)]
    blocks = [replace(one, conditions=replace(one.conditions, waited_seconds=4.0, gate="ready")) for one in blocks]
    row = read(run(blocks=blocks))
    assert (row.device_seconds, row.timed_seconds, row.waited_seconds, row.gate) == (5.0, 0.8, 8.0, "gated")
    assert (row.push_seconds, row.accuracy_seconds) == (0.0, 0.0)


def test_pushes_and_the_accuracy_pass_are_kept_and_make_no_new_run(run, records):
    job = records.job(0)
    blocks = [records.block(job, round_) for round_ in range(2)]
    pushed = [replace(blocks[0], push_seconds=1.5), blocks[1]]
    content = run(blocks=pushed, accuracy=records.accuracy(job, device_seconds=4.0, push_seconds=0.5))
    row = read(content)
    assert (row.push_seconds, row.accuracy_seconds) == (1.5, 4.5)
    assert content.attempt_key == run(blocks=blocks, journal="another").attempt_key


def test_what_a_job_took_in_batches_is_kept_also_where_it_has_no_block(run, records, tmp_path):
    in_batches = ((3, 10.0), (4, 10.25))
    share = BatchShare(device_seconds=7.0, timed_seconds=1.5, waited_seconds=2.0, medians_ms=in_batches)
    row = read(run(batches=share))
    assert row.batch_medians_ms == in_batches
    alone = read(run(journal="alone"))
    assert (row.batch_seconds, alone.batch_seconds) == (7.0, 0.0)
    assert row.device_seconds == alone.device_seconds
    assert row.timed_seconds == pytest.approx(alone.timed_seconds + 1.5)
    assert row.waited_seconds == pytest.approx(alone.waited_seconds + 2.0)
    job = records.job(0)
    with Journal.open(tmp_path / "left.sqlite") as journal:
        journal.save_plan(records.plan(job))
        planned = journal.jobs.planned("phones", job.key)
    left = read(content_of(planned, Measured(timing=None, accuracy=None), (), None, SETTLED, (), share))
    assert (left.batch_seconds, left.timed_seconds, left.waited_seconds, left.device_seconds) == (7.0, 1.5, 2.0, 0.0)
    assert left.batch_medians_ms == in_batches


@pytest.mark.parametrize(("factor", "same"), [(1 + 2**-52, True), (1.001, False)])
def test_a_last_digit_of_another_kind_of_cpu_makes_no_other_run(run, factor, same):
    here = run()
    there = {**here.row.metrics, "latency_ci_low_ms": here.row.metrics["latency_ci_low_ms"] * factor}
    written = replace(here, row=replace(here.row, metrics=there))

    assert here.is_in(here.attempt_key, here.metrics)
    assert written.is_in(here.attempt_key, here.metrics) == same
    assert not here.is_in("of another attempt", here.metrics)


def test_a_figure_that_came_later_than_a_run_writes_it_not_again(run):
    earlier = run()
    later = replace(earlier, row=replace(earlier.row, metrics={**earlier.row.metrics, "p99_over_p50": 1.02}))
    assert later.is_in(earlier.attempt_key, earlier.metrics)
    fewer = {name: value for name, value in earlier.row.metrics.items() if name != "load_ms"}
    assert not replace(earlier, row=replace(earlier.row, metrics=fewer)).is_in(earlier.attempt_key, earlier.metrics)


def test_a_run_without_batches_is_not_written_anew(run):
    assert f"{TAG}batch_seconds" not in run().tags
    assert run().attempt_key == run(batches=BatchShare(), journal="another").attempt_key
    spent = BatchShare(device_seconds=1.0)
    assert run().attempt_key != (before := run(batches=spent, journal="third").attempt_key)
    seen = replace(spent, medians_ms=((3, 10.0),))
    assert run(batches=seen, journal="fourth").attempt_key == before, "an earlier version did not tell the medians"


def test_what_says_nothing_is_no_tag_and_is_read_as_its_default(run):
    tags = run().tags
    assert {f"{TAG}stage", f"{TAG}kind", f"{TAG}check_medians_ms", f"{TAG}emulated"}.isdisjoint(tags)
    assert tags[f"{TAG}stale"] == "false"
    row = read(run())
    assert (row.stage, row.kind, row.check_medians_ms, row.emulated) == ("", "", (), False)


def test_the_sessions_are_kept_and_older_runs_without_them_are_not_written_anew(run):
    made = [run(sessions=starts) for starts in ((), (5, 9))]
    assert [read(one).sessions for one in made] == [(), (5, 9)]
    assert made[0].attempt_key == made[1].attempt_key


@pytest.mark.parametrize(
    ("modes", "shown"),
    [
        ((None, None), ""),
        ((True, True), "on"),
        ((False, False), "off"),
        ((True, False), "off and on"),
        ((True, None), "none and on"),
    ],
)
def test_fixed_performance_mode_is_that_of_all_blocks(run, records, modes, shown):
    blocks = [records.block(records.job(0), round_) for round_ in range(2)]
    blocks = [
        replace(one, conditions=replace(one.conditions, fixed_performance=mode))
        for one, mode in zip(blocks, modes, strict=True)
    ]
    assert read(run(blocks=blocks)).fixed_performance == shown


def test_one_block_that_waited_for_nothing_makes_a_job_ungated(run, records):
    blocks = [records.block(records.job(0), round_) for round_ in range(2)]
    blocks[0] = replace(blocks[0], conditions=replace(blocks[0].conditions, gate="ready"))
    assert read(run(blocks=blocks)).gate == "none"


def test_a_block_that_checks_batches_costs_time_and_makes_no_figure(records, tmp_path):
    job = records.job(0)
    checks = [
        records.block(job, 0, 5.0, checks=True, device_seconds=2.5),
        records.block(job, 1, 9.0, checks=True, device_seconds=2.5, labels=("throttled",)),
    ]
    ended = replace(SETTLED, reason="best", rounds=0, batches=4, batches_decide=True, checks=2)
    with Journal.open(tmp_path / "check.sqlite") as journal:
        journal.save_plan(records.plan(job))
        for block in checks:
            journal.attempts.add_block(block)
        journal.attempts.add_accuracy(records.accuracy(job))
        planned = journal.jobs.planned("phones", job.key)
        assert journal.outcomes.in_sweep("phones", job) is None, "it has no round yet"
    row = read(content_of(planned, Measured(timing=None, accuracy=None), checks, None, ended))
    assert not row.timed
    assert row.device_seconds == 5.0
    assert row.check_medians_ms == ((checks[0].visit, pytest.approx(5.003)),), "what cannot be trusted is left out"
    assert (row.block_medians_ms, row.confirmed_medians_ms, row.gate) == ((), (), "none")
    timed = [records.block(job, round_) for round_ in range(2, 4)]
    outcome = Measured(timing=summarize(job.key, timed, planned.protocol), accuracy=None)
    row = read(content_of(planned, outcome, [*checks, *timed], None, ended))
    assert row.metrics["latency_p50_ms"] == pytest.approx(5.003)
    assert len(row.block_medians_ms) == 2
    with pytest.raises(ValueError, match="not the blocks of job"):
        summarize(job.key, [*checks, *timed], planned.protocol)


def test_a_winner_with_one_confirming_block_has_that_one_and_no_interval(records):
    job = records.job(0)
    one = records.block(job, 0, confirms=True)
    timing = summarize(job.key, [one], PRESETS["race"])
    assert timing.confirmed_medians_ms == ((one.visit, pytest.approx(5.003)),)
    assert (timing.block_medians_ms, timing.figures.get("latency_ci_low_ms")) == ((), None)
    assert "one_block" in timing.labels


def test_a_run_without_checks_is_not_written_anew(run, monkeypatch):
    now = run()
    monkeypatch.delitem(run_content._TAGS, "check_medians_ms")
    monkeypatch.setattr(run_content, "_UNSAID_WITHOUT", ("confirmed_medians_ms", "batch_seconds", "link"))
    before = run(journal="another")
    assert f"{TAG}check_medians_ms" not in before.tags
    assert now.attempt_key == before.attempt_key
