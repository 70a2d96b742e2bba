import json
import math
import os
import signal
import sqlite3
import subprocess
import sys
import threading
from contextlib import closing
from dataclasses import asdict, fields, replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sweeps.device_facts import DeviceFacts
from sweeps.errors import StoreError
from sweeps.journal import schema as journal_schema
from sweeps.journal.journal import Journal
from sweeps.journal.outcomes import MAX_ATTEMPTS, build_failure_keys, verified_key
from sweeps.journal.plans import skipped_key
from sweeps.json_records import document, from_json, to_json
from sweeps.manifest import Coverage, Manifest
from sweeps.planning.planned_job import PlannedJob
from sweeps.protocol.presets import resolve
from sweeps.protocol.sentinel_rules import CHECK_BLOCKS, round_of
from sweeps.records import Accuracy, Block, Conditions, Failed, Job, Measured, Skipped
from sweeps.spec.label import label_of
from sweeps.spec.model_inputs import DataSpec, FolderData
from sweeps.spec.protocol import ProtocolSpec
from sweeps.variant import RunAxes, Variant

RECORDS = (Accuracy, Block, Conditions, DeviceFacts, Failed, Job, RunAxes, Skipped, Variant)


@pytest.fixture
def path(tmp_path):
    folder = tmp_path / 'it\'s a "workspace" 100% #1?'
    folder.mkdir()
    return folder / "journal.sqlite"


def measure(journal, records, job, rounds=2):
    for round_ in range(rounds):
        journal.attempts.add_block(records.block(job, round_))
    journal.attempts.add_accuracy(records.accuracy(job))


def outcome(journal, records, job, rounds=2):
    protocol = resolve(ProtocolSpec(preset="quick", rounds=rounds))
    planned = PlannedJob(job=job, protocol=protocol, evaluation_id=records.evaluation_id, facts=records.facts)
    return journal.outcomes.of_job(planned)


# Records


def as_dataclasses_say(record):
    """The objects that `document` was made of until copying each sample took too long."""
    content = asdict(record)
    for entry in fields(record):
        if entry.metadata.get("left_out_when_empty") and not content[entry.name]:
            del content[entry.name]
    return content


@pytest.mark.parametrize("kind", RECORDS)
@given(data=st.data())
def test_any_record_comes_back_as_it_was(kind, data):
    st.register_type_strategy(float, st.floats(allow_nan=False, allow_infinity=False))
    record = data.draw(st.from_type(kind))

    assert from_json(kind, to_json(record)) == record
    # The text is compared, because a mapping of any kind is stored as an object.
    assert json.dumps(document(record)) == json.dumps(as_dataclasses_say(record), default=dict)


def test_a_figure_that_is_not_finite_is_never_stored(journal, records):
    for figure in (math.nan, math.inf, -math.inf):
        with pytest.raises(StoreError, match="not finite"):
            journal.attempts.add_accuracy(records.accuracy(records.job(0), sqnr_db=figure))
    job = records.job(0)

    assert journal.attempts.accuracy(job.build_key, records.evaluation_id, "none", records.facts.fingerprint) is None


def test_output_that_is_no_unicode_does_not_stop_its_failure_from_being_stored(journal, records):
    message = b"core \xff\x00 dumped".decode("utf-8", "surrogateescape")
    journal.attempts.add_failure("k", records.failed(message=message))

    assert journal.attempts.failures("k")[0].message == "core ?\x00 dumped"


def test_a_record_without_a_field_that_came_later_takes_its_default(records):
    block = records.block(records.job(0), 0)
    older = json.loads(to_json(block))
    del older["labels"]

    assert from_json(Block, json.dumps(older)) == replace(block, labels=())


def test_a_record_without_push_and_pass_time_is_as_it_was_before_these_were_stored(records):
    block, accuracy = records.block(records.job(0), 0), records.accuracy(records.job(0))
    for record in (block, accuracy):
        assert not {"push_seconds", "accuracy_seconds"} & json.loads(to_json(record)).keys()
        assert from_json(type(record), to_json(record)) == record
    assert "device_seconds" not in json.loads(to_json(accuracy))
    assert json.loads(to_json(replace(block, push_seconds=0.5)))["push_seconds"] == 0.5


