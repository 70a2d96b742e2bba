"""People list, rename, archive and delete whole sweeps."""

import json
import os
import shutil
import signal
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from click.testing import CliRunner, Result
from mlflow.exceptions import MlflowException

from sweeps.cli.main import main
from sweeps.errors import StoreError
from sweeps.journal.journal import Journal
from sweeps.journal.journal_check import verify
from sweeps.journal.rebuild import rebuild
from sweeps.journal.sweep_table import Sweeps
from sweeps.launching.record import kept_file
from sweeps.operations import sweep_admin
from sweeps.store.beside import LABELS, NOTE
from sweeps.store.client import active_runs
from sweeps.store.lag import Lag, read_lag
from sweeps.store.mlflow import Store
from sweeps.store.outbox import Outbox
from sweeps.store.owner import Owner, named, own_marks, read_owner, separate, take_over
from sweeps.store.read_journal import read_sweep
from sweeps.store.run_content import JOB_KEY, RECORD
from sweeps.store.verify import verify_published
from sweeps.workspace import Workspace
from tests.builders import imported_of
from tests.store_double import DoubleClient, doubled

HAND_RUN = imported_of(variant="as the phone's app runs it", device="Globex Phone 9", mean_ms=7.0)


@pytest.fixture
def two(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, records: Any) -> Iterator[SimpleNamespace]:
    """`first` has jobs 0 and 1, `second` has 1 and 2: all measured, published, with artifacts."""
    monkeypatch.delenv("MLFLOW_TRACKING_URI", raising=False)
    jobs = [records.job(number) for number in range(3)]
    with doubled():
        workspace = Workspace.open(tmp_path / "ws")
        store = Store(workspace.tracking_uri, workspace.mlflow_artifacts)
        with Journal.open(workspace.journal) as journal:
            for name, own_jobs in (("first", jobs[:2]), ("second", jobs[1:])):
                journal.save_plan(records.plan(*own_jobs, name=name))
                for job in own_jobs:
                    for round_ in () if journal.attempts.blocks(job.key) else range(3):
                        journal.attempts.add_block(records.block(job, round_))
                    journal.attempts.add_accuracy(records.accuracy(job))
                    workspace.artifact(job.build_key).mkdir(parents=True, exist_ok=True)
                    (workspace.artifact(job.build_key) / "model.pt").write_bytes(b"x" * 1000)
                store.publish(journal, name)
        yield SimpleNamespace(workspace=workspace, jobs=jobs, client=DoubleClient(workspace.tracking_uri))


def sweeps(workspace: Workspace, *words: str, answer: str = "") -> Result:
    return CliRunner().invoke(main, ["sweeps", *words, "--workspace", str(workspace.root)], input=answer)


def listed(workspace: Workspace) -> dict[str, dict[str, Any]]:
    return {sweep["name"]: sweep for sweep in json.loads(sweeps(workspace, "--json").stdout)}


def experiments(two: SimpleNamespace) -> list[str]:
    return sorted(experiment.name for experiment in two.client.search_experiments())


def findings(workspace: Workspace) -> list[Any]:
    with Journal.open(workspace.journal, read_only=True) as journal:
        findings = [*verify(workspace.journal).findings, *verify_published(workspace, journal).findings]
    # No build was journaled.
    return [finding for finding in findings if "not known as a build" not in finding.message]


def test_the_list_has_each_sweep_with_what_people_wrote(two: SimpleNamespace) -> None:
    assert sweeps(two.workspace, "tag", "first", "team=vision", "stage=new").exit_code == 0
    assert sweeps(two.workspace, "tag", "first", "stage=old", "--remove", "team").exit_code == 0
    assert sweeps(two.workspace, "note", "first", "before the new camera").exit_code == 0
    sweep_of = listed(two.workspace)
    assert list(sweep_of) == ["second", "first"]
    assert [sweep_of["first"][name] for name in ("jobs", "measured", "failed")] == [2, 2, 0]
    assert (sweep_of["first"]["tags"], sweep_of["first"]["note"]) == ({"stage": "old"}, "before the new camera")
    shown = sweeps(two.workspace).stdout
    assert "before the new camera" in shown
    assert "stage=old" in shown
    [first] = [experiment for experiment in two.client.search_experiments() if experiment.name == "first"]
    assert first.tags["mlflow.note.content"] == "before the new camera"


