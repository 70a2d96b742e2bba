import http.client
import json
import math
import os
import platform
import signal
import socket
import sqlite3
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from itertools import count
from pathlib import Path
from types import SimpleNamespace
from urllib.parse import unquote, urlsplit

import mlflow
import pytest
from mlflow import MlflowClient
from mlflow.entities import Metric, ViewType
from sqlalchemy import Engine, event

from sweeps.errors import StoreError
from sweeps.imported import Imported
from sweeps.journal.journal import Journal
from sweeps.journal.outcomes import MAX_ATTEMPTS
from sweeps.manifest import Coverage
from sweeps.metrics import METRICS
from sweeps.protocol.sentinel_rules import CHECK_BLOCKS, round_of
from sweeps.results import FRAME_COLUMNS, to_frame
from sweeps.spec.catalog import TIMED
from sweeps.spec.label import label_of
from sweeps.store import client as store_client
from sweeps.store import profiles, run_writer
from sweeps.store.mlflow import Store, run_content
from sweeps.store.profiles import attach_profiles
from sweeps.store.run_writer import upload
from sweeps.store.sweep_tags import IS_SWEEP
from sweeps.store.uri import sqlite_path
from sweeps.stored_profiles import StoredProfile, profiles_of_run, store_trace
from sweeps.workspace import Workspace
from tests.free_port import free_port
from tests.fresh_mlflow import fresh_mlflow
from tests.mlflow_rows import load, load_imported, sweep_names
from tests.store_double import DoubleClient, doubled, make

NAMES = (f"phones-{number}" for number in count())


@pytest.fixture
def workspace(tmp_path) -> Path:
    folder = tmp_path / "it's 100% #1"
    folder.mkdir()
    return folder


@pytest.fixture
def sqlite_uri(workspace) -> str:
    return f"sqlite:///{fresh_mlflow(workspace)}"


@pytest.fixture(scope="module")
def server_uri(tmp_path_factory) -> Iterator[str]:
    """A real `mlflow server`."""
    folder = tmp_path_factory.mktemp("server")
    fresh_mlflow(folder)
    port = free_port()
    command = [sys.executable, "-m", "mlflow", "server", "--host", "127.0.0.1", "--port", str(port), "--workers", "1"]
    # A connection that waits between two tests is not closed just as the next one uses it.
    command += ["--uvicorn-opts", "--timeout-keep-alive 600"]
    command += ["--backend-store-uri", f"sqlite:///{folder / 'mlflow.sqlite'}"]
    command += ["--artifacts-destination", str(folder / "artifacts")]
    # Its seven processes for jobs that nobody sends are most of its start.
    without = {"MLFLOW_DISABLE_TELEMETRY": "1", "MLFLOW_SERVER_ENABLE_JOB_EXECUTION": "false"}
    with (folder / "log").open("wb") as log:
        server = subprocess.Popen(command, stdout=log, stderr=log, start_new_session=True, env=os.environ | without)
    try:
        deadline = time.monotonic() + 180
        while not answers(port):
            assert server.poll() is None, (folder / "log").read_text()
            assert time.monotonic() < deadline, (folder / "log").read_text()
        yield f"http://127.0.0.1:{port}"
    finally:
        os.killpg(server.pid, signal.SIGKILL)
        server.wait()


def answers(port: int) -> bool:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=5)
    try:
        connection.request("GET", "/health")
        return connection.getresponse().status == 200
    except OSError:
        threading.Event().wait(0.1)
        return False
    finally:
        connection.close()


@pytest.fixture
def double_uri(workspace) -> Iterator[str]:
    """Of the double that tests of commands take: it does what MLflow does."""
    path = workspace / "double.sqlite"
    with doubled():
        make(path)
        yield f"sqlite:///{path}"


@pytest.fixture(params=["sqlite", "server", "double"])
def uri(request) -> str:
    return request.getfixturevalue(f"{request.param}_uri")


@pytest.fixture(params=["sqlite", "double"])
def file_uri(request) -> str:
    return request.getfixturevalue(f"{request.param}_uri")


def client_of(uri) -> MlflowClient | DoubleClient:
    return (DoubleClient if uri.endswith("/double.sqlite") else MlflowClient)(tracking_uri=uri)


@pytest.fixture
def name() -> str:
    """The server is shared: every test has a sweep of its own."""
    return next(NAMES)


@pytest.fixture
def journal(workspace) -> Iterator[Journal]:
    with Journal.open(workspace / "journal.sqlite") as journal:
        yield journal


@pytest.fixture
def new_store(workspace):
    """A store such as a new process has."""
    return lambda uri: Store(uri, workspace / "artifacts")


def measure(journal, records, job, rounds=2, **changes):
    journal.artifacts.add(records.manifest(job))
    for round_ in range(rounds):
        journal.attempts.add_block(records.block(job, round_, ms=5 + round_))
    journal.attempts.add_accuracy(records.accuracy(job, **changes))


def rows(uri, name):
    return {row["name"]: row for row in load(uri, name).frame.to_dict("records")}


def all_runs(uri, name, view=ViewType.ACTIVE_ONLY):
    client = client_of(uri)
    experiment = client.get_experiment_by_name(name)
    runs = client.search_runs([experiment.experiment_id], run_view_type=view)
    return [run for run in runs if run.data.tags["edgesweep.record"] == "job"]


def tag_counts(uri, name):
    keys = [run.data.tags["edgesweep.job_key"] for run in all_runs(uri, name)]
    return {key: keys.count(key) for key in keys}


# What is written is what is read


def test_every_outcome_is_a_row_with_all_that_is_known(uri, name, journal, new_store, records):
    measured, failed, pending = records.job(1), records.job(2), records.job(3)
    plan = records.plan(measured, failed, pending, skipped=(records.skipped("no <effect> & 'quotes'"),), name=name)
    journal.save_plan(plan)
    measure(journal, records, measured, labels=("invalid_output",))
    for _ in range(MAX_ATTEMPTS):
        journal.attempts.add_failure(failed.key, records.failed("run", "signal 11"))

    assert new_store(uri).publish(journal, name) == 3

    results = load(uri, name)
    assert results.name == name
    assert results.spec == plan.sweep
    assert tuple(results.frame.columns) == FRAME_COLUMNS
    found = rows(uri, name)
    assert found.keys() == {measured.name, failed.name, "net skipped"}

    row = found[measured.name]
    assert row["job_key"] == measured.key
    assert row["build_key"] == measured.build_key
    assert (row["outcome"], row["stage"], row["kind"], row["reason"]) == ("measured", "", "", "")
    assert (row["precision"], row["qengine"], row["fuse"], row["optimize"]) == ("int8", "x86", True, False)
    assert (row["threads"], row["cpus"], row["reuse_input"]) == (2, "all", True)
    assert (row["device"], row["device_id"]) == ("Maker Board's 3 (SoC <b>)", "local-1")
    assert (row["fingerprint"], row["executor"]) == (records.facts.fingerprint, records.facts.fingerprint)
    assert (row["variant"], row["preset"], row["runner"]) == (
        label_of(measured.variant),
        "quick",
        "python-torchscript 1",
    )
    assert (row["rounds"], row["samples"], row["images"]) == (2, 200, 597)
    assert (row["emulated"], row["stale"]) == (False, False)
    assert {"ungated", "invalid_output"} <= set(row["trust"])
    assert row["block_medians_ms"] == ((0, 5.003), (1, 6.003))
    assert row["latency_p50_ms"] == pytest.approx(5.503)
    assert (row["top1_percent"], row["artifact_mb"]) == (97.5, 3.5)
    assert math.isnan(row["sqnr_db"])

    row = found[failed.name]
    assert (row["outcome"], row["stage"], row["kind"], row["reason"]) == ("failed", "run", "crashed", "signal 11")
    assert (row["runtime_version"], row["exec_context"]) == ("2.12.1", "shell")
    assert math.isnan(row["latency_p50_ms"])

    row = found["net skipped"]
    assert (row["outcome"], row["reason"]) == ("skipped", "no <effect> & 'quotes'")
    assert row["job_key"].startswith("skipped-")