# The version before NNAPI, Metal and checked jobs wrote these texts.
OLD_VARIANT = (
    '{"runtime":"torchscript","backend":"cpu","precision":"int8","quantization":"static_fx","qengine":"x86",'
    '"interface":"core","layout":"nhwc","capture":"script","format":"pt","fuse":true,"optimize":true}'
)
OLD_RUN = '{"threads":2,"cpus":"all","reuse_input":true}'
OLD_FACTS = (
    '{"device_id":"d","name":"local","maker":"M","model":"B","soc":"S","os_build":"6","abi":"x86_64","cores":2,'
    '"ram_bytes":null,"cpu_features":["avx2"],"runtime_versions":[["torchscript","2.12.1"]],"qengines":["x86"],'
    '"nnapi_level":null,"exec_context":"shell"}'
)
OLD_JOB = (
    f'{{"key":"k","build_key":"b","name":"n","model":"m","grid":"","variant":{OLD_VARIANT},"run":{OLD_RUN},'
    '"device_id":"d"}'
)
OLD_SKIPPED = (
    f'{{"name":"n","model":"m","grid":"","variant":{OLD_VARIANT},"run":{OLD_RUN},"device_id":"d","reason":"r"}}'
)


def test_records_of_the_version_before_checked_jobs_are_readable():
    variant = from_json(Variant, OLD_VARIANT)
    assert label_of(variant) == "cpu int8-x86 nhwc script fused optimized"
    assert (variant.granularity, variant.calibration_images, variant.preference) == ("none", 0, "none")
    assert (variant.relaxed_fp16, variant.flexible_batch) == (False, False)

    job = from_json(Job, OLD_JOB)
    assert (job.variant, job.run, job.reference, job.emulated) == (variant, RunAxes(threads=2), "", False)
    assert from_json(Skipped, OLD_SKIPPED).variant == variant
    facts = from_json(DeviceFacts, OLD_FACTS)
    assert (facts.core_clusters, facts.emulates) == ((), ())
    # Nothing of what came later is in it, so what was measured before stays comparable.
    assert facts.fingerprint == replace(facts, core_clusters=((0,), (1,)), emulates=("nnapi",)).fingerprint


def test_a_skipped_combination_keeps_its_key_when_variants_learn_of_a_reduced_range():
    older = from_json(Skipped, OLD_SKIPPED)
    assert skipped_key(older) == "skipped-45487907d0bd401098c232affcab4f55c5983b43cde7dc5e3d00961b42ec5a7a"
    reduced = replace(older, variant=replace(older.variant, qengine="onednn", reduced_range=True))
    assert skipped_key(reduced) != skipped_key(replace(reduced, variant=replace(reduced.variant, reduced_range=False)))
    assert from_json(Skipped, to_json(reduced)) == reduced


def test_an_older_manifest_is_readable(journal, records):
    job = records.job(1)
    older = records.manifest(job).model_dump(mode="json", exclude={"coverage", "eval"})
    for key in ("granularity", "calibration_images", "preference", "relaxed_fp16", "flexible_batch"):
        del older["variant"][key]
    for key in ("against", "executor"):
        del older["verification"][key]

    manifest = Manifest.model_validate_json(json.dumps(older))

    assert manifest.axes == replace(job.variant, granularity="none")
    assert (manifest.coverage, manifest.eval, manifest.verification.against) == (None, None, "fp32 eager")


def test_a_manifest_tells_what_is_delegated_where_that_is_known(records):
    manifest = records.manifest(records.job(1))
    covered = {"operations": {"aten::linear": 2}, "multiply_adds": 100, "multiply_adds_covered_percent": 62.5}
    nnapi = manifest.model_copy(update={"coverage": Coverage(**covered)})
    delegated = manifest.model_copy(update={"coverage": Coverage(**covered, left={"aten::erf": 1}, delegates=2)})

    assert manifest.metrics == nnapi.metrics == {"artifact_mb": manifest.file_bytes / 1e6}
    assert delegated.metrics["delegated_percent"] == 62.5
    assert delegated.coverage.operators == 3


