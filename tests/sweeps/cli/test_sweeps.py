"""What people do with whole sweeps."""

import json
import os
import signal
import sqlite3
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from click.testing import CliRunner, Result

from sweeps.cli.main import main
from sweeps.journal.journal import Journal
from sweeps.journal.verify import verify
from sweeps.operations import kept_sweeps
from sweeps.store.mlflow import Store
from sweeps.store.read_journal import read_sweep
from sweeps.store.verify import verify_published
from sweeps.workspace import Workspace
from tests.store_double import DoubleClient, doubled


@pytest.fixture
def two(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, records: Any) -> Iterator[SimpleNamespace]:
    """`first` has jobs 0 and 1, `second` has 1 and 2: all measured, published, with artifacts."""
    monkeypatch.delenv("MLFLOW_TRACKING_URI", raising=False)
    jobs = [records.job(number) for number in range(3)]
    with doubled():
        workspace = Workspace.open(tmp_path / "ws")
        store = Store(workspace.tracking_uri, workspace.mlflow_artifacts)
        with Journal.open(workspace.journal) as journal:
            for name, mine in (("first", jobs[:2]), ("second", jobs[1:])):
                journal.save_plan(records.plan(*mine, name=name))
                for job in mine:
                    for round_ in () if journal.blocks(job.key) else range(3):
                        journal.add_block(records.block(job, round_))
                    journal.add_accuracy(records.accuracy(job))
                    workspace.artifact(job.build_key).mkdir(parents=True, exist_ok=True)
                    (workspace.artifact(job.build_key) / "model.pt").write_bytes(b"x" * 1000)
                store.publish(journal, name)
        yield SimpleNamespace(workspace=workspace, jobs=jobs, client=DoubleClient(workspace.tracking_uri))


def sweeps(workspace: Workspace, *words: str, answer: str = "") -> Result:
    return CliRunner().invoke(main, ["sweeps", *words, "--workspace", str(workspace.root)], input=answer)


def listed(workspace: Workspace) -> dict[str, dict[str, Any]]:
    return {one["name"]: one for one in json.loads(sweeps(workspace, "--json").stdout)}


def experiments(two: SimpleNamespace) -> list[str]:
    return sorted(found.name for found in two.client.search_experiments())


def findings(workspace: Workspace) -> list[Any]:
    with Journal.open(workspace.journal, read_only=True) as journal:
        found = [*verify(workspace.journal).findings, *verify_published(workspace, journal).findings]
    # No build was journaled.
    return [one for one in found if "not known as a build" not in one.message]


def test_the_list_has_each_sweep_with_what_people_wrote(two: SimpleNamespace) -> None:
    assert sweeps(two.workspace, "tag", "first", "team=vision", "stage=new").exit_code == 0
    assert sweeps(two.workspace, "tag", "first", "stage=old", "--remove", "team").exit_code == 0
    assert sweeps(two.workspace, "note", "first", "before the new camera").exit_code == 0
    found = listed(two.workspace)
    assert list(found) == ["second", "first"]
    assert [found["first"][name] for name in ("jobs", "measured", "failed")] == [2, 2, 0]
    assert (found["first"]["tags"], found["first"]["note"]) == ({"stage": "old"}, "before the new camera")
    shown = sweeps(two.workspace).stdout
    assert "before the new camera" in shown
    assert "stage=old" in shown
    [first] = [one for one in two.client.search_experiments() if one.name == "first"]
    assert first.tags["mlflow.note.content"] == "before the new camera"


def test_a_deleted_sweep_leaves_nothing_and_takes_nothing_from_others(two: SimpleNamespace) -> None:
    workspace, jobs = two.workspace, two.jobs
    before = read_sweep(workspace.journal, "second").frame
    done = json.loads(sweeps(workspace, "delete", "first", "--yes", "--json").stdout)
    assert (done["jobs"], done["builds"], done["bytes"], done["runs"]) == (2, 1, 1000, 3)
    assert list(listed(workspace)) == ["second"]
    assert experiments(two) == ["second"]
    assert [workspace.artifact(job.build_key).exists() for job in jobs] == [False, True, True]
    assert not (workspace.mlflow_artifacts / "first").exists()
    assert read_sweep(workspace.journal, "second").frame.equals(before)
    with sqlite3.connect(workspace.journal) as db:
        assert db.execute("SELECT count(*) FROM attempts WHERE key = ?", (jobs[0].key,)).fetchone() == (0,)
        assert db.execute("SELECT count(*) FROM attempts WHERE key = ?", (jobs[1].key,)).fetchone() == (3,)
    assert findings(workspace) == []