def test_the_workspace_may_be_named_before_the_subcommand_and_the_one_after_it_wins(
    two: SimpleNamespace, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("EDGESWEEP_WORKSPACE", str(tmp_path / "another"))
    named = ["sweeps", "--workspace", str(two.workspace.root), "--json"]
    noted = CliRunner().invoke(main, [*named, "note", "first", "mine"])
    assert json.loads(noted.stdout)["note"] == "mine"
    elsewhere = CliRunner().invoke(main, [*named, "delete", "first", "--yes", "--workspace", str(tmp_path / "none")])
    assert f"no sweep was run in {tmp_path / 'none'}" in elsewhere.stderr
    refused = CliRunner().invoke(main, [*named, "rename", "first", "third"])
    assert refused.exit_code == 2
    assert "No such option '--json'" in refused.stderr
    assert sorted(listed(two.workspace)) == ["first", "second"]


@pytest.mark.parametrize(("deleted", "stays", "alone"), [("first", "second", 0), ("second", "first", 2)])
def test_a_deleted_sweep_leaves_nothing_and_takes_nothing_from_others(
    two: SimpleNamespace, deleted: str, stays: str, alone: int
) -> None:
    workspace, jobs = two.workspace, two.jobs
    logs = [workspace.failed_build_log(job.build_key) for job in jobs]
    files = [kept_file(workspace, name) for name in (deleted, stays)]
    for file in (*logs, *files, workspace.verdicts):
        file.parent.mkdir(parents=True, exist_ok=True)
        file.touch()
    with Journal.open(workspace.journal) as journal, Outbox.of(workspace, journal, stays) as outbox:
        outbox.publish()
    before = read_sweep(workspace.journal, stays).frame
    done = json.loads(sweeps(workspace, "delete", deleted, "--yes", "--json").stdout)
    assert [done[name] for name in ("jobs", "builds", "bytes", "runs", "left")] == [2, 1, 1000, 3, []]
    assert list(listed(workspace)) == [stays]
    assert experiments(two) == [stays]
    stays_at = [number != alone for number in range(3)]
    assert [workspace.artifact(job.build_key).exists() for job in jobs] == stays_at
    assert [log.exists() for log in logs] == stays_at
    assert [file.exists() for file in files] == [False, True]
    assert workspace.verdicts.exists()
    assert not (workspace.mlflow_artifacts / deleted).exists()
    assert read_sweep(workspace.journal, stays).frame.equals(before)
    with Journal.open(workspace.journal) as journal:
        journal.results.watermark()
        assert read_lag(workspace, journal, stays) == Lag(jobs=0, since=None)
        counts = [len(journal.attempts.blocks(job.key)) for job in jobs]
    assert counts == [3 * stay for stay in stays_at]
    rebuild(workspace.journal)
    assert read_sweep(workspace.journal, stays).frame.equals(before)
    assert findings(workspace) == []


@pytest.mark.parametrize("ms", [5.0, 6.0], ids=["the same figures", "figures of its own"])
def test_runs_of_another_workspace_on_the_server_stay_until_they_are_deleted_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, records: Any, ms: float
) -> None:
    server = f"sqlite:///{tmp_path / 'server.sqlite'}"
    monkeypatch.setenv("MLFLOW_TRACKING_URI", server)
    own, other = (Workspace.open(tmp_path / name) for name in ("one", "other"))
    # Both workspaces are of one computer: job 0 has the same key in both; job 1 is of the first alone.
    for workspace, numbers, latency in ((own, (0, 1), 5.0), (other, (0,), ms)):
        with Journal.open(workspace.journal) as journal, doubled():
            jobs = [records.job(number) for number in numbers]
            journal.save_plan(records.plan(*jobs, skipped=(records.skipped(),), name="shared"))
            journal.imports.add("shared", HAND_RUN)
            for job in jobs:
                for round_ in range(2):
                    journal.attempts.add_block(records.block(job, round_, ms=latency))
                journal.attempts.add_accuracy(records.accuracy(job))
            Store(workspace.tracking_uri, workspace.mlflow_artifacts).publish(journal, "shared")
    with doubled():
        done = json.loads(sweeps(own, "delete", "shared", "--yes", "--json").stdout)
        assert (done["runs"], done["others"]) == (5, 4)
        left = [run for run in active_runs(DoubleClient(server), ["1"]) if run.data.tags[RECORD] != "sweep"]
        assert len(left) == 3
        assert [
            run.data.metrics.get("latency_p50_ms") for run in left if run.data.tags.get(JOB_KEY) == jobs[0].key
        ] == [pytest.approx(ms, rel=0.01)]
        assert findings(other) == []
        done = json.loads(sweeps(other, "delete", "shared", "--yes", "--json").stdout)
        assert (done["runs"], done["others"]) == (4, 0)
        assert DoubleClient(server).search_experiments() == []