def test_every_run_can_be_read_in_mlflow_without_edgesweep(uri, name, journal, new_store, records, tmp_path):
    measured, failed = records.job(1), records.job(2)
    journal.save_plan(records.plan(measured, failed, skipped=(records.skipped(),), name=name))
    measure(journal, records, measured)
    journal.attempts.add_failure(failed.build_key, records.failed("build"))
    new_store(uri).publish(journal, name)

    client = client_of(uri)
    experiment = client.get_experiment_by_name(name)
    (parent,) = client.search_runs([experiment.experiment_id], "tags.`edgesweep.record` = 'sweep'")
    runs = {run.info.run_name: run for run in all_runs(uri, name)}
    assert parent.info.status == "FINISHED"
    assert {run.data.tags["mlflow.parentRunId"] for run in runs.values()} == {parent.info.run_id}
    assert runs[measured.name].info.status == "FINISHED"
    assert runs[failed.name].info.status == "FAILED"
    assert runs["net skipped"].info.status == "KILLED"

    run = runs[measured.name]
    assert run.data.params["qengine"] == "x86"
    assert run.data.params["threads"] == "2"
    assert run.data.tags["edgesweep.device_fingerprint"] == records.facts.fingerprint
    assert "ungated" in json.loads(run.data.tags["edgesweep.trust"])
    assert json.loads(run.data.tags["edgesweep.versions"]) == {"torch": "2.12.1"}
    assert "sqnr_db" not in run.data.metrics
    history = client.get_metric_history(run.info.run_id, "block_median_ms")
    assert [(point.step, point.value) for point in history] == [(0, 5.003), (1, 6.003)]

    folder = Path(client.download_artifacts(run.info.run_id, "", str(tmp_path)))
    samples = json.loads((folder / "samples.json").read_text())
    assert [block["samples_ns"] for block in samples["blocks"]] == [
        list(block.samples_ns) for block in journal.attempts.blocks(measured.key)
    ]
    assert samples["blocks"][0]["conditions"]["temp_start_c"] == 40.5
    assert records.manifest(measured).read(folder) == records.manifest(measured)
    sweep = json.loads(Path(client.download_artifacts(parent.info.run_id, "sweep.json", str(tmp_path))).read_text())
    assert sweep["name"] == name


def test_what_was_only_checked_is_a_row_with_an_executor_and_without_any_time(uri, name, journal, new_store, records):
    checked, failed = records.checked_job(1), records.checked_job(2)
    journal.save_plan(records.plan(checked, failed, name=name))
    coverage = Coverage(operations={"CONV_2D": 35}, multiply_adds=1000, multiply_adds_covered_percent=99.5)
    journal.artifacts.add(records.manifest(checked).model_copy(update={"coverage": coverage}))
    journal.attempts.add_accuracy(records.accuracy(checked, sqnr_db=61.5))
    for _ in range(MAX_ATTEMPTS):
        journal.attempts.add_failure(failed.key, records.failed("evaluate"))
    assert new_store(uri).publish(journal, name) == 2

    row = rows(uri, name)[checked.name]
    assert (row["outcome"], row["executor"], row["emulated"]) == ("measured", "reference:nnapi@1", True)
    assert (row["backend"], row["preference"], row["capture"]) == ("nnapi", "sustained_speed", "mixed")
    assert (row["top1_percent"], row["sqnr_db"], row["artifact_mb"]) == (97.5, 61.5, 3.5)
    assert (row["rounds"], row["samples"], row["block_medians_ms"], row["images"]) == (0, 0, (), 597)
    assert all(math.isnan(row[metric]) for metric in TIMED)
    assert rows(uri, name)[failed.name]["emulated"]

    run = next(run for run in all_runs(uri, name) if run.info.run_name == checked.name)
    assert run.data.tags["edgesweep.emulated"] == "true"
    assert run.data.tags["edgesweep.executor"] == "reference:nnapi@1"
    assert Coverage.model_validate_json(run.data.tags["edgesweep.coverage"]) == coverage
    assert run.data.metrics.keys() == {
        *("artifact_mb", "top1_percent", "top5_percent", "agreement_percent", "sqnr_db"),
        *("accuracy_drop_points", "accuracy_drop_low_points", "accuracy_drop_high_points", "edgesweep_published_s"),
    }


def test_an_accuracy_by_another_version_of_the_reference_takes_the_place_of_the_row(
    file_uri, name, journal, new_store, records
):
    store, old = new_store(file_uri), records.checked_job(1)
    journal.save_plan(records.plan(old, name=name))
    journal.attempts.add_accuracy(records.accuracy(old))
    store.publish(journal, name)
    new = replace(old, key="new", reference="reference:nnapi@2")
    journal.save_plan(records.plan(new, name=name))
    journal.attempts.add_accuracy(records.accuracy(new, top1_percent=90.0))
    store.publish(journal, name)

    found = load(file_uri, name).frame
    current = found[~found["stale"]]
    assert list(current["executor"]) == ["reference:nnapi@2"]
    assert list(current["top1_percent"]) == [90.0]


def test_which_images_results_were_computed_on_stands_beside_them(
    file_uri, name, journal, new_store, records, tmp_path
):
    journal.save_plan(records.plan(name=name))
    journal.artifacts.add_data(name, "e" * 64, '{"images":["abc"]}')
    new_store(file_uri).publish(journal, name)
    journal.artifacts.add_data(name, "f" * 64, '{"images":["def"]}')
    new_store(file_uri).publish(journal, name)
    client = client_of(file_uri)
    [parent] = [
        run
        for run in client.search_runs([client.get_experiment_by_name(name).experiment_id])
        if run.data.tags["edgesweep.record"] == "sweep"
    ]
    for key, image in (("e", "abc"), ("f", "def")):
        path = client.download_artifacts(parent.info.run_id, f"data-{key * 16}.json", str(tmp_path))
        assert json.loads(Path(path).read_text()) == {"images": [image]}


def test_a_long_sweep_file_comes_back_whole(uri, name, journal, new_store, records):
    plan = records.plan(records.job(0), name=name, models=150)
    journal.save_plan(plan)
    journal.attempts.add_failure(records.job(0).build_key, records.failed("build"))
    new_store(uri).publish(journal, name)

    assert len(plan.sweep.model_dump_json()) > 3 * run_content.MAX_TAG_LENGTH
    assert load(uri, name).spec == plan.sweep


@pytest.mark.fault(48, "values too long, or of odd characters", "cut, never an error")
def test_values_that_are_too_long_or_odd_are_cut_and_never_an_error(uri, name, journal, new_store, records):
    long, odd = records.job(0, name="n" * 9000, model="m" * 9000), records.job(1, name="<script>☃\x00")
    journal.save_plan(records.plan(long, odd, name=name))
    journal.attempts.add_failure(long.build_key, records.failed("build", "r" * 20_000))
    journal.attempts.add_failure(odd.build_key, records.failed("build", "NUL \x00 and ☃\n| a table |"))

    assert new_store(uri).publish(journal, name) == 2

    found = {row["job_key"]: row for row in load(uri, name).frame.to_dict("records")}
    assert found[long.key]["reason"] == "r" * 4999 + "…"
    assert found[long.key]["model"] == "m" * 499 + "…"
    assert found[odd.key]["reason"] == "NUL  and ☃ | a table |"
    assert found[odd.key]["name"] == "<script>☃"