def test_a_damaged_record_is_named(records):
    with pytest.raises(StoreError, match="stored Block cannot be read"):
        from_json(Block, to_json(records.block(records.job(0), 0)).replace("5000000", '"fast"'))


# Plans


def test_what_was_planned_comes_back_after_a_restart(path, records):
    plan = records.plan(records.job(0), records.job(1), skipped=(records.skipped(),))
    with Journal.open(path) as journal:
        journal.save_plan(plan)
    with Journal.open(path) as journal:
        assert journal.plans.spec("phones") == plan.sweep
        assert journal.plans.devices("phones") == plan.devices
        assert journal.jobs.of_sweep("phones") == [(records.job(0), False), (records.job(1), False)]
        assert journal.jobs.skipped("phones") == plan.skipped
        assert journal.plans.protocol("phones").rounds == 2


def test_the_stored_sweep_is_readable_after_its_data_folder_has_gone(journal, records, tmp_path):
    folder = tmp_path / "images"
    folder.mkdir()
    plan = records.plan(records.job(0))
    data = DataSpec(evaluation=FolderData(source="folder", path=folder))
    plan = replace(plan, sweep=plan.sweep.model_copy(update={"data": data}))
    journal.save_plan(plan)
    folder.rmdir()

    assert journal.plans.spec("phones") == plan.sweep


def test_a_job_that_leaves_the_sweep_file_is_stale_until_it_comes_back(journal, records):
    first, second = records.job(0), records.job(1)
    journal.save_plan(records.plan(first, second))
    journal.save_plan(records.plan(second))

    assert journal.jobs.of_sweep("phones") == [(second, False), (first, True)]

    journal.save_plan(records.plan(first))

    assert journal.jobs.of_sweep("phones") == [(first, False), (second, True)]


def test_a_stale_job_keeps_what_it_was_measured_under(journal, records):
    job = records.job(0)
    journal.save_plan(records.plan(job, rounds=2))
    measure(journal, records, job)
    journal.save_plan(records.plan(records.job(1), rounds=9, evaluation_id="other"))

    assert journal.jobs.planned("phones", job.key).protocol.rounds == 2
    assert isinstance(journal.outcomes.in_sweep("phones", job), Measured)


def test_sweeps_are_listed_with_the_last_started_first(journal, records):
    journal.save_plan(records.plan(name="a"))
    journal.save_plan(records.plan(name="b"))
    assert [row.name for row in journal.sweeps.all()] == ["b", "a"]

    journal.save_plan(records.plan(name="a"))

    assert journal.sweeps.latest() == "a"
    a, b = journal.sweeps.all()
    assert a.created < b.created < a.updated


def test_an_unknown_sweep_is_refused_with_those_that_there_are(journal, records):
    with pytest.raises(StoreError, match="edgesweep run"):
        journal.jobs.of_sweep("phones")
    journal.save_plan(records.plan())

    with pytest.raises(StoreError, match="it has: phones"):
        journal.plans.spec("tablets")


# Outcomes


def test_a_job_is_measured_once_its_blocks_and_its_accuracy_are_there(journal, records):
    job = records.job(1)
    journal.save_plan(records.plan(job))
    assert outcome(journal, records, job) is None
    journal.attempts.add_block(records.block(job, 0, ms=4))
    journal.attempts.add_accuracy(records.accuracy(job))
    assert outcome(journal, records, job) is None

    journal.attempts.add_block(records.block(job, 1, ms=6))

    measured = outcome(journal, records, job)
    assert isinstance(measured, Measured)
    assert measured.accuracy == records.accuracy(job)
    assert measured.timing is not None
    assert [round_ for round_, _ in measured.timing.block_medians_ms] == [0, 1]
    assert measured.timing.figures["latency_p50_ms"] == pytest.approx(5, rel=1e-2)


def test_the_last_session_is_the_largest_of_all_jobs_even_if_the_clock_was_set_back(journal, records):
    assert journal.times.last_session() == 0
    for number, (session, last) in enumerate(((0, 0), (9, 9), (7, 9))):
        journal.attempts.add_block(records.block(records.job(number), 0, session=session))
        journal.attempts.add_accuracy(records.accuracy(records.job(number)))
        assert journal.times.last_session() == last