def test_a_workspace_that_was_separated_knows_whose_copy_it_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MLFLOW_TRACKING_URI", "http://127.0.0.1:9")
    workspace = Workspace.open(tmp_path)
    assert own_marks(workspace) == frozenset()
    first = named(workspace).name
    assert own_marks(workspace) == {first}
    second = separate(workspace).name
    third = separate(workspace)
    assert (len({first, second, third.name}), third.originals) == (3, (second, first))
    assert take_over(workspace) == 2
    assert (read_owner(workspace).taken_over, read_owner(workspace).originals) == ((second, first), ())
    assert take_over(workspace) == 0
    monkeypatch.delenv("MLFLOW_TRACKING_URI")
    assert own_marks(workspace) == {""}, "in its own database it needs no name"
    workspace.published_as.write_bytes(b"\xff")
    assert read_owner(workspace) == Owner()


def test_a_name_that_does_not_fit_on_the_disk_is_told_and_made_when_there_is_room(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    workspace = Workspace.open(tmp_path)
    (tmp_path / f".{bytes(8).hex()}.part").symlink_to("/dev/full")
    with monkeypatch.context() as patch:
        patch.setattr("sweeps.whole_file.os.urandom", bytes)  # the name of the next hidden file
        with pytest.raises(StoreError, match="published-as cannot be written: No space left on device") as caught:
            named(workspace)
    assert "free space there" in str(caught.value.next_step)
    assert [*tmp_path.iterdir()] == [], "and nothing is left that would be taken for a name"
    owner = named(workspace)
    assert read_owner(workspace) == owner


def test_a_restored_workspace_leaves_its_original_s_runs_until_told_that_it_is_gone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, records: Any
) -> None:
    server = f"sqlite:///{tmp_path / 'server.sqlite'}"
    monkeypatch.setenv("MLFLOW_TRACKING_URI", server)
    workspace = Workspace.open(tmp_path / "one")
    job = records.job(0)
    with doubled():
        with Journal.open(workspace.journal) as journal:
            journal.save_plan(records.plan(job, name="shared"))
            for round_ in range(2):
                journal.attempts.add_block(records.block(job, round_))
            journal.attempts.add_accuracy(records.accuracy(job))
            Store(workspace.tracking_uri, workspace.mlflow_artifacts).publish(journal, "shared")
        saved, restored = str(tmp_path / "saved.tar"), Workspace(tmp_path / "restored")
        back = ("restore", saved, "--workspace", str(restored.root))
        assert journal_command("backup", saved, "--workspace", str(workspace.root)).exit_code == 0
        assert "journal take-over --workspace" in journal_command(*back).stdout
        with Journal.open(restored.journal) as journal:
            Store(restored.tracking_uri, restored.mlflow_artifacts).publish(journal, "shared")
        left = json.loads(sweeps(restored, "delete", "shared", "--yes", "--json").stdout)
        assert (left["runs"], left["others"]) == (2, 2)
        shutil.rmtree(restored.root)
        assert journal_command(*back).exit_code == 0

        place = ("--workspace", str(restored.root))
        refused = journal_command("take-over", *place, answer="n\n")
        assert refused.exit_code == 1
        assert read_owner(restored).taken_over == ()
        assert journal_command("take-over", "--yes", *place).exit_code == 0
        assert "is no copy of a workspace" in journal_command("take-over", "--yes", *place).stderr
        done = json.loads(sweeps(restored, "delete", "shared", "--yes", "--json").stdout)
        assert (done["runs"], done["others"]) == (2, 0)
        assert DoubleClient(server).search_experiments() == []


def journal_command(*words: str, answer: str = "") -> Result:
    return CliRunner().invoke(main, ["journal", *words], input=answer)


def test_what_cannot_be_removed_is_told_and_not_counted(two: SimpleNamespace, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shutil, "rmtree", lambda *_, **__: None)
    done = sweeps(two.workspace, "delete", "first", "--yes")
    assert "(0.00 MB)" in done.stdout
    assert f"1 could not be removed, the first is {two.workspace.artifacts}" in done.stderr


