"""`edgesweep compare` on what the real journal and store hold."""

import json
from dataclasses import replace
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from sweeps.cli.main import main
from sweeps.journal.journal import Journal
from sweeps.settled import Settled
from sweeps.store.mlflow import Store
from sweeps.workspace import Workspace
from tests.fresh_mlflow import fresh_mlflow


@pytest.fixture(scope="module")
def workspace(records, tmp_path_factory: pytest.TempPathFactory) -> Workspace:
    """Sweeps `before`, `after` (one variant slower, one the same), `wide` (rounds that differ) and `elsewhere` (another
    preset), each on three days; `today` is `after`, on one day. The sentinel had the same speed on all 13 days."""
    workspace = Workspace.open(tmp_path_factory.mktemp("workspace"))
    fresh_mlflow(workspace.root)
    sweeps = {"before": (10.0, 20.0), "after": (12.0, 20.0), "wide": (10.0, 20.0), "elsewhere": (10.0, 20.0)}
    sweeps["today"] = sweeps["after"]
    start = 1_790_000_000
    sentinel = records.job(9)
    with pytest.MonkeyPatch.context() as patch, Journal.open(workspace.journal) as journal:
        patch.delenv("MLFLOW_TRACKING_URI", raising=False)
        for number, (name, times) in enumerate(sweeps.items()):
            jobs = [records.job(n, key=f"{name} {n}", sentinel=sentinel.key) for n in (0, 1)]
            plan = records.plan(*jobs, name=name)
            if name == "elsewhere":
                protocol = plan.sweep.protocol.model_copy(update={"min_seconds": 0.9})
                plan = replace(plan, sweep=plan.sweep.model_copy(update={"protocol": protocol}))
            journal.save_plan(plan)
            spread = 0.2 if name == "wide" else 0.001
            for job, ms in zip(jobs, times, strict=True):
                for round_ in range(2 if name == "today" else 6):
                    day = start + 86_400 * (3 * number + round_ // 2)
                    journal.attempts.add_block(
                        records.block(job, round_, ms * (1 + spread * (round_ % 2)), session=day)
                    )
                    journal.attempts.add_block(records.block(sentinel, 100 * number + round_, session=day))
                journal.attempts.add_accuracy(records.accuracy(job))
            Store(workspace.tracking_uri, workspace.mlflow_artifacts).publish(journal, name)
        _race(workspace, records, journal)
    return workspace


def _race(workspace: Workspace, records, journal: Journal) -> None:
    """The sweep `raced`: batches decided, so one has three blocks that confirm it, the other one that checks them."""
    jobs = [records.job(n, key=f"raced {n}") for n in (0, 1)]
    plan = records.plan(*jobs, name="raced")
    plan = replace(plan, sweep=plan.sweep.model_copy(update={"budget": "race"}))
    journal.save_plan(plan)
    question = journal.jobs.planned("raced", jobs[0].key).protocol.question
    ended = Settled(
        job_key=jobs[0].key,
        budget="race",
        rounds=0,
        reason="best",
        message="decided",
        batches=4,
        batches_decide=True,
        question=question,
    )
    beside = replace(ended, job_key=jobs[1].key, by_key=jobs[0].key, ratio=1.01, ratio_low=0.99, ratio_high=1.03)
    journal.attempts.add_settled(replace(ended, leads=True, confirmations=3))
    journal.attempts.add_settled(replace(beside, checks=1))
    for round_ in range(3):
        journal.attempts.add_block(records.block(jobs[0], round_, 10.0, confirms=True, session=1_791_000_000))
    journal.attempts.add_block(records.block(jobs[1], 0, 9.0, checks=True, session=1_791_000_000))
    for job in jobs:
        journal.attempts.add_accuracy(records.accuracy(job))
    Store(workspace.tracking_uri, workspace.mlflow_artifacts).publish(journal, "raced")


@pytest.fixture
def run(workspace: Workspace, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.delenv("MLFLOW_TRACKING_URI", raising=False)

    def compare(*arguments: str) -> Result:
        return CliRunner().invoke(main, ["compare", *arguments, "--workspace", str(workspace.root)])

    return compare


def test_something_slower_ends_with_three_and_the_other_way_round_with_zero(run) -> None:
    slower, faster = run("before", "after"), run("after", "before")
    assert (slower.exit_code, faster.exit_code) == (3, 0)
    assert slower.stdout.splitlines()[-1] == "1 slower, 1 the same"
    assert faster.stdout.splitlines()[-1] == "1 faster, 1 the same"


def test_the_sentinel_of_the_workspace_is_evidence_of_how_much_its_device_varies(run) -> None:
    (first, *_) = json.loads(run("before", "after", "--json").stdout)["results"]
    assert first["session_spread_percent"] == pytest.approx(2.5 * (3 / (3 + 12)) ** 0.5)


def test_something_slower_in_one_session_ends_with_five_and_the_next_step(run) -> None:
    done = run("before", "today", "--json")
    document = json.loads(done.stdout)
    assert (done.exit_code, document["exit_code"]) == (5, 5)
    result_of = {result["name"]: result for result in document["results"]}
    assert result_of["net job 0"]["finding"] == "slower (one session)"
    assert (result_of["net job 0"]["a_sessions"], result_of["net job 0"]["b_sessions"]) == (3, 1)
    text = run("before", "today")
    assert "measure both again at least 30 minutes later" in " ".join(text.stdout.split())
    assert text.stdout.splitlines()[-1].startswith("1 slower (one session), ")


def test_what_the_rounds_do_not_resolve_ends_with_five_and_the_margin_is_told(run) -> None:
    done = run("before", "wide", "--margin", "7.5", "--json")
    document = json.loads(done.stdout)
    assert (done.exit_code, document["exit_code"], document["margin_percent"]) == (5, 5, 7.5)
    assert [result["finding"] for result in document["results"]] == ["unresolved", "unresolved"]
    text = run("before", "wide")
    assert text.exit_code == 5
    assert text.stdout.splitlines()[-1] == "2 unresolved"
    assert "allow more with --margin" in text.stdout


@pytest.mark.parametrize("command", [("compare", "a", "b"), ("check", "a")])
@pytest.mark.parametrize("margin", ["0", "-1", "100.5", "nan", "inf", "five"])
def test_a_margin_that_is_no_share_is_refused_before_anything_is_read(command: tuple[str, ...], margin: str) -> None:
    done = CliRunner().invoke(main, [*command, "--margin", margin])
    assert done.exit_code == 2
    assert "--margin" in done.stderr


def test_another_protocol_of_a_block_is_not_comparable_and_named(run) -> None:
    done = run("before", "elsewhere")
    assert done.exit_code == 4
    assert "protocol of a block: min_seconds 0.5 and 0.9" in done.stdout


def test_two_jobs_by_name_are_compared_with_each_other(run) -> None:
    done = run("before:net job 0", "before:net job 1", "--json")
    assert done.exit_code == 3
    (result,) = json.loads(done.stdout)["results"]
    assert (result["finding"], result["ratio"]) == ("slower", pytest.approx(2.0, rel=1e-3))


def test_one_job_is_compared_with_itself_in_a_whole_sweep(run) -> None:
    document = json.loads(run("before:net job 1", "after", "--json").stdout)
    assert [result["finding"] for result in document["results"]] == ["the same"]
    assert document["only_b"] == ["net job 0"]


def test_what_was_measured_in_batches_only_is_named_and_has_no_time(run) -> None:
    document = json.loads(run("raced", "raced", "--json").stdout)
    assert [result["name"] for result in document["results"]] == ["net job 0"]
    assert (document["in_batches"], document["only_a"], document["only_b"]) == (["net job 1"], [], [])
    assert "net job 1: measured in batches only" in " ".join(run("raced", "raced").stdout.split())


@pytest.mark.parametrize(
    ("side", "words"),
    [
        ("raced:net job 1", "was measured in batches only: it has a ratio to the winner, no time"),
        ("nowhere", "there is no sweep called 'nowhere'"),
        ("before:net job 9", "has no timed job called 'net job 9'"),
        ("nowhere.json", "cannot be read as an exported manifest"),
    ],
)
def test_what_is_not_there_is_an_error_and_none_of_the_answers(run, side: str, words: str) -> None:
    done = run("before", side)
    assert done.exit_code == 1
    assert words in done.stderr


def test_a_damaged_manifest_is_an_error(run, tmp_path: Path) -> None:
    path = tmp_path / "manifest.json"
    path.write_text("{}")
    done = run(str(path), "before")
    assert done.exit_code == 1
    assert "artifact: Field required" in done.stderr


def test_the_help_says_the_exit_codes_and_has_an_example() -> None:
    for verb in ("compare", "check"):
        text = CliRunner().invoke(main, [verb, "--help"]).stdout
        assert "Exit code: 0" in text
        assert all(f"{code} " in text.partition("Exit code:")[2] for code in (3, 4, 5))
        assert "--margin PERCENT" in text
        assert f"Example: edgesweep {verb}" in text