def test_an_unreadable_block_of_another_sweep_stops_no_run(path, records):
    with Journal.open(path) as journal:
        journal.attempts.add_block(records.block(records.job(0), 0, session=9))
        journal.attempts.add_block(records.block(records.job(1), 0, session=10))
    with closing(sqlite3.connect(path)) as db, db:
        assert db.execute("UPDATE attempts SET record = '{' WHERE key = ?", (records.job(1).key,)).rowcount == 1
    with Journal.open(path) as journal:
        assert journal.times.last_session() == 9


def test_without_an_evaluation_the_blocks_are_enough(journal, records):
    job = records.job(0)
    journal.save_plan(records.plan(job, evaluation_id=""))
    journal.attempts.add_block(records.block(job, 0))
    journal.attempts.add_block(records.block(job, 1))

    assert outcome(journal, records, job) is None
    assert isinstance(journal.outcomes.in_sweep("phones", job), Measured)


def test_a_checked_job_is_measured_by_its_references_accuracy_alone(journal, records):
    job = records.checked_job(0)
    journal.save_plan(records.plan(job))
    assert outcome(journal, records, job) is None

    accuracy = records.accuracy(job)
    # A result of another device or of another version of the reference says nothing of this job.
    for executor in (records.facts.fingerprint, "reference:nnapi@2", "reference:metal@1"):
        journal.attempts.add_accuracy(replace(accuracy, executor=executor))
    journal.attempts.add_accuracy(replace(accuracy, evaluation_id="other"))
    assert outcome(journal, records, job) is None

    journal.attempts.add_accuracy(accuracy)

    assert outcome(journal, records, job) == Measured(timing=None, accuracy=accuracy)
    assert journal.outcomes.in_sweep("phones", job) == Measured(timing=None, accuracy=accuracy)


def test_a_references_accuracy_makes_no_timed_job_measured(journal, records):
    job = records.job(0)
    journal.save_plan(records.plan(job))
    for round_ in range(2):
        journal.attempts.add_block(records.block(job, round_))
    journal.attempts.add_accuracy(records.accuracy(job, executor="reference:nnapi@1"))

    assert outcome(journal, records, job) is None


def test_a_checked_job_fails_as_others_do(journal, records):
    job, unbuilt = records.checked_job(0), records.checked_job(1)
    journal.save_plan(records.plan(job, unbuilt))
    always, on_images = build_failure_keys(unbuilt, records.evaluation_id)
    journal.attempts.add_failure(always, records.failed("build"))
    for _ in range(MAX_ATTEMPTS):
        assert outcome(journal, records, job) is None
        journal.attempts.add_failure(job.key, records.failed("evaluate"))

    assert outcome(journal, records, job) == records.failed("evaluate")
    assert outcome(journal, records, unbuilt) == records.failed("build")
    # A failure with one version of the reference says nothing of the next, nor of a device that has the backend.
    assert outcome(journal, records, replace(unbuilt, reference="reference:nnapi@next")) is None
    assert outcome(journal, records, replace(unbuilt, reference="")) is None
    journal.attempts.retry_failures("phones")
    assert outcome(journal, records, unbuilt) is None
    journal.attempts.add_failure(on_images, records.failed("build"))
    assert outcome(journal, records, unbuilt) == records.failed("build")


def test_asking_for_more_rounds_makes_a_measured_job_pending_and_keeps_its_blocks(journal, records):
    job = records.job(0)
    journal.save_plan(records.plan(job))
    measure(journal, records, job, rounds=2)

    assert outcome(journal, records, job, rounds=3) is None

    journal.attempts.add_block(records.block(job, 2))
    measured = outcome(journal, records, job, rounds=3)
    assert isinstance(measured, Measured)
    assert measured.timing is not None
    assert measured.timing.rounds == 3


def test_a_second_block_of_a_round_is_ignored(journal, records):
    job = records.job(0)

    assert journal.attempts.add_block(records.block(job, 0, ms=5)) is True
    assert journal.attempts.add_block(records.block(job, 0, ms=1)) is False
    assert journal.attempts.blocks(job.key) == (records.block(job, 0, ms=5),)