@pytest.mark.parametrize("command", [("rename", "first", "third"), ("delete", "first")])
def test_what_changes_on_a_server_is_asked_for_by_its_name(
    two: SimpleNamespace, monkeypatch: pytest.MonkeyPatch, command: tuple[str, ...]
) -> None:
    place = two.workspace.root.parent / "server.sqlite"
    monkeypatch.setenv("MLFLOW_TRACKING_URI", f"sqlite:///{place}")
    with Journal.open(two.workspace.journal) as journal, doubled():
        Store(two.workspace.tracking_uri, two.workspace.mlflow_artifacts).publish(journal, "first")
    refused = sweeps(two.workspace, *command, answer="n\n")
    assert refused.exit_code == 1
    assert f"3 runs of MLflow at sqlite:///{place}" in refused.stderr
    assert sorted(listed(two.workspace)) == ["first", "second"]
    assert sweeps(two.workspace, *command, answer="y\n").exit_code == 0


@pytest.mark.parametrize("deleted", [False, True])
def test_a_name_that_is_taken_in_mlflow_is_refused_before_anything_is_changed(
    two: SimpleNamespace, deleted: bool
) -> None:
    experiment_id = two.client.create_experiment("third")
    if deleted:
        two.client.delete_experiment(experiment_id)
    refused = sweeps(two.workspace, "rename", "first", "third")
    assert refused.exit_code == 1
    assert f"has {'a deleted' if deleted else 'an'} experiment 'third' already" in refused.stderr
    assert sorted(listed(two.workspace)) == ["first", "second"]
    assert findings(two.workspace) == []


@pytest.mark.parametrize("then", ["journal publish third", "rename third first", "delete third --yes"])
def test_an_old_name_is_remembered_until_mlflow_has_nothing_under_it(
    two: SimpleNamespace, monkeypatch: pytest.MonkeyPatch, then: str
) -> None:
    with monkeypatch.context() as patch:
        patch.setattr(DoubleClient, "delete_experiment", refusing)
        renamed = sweeps(two.workspace, "rename", "first", "third")
    assert "It has its new name here, but not in MLflow" in renamed.stderr
    assert experiments(two) != ["second", "third"]
    words = then.split() if then.startswith("journal") else ["sweeps", *then.split()]
    done = CliRunner().invoke(main, [*words, "--workspace", str(two.workspace.root)])
    assert (done.exit_code, done.exception) == (0, None), done.output
    assert experiments(two) == {"j": ["second", "third"], "r": ["first", "second"], "d": ["second"]}[then[0]]
    with Journal.open(two.workspace.journal) as journal:
        assert journal.file.rows("SELECT * FROM former_names") == []
    assert findings(two.workspace) == []


def refusing(*_: Any) -> None:
    raise MlflowException("no")


def test_a_renamed_sweep_file_from_the_browser_has_the_new_name(two: SimpleNamespace) -> None:
    file = kept_file(two.workspace, "first")
    file.parent.mkdir()
    file.write_text("models: []\nname: first # mine\n")
    sweeps(two.workspace, "rename", "first", "third")
    assert not file.exists()
    assert kept_file(two.workspace, "third").read_text() == 'models: []\nname: "third"\n'


def test_labels_from_before_the_first_publication_arrive_with_it_and_can_be_removed(
    two: SimpleNamespace, records: Any
) -> None:
    with Journal.open(two.workspace.journal) as journal:
        journal.save_plan(records.plan(two.jobs[0], name="new"))
        sweeps(two.workspace, "note", "new", "line 1\nline 2")
        sweeps(two.workspace, "tag", "new", "team=vision")
        with Outbox.of(two.workspace, journal, "new") as outbox:
            outbox.publish()
            tags = two.client.get_experiment_by_name("new").tags
            assert (tags[NOTE], tags[LABELS]) == ("line 1\nline 2", '{"team": "vision"}')
    sweeps(two.workspace, "note", "new", "")
    sweeps(two.workspace, "tag", "new", "--remove", "team")
    tags = two.client.get_experiment_by_name("new").tags
    assert (tags[NOTE], tags[LABELS]) == ("", "{}")