def test_a_name_that_was_deleted_can_be_used_again(two: SimpleNamespace, records: Any) -> None:
    sweeps(two.workspace, "delete", "first", "--yes")
    with Journal.open(two.workspace.journal) as journal:
        journal.save_plan(records.plan(two.jobs[1], name="first"))
        Store(two.workspace.tracking_uri, two.workspace.mlflow_artifacts).publish(journal, "first")
    assert experiments(two) == ["first", "second"]
    assert findings(two.workspace) == []


@pytest.mark.parametrize("answer", ["n\n", "\n", ""], ids=["no", "return", "end of input"])
def test_nothing_is_deleted_without_a_yes(two: SimpleNamespace, answer: str) -> None:
    asked = sweeps(two.workspace, "delete", "first", answer=answer)
    assert asked.exit_code == 1
    assert "Delete first for good: 2 jobs" in asked.stderr
    assert len(listed(two.workspace)) == 2
    assert sweeps(two.workspace, "delete", "first", answer="y\n").exit_code == 0


def test_ctrl_c_in_the_middle_takes_effect_when_all_is_deleted(
    two: SimpleNamespace, monkeypatch: pytest.MonkeyPatch
) -> None:
    deleted = kept_sweeps.delete_experiment

    def pressed(*words: Any) -> int:
        os.kill(os.getpid(), signal.SIGINT)
        return deleted(*words)

    monkeypatch.setattr(kept_sweeps, "delete_experiment", pressed)
    ended = sweeps(two.workspace, "delete", "first", "--yes")
    assert ended.exit_code == 130
    assert "first is deleted" in ended.stdout
    assert (list(listed(two.workspace)), experiments(two)) == (["second"], ["second"])
    assert findings(two.workspace) == []


@pytest.mark.parametrize("last", ["delete_experiment", "open_journal"])
def test_what_was_cut_off_is_still_listed_and_can_be_deleted_again(
    two: SimpleNamespace, monkeypatch: pytest.MonkeyPatch, last: str
) -> None:
    called = getattr(kept_sweeps, last)

    def killed(*words: Any, **named: Any) -> Any:
        if last == "delete_experiment" or named:
            raise MemoryError("as if it was killed here")
        return called(*words, **named)

    with monkeypatch.context() as patch:
        patch.setattr(kept_sweeps, last, killed)
        assert isinstance(sweeps(two.workspace, "delete", "first", "--yes").exception, MemoryError)
    assert list(listed(two.workspace)) == ["second", "first"]
    assert sweeps(two.workspace, "delete", "first", "--yes").exit_code == 0
    assert (list(listed(two.workspace)), experiments(two)) == (["second"], ["second"])


@pytest.mark.parametrize("words", [("delete", "first", "--yes"), ("rename", "first", "third")])
def test_it_is_refused_while_a_sweep_runs(two: SimpleNamespace, words: tuple[str, ...]) -> None:
    with two.workspace.lock():
        refused = sweeps(two.workspace, *words)
    assert refused.exit_code == 1
    assert f"is locked by process {os.getpid()}" in refused.stderr
    assert len(listed(two.workspace)) == 2


def test_a_renamed_sweep_has_its_results_runs_and_labels_under_the_new_name(two: SimpleNamespace) -> None:
    workspace = two.workspace
    sweeps(workspace, "note", "first", "kept")
    before = read_sweep(workspace.journal, "first").frame.drop(columns="sweep")
    renamed = sweeps(workspace, "rename", "first", "third")
    assert (renamed.exit_code, renamed.stderr) == (0, "")
    assert "name: third" in renamed.stdout
    found = read_sweep(workspace.journal, "third")
    assert (found.spec.name, set(found.frame.sweep)) == ("third", {"third"})
    assert found.frame.drop(columns="sweep").equals(before)
    assert experiments(two) == ["second", "third"]
    assert listed(workspace)["third"]["note"] == "kept"
    assert findings(workspace) == []


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (("delete", "frist", "--yes"), "did you mean 'first'"),
        (("rename", "first", "second"), "there is a sweep called 'second' already"),
        (("rename", "first", "a/b"), "'a/b' cannot be the name of a sweep"),
        (("tag", "first", "new"), "write for instance new=yes"),
        (("tag", "first", "a b=1"), "cannot be a tag"),
        (("tag", "first", "--remove", "team"), "first has no tag 'team'"),
        (("note", "first", "x" * 4001), "the note has 4,001 characters"),
    ],
)
def test_a_mistake_is_told_with_its_next_step(two: SimpleNamespace, words: tuple[str, ...], told: str) -> None:
    refused = sweeps(two.workspace, *words)
    assert refused.exit_code == 1
    assert told in refused.stderr
    assert "next: " in refused.stderr
    assert sorted(listed(two.workspace)) == ["first", "second"]