def test_blocks_come_in_order_of_rounds(journal, records):
    job = records.job(0)
    for round_ in (2, 0, 1):
        journal.attempts.add_block(records.block(job, round_))

    assert [block.round for block in journal.attempts.blocks(job.key)] == [0, 1, 2]


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"samples_ns": ()}, "no samples"),
        ({"samples_ns": (5, 0)}, "a time of 0 ns"),
        ({"samples_ns": (5, -3)}, "a time of -3 ns"),
        ({"first_inference_ns": 0}, "a time of 0 ns"),
        ({"exit_code": 139}, "ended with 139"),
        ({"artifact_sha256": ""}, "no artifact_sha256"),
        ({"backend_ran": ""}, "no backend_ran"),
    ],
)
def test_a_block_that_is_not_whole_is_not_accepted(journal, records, change, reason):
    with pytest.raises(StoreError, match=reason):
        journal.attempts.add_block(records.block(records.job(0), 0, **change))

    assert journal.attempts.blocks(records.job(0).key) == ()


def test_a_time_that_the_runner_does_not_tell_is_accepted_and_stays_unknown(journal, records):
    block = records.block(records.job(0), 0, first_inference_ns=None, load_ns=None)
    assert journal.attempts.add_block(block)
    assert journal.attempts.blocks(block.job_key) == (block,)


def test_one_failed_build_fails_every_job_that_needs_it(journal, records):
    job = records.job(0)
    journal.save_plan(records.plan(job))
    journal.attempts.add_failure(job.build_key, records.failed("build"))

    assert outcome(journal, records, job) == records.failed("build")
    assert outcome(journal, records, records.job(1)) is None


@pytest.mark.parametrize("stage", ["run", "evaluate"])
def test_a_job_fails_at_the_last_attempt_and_not_before(journal, records, stage):
    job = records.job(0)
    journal.save_plan(records.plan(job))
    for number in range(MAX_ATTEMPTS):
        assert outcome(journal, records, job) is None
        journal.attempts.add_failure(job.key, records.failed(stage, message=f"try {number}"))

    assert outcome(journal, records, job) == records.failed(stage, message=f"try {MAX_ATTEMPTS - 1}")


def test_failures_of_a_job_that_is_whole_in_the_end_do_not_count(journal, records):
    job = records.job(0)
    journal.save_plan(records.plan(job))
    for _ in range(MAX_ATTEMPTS):
        journal.attempts.add_failure(job.key, records.failed())
    measure(journal, records, job)

    assert isinstance(outcome(journal, records, job), Measured)


def test_a_build_that_failed_on_some_images_gets_another_chance_on_others(journal, records):
    job = records.job(0)
    journal.save_plan(records.plan(job))
    journal.attempts.add_failure(verified_key(job.build_key, records.evaluation_id), records.failed("build"))
    assert outcome(journal, records, job) == records.failed("build")
    assert journal.outcomes.of_job(replace(journal.jobs.planned("phones", job.key), evaluation_id="9" * 64)) is None
    assert journal.attempts.retry_failures("phones") == 1
    assert outcome(journal, records, job) is None


def test_a_retry_lets_old_failures_count_no_more_and_new_ones_do(journal, records):
    built, unbuilt, other = records.job(0), records.job(1), records.job(2)
    journal.save_plan(records.plan(built, unbuilt))
    journal.save_plan(records.plan(other, name="tablets"))
    for _ in range(MAX_ATTEMPTS):
        journal.attempts.add_failure(built.key, records.failed())
    journal.attempts.add_failure(unbuilt.build_key, records.failed("build"))
    journal.attempts.add_failure(other.build_key, records.failed("build"))

    assert journal.attempts.retry_failures("phones") == 2

    assert journal.attempts.failures(built.key) == ()
    assert outcome(journal, records, built) is None
    assert outcome(journal, records, unbuilt) is None
    assert outcome(journal, records, other) == records.failed("build")
    assert journal.attempts.retry_failures("phones") == 0

    journal.attempts.add_failure(unbuilt.build_key, records.failed("build", message="again"))
    assert outcome(journal, records, unbuilt) == records.failed("build", message="again")