@pytest.mark.parametrize("words", [("rename", "a", "b"), ("delete", "a", "--yes"), ("note", "a", "b")])
def test_a_folder_without_sweeps_is_told_and_stays_as_it_is(tmp_path: Path, words: tuple[str, ...]) -> None:
    refused = sweeps(Workspace(tmp_path / "none"), *words)
    assert "no sweep was run in" in refused.stderr
    assert not (tmp_path / "none").exists()


def test_a_name_that_was_deleted_can_be_used_again(two: SimpleNamespace, records: Any) -> None:
    sweeps(two.workspace, "delete", "first", "--yes")
    with Journal.open(two.workspace.journal) as journal:
        journal.save_plan(records.plan(two.jobs[1], name="first"))
        Store(two.workspace.tracking_uri, two.workspace.mlflow_artifacts).publish(journal, "first")
    assert experiments(two) == ["first", "second"]
    assert findings(two.workspace) == []


@pytest.mark.parametrize("answer", ["n\n", "\n", ""], ids=["no", "return", "end of input"])
def test_nothing_is_deleted_without_a_yes(two: SimpleNamespace, answer: str) -> None:
    refused = sweeps(two.workspace, "delete", "first", answer=answer)
    assert refused.exit_code == 1
    assert "Delete first for good: 2 jobs" in refused.stderr
    assert len(listed(two.workspace)) == 2
    assert sweeps(two.workspace, "delete", "first", answer="y\n").exit_code == 0


def test_ctrl_c_in_the_middle_takes_effect_when_all_is_deleted(
    two: SimpleNamespace, monkeypatch: pytest.MonkeyPatch
) -> None:
    take_out = sweep_admin.take_out

    def pressed(*words: Any) -> int:
        os.kill(os.getpid(), signal.SIGINT)
        return take_out(*words)

    monkeypatch.setattr(sweep_admin, "take_out", pressed)
    ended = sweeps(two.workspace, "delete", "first", "--yes")
    assert ended.exit_code == 130
    assert "first is deleted" in ended.stdout
    assert (list(listed(two.workspace)), experiments(two)) == (["second"], ["second"])
    assert findings(two.workspace) == []


def killed(*_words: Any, **_named: Any) -> Any:
    raise MemoryError("as if it was killed here")


@pytest.mark.parametrize(("of", "last"), [(sweep_admin, "take_out"), (Sweeps, "delete")])
def test_what_was_cut_off_is_still_listed_and_can_be_deleted_again(
    two: SimpleNamespace, monkeypatch: pytest.MonkeyPatch, of: Any, last: str
) -> None:
    with monkeypatch.context() as patch:
        patch.setattr(of, last, killed)
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
    assert renamed.exit_code == 0
    assert "Publishing to MLflow: 2 of 2" in renamed.stderr
    assert "name: third" in renamed.stdout
    sweep = read_sweep(workspace.journal, "third")
    assert (sweep.spec.name, set(sweep.frame.sweep)) == ("third", {"third"})
    assert sweep.frame.drop(columns="sweep").equals(before)
    assert experiments(two) == ["second", "third"]
    assert listed(workspace)["third"]["note"] == "kept"
    assert findings(workspace) == []


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("delete", "frist", "--yes"), "did you mean 'first'"),
        (("rename", "first", "second"), "there is a sweep called 'second' already"),
        (("rename", "first", "a/b"), "'a/b' cannot be the name of a sweep"),
        (("tag", "first", "new"), "write for instance new=yes"),
        (("tag", "first", "a b=1"), "cannot be a tag"),
        (("tag", "first", "--remove", "team"), "first has no tag 'team'"),
        (("note", "first", "x" * 4001), "the note has 4,001 characters"),
        (("note", "first", "a\udcff"), "a control character, or is no UTF-8"),
        (("note", "first", "\x1b[2J"), "a control character, or is no UTF-8"),
        (("tag", "first", "a=\udcff"), "cannot be a tag"),
        (("tag", "first", *(f"t{number}={'x' * 900}" for number in range(5))), "more than 4,000 characters"),
    ],
)
def test_a_mistake_is_told_with_its_next_step(two: SimpleNamespace, words: tuple[str, ...], message: str) -> None:
    refused = sweeps(two.workspace, *words)
    assert refused.exit_code == 1
    assert message in refused.stderr
    assert "next: " in refused.stderr
    assert sorted(listed(two.workspace)) == ["first", "second"]