def test_the_medians_of_many_rounds_stay_readable(file_uri, name, journal, new_store, records):
    job = records.job(0)
    journal.save_plan(records.plan(job, name=name))
    measure(journal, records, job, rounds=400)
    new_store(file_uri).publish(journal, name)

    (row,) = rows(file_uri, name).values()
    assert row["rounds"] == 400
    assert len(row["block_medians_ms"]) > 200
    assert row["block_medians_ms"][-1] == (399, pytest.approx(404.003))


def test_a_sweep_of_several_pages_is_read_whole(uri, name, journal, new_store, records, monkeypatch):
    jobs = [records.job(number) for number in range(8)]
    journal.save_plan(records.plan(*jobs, name=name))
    for job in jobs:
        journal.attempts.add_failure(job.build_key, records.failed("build"))
    monkeypatch.setattr(store_client, "_PAGE", 3)

    assert new_store(uri).publish(journal, name) == 8
    assert new_store(uri).publish(journal, name) == 0
    assert rows(uri, name).keys() == {job.name for job in jobs}


def test_an_empty_frame_has_the_same_columns_and_types_as_a_full_one():
    frame = to_frame([])

    assert tuple(frame.columns) == FRAME_COLUMNS
    assert all(frame[metric].dtype == "float64" for metric in METRICS)


# The outbox


def test_publishing_again_writes_nothing(uri, name, journal, new_store, records):
    job = records.job(0)
    journal.save_plan(records.plan(job, skipped=(records.skipped(),), name=name))
    measure(journal, records, job)
    store = new_store(uri)

    assert [store.publish(journal, name), store.publish(journal, name)] == [2, 0]
    before = load(uri, name)
    assert new_store(uri).publish(journal, name) == 0

    assert load(uri, name).frame.equals(before.frame)
    assert len(all_runs(uri, name, ViewType.ALL)) == 2


def imported(number, **changes):
    made = Imported(
        model="net",
        variant="cpu fp32",
        device="iPhone X",
        device_id="",
        tool="TestApp",
        mean_ms=28.767,
        iterations=None,
        p50_ms=None,
        log="log.txt",
        log_sha256=f"{number:064}",
        imported="2026-11-21T22:00:00.000000+00:00",
    )
    return replace(made, **changes)


def test_figures_of_hand_run_tools_come_back_and_are_no_rows(uri, name, journal, new_store, records):
    job = records.job(0)
    journal.save_plan(records.plan(job, name=name))
    measure(journal, records, job)
    store = new_store(uri)
    store.publish(journal, name)
    assert load_imported(uri, name) == ()
    before, updated = load(uri, name).frame, load(uri, name).updated
    hostile = imported(2, variant="<script>alert(1)</script> **b**\x00" * 4, log="\U0001f600" * 200)
    for one in (imported(1), hostile):
        journal.imports.add(name, one)

    assert store.publish(journal, name) == 0

    assert set(load_imported(uri, name)) == {imported(1), hostile}
    assert load(uri, name).updated > updated
    assert load(uri, name).frame.equals(before)


def test_figures_are_written_once_whoever_publishes(uri, name, journal, new_store, records):
    journal.save_plan(records.plan(records.job(0), name=name))
    journal.imports.add(name, imported(1))
    store = new_store(uri)
    store.publish(journal, name)
    journal.imports.add(name, imported(2))
    for publisher in (store, new_store(uri), store):
        publisher.publish(journal, name)

    client = client_of(uri)
    experiment = client.get_experiment_by_name(name)
    runs = client.search_runs([experiment.experiment_id], "tags.`edgesweep.record` = 'imported'")
    assert sorted(run.data.tags["edgesweep.attempt_key"] for run in runs) == sorted([imported(1).key, imported(2).key])
    assert {run.info.status for run in runs} == {"FINISHED"}
    assert {one.log_sha256 for one in load_imported(uri, name)} == {f"{number:064}" for number in (1, 2)}


def test_a_figure_whose_driver_was_killed_is_whole_and_ended_by_the_next_one(
    file_uri, name, journal, new_store, records
):
    journal.save_plan(records.plan(records.job(0), name=name))
    journal.imports.add(name, imported(1))
    new_store(file_uri).publish(journal, name)
    client = client_of(file_uri)
    experiment = client.get_experiment_by_name(name)
    (run,) = client.search_runs([experiment.experiment_id], "tags.`edgesweep.record` = 'imported'")
    client.update_run(run.info.run_id, status="RUNNING")
    assert load_imported(file_uri, name) == (imported(1),)

    new_store(file_uri).publish(journal, name)

    assert client.get_run(run.info.run_id).info.status == "FINISHED"
    assert load_imported(file_uri, name) == (imported(1),)


def test_each_job_is_published_once_as_it_ends(file_uri, name, journal, new_store, records):
    jobs = [records.job(number) for number in range(3)]
    journal.save_plan(records.plan(*jobs, name=name))
    store = new_store(file_uri)
    assert store.publish(journal, name) == 0
    for job in jobs:
        measure(journal, records, job)
        assert store.publish(journal, name) == 1

    assert rows(file_uri, name).keys() == {job.name for job in jobs}


@pytest.mark.parametrize("restarted", [False, True])
def test_more_rounds_replace_the_row_and_keep_its_profiles(
    file_uri, name, journal, new_store, records, restarted, workspace, monkeypatch
):
    monkeypatch.setenv("MLFLOW_TRACKING_URI", file_uri)
    job = records.job(0)
    journal.save_plan(records.plan(job, name=name, rounds=2))
    measure(journal, records, job)
    store = new_store(file_uri)
    traced = store_trace(Workspace(workspace), profile_of(job), {"traceEvents": []})
    captures = profiles_of_run(Workspace(workspace), job.build_key, job.device_id, job.run)
    assert not attach_profiles(Workspace(workspace), name, job.key, captures)
    traced.unlink()
    store.publish(journal, name)
    traced.write_text("recorded")
    assert attach_profiles(Workspace(workspace), name, job.key, captures)
    assert profiles_in_mlflow(file_uri, name) == {traced.name: "recorded"}
    store = new_store(file_uri) if restarted else store
    journal.save_plan(records.plan(job, name=name, rounds=3))
    assert store.publish(journal, name) == 0
    assert rows(file_uri, name)[job.name]["rounds"] == 2

    journal.attempts.add_block(records.block(job, 2, ms=7))

    assert store.publish(journal, name) == 1
    (row,) = rows(file_uri, name).values()
    assert (row["rounds"], row["latency_p50_ms"]) == (3, pytest.approx(6.003))
    assert tag_counts(file_uri, name) == {job.key: 1}
    assert profiles_in_mlflow(file_uri, name) == {traced.name: "recorded"}


def test_a_run_gets_what_it_lacks_of_its_profiles_and_nothing_twice(
    file_uri, name, journal, new_store, records, workspace, monkeypatch
):
    job = records.job(0)
    journal.save_plan(records.plan(job, name=name, rounds=2))
    measure(journal, records, job)
    traced = store_trace(Workspace(workspace), profile_of(job), {"traceEvents": []})
    uploads: list[set[str]] = []

    def cut_off(client, place, files):
        uploads.append({*files})
        # The run is there already, for others too: nobody waits for a large file.
        assert rows(file_uri, name).keys() == {job.name}
        raise StoreError("cut off")

    with monkeypatch.context() as patch:
        patch.setattr(profiles, "upload", cut_off)
        with pytest.raises(StoreError, match="cut off"):
            new_store(file_uri).publish(journal, name)
    new_store(file_uri).publish(journal, name)
    assert profiles_in_mlflow(file_uri, name) == {traced.name: traced.read_text()}

    def counted(client, place, files):
        uploads.append({*files})
        upload(client, place, files)

    monkeypatch.setattr(profiles, "upload", counted)
    new_store(file_uri).publish(journal, name)
    traced.write_text("recorded anew")
    new_store(file_uri).publish(journal, name)
    document = f"profiles/{traced.name.removesuffix('.trace.json')}.json"
    assert uploads == [{document, f"profiles/{traced.name}"}, {f"profiles/{traced.name}"}]
    assert profiles_in_mlflow(file_uri, name) == {traced.name: "recorded anew"}


