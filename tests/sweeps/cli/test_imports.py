"""`edgesweep import` on a workspace with a journal and an MLflow of its own."""

import hashlib
import json
import os
import shutil
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from sweeps.cli.main import main
from sweeps.journal.journal import Journal
from sweeps.store.mlflow import Store
from sweeps.workspace import Workspace
from tests.fresh_mlflow import fresh_mlflow
from tests.mlflow_rows import load_imported
from tests.sweeps.test_tool_logs import ANDROID, EXECUTIONS, IPHONE, LOGCAT, PERF_TEST, RESULTS, WITH_SAMPLES


@pytest.fixture(scope="module")
def recorded(records, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The sweep `phones`: one job, measured and published; and the older sweep `others`, which MLflow has not."""
    workspace = Workspace.open(tmp_path_factory.mktemp("recorded"))
    fresh_mlflow(workspace.root)
    job = records.job(0)
    with pytest.MonkeyPatch.context() as patch, Journal.open(workspace.journal) as journal:
        patch.delenv("MLFLOW_TRACKING_URI", raising=False)
        for name in ("others", "phones"):
            journal.save_plan(records.plan(job, name=name))
        journal.artifacts.add(records.manifest(job))
        for round_ in range(2):
            journal.attempts.add_block(records.block(job, round_))
        journal.attempts.add_accuracy(records.accuracy(job))
        Store(workspace.tracking_uri, workspace.mlflow_artifacts).publish(journal, "phones")
    return workspace.root


@pytest.fixture
def workspace(recorded: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Workspace:
    monkeypatch.delenv("MLFLOW_TRACKING_URI", raising=False)
    return Workspace.open(shutil.copytree(recorded, tmp_path / "it's a workspace"))


@pytest.fixture
def command(workspace: Workspace):
    """Runs one command of the program in this process."""

    def run(*words: str) -> Result:
        return CliRunner().invoke(main, [*words, "--workspace", str(workspace.root)])

    return run


@pytest.fixture
def log(tmp_path: Path):
    def write(content: str | bytes, name: str = "log.txt") -> str:
        path = tmp_path / name
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
        return str(path)

    return write


def importing(path: str, *more: str, tool: str = "--speed-benchmark") -> list[str]:
    return ["import", tool, path, "--variant", "cpu fp32", "--device", "local", *more]


def test_an_imported_figure_is_shown_by_rank_beneath_its_device(command, log, workspace) -> None:
    done = command(*importing(log(WITH_SAMPLES, "my run.txt"), "--json"))
    assert done.exit_code == 0, done.output
    document = json.loads(done.stdout)
    assert (document["sweep"], document["added"], document["in_mlflow"]) == ("phones", True, True)

    ranking = json.loads(command("rank", "--json").stdout)
    (figure,) = ranking["devices"][0]["imported"]
    assert figure == document["imported"]
    assert (figure["mean_ms"], figure["iterations"], figure["p50_ms"]) == (584.558, 3, 583.396)
    assert (figure["tool"], figure["log"]) == ("speed_benchmark_torch", "my run.txt")
    assert figure["log_sha256"] == hashlib.sha256(WITH_SAMPLES.encode()).hexdigest()
    assert [entry["name"] for entry in ranking["devices"][0]["ranking"]] == ["net job 0"]
    assert "584.558" in command("rank", "--all").stdout


@pytest.mark.parametrize(
    ("tool", "text", "figures"),
    [
        ("executor-runner", EXECUTIONS, ("executor_runner", 14.5, 3, 12.000001)),
        ("executor-runner", LOGCAT, ("executor_runner", 5.3125, 10, None)),
        ("onnxruntime-perf-test", PERF_TEST, ("onnxruntime_perf_test", 98.961997, 5, 99.5086)),
        ("onnxruntime-perf-test", RESULTS, ("onnxruntime_perf_test", pytest.approx(65.8, abs=0.1), 3, 95.8204)),
    ],
    ids=["every execution", "a mean", "a summary", "a file of results"],
)
def test_the_tools_of_other_runtimes_are_imported_too(command, log, tool, text, figures) -> None:
    done = command(*importing(log(text), "--json", tool=f"--{tool}"))
    assert done.exit_code == 0, done.output
    figure = json.loads(done.stdout)["imported"]
    assert (figure["tool"], figure["mean_ms"], figure["iterations"], figure["p50_ms"]) == figures


def test_a_phone_that_is_not_in_the_sweep_stands_apart(command, log) -> None:
    words = [
        "import",
        "--testapp",
        log(IPHONE),
        "--variant",
        "metal fp32",
        "--device",
        "iPhone X",
        "--iterations",
        "20",
    ]
    done = command(*words)
    assert done.exit_code == 0, done.output
    assert "net · metal fp32 on iPhone X: mean 28.767 ms, imported" in done.output
    ranking = json.loads(command("rank", "--json").stdout)
    assert ranking["devices"][0]["imported"] == []
    (figure,) = ranking["imported"]
    assert (figure["device"], figure["device_id"], figure["iterations"], figure["p50_ms"]) == ("iPhone X", "", 20, None)


def test_the_same_log_again_changes_nothing(command, log, workspace) -> None:
    path = log(ANDROID)
    assert "imported" in command(*importing(path)).output
    again = command(*importing(path))
    assert again.exit_code == 0
    assert "was imported before" in again.output
    with Journal.open(workspace.journal, read_only=True) as journal:
        assert len(journal.imports.of_sweep("phones")) == 1


def test_another_sweep_can_be_named(command, log, workspace) -> None:
    assert command(*importing(log(ANDROID), "--sweep", "others")).exit_code == 0
    assert load_imported(workspace.tracking_uri, "phones") == ()
    assert [figure.mean_ms for figure in load_imported(workspace.tracking_uri, "others")] == [121.318]
    unknown = command(*importing(log(ANDROID), "--sweep", "nothing"))
    assert unknown.exit_code == 1
    assert "there is no sweep called 'nothing'" in unknown.output


@pytest.mark.parametrize("encoding", ["utf-16", "utf-8-sig"])
def test_logs_as_windows_writes_them_are_read(command, log, encoding: str) -> None:
    done = command(*importing(log(ANDROID.replace("\n", "\r\n").encode(encoding))))
    assert done.exit_code == 0, done.output


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", 'no line "Main runs"'),
        (b"\xff\x00" * 1000, 'no line "Main runs"'),
        (b"\xff\xfe\x00", 'no line "Main runs"'),
        (ANDROID[:60].encode(), "no complete line"),
        (IPHONE.encode(), 'no line "Main runs"'),
        (ANDROID.replace("121318", "nan").encode(), "nothing was measured"),
        (b"x" * 64_000_001, "more than 64 MB"),
    ],
)
def test_a_log_that_is_none_is_refused_in_a_line_and_nothing_is_stored(
    command, log, workspace, content: bytes, message: str
) -> None:
    done = command(*importing(log(content)))
    assert done.exit_code == 1
    assert message in done.output
    assert "Traceback" not in done.output
    with Journal.open(workspace.journal, read_only=True) as journal:
        assert journal.imports.of_sweep("phones") == ()


def test_a_log_that_cannot_be_read_is_named(command, tmp_path) -> None:
    done = command(*importing(str(tmp_path / "missing.txt")))
    assert done.exit_code == 1
    assert "missing.txt' cannot be read" in done.output


def test_one_log_is_given(command, log) -> None:
    two_logs = [*importing(log(ANDROID)), "--testapp", log(IPHONE, "other.txt")]
    no_log = ["import", "--variant", "cpu fp32", "--device", "local"]
    for words in (two_logs, no_log):
        done = command(*words)
        assert done.exit_code == 2
        assert "give one log" in done.output


def test_a_hostile_name_of_a_file_is_shown_as_text(command, log) -> None:
    name = "<script>alert(1)<\u2044script>\x1b[31m\n**b**.txt"
    done = command(*importing(log(ANDROID, name)))
    assert done.exit_code == 0, done.output
    shown = command("rank", "--all").stdout
    assert "\x1b" not in shown
    assert "<script>alert(1)" in shown


def test_a_file_name_that_is_no_text_is_taken(command, tmp_path, workspace) -> None:
    path = tmp_path / os.fsdecode(b"log-\xff.txt")
    path.write_text(ANDROID)
    assert command(*importing(str(path))).exit_code == 0
    assert load_imported(workspace.tracking_uri, "phones")[0].log == "log-\N{REPLACEMENT CHARACTER}.txt"


def test_while_a_sweep_runs_the_figure_waits_in_the_journal_and_goes_to_mlflow_later(command, log, workspace) -> None:
    with workspace.lock():
        done = command(*importing(log(ANDROID)))
    assert done.exit_code == 0, done.output
    assert "not in MLflow yet" in done.stderr
    assert load_imported(workspace.tracking_uri, "phones") == ()
    with Journal.open(workspace.journal) as journal:
        Store(workspace.tracking_uri, workspace.mlflow_artifacts).publish(journal, "phones")
    assert len(load_imported(workspace.tracking_uri, "phones")) == 1


def test_where_mlflow_is_down_the_figure_is_kept(command, log, workspace, monkeypatch) -> None:
    monkeypatch.setenv("MLFLOW_TRACKING_URI", "http://127.0.0.1:9")
    done = command(*importing(log(ANDROID), "--json"))
    assert done.exit_code == 0, done.output
    assert json.loads(done.stdout)["in_mlflow"] is False
    monkeypatch.delenv("MLFLOW_TRACKING_URI")
    assert command(*importing(log(ANDROID))).exit_code == 0
    assert len(load_imported(workspace.tracking_uri, "phones")) == 1


def test_without_a_sweep_it_says_what_to_run_first(tmp_path, log) -> None:
    done = CliRunner().invoke(main, [*importing(log(ANDROID)), "--workspace", str(tmp_path / "empty")])
    assert done.exit_code == 1
    assert "no sweep was run" in done.output