def test_accuracies_are_told_apart_by_everything_that_they_depend_on(journal, records):
    job = records.job(1)
    accuracy = records.accuracy(job)
    for other in ({"engine": "qnnpack"}, {"executor": "reference:nnapi@1"}, {"evaluation_id": "x"}):
        journal.attempts.add_accuracy(replace(accuracy, **other))
    assert journal.attempts.accuracy(job.build_key, accuracy.evaluation_id, "x86", accuracy.executor) is None

    journal.attempts.add_accuracy(accuracy)
    journal.attempts.add_accuracy(replace(accuracy, top1_percent=50.0))

    stored = journal.attempts.accuracy(job.build_key, accuracy.evaluation_id, "x86", accuracy.executor)
    assert stored == replace(accuracy, top1_percent=50.0)


def test_the_last_manifest_of_a_build_counts(journal, records):
    job = records.job(0)
    assert journal.artifacts.latest(job.build_key) is None
    first = records.manifest(job)
    second = first.model_copy(update={"file_sha256": "0" * 64})

    journal.artifacts.add(first)
    journal.artifacts.add(second)

    assert journal.artifacts.latest(job.build_key) == second


def test_only_jobs_with_news_are_read_again(journal, records):
    jobs = [records.job(number) for number in range(3)]
    journal.save_plan(records.plan(*jobs, skipped=(records.skipped(),)))
    start = journal.changes.position("phones")
    assert [planned.job for planned in journal.changes.jobs("phones", None)] == jobs
    assert journal.changes.jobs("phones", start) == []
    assert journal.changes.skipped("phones", start) == []

    journal.attempts.add_block(records.block(jobs[2], 0))
    journal.attempts.add_failure(jobs[0].build_key, records.failed("build"))

    assert [planned.job for planned in journal.changes.jobs("phones", start)] == [jobs[0], jobs[2]]

    journal.save_plan(records.plan(*jobs[:2], skipped=(records.skipped(),)))

    assert [planned.stale for planned in journal.changes.jobs("phones", start)] == [False, False, True]
    assert len(journal.changes.skipped("phones", start)) == 1


def test_jobs_whose_sentinel_moved_since_are_read_again_and_only_then(journal, records):
    first, second = records.job(0, sentinel="s" * 64), records.job(1, sentinel="t" * 64)
    journal.save_plan(records.plan(first, second))

    def look(number, ms):
        for part in range(CHECK_BLOCKS):
            journal.attempts.add_block(records.block(first, round_of(number, part), ms=ms, job_key=first.sentinel))

    look(0, 5.0)
    for job in (first, second):
        journal.attempts.add_block(records.block(job, 0))
    start = journal.changes.position("phones")
    look(1, 5.1)
    assert journal.changes.jobs("phones", start) == []

    start = journal.changes.position("phones")
    look(2, 7.0)
    assert [planned.job for planned in journal.changes.jobs("phones", start)] == [first]

    start = journal.changes.position("phones")
    look(3, 7.0)
    assert journal.changes.jobs("phones", start) == [], "it was changed all the time"


# The file


@pytest.mark.parametrize(("other", "way_out"), [(-1, "use the EdgeSweep that wrote it"), (1, "update EdgeSweep")])
@pytest.mark.parametrize("read_only", [False, True])
def test_a_journal_of_another_version_is_refused_with_both_versions_and_the_way_out(path, other, way_out, read_only):
    known = journal_schema.VERSION
    with Journal.open(path), closing(sqlite3.connect(path)) as db:
        db.execute(f"PRAGMA user_version = {known + other}")
    message = rf"has version {known + other}; this EdgeSweep reads and writes version {known}\n.*{way_out}"
    with pytest.raises(StoreError, match=message):
        Journal.open(path, read_only=read_only)


def test_tables_that_cannot_all_be_made_leave_an_empty_file(path, monkeypatch):
    with monkeypatch.context() as patch:
        patch.setattr(journal_schema, "SCHEMA", (*journal_schema.SCHEMA, "CREATE NONSENSE"))
        with pytest.raises(sqlite3.OperationalError):
            Journal.open(path)
    with Journal.open(path, read_only=True) as journal:
        assert journal.sweeps.all() == []