def profile_of(job) -> StoredProfile:
    return StoredProfile(
        job=job.name,
        build_key=job.build_key,
        device=job.device_id,
        device_id=job.device_id,
        threads=job.run.threads,
        cpus=job.run.cpus,
        reuse_input=job.run.reuse_input,
        runner="r 1",
        runtime="1",
        iterations=3,
        profiled_iteration_p50_us=1.0,
        suffix="trace.json",
    )


def profiles_in_mlflow(uri, name) -> dict[str, str]:
    """Files beside the documents, which are there too, of the sweep's one job."""
    (run,) = all_runs(uri, name)
    files = [*Path(unquote(urlsplit(run.info.artifact_uri).path), "profiles").iterdir()]
    assert [
        StoredProfile.model_validate_json(file.read_text()).iterations for file in files if "." not in file.stem
    ] == [3]
    return {file.name: file.read_text() for file in files if "." in file.stem}


def test_a_job_is_published_again_when_its_device_turns_out_to_have_changed(
    file_uri, name, journal, new_store, records
):
    job = records.job(0, sentinel="s" * 64)

    def look(number, ms):
        for part in range(CHECK_BLOCKS):
            journal.attempts.add_block(records.block(job, round_of(number, part), ms=ms, job_key=job.sentinel))

    journal.save_plan(records.plan(job, name=name))
    look(0, 5.0)
    measure(journal, records, job)
    store = new_store(file_uri)
    assert store.publish(journal, name) == 1
    assert "device_changed" not in rows(file_uri, name)[job.name]["trust"]

    look(1, 7.0)
    assert store.publish(journal, name) == 1
    assert "device_changed" in rows(file_uri, name)[job.name]["trust"]
    assert tag_counts(file_uri, name) == {job.key: 1}

    look(2, 7.0)
    assert store.publish(journal, name) == 0


@pytest.mark.parametrize("restarted", [False, True])
def test_an_accuracy_on_other_images_is_not_ranked_beside_new_ones(
    file_uri, name, journal, new_store, records, restarted
):
    job = records.job(0)
    journal.save_plan(records.plan(job, name=name))
    measure(journal, records, job)
    store = new_store(file_uri)
    store.publish(journal, name)
    assert not rows(file_uri, name)[job.name]["stale"]
    journal.save_plan(records.plan(job, name=name, evaluation_id="9" * 64))
    store = new_store(file_uri) if restarted else store
    store.publish(journal, name)
    assert rows(file_uri, name)[job.name]["stale"]

    journal.attempts.add_accuracy(records.accuracy(job, evaluation_id="9" * 64))
    store.publish(journal, name)
    assert not rows(file_uri, name)[job.name]["stale"]


def test_a_retried_failure_stays_until_there_is_a_new_outcome(file_uri, name, journal, new_store, records):
    job = records.job(0)
    journal.save_plan(records.plan(job, name=name))
    journal.attempts.add_failure(job.build_key, records.failed("build"))
    store = new_store(file_uri)
    store.publish(journal, name)
    journal.attempts.retry_failures(name)
    assert store.publish(journal, name) == 0
    assert rows(file_uri, name)[job.name]["outcome"] == "failed"

    measure(journal, records, job)

    assert store.publish(journal, name) == 1
    assert rows(file_uri, name)[job.name]["outcome"] == "measured"
    assert tag_counts(file_uri, name) == {job.key: 1}


def test_a_job_that_left_the_sweep_file_is_marked_stale_and_not_written_again(
    file_uri, name, journal, new_store, records
):
    first, second = records.job(0), records.job(1)
    both = records.plan(first, second, skipped=(records.skipped(),), name=name)
    journal.save_plan(both)
    for job in (first, second):
        measure(journal, records, job)
    store = new_store(file_uri)
    store.publish(journal, name)

    journal.save_plan(records.plan(second, name=name))
    assert store.publish(journal, name) == 0
    stale = {row["name"]: row["stale"] for row in rows(file_uri, name).values()}
    assert stale == {first.name: True, second.name: False, "net skipped": True}

    journal.save_plan(both)
    assert new_store(file_uri).publish(journal, name) == 0
    assert not any(row["stale"] for row in rows(file_uri, name).values())


# Faults while writing


class _Relay(BaseHTTPRequestHandler):
    """Hands every request on to MLflow; one of them is answered as the test says."""

    def relay(self) -> None:
        server: _RelayServer = self.server
        if self.path == "/health":
            server.target_answer(self, b"")
            return
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        server.lines.append(f"{self.command} {self.path}")
        if server.unknown in self.path.partition("?")[0]:
            self.send_error(404)
            return
        server.requests += 1
        hit = server.requests == server.fail_at
        if hit and server.status is not None:
            self.send_response(server.status)
            self.send_header("Content-Length", "0")
            self.end_headers()
            return
        server.target_answer(self, body, lost=hit)

    def do_GET(self) -> None:
        self.relay()

    def do_POST(self) -> None:
        self.relay()

    def do_PUT(self) -> None:
        self.relay()

    def do_PATCH(self) -> None:
        self.relay()

    def log_message(self, *_: object) -> None:
        pass


class _RelayServer(ThreadingHTTPServer):
    daemon_threads = True
    requests = 0
    fail_at = 0
    status: int | None = None
    unknown = "?"
    """What paths contain that an older server does not know."""

    def __init__(self, target: str) -> None:
        super().__init__(("127.0.0.1", 0), _Relay)
        self.target = target.removeprefix("http://")
        self.lines: list[str] = []
        self.uri = f"http://127.0.0.1:{self.server_port}"

    def target_answer(self, handler: BaseHTTPRequestHandler, body: bytes, lost: bool = False) -> None:
        headers = {name: value for name, value in handler.headers.items() if name != "Host"}
        with closing(http.client.HTTPConnection(self.target)) as connection:
            connection.request(handler.command, handler.path, body, headers)
            answer = connection.getresponse()
            content = answer.read()
        if lost:
            handler.close_connection = True
            return
        handler.send_response(answer.status)
        handler.send_header("Content-Type", answer.headers.get("Content-Type", "application/json"))
        handler.send_header("Content-Length", str(len(content)))
        handler.end_headers()
        handler.wfile.write(content)


@pytest.fixture
def relay(server_uri) -> Iterator[_RelayServer]:
    with _RelayServer(server_uri) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        yield server
        server.shutdown()
        thread.join()


