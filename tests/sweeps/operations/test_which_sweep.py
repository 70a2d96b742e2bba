"""Commands find the sweep that is meant where none is named, and the device by the names that EdgeSweep prints."""

from dataclasses import replace

import pytest
from click.testing import CliRunner

from dashboard.words import build_names
from sweeps.cli.main import main
from sweeps.errors import EdgeSweepError, StoreError
from sweeps.journal.journal import Journal
from sweeps.operations.build_name import build_named, job_named
from sweeps.operations.stored_results import connectable, results_of
from sweeps.store.mlflow import Store
from sweeps.workspace import Workspace
from tests.store_double import doubled


@pytest.fixture
def workspace(tmp_path, monkeypatch):
    monkeypatch.delenv("MLFLOW_TRACKING_URI", raising=False)
    with doubled():
        yield Workspace.open(tmp_path)


def test_the_latest_sweep_without_results_is_named_with_the_others(workspace, records):
    job = records.job(0)
    with Journal.open(workspace.journal) as journal:
        journal.save_plan(records.plan(job, name="first"))
        for round_ in range(3):
            journal.attempts.add_block(records.block(job, round_))
        journal.attempts.add_accuracy(records.accuracy(job))
        Store(workspace.tracking_uri, workspace.mlflow_artifacts).publish(journal, "first")
        journal.save_plan(records.plan(records.job(1), name="second"))
    assert results_of(workspace, "first").name == "first"
    with pytest.raises(StoreError, match="second, the latest sweep here, has no results yet") as caught:
        results_of(workspace, None)
    assert caught.value.next_step == "name another one: first"


def test_every_name_that_is_printed_for_a_device_is_accepted(workspace, records, tmp_path):
    facts = replace(records.facts, name="adb:192.168.1.5:5555", device_id="R58M12AB3CD")
    job = replace(records.job(0), device_id=facts.device_id)
    with Journal.open(workspace.journal) as journal:
        journal.save_plan(records.plan(job, facts=(facts,)))
        for round_ in range(3):
            journal.attempts.add_block(records.block(job, round_))
        journal.attempts.add_accuracy(records.accuracy(job))
    where = ["--workspace", str(workspace.root)]
    shown = CliRunner().invoke(main, ["rank", *where]).stdout
    assert facts.name in shown
    table = tmp_path / "out.csv"
    for name in (facts.name, facts.device_id, facts.device_class):
        for command in (["rank"], ["report", "--csv", str(table)]):
            done = CliRunner().invoke(main, [*command, *where, "--device", name])
            assert done.exit_code == 0, done.output
        assert facts.device_id in table.read_text("utf-8-sig")
        assert connectable(workspace, name) == facts.name  # `check` and `profile`
        exported = CliRunner().invoke(main, ["export", *where, "--device", name])
        assert "there are no results for a device" not in exported.output
    assert connectable(workspace, "adb:elsewhere") == "adb:elsewhere"


def test_a_job_is_found_by_what_pages_and_reports_call_it(records):
    own_rows = [records.row(records.job(number)) for number in (0, 1)]
    for row in own_rows:
        name = build_names(own_rows)[row.job_key]
        assert job_named(own_rows, name) == job_named(own_rows, name.upper()) == row.name
    other_rows = [
        replace(row, device_id="other", name=f"{row.name} · other", job_key=f"{row.job_key}2") for row in own_rows
    ]
    name = build_names(own_rows)[own_rows[0].job_key]
    assert job_named(own_rows, "cpu fp32") == "cpu fp32"
    with pytest.raises(EdgeSweepError, match="2 jobs are called") as caught:
        job_named([*own_rows, *other_rows], name)
    assert "--device" in caught.value.next_step
    assert job_named([*own_rows, *other_rows], name, model="another") == name


def test_a_build_to_profile_is_one_on_however_many_devices_it_was_run(records):
    own_rows = [records.row(records.job(number)) for number in (0, 1)]
    other_rows = [
        replace(row, device_id="other", name=f"{row.name} · other", job_key=f"{row.job_key}2") for row in own_rows
    ]
    for row, elsewhere in zip(own_rows, other_rows, strict=True):
        for text in (build_names(own_rows)[row.job_key], row.name.removeprefix(f"{row.model} · ")):
            assert build_named([*own_rows, *other_rows], text, "local") is row, "wherever it was run: it is one build"
        assert build_named([*own_rows, *other_rows], build_names(own_rows)[row.job_key], "other") is elsewhere
    name = build_names(own_rows)[own_rows[0].job_key]
    other_builds = [replace(row, build_key=f"{row.build_key}2") for row in other_rows]
    assert build_named([*own_rows, *other_builds], name, "other") is other_builds[0]
    with pytest.raises(EdgeSweepError, match="2 jobs are called") as caught:
        build_named([*own_rows, *other_builds], name, "local")
    assert caught.value.next_step.startswith("give one whole, or choose a --device: net")
    with pytest.raises(EdgeSweepError, match="no measured job is called 'int9'") as caught:
        build_named(own_rows, "int9", "local")
    assert caught.value.next_step == f"find the names with: edgesweep rank {own_rows[0].sweep} --all"