def test_a_file_that_is_no_journal_is_refused_and_left_alone(path):
    path.write_bytes(b"not a database, but long enough to have a header" * 50)
    before = path.read_bytes()
    with pytest.raises(StoreError, match="not a journal"):
        Journal.open(path)
    assert path.read_bytes() == before

    path.unlink()
    with closing(sqlite3.connect(path)) as db:
        db.execute("CREATE TABLE mine (a)")
    with pytest.raises(StoreError, match="not a journal"):
        Journal.open(path)


def test_a_reader_does_not_make_a_journal(path):
    with pytest.raises(StoreError, match="there is no journal"):
        Journal.open(path, read_only=True)
    assert not path.exists()


def test_a_reader_cannot_write_and_sees_what_is_written_beside_it(journal, path, records):
    with Journal.open(path, read_only=True) as reader:
        journal.save_plan(records.plan(records.job(0)))
        assert reader.sweeps.latest() == "phones"
        with pytest.raises(StoreError, match="readonly"):
            reader.attempts.add_failure("k", records.failed())


def test_every_commit_reaches_the_disk_before_the_call_returns(journal):
    assert journal.file.db.execute("PRAGMA synchronous").fetchone() == (2,)
    assert journal.file.db.execute("PRAGMA journal_mode").fetchone() == ("wal",)


def test_what_is_written_together_is_there_together_or_not_at_all(journal, path, records):
    first, second = records.job(0), records.job(1)
    with Journal.open(path, read_only=True) as reader:
        before = reader.data_version
        with journal.transaction():
            journal.attempts.add_block(records.block(first, 0))
            journal.attempts.add_block(records.block(second, 0))
            assert journal.attempts.block_count(first.key) == 1, "the writer sees its own"
            assert (reader.data_version, reader.attempts.block_count(first.key)) == (before, 0)
        assert reader.data_version != before
        assert (reader.attempts.block_count(first.key), reader.attempts.block_count(second.key)) == (1, 1)

        incomplete = records.block(second, 1, samples_ns=())
        with pytest.raises(StoreError, match="no samples"), journal.transaction():
            assert journal.attempts.add_block(records.block(first, 1)) == journal.attempts.add_block(incomplete)
        assert reader.attempts.block_count(first.key) == 1
    journal.attempts.add_block(records.block(first, 1))
    assert journal.attempts.block_count(first.key) == 2, "the journal is usable after it"


def test_the_newest_attempt_of_a_job_may_be_one_of_its_build(journal, records):
    job, other = records.job(0), records.job(1)
    assert journal.changes.last_attempt(job) == (0, "")
    journal.attempts.add_block(records.block(job, 0))
    journal.attempts.add_failure(verified_key(job.build_key, "images"), records.failed("verify"))
    journal.attempts.add_failure(other.build_key, records.failed("build"))
    position, created = journal.changes.last_attempt(job)
    assert (position, created[:2]) == (2, "20")
    assert journal.changes.last_attempt(other)[0] == 3


@pytest.mark.fault(44, "the journal locked", "waited for, written")
def test_a_locked_journal_is_waited_for(path, records):
    with Journal.open(path) as journal:
        locked = threading.Event()

        def hold():
            with closing(sqlite3.connect(path, isolation_level=None)) as db:
                db.execute("BEGIN IMMEDIATE")
                locked.set()
                # The writer below is in its call, or about to be, when the lock is given back.
                threading.Event().wait(0.3)
                db.execute("ROLLBACK")

        thread = threading.Thread(target=hold)
        thread.start()
        locked.wait()
        journal.attempts.add_failure("k", records.failed())
        thread.join()

        assert journal.attempts.failures("k") == (records.failed(),)


def test_a_journal_that_stays_locked_is_an_error_with_the_next_step(path, records):
    with Journal.open(path, busy_timeout_s=0.05) as journal, closing(sqlite3.connect(path, isolation_level=None)) as db:
        db.execute("BEGIN IMMEDIATE")
        with pytest.raises(StoreError, match=r"locked\n.*another process"):
            journal.attempts.add_failure("k", records.failed())
        db.execute("ROLLBACK")

        journal.attempts.add_failure("k", records.failed())

        assert len(journal.attempts.failures("k")) == 1