@pytest.mark.parametrize(
    "status",
    [None, pytest.param(500, marks=pytest.mark.system), pytest.param(429, marks=pytest.mark.system)],
    ids=["reply-lost", "500", "429"],
)
@pytest.mark.fault(46, "each request in turn: reply lost, 500, 429", "published once at the next try")
def test_whichever_request_goes_wrong_nothing_is_lost_and_nothing_doubled(relay, journal, new_store, records, status):
    job = records.job(0)
    measure(journal, records, job)
    # Each turn breaks one request later, until a publication gets through unharmed.
    harmed = True
    turns = 0
    while harmed:
        turns += 1
        sweep = next(NAMES)
        journal.save_plan(records.plan(job, skipped=(records.skipped(),), name=sweep))
        store = new_store(relay.uri)
        relay.requests, relay.fail_at, relay.status = 0, turns, status
        try:
            store.publish(journal, sweep)
            harmed = False
        except StoreError:
            store.publish(journal, sweep)
        relay.fail_at = 0

        assert rows(relay.uri, sweep).keys() == {"net job 0", "net skipped"}
        assert set(tag_counts(relay.uri, sweep).values()) == {1}
        assert {run.info.status for run in all_runs(relay.uri, sweep)} == {"FINISHED", "KILLED"}
        assert new_store(relay.uri).publish(journal, sweep) == 0

    assert turns > 10


PUBLISHER = """
import sys
from pathlib import Path
from sweeps.journal.journal import Journal
from sweeps.store import mlflow

write = mlflow.write_run
def told(*given):
    print("writing", flush=True)
    run_id = write(*given)
    print("written", flush=True)
    return run_id
mlflow.write_run = told
with Journal.open(Path(sys.argv[1])) as journal:
    mlflow.Store(sys.argv[2], Path(sys.argv[3])).publish(journal, sys.argv[4])
"""


@pytest.mark.fault(50, "SIGKILL while a run is written, and between two", "one whole run a job, none RUNNING")
def test_kill_9_while_publishing_leaves_one_whole_run_per_job_after_the_next_start(
    workspace, sqlite_uri, name, journal, new_store, records
):
    jobs = [records.job(number) for number in range(12)]
    journal.save_plan(records.plan(*jobs, name=name))
    for job in jobs:
        measure(journal, records, job)
    command = [sys.executable, "-c", PUBLISHER, str(journal.path), sqlite_uri, str(workspace / "artifacts"), name]
    for lines in (1, 4, 7):
        publisher = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        assert publisher.stdout is not None
        with publisher.stdout:
            told = [publisher.stdout.readline() for _ in range(lines)]
            # In the midst of a run for odd `lines`, between two of them for even ones.
            os.kill(publisher.pid, signal.SIGKILL)
        publisher.wait()
        assert told == ["writing\n", "written\n"] * (lines // 2) + ["writing\n"] * (lines % 2)

    new_store(sqlite_uri).publish(journal, name)

    assert tag_counts(sqlite_uri, name) == {job.key: 1 for job in jobs}
    assert {run.info.status for run in all_runs(sqlite_uri, name)} == {"FINISHED"}
    assert rows(sqlite_uri, name).keys() == {job.name for job in jobs}
    client = client_of(sqlite_uri)
    experiment = client.get_experiment_by_name(name)
    (parent,) = client.search_runs([experiment.experiment_id], "tags.`edgesweep.record` = 'sweep'")
    assert parent.info.status == "FINISHED"


def test_a_run_that_is_being_written_or_replaced_is_no_row_of_its_own(file_uri, name, journal, new_store, records):
    job = records.job(0)
    journal.save_plan(records.plan(job, name=name))
    measure(journal, records, job)
    new_store(file_uri).publish(journal, name)
    client = client_of(file_uri)
    (run,) = all_runs(file_uri, name)
    tags = {name: value for name, value in run.data.tags.items() if name.startswith(("edgesweep.", "mlflow.parent"))}

    client.create_run(run.info.experiment_id, tags=tags)
    assert rows(file_uri, name)[job.name]["run_id"] == run.info.run_id

    # A job that is measured further starts when it started before: only the stamp says which run is newer.
    start, newest = run.info.start_time, run.data.metrics["edgesweep_published_s"] + 1
    newer = client.create_run(run.info.experiment_id, start, tags=tags | {"edgesweep.attempt_key": "newer"})
    client.log_metric(newer.info.run_id, "edgesweep_published_s", newest)
    for key, value in run.data.params.items():
        client.log_param(newer.info.run_id, key, value)
    client.set_terminated(newer.info.run_id)
    assert rows(file_uri, name)[job.name]["run_id"] == newer.info.run_id

    # What the journal says wins, and the rest goes.
    assert new_store(file_uri).publish(journal, name) == 0
    assert rows(file_uri, name)[job.name]["run_id"] == run.info.run_id
    assert tag_counts(file_uri, name) == {job.key: 1}


def test_runs_that_a_person_deleted_are_written_again(file_uri, name, journal, new_store, records):
    job = records.job(0)
    journal.save_plan(records.plan(job, name=name))
    measure(journal, records, job)
    new_store(file_uri).publish(journal, name)
    client = client_of(file_uri)
    (run,) = all_runs(file_uri, name)
    client.delete_run(run.info.run_id)
    assert new_store(file_uri).publish(journal, name) == 1

    client.delete_experiment(run.info.experiment_id)
    assert sweep_names(file_uri) == []
    new_store(file_uri).publish(journal, name)

    assert rows(file_uri, name).keys() == {job.name}


def test_results_of_another_workspace_in_the_same_sweep_are_left_alone(
    file_uri, name, journal, new_store, records, tmp_path
):
    mine, theirs = records.job(0), records.job(1)
    journal.save_plan(records.plan(mine, name=name))
    measure(journal, records, mine)
    new_store(file_uri).publish(journal, name)
    with Journal.open(tmp_path / "theirs.sqlite") as other:
        other.save_plan(records.plan(theirs, name=name))
        measure(other, records, theirs)
        new_store(file_uri).publish(other, name)
    new_store(file_uri).publish(journal, name)

    assert {row["name"]: row["stale"] for row in rows(file_uri, name).values()} == {
        mine.name: False,
        theirs.name: False,
    }


def test_artifacts_that_cannot_be_stored_are_sent_later(file_uri, name, journal, workspace, new_store, records):
    job = records.job(0)
    journal.save_plan(records.plan(job, name=name))
    measure(journal, records, job)
    store = new_store(file_uri)
    (workspace / "artifacts").write_text("in the way")
    with pytest.raises(StoreError, match="does not accept artifacts"):
        store.publish(journal, name)
    (workspace / "artifacts").unlink()

    assert store.publish(journal, name) == 1
    assert tag_counts(file_uri, name) == {job.key: 1}


def test_the_twelfth_job_is_published_with_no_more_statements_than_the_first(
    sqlite_uri, name, journal, new_store, records
):
    # Six builds, each measured by two jobs.
    jobs = [replace(records.job(n), build_key=records.job(n - n % 2).build_key) for n in range(12)]
    journal.save_plan(records.plan(*jobs, name=name))
    journal.artifacts.add_data(name, records.evaluation_id, '{"source": "image folder", "images": []}')
    store = new_store(sqlite_uri)
    store.publish(journal, name)
    statements = []

    def counted(*_: object) -> None:
        statements[-1] += 1

    event.listen(Engine, "before_cursor_execute", counted)
    try:
        for job in jobs:
            measure(journal, records, job)
            statements.append(0)
            assert store.publish(journal, name, last=False) == 1
    finally:
        event.remove(Engine, "before_cursor_execute", counted)

    assert len(set(statements[::2])) == len(set(statements[1::2])) == 1
    # What MLflow 3.17 needs for a run with its metrics, parameters, tags, inputs and files, and 24 more for a model.
    assert 0 < statements[1] <= 66
    assert statements[0] <= 90


# As MLflow's users expect


@pytest.fixture(params=["sqlite", "server"])
def real_uri(request) -> str:
    return request.getfixturevalue(f"{request.param}_uri")


def own_run(uri, name):
    client = client_of(uri)
    (run,) = client.search_runs([client.get_experiment_by_name(name).experiment_id], IS_SWEEP)
    return client.get_run(run.info.run_id)


def stamps(uri, name):
    client = client_of(uri)
    runs = client.search_runs([client.get_experiment_by_name(name).experiment_id])
    return {run.info.run_name: run.data.metrics.get("edgesweep_published_s") for run in runs}


def dated(journal, second, **where):
    """Let what the journal accepted stand there for this second of a day of long ago."""
    table, condition = next(iter(where.items()))
    with closing(sqlite3.connect(journal.path)) as db, db:
        time_ = f"2026-01-02T03:04:{second:02}.000000+00:00"
        assert db.execute(f"UPDATE {table} SET created = ? WHERE {condition}", (time_,)).rowcount > 0


DAY_MS = 1_767_323_040_000  # 2026-01-02 03:04:00


def test_a_run_starts_and_ends_with_its_measurement(uri, name, journal, new_store, records):
    measured, failed = records.job(0), records.job(1)
    journal.save_plan(records.plan(measured, failed, name=name))
    dated(journal, 1, sweeps=f"name = '{name}'")
    for round_ in range(3):
        journal.attempts.add_block(records.block(measured, round_, device_seconds=2.5))
        dated(journal, 10 + round_, attempts=f"kind = 'block' AND round = {round_}")
    journal.attempts.add_accuracy(records.accuracy(measured))
    for number in range(MAX_ATTEMPTS):
        journal.attempts.add_failure(failed.key, records.failed("run"))
        dated(journal, 20 + number, attempts=f"id = (SELECT max(id) FROM attempts) AND key = '{failed.key}'")
    new_store(uri).publish(journal, name)

    runs = {run.info.run_name: run.info for run in all_runs(uri, name)}
    ended = runs[measured.name]
    assert (ended.start_time - DAY_MS, ended.end_time - DAY_MS) == (7_500, 12_000)
    assert runs[failed.name].end_time - DAY_MS == 22_000
    parent = own_run(uri, name).info
    assert (parent.start_time - DAY_MS, parent.end_time - DAY_MS) == (1_000, 22_000)


def test_device_and_host_are_params_and_are_bounded(uri, name, journal, new_store, records):
    facts = replace(records.facts, device_id="adb-1", maker="M" * 9000)
    job = records.job(0, device_id="adb-1")
    journal.save_plan(records.plan(job, name=name, facts=(facts,)))
    journal.attempts.add_failure(job.build_key, records.failed("build"))
    new_store(uri).publish(journal, name)

    (run,) = all_runs(uri, name)
    assert run.data.params["device_id"] == "adb-1"
    assert run.data.params["device"] == "M" * 499 + "…"
    assert run.data.params["host"] == platform.node()


def test_the_host_of_a_device_of_a_lab_is_the_one_that_it_is_attached_to(uri, name, journal, new_store, records):
    job = records.job(0, device_id="adb-1")
    facts = replace(records.facts, device_id="adb-1", name="host:lab-2/adb:R5")
    journal.save_plan(records.plan(job, name=name, facts=(facts,)))
    journal.attempts.add_failure(job.build_key, records.failed("build"))
    new_store(uri).publish(journal, name)

    (run,) = all_runs(uri, name)
    assert run.data.params["host"] == "lab-2"


def test_runs_name_the_images_that_their_figures_are_of(real_uri, name, journal, new_store, records, tmp_path):
    job, calibrated = records.job(0), records.job(1)
    journal.save_plan(records.plan(job, calibrated, name=name))
    for one in (job, calibrated):
        measure(journal, records, one)
    journal.artifacts.add(records.manifest(calibrated).model_copy(update={"calibration_id": "c" * 64}))
    manifests = {
        "e" * 64: {"source": "image folder", "count": 2, "images": ["a", "b"]},
        # What a download showed has an id of its own, and names the one of the plan.
        "d" * 64: {"source": f"torchvision {'<b>' * 200}; as loaded for {'c' * 64}", "count": None, "images": ["a"]},
    }
    for key, manifest in manifests.items():
        journal.artifacts.add_data(name, key, json.dumps(manifest))
    journal.artifacts.add_data(name, "0" * 64, "no JSON")
    new_store(real_uri).publish(journal, name)

    client = client_of(real_uri)
    used = {}
    for run in all_runs(real_uri, name):
        inputs = client.get_run(run.info.run_id).inputs.dataset_inputs
        used[run.info.run_name] = {entry.tags[0].value: entry.dataset for entry in inputs}
    assert {context: dataset.digest for context, dataset in used[job.name].items()} == {"evaluation": "e" * 16}
    assert {context: dataset.digest for context, dataset in used[calibrated.name].items()} == {
        "evaluation": "e" * 16,
        "calibration": "d" * 16,
    }
    assert used[job.name]["evaluation"].name == "image folder"
    assert len(used[calibrated.name]["calibration"].name) == 250
    assert json.loads(used[calibrated.name]["calibration"].profile) == {"images": 1}
    everything = [entry.dataset for entry in own_run(real_uri, name).inputs.dataset_inputs]
    assert {dataset.digest for dataset in everything} == {"e" * 16, "d" * 16, "0" * 16}
    source = json.loads(used[job.name]["evaluation"].source)["uri"]
    path = mlflow.artifacts.download_artifacts(source, dst_path=str(tmp_path), tracking_uri=real_uri)
    assert json.loads(Path(path).read_text()) == manifests["e" * 64]


def logged_models(uri, name):
    client = client_of(uri)
    return client.search_logged_models([client.get_experiment_by_name(name).experiment_id])


def test_each_build_is_one_logged_model_that_its_jobs_take(real_uri, name, journal, new_store, records, tmp_path):
    job = records.job(0, model="a/b:c%\"'.\n☃" + "m" * 900)
    threads, other = replace(records.job(2), build_key=job.build_key), records.job(1)
    journal.save_plan(records.plan(job, threads, other, name=name))
    for one in (job, threads, other):
        measure(journal, records, one)
    journal.artifacts.add(records.manifest(job).model_copy(update={"model": job.model}))
    new_store(real_uri).publish(journal, name)
    assert new_store(real_uri).publish(journal, name) == 0

    client = client_of(real_uri)
    models = {model.tags["edgesweep.build_key"]: model for model in logged_models(real_uri, name)}
    assert len(logged_models(real_uri, name)) == len(models) == 2
    assert {str(model.status) for model in models.values()} == {"READY"}
    assert {model.source_run_id for model in models.values()} == {own_run(real_uri, name).info.run_id}
    taken = {run.info.run_name: client.get_run(run.info.run_id).inputs for run in all_runs(real_uri, name)}
    assert {run: [model.model_id for model in inputs.model_inputs] for run, inputs in taken.items()} == {
        job.name: [models[job.build_key].model_id],
        threads.name: [models[job.build_key].model_id],
        other.name: [models[other.build_key].model_id],
    }
    model = models[other.build_key]
    assert model.name == f"net {label_of(other.variant)}"
    assert model.params["precision"] == "int8"
    assert model.tags["edgesweep.file_sha256"] == "f" * 64
    uri = f"{model.artifact_location}/manifest.json"
    path = mlflow.artifacts.download_artifacts(uri, dst_path=str(tmp_path), tracking_uri=real_uri)
    assert Path(path).read_text() == records.manifest(other).model_dump_json(indent=2)


def test_a_logged_model_that_a_killed_driver_left_is_made_whole(relay, journal, new_store, records):
    name, job = next(NAMES), records.job(0)
    journal.save_plan(records.plan(job, name=name))
    new_store(relay.uri).publish(journal, name)
    measure(journal, records, job)
    relay.unknown = "/models/"
    with pytest.raises(StoreError, match="does not accept artifacts"):
        new_store(relay.uri).publish(journal, name)
    assert [str(model.status) for model in logged_models(relay.uri, name)] == ["PENDING"]
    relay.unknown = "?"

    assert new_store(relay.uri).publish(journal, name) == 1
    assert [str(model.status) for model in logged_models(relay.uri, name)] == ["READY"]


def test_a_server_without_logged_models_takes_all_the_rest(relay, journal, new_store, records):
    name, job = next(NAMES), records.job(0)
    journal.save_plan(records.plan(job, name=name))
    measure(journal, records, job)
    relay.unknown = "/logged-models"

    assert new_store(relay.uri).publish(journal, name) == 1
    assert rows(relay.uri, name).keys() == {job.name}


def test_artifacts_go_through_the_server(relay, journal, new_store, records, tmp_path, workspace):
    name, job = next(NAMES), records.job(0)
    journal.save_plan(records.plan(job, name=name))
    measure(journal, records, job)
    new_store(relay.uri).publish(journal, name)

    (run,) = all_runs(relay.uri, name)
    uri = run.info.artifact_uri
    assert uri.startswith("mlflow-artifacts:/")
    place = uri.removeprefix("mlflow-artifacts:")
    for file in ("samples.json", "manifest.json"):
        assert f"PUT /api/2.0/mlflow-artifacts/artifacts{place}/{file}" in relay.lines
    assert not (workspace / "artifacts").exists()
    path = client_of(relay.uri).download_artifacts(run.info.run_id, "manifest.json", str(tmp_path))
    assert Path(path).read_text() == records.manifest(job).model_dump_json(indent=2)


def test_every_run_says_when_it_was_published_or_changed(uri, name, journal, new_store, records):
    first, second = records.job(0), records.job(1)
    both = records.plan(first, second, skipped=(records.skipped(),), name=name)
    journal.save_plan(both)
    journal.imports.add(name, imported(1))
    for job in (first, second):
        measure(journal, records, job)
    store = new_store(uri)
    store.publish(journal, name)
    before = stamps(uri, name)
    assert before.keys() == {first.name, second.name, "net skipped", "imported: cpu fp32", name}
    assert None not in before.values()
    assert len(set(before.values())) == len(before)
    assert max(before, key=before.get) == name

    store.publish(journal, name)
    assert stamps(uri, name) == before

    journal.save_plan(records.plan(second, skipped=(records.skipped(),), name=name))
    store.publish(journal, name)
    after = stamps(uri, name)
    assert {run for run in after if after[run] > max(before.values())} == {first.name, name}
    assert {run for run in after if after[run] != before[run]} == {first.name, name}


def test_a_search_by_the_stamp_finds_what_changed_and_not_the_measurements_of_today(
    real_uri, name, journal, new_store, records
):
    old, new = records.job(0), records.job(1)
    journal.save_plan(records.plan(old, new, name=name))
    measure(journal, records, old)
    store = new_store(real_uri)
    store.publish(journal, name)
    known = max(stamps(real_uri, name).values())
    measure(journal, records, new)
    dated(journal, 1, attempts=f"key = '{new.key}'")
    store.publish(journal, name)

    client = client_of(real_uri)
    experiment = client.get_experiment_by_name(name).experiment_id
    found = client.search_runs([experiment], f"metrics.edgesweep_published_s > {known!r}")
    assert {run.info.run_name for run in found} == {new.name, name}


@pytest.mark.parametrize("restarted", [False, True])
def test_stamps_grow_where_the_clock_goes_back(file_uri, name, journal, new_store, records, monkeypatch, restarted):
    jobs = [records.job(number) for number in range(3)]
    journal.save_plan(records.plan(*jobs, name=name))
    store = new_store(file_uri)
    for job, now in zip(jobs, (2_000_000_000.0, 1_900_000_000.0, 1_900_000_000.0), strict=True):
        monkeypatch.setattr(run_writer, "time", SimpleNamespace(time=lambda now=now: now))
        measure(journal, records, job)
        store = new_store(file_uri) if restarted else store
        store.publish(journal, name)

    found = stamps(file_uri, name)
    times = [found[job.name] for job in jobs]
    assert times == sorted(set(times))
    assert found[name] > times[-1] > times[0] >= 2_000_000_000.0


def test_what_other_programs_leave_in_the_stamp_is_no_time(file_uri, name, journal, new_store, records):
    journal.save_plan(records.plan(records.job(0), records.job(1), name=name))
    measure(journal, records, records.job(0))
    new_store(file_uri).publish(journal, name)
    (run,) = all_runs(file_uri, name)
    for value in (1e300, math.nan):
        client_of(file_uri).log_batch(run.info.run_id, [Metric("edgesweep_published_s", value, 2**40, 1)])
    measure(journal, records, records.job(1))

    assert new_store(file_uri).publish(journal, name) == 1
    assert rows(file_uri, name).keys() == {"net job 0", "net job 1"}
    assert abs(stamps(file_uri, name)["net job 1"] - time.time()) < 3600


def test_a_store_of_the_version_before_is_read_and_not_written_again(sqlite_uri, name, journal, new_store, records):
    job = records.job(0)
    journal.save_plan(records.plan(job, name=name))
    measure(journal, records, job)
    new_store(sqlite_uri).publish(journal, name)
    with closing(sqlite3.connect(sqlite_path(sqlite_uri))) as db, db:
        for table in ("metrics", "latest_metrics"):
            assert db.execute(f"DELETE FROM {table} WHERE key = 'edgesweep_published_s'").rowcount > 0
        assert db.execute("DELETE FROM params WHERE key IN ('device', 'device_id', 'host')").rowcount == 3
        db.execute("DELETE FROM inputs")
        db.execute("DELETE FROM logged_model_params")
        db.execute("DELETE FROM logged_model_tags")
        db.execute("DELETE FROM logged_models")

    before = load(sqlite_uri, name).frame
    assert list(before["job_key"]) == [job.key]
    assert new_store(sqlite_uri).publish(journal, name) == 0
    assert load(sqlite_uri, name).frame.equals(before)


def ranking(*places):
    return {"devices": [{"model": "net", "no_winner_reason": "", **place} for place in places]}


def winner(p50, **figures):
    return {"name": "net job 0", "job_key": "k", "build_key": "b", "latency_p50_ms": p50, **figures}


def test_the_sweep_s_own_run_has_the_winner_s_figures_and_the_ranking(
    real_uri, name, journal, new_store, records, tmp_path
):
    journal.save_plan(records.plan(records.job(0), name=name))
    store = new_store(real_uri)
    store.publish(journal, name)
    before = own_run(real_uri, name).data.metrics["edgesweep_published_s"]
    document = ranking({"device_id": "local-1", "winner": winner(5.5, top1_percent=97.5, sqnr_db=None)})
    store.attach_ranking(name, document)

    run = own_run(real_uri, name)
    figures = {key: value for key, value in run.data.metrics.items() if key.startswith("winner_")}
    assert figures == {"winner_latency_p50_ms": 5.5, "winner_top1_percent": 97.5}
    assert json.loads(run.data.tags["edgesweep.winners"])[0]["name"] == "net job 0"
    assert run.data.metrics["edgesweep_published_s"] > before
    path = client_of(real_uri).download_artifacts(run.info.run_id, "ranking.json", str(tmp_path))
    assert json.loads(Path(path).read_text()) == document

    # The next winner has no figure of the one before, and a second device makes every name longer.
    store.attach_ranking(name, ranking({"device_id": "local-1", "winner": winner(4.5)}))
    found = own_run(real_uri, name).data.metrics
    assert found["winner_latency_p50_ms"] == 4.5
    assert math.isnan(found["winner_top1_percent"])
    lost = {"device_id": "adb:1", "winner": None, "no_winner_reason": "all failed"}
    store.attach_ranking(name, ranking({"device_id": "local-1", "winner": winner(4.5)}, lost))
    found = own_run(real_uri, name).data
    assert math.isnan(found.metrics["winner_latency_p50_ms"])
    assert found.metrics["winner_latency_p50_ms/local-1/net"] == 4.5
    assert json.loads(found.tags["edgesweep.winners"])[1]["no_winner_reason"] == "all failed"


# Faults before anything is written


@pytest.mark.alone
def test_a_server_that_is_down_is_told_at_once(new_store):
    port = free_port()
    start = time.monotonic()
    for uri in (f"http://127.0.0.1:{port}", f"postgresql://me:secret@127.0.0.1:{port}/mlflow"):
        with pytest.raises(StoreError, match=r"cannot be reached: .*refused\n.*start the server") as caught:
            new_store(uri).check()
        assert "secret" not in str(caught.value)
    assert time.monotonic() - start < 30, "by itself it would try for minutes"


@pytest.mark.alone
def test_a_server_that_accepts_and_never_answers_is_told_in_seconds(new_store):
    with socket.create_server(("127.0.0.1", 0)) as silent:
        start = time.monotonic()
        with pytest.raises(StoreError, match=r"cannot be reached: .*timed out"):
            new_store(f"http://127.0.0.1:{silent.getsockname()[1]}").check()
        assert time.monotonic() - start < 30, "by itself it would wait for minutes"


@pytest.mark.parametrize(
    ("status", "next_step"), [(401, "MLFLOW_TRACKING_PASSWORD"), (403, "MLFLOW_TRACKING_PASSWORD"), (500, "log")]
)
@pytest.mark.fault(51, "401, 403 and 500 with a password in the URI", "told, redacted")
def test_a_refusal_is_told_without_the_credentials(new_store, monkeypatch, status, next_step):
    class Refusing(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            body = f"no entry for {self.headers.get('Authorization')} hunter2 at {self.path}".encode()
            self.send_response(200 if self.path == "/health" else status)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def do_POST(self) -> None:
            self.do_GET()

        def log_message(self, *_: object) -> None:
            pass

    monkeypatch.setenv("MLFLOW_TRACKING_USERNAME", "me")
    monkeypatch.setenv("MLFLOW_TRACKING_PASSWORD", "hunter2")
    with ThreadingHTTPServer(("127.0.0.1", 0), Refusing) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        with pytest.raises(StoreError) as caught:
            new_store(f"http://me:p%40ss@127.0.0.1:{server.server_port}").check()
        server.shutdown()
        thread.join()

    text = str(caught.value)
    assert next_step in text
    assert str(status) in text
    for secret in ("hunter2", "p%40ss", "p@ss", "bWU6aHVudGVyMg=="):
        assert secret not in text
    assert caught.value.__suppress_context__


def revision(uri: str, to: str | None = None) -> str:
    with closing(sqlite3.connect(sqlite_path(uri), isolation_level=None)) as db:
        if to is not None:
            db.execute("UPDATE alembic_version SET version_num = ?", (to,))
        return str(db.execute("SELECT version_num FROM alembic_version").fetchone()[0])


@pytest.mark.parametrize("reading", [False, True])
@pytest.mark.fault(49, "an older revision in the database", "refused, not migrated, the command named")
def test_a_database_of_an_older_mlflow_is_not_migrated_and_the_command_is_named(sqlite_uri, new_store, reading):
    revision(sqlite_uri, "451aebb31d03")
    with pytest.raises(StoreError, match=r"older MLflow .*\n.*mlflow db upgrade sqlite:///"):
        sweep_names(sqlite_uri) if reading else new_store(sqlite_uri).check()

    assert revision(sqlite_uri) == "451aebb31d03"


def test_an_old_database_that_lacks_tables_is_not_migrated_either(sqlite_uri, new_store):
    # MLflow takes such a one for new and migrates it unasked.
    revision(sqlite_uri, "451aebb31d03")
    with closing(sqlite3.connect(sqlite_path(sqlite_uri))) as db:
        db.execute("DROP TABLE trace_tags")
    with pytest.raises(StoreError, match="mlflow db upgrade"):
        new_store(sqlite_uri).check()

    assert revision(sqlite_uri) == "451aebb31d03"


@pytest.mark.fault(49, "a newer revision in the database", "refused, the command named")
def test_a_database_of_a_newer_mlflow_is_refused_with_the_command(sqlite_uri, new_store):
    revision(sqlite_uri, "ffffffffffff")
    with pytest.raises(StoreError, match=r"newer MLflow .*\n.*pip install --upgrade mlflow"):
        new_store(sqlite_uri).check()


def test_a_file_that_is_not_mlflows_is_refused(workspace, new_store):
    path = workspace / "mlflow.sqlite"
    with closing(sqlite3.connect(path)) as db:
        db.execute("CREATE TABLE mine (a)")
    with pytest.raises(StoreError, match="not a database of MLflow"):
        new_store(f"sqlite:///{path}").check()

    path.write_bytes(b"text " * 1000)
    with pytest.raises(StoreError, match="cannot be reached: file is not a database"):
        new_store(f"sqlite:///{path}").check()


@pytest.mark.fault(44, "MLflow's sqlite locked at the start", "told in seconds")
def test_a_database_that_is_locked_is_told_in_seconds(sqlite_uri, new_store):
    with closing(sqlite3.connect(sqlite_path(sqlite_uri), isolation_level=None)) as db:
        db.execute("BEGIN EXCLUSIVE")
        with pytest.raises(StoreError, match="locked"):
            new_store(sqlite_uri).check()
        db.execute("ROLLBACK")

    new_store(sqlite_uri).check()


def test_an_experiment_that_is_someone_elses_is_left_alone(file_uri, name, journal, new_store, records):
    client_of(file_uri).create_experiment(name)
    journal.save_plan(records.plan(records.job(0), name=name))

    with pytest.raises(StoreError, match=r"not EdgeSweep's\n.*another name"):
        new_store(file_uri).publish(journal, name)
    assert sweep_names(file_uri) == []


# Readers


def test_a_reader_makes_no_database(workspace):
    uri = f"sqlite:///{workspace / 'mlflow.sqlite'}"
    with pytest.raises(StoreError, match="edgesweep run"):
        sweep_names(uri)
    assert list(workspace.iterdir()) == []


QUIET = """
import sys
from pathlib import Path
from sweeps.store.mlflow import Store
assert "mlflow" not in sys.modules
Store(sys.argv[1], Path(sys.argv[2])).check()
from mlflow.telemetry.client import get_telemetry_client
assert get_telemetry_client() is None
"""


def test_a_new_database_is_made_without_a_word_and_nothing_is_sent_home(workspace, tmp_path):
    path = workspace / "sub" / "mlflow.sqlite"
    path.parent.mkdir()
    # What a killed process leaves of a database that it was making.
    Path(f"{path}.new").write_bytes(b"")
    Path(f"{path}.new-journal").write_bytes(b"half")
    keep = ("PATH", "HOME", "VIRTUAL_ENV", "PYTHONPATH")
    environment = {name: os.environ[name] for name in keep if name in os.environ}
    done = subprocess.run(
        [sys.executable, "-c", QUIET, f"sqlite:///{path}", str(workspace / "artifacts")],
        capture_output=True,
        text=True,
        check=False,
        cwd=tmp_path,
        env=environment | {"PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
    )

    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    assert [entry.name for entry in path.parent.iterdir()] == ["mlflow.sqlite"]
    assert list(tmp_path.iterdir()) == [workspace]