@pytest.mark.fault(45, "the journal's file may not grow", "an error; no half row")
def test_a_full_disk_loses_nothing_that_was_accepted_and_leaves_no_half_row(journal, records):
    job = records.job(0)
    journal.attempts.add_block(records.block(job, 0))
    pages = journal.file.db.execute("PRAGMA page_count").fetchone()[0]
    journal.file.db.execute(f"PRAGMA max_page_count = {pages + 2}")
    with pytest.raises(StoreError, match=r"full\n.*free space"):
        journal.attempts.add_block(records.block(job, 1, samples=50_000))
    assert journal.attempts.blocks(job.key) == (records.block(job, 0),)

    journal.file.db.execute(f"PRAGMA max_page_count = {pages + 2000}")

    assert journal.attempts.add_block(records.block(job, 1, samples=50_000)) is True


WRITER = """
import sys
from dataclasses import replace
from pathlib import Path
from sweeps.journal.journal import Journal
from sweeps.json_records import from_json
from sweeps.records import Block

block = from_json(Block, sys.argv[2])
with Journal.open(Path(sys.argv[1])) as journal:
    for round_ in range(int(sys.argv[3]), 1_000_000):
        journal.attempts.add_block(replace(block, round=round_))
        print(round_, flush=True)
"""


def test_kill_9_in_the_middle_of_writing_keeps_exactly_the_accepted_records(path, records):
    job = records.job(0)
    block = records.block(job, 0, samples=2000)
    accepted = -1
    for _ in range(3):
        writer = subprocess.Popen(
            [sys.executable, "-c", WRITER, str(path), to_json(block), str(accepted + 1)],
            stdout=subprocess.PIPE,
            text=True,
        )
        assert writer.stdout is not None
        with writer.stdout:
            for _, line in zip(range(25), writer.stdout, strict=False):
                accepted = int(line)
            os.kill(writer.pid, signal.SIGKILL)
            accepted = max([accepted, *(int(line) for line in writer.stdout.read().splitlines())])
        writer.wait()

        with Journal.open(path) as journal:
            blocks = journal.attempts.blocks(job.key)
        # The one that was being written when the kill came may be there or not; if so, it is whole.
        assert len(blocks) in (accepted + 1, accepted + 2)
        assert blocks == tuple(replace(block, round=round_) for round_ in range(len(blocks)))
        accepted = len(blocks) - 1


def test_two_processes_that_write_at_once_both_get_in(path, records):
    jobs = [records.job(0), records.job(1)]
    writers = [
        subprocess.Popen(
            [sys.executable, "-c", WRITER.replace("1_000_000", "30"), str(path), to_json(records.block(job, 0)), "0"],
            stdout=subprocess.DEVNULL,
        )
        for job in jobs
    ]
    assert [writer.wait() for writer in writers] == [0, 0]

    with Journal.open(path, read_only=True) as journal:
        assert [len(journal.attempts.blocks(job.key)) for job in jobs] == [30, 30]


def test_the_folder_of_a_new_journal_has_to_exist(tmp_path):
    with pytest.raises(StoreError, match="check that the folder exists"):
        Journal.open(Path(tmp_path / "missing" / "journal.sqlite"))


def test_what_confirms_or_checks_after_a_race_is_no_round_of_a_job(journal, records):
    job = records.job(0)
    journal.save_plan(records.plan(job, rounds=3))
    journal.attempts.add_block(records.block(job, 0))
    for round_, mark in enumerate(("confirms", "checks", "added"), start=1):
        journal.attempts.add_block(records.block(job, round_, **{mark: True}))
    journal.attempts.add_accuracy(records.accuracy(job))
    counts = (
        journal.attempts.block_count(job.key),
        journal.attempts.block_marks(job.key).confirmations,
        journal.attempts.block_marks(job.key).checks,
    )
    assert counts == (4, 1, 1)
    assert (
        journal.attempts.block_marks(job.key).rounds(added=True),
        journal.attempts.block_marks(job.key).rounds(added=False),
    ) == (2, 1)
    assert outcome(journal, records, job, rounds=3) is None
    assert outcome(journal, records, job, rounds=2).timing.rounds == 3, "what checks batches is in no figure"
