"""Pages on a copy of a tracking server that others write to: where it was measured, elsewhere, and with it away."""

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import CliRunner
from streamlit.delta_generator import DeltaGenerator
from streamlit.testing.v1 import AppTest

from dashboard.compare_rows import side_text
from dashboard.views.fleet import UNKNOWN
from sweeps.cli.main import main
from sweeps.journal.journal import Journal
from sweeps.journal.remaining_jobs import JOBS_UNKNOWN
from sweeps.launching.live_report import LiveFile
from sweeps.records import Job
from sweeps.store import result_files
from sweeps.store.mlflow import Store
from sweeps.store.result_files import copied_files
from sweeps.workspace import Workspace
from tests import shared
from tests.dashboard.conftest import BOARD, PHONE, WIDE, Recorder, by_axes
from tests.fresh_mlflow import fresh_mlflow

Page = Callable[..., AppTest]
PAGES = ("fleet", "decide", "compare", "result", "devices")


def _make(folder: Path) -> None:
    """Two devices, of which one has not measured what is traced: published to a store of somebody else."""
    recorder = Recorder(Workspace.open(folder / "measuring"))

    recorder.record("phones", by_axes, devices=(BOARD, PHONE), grid=WIDE, waits=waits)
    uri = f"sqlite:///{fresh_mlflow(folder / 'server')}"
    with Journal.open(recorder.workspace.journal) as journal:
        Store(uri, recorder.workspace.mlflow_artifacts).publish(journal, "phones")


def waits(job: Job) -> bool:
    return job.device_id == PHONE.device_id and job.variant.capture == "trace"


@pytest.fixture
def folder(page: Page, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """With `measuring`, a workspace, and the store that it publishes to. After the first look none is due."""
    shutil.copytree(shared.made_once("published", _make), tmp_path / "team")
    monkeypatch.setenv("MLFLOW_TRACKING_URI", f"sqlite:///{tmp_path}/team/server/mlflow.sqlite")
    monkeypatch.setenv("EDGESWEEP_STATE", str(tmp_path / "state"))
    monkeypatch.setattr(result_files, "LOOK_S", 1e9)
    return tmp_path / "team"


def text_of(page: AppTest) -> str:
    assert not page.exception
    parts = [*page.title, *page.header, *page.subheader, *page.text, *page.markdown, *page.caption]
    return "\n".join(str(part.value) for part in (*parts, *page.info, *page.warning, *page.error))


def keys(root: Path) -> list[str]:
    """List the keys of two jobs that are measured on the phone."""
    with Journal.open(root / "journal.sqlite", read_only=True) as journal:
        rows = [row for row in journal.results.rows("phones") if row.device_id == PHONE.device_id]
    return [row.job_key for row in rows if row.outcome == "measured"][:2]


def test_a_workspace_knows_its_own_jobs_and_devices_also_where_results_are_a_copy(page: Page, folder: Path) -> None:
    root = folder / "measuring"
    with Journal.open(root / "journal.sqlite", read_only=True) as journal:
        left = sum(waits(job) for job, _ in journal.jobs.of_sweep("phones"))
    fleet = page(root, "fleet")
    assert "copied from MLflow at" in text_of(fleet)
    [line] = fleet.dataframe[0].value.to_dict("records")
    assert line["State"] == f"{left} jobs to come"
    assert 0.0 < line["Progress"] < 1.0
    assert UNKNOWN not in text_of(fleet)
    decide = page(root, "decide", sweep="phones", device="phone-1")
    assert f"provisional: {left} jobs to come" in text_of(decide)
    waiting = next(table.value for table in decide.dataframe if "Reason" in table.value)
    assert list(waiting["Outcome"]).count("waiting") == left
    job, other = keys(root)
    result = page(root, "result", sweep="phones", device="phone-1", job=job)
    assert "Samples over time" in text_of(result)
    assert "not here" not in text_of(result)
    assert list(page(root, "devices").dataframe[0].value["Id"]) == ["board-1", "phone-1"]
    compared = page(root, "compare", a=side_text("phones", job), b=side_text("phones", other))
    assert not compared.warning
    assert "not in this workspace's journal" not in text_of(compared)


def test_rank_says_of_a_copy_what_waits_and_who_is_away_in_the_dashboards_words(page: Page, folder: Path) -> None:
    root = folder / "measuring"
    with LiveFile(Workspace(root).live, "phones") as file:
        file.away(PHONE.name, "it does not answer: unplugged?", 3)
    with Journal.open(root / "journal.sqlite", read_only=True) as journal:
        left = sum(waits(job) for job, _ in journal.jobs.of_sweep("phones"))
    [shown] = [line for line in text_of(page(root, "fleet")).splitlines() if "unplugged" in line]
    for options in ([], ["--all"]):
        result = CliRunner().invoke(main, ["rank", "phones", "--workspace", str(root), *options])
        assert result.exit_code == 0, result.output
        flat = " ".join(result.stdout.split())
        assert f"measures the {left} jobs that wait" in flat
        away = next(line for line in result.stdout.splitlines() if line.startswith(f"{PHONE.name}: Away from "))
        assert away.removeprefix(f"{PHONE.name}: ") in shown.replace("`", "")
    read = CliRunner().invoke(main, ["rank", "phones", "--workspace", str(folder / "reading")])
    assert JOBS_UNKNOWN in " ".join(read.stdout.split())
    assert JOBS_UNKNOWN in text_of(page(folder / "reading", "fleet"))


def test_own_sweeps_are_shown_beside_those_of_others_and_while_the_server_is_away(page: Page, folder: Path) -> None:
    (folder / "server" / "mlflow.sqlite").rename(folder / "away.sqlite")
    recorder = Recorder(Workspace.open(folder / "reading"))
    recorder.record("mine", by_axes, devices=(BOARD,))
    fleet = page(folder / "reading", "fleet")
    assert list(fleet.dataframe[0].value["Sweep"]) == ["mine"]
    assert "Sweeps of other workspaces: not copied yet from MLflow at" in text_of(fleet)
    (folder / "away.sqlite").rename(folder / "server" / "mlflow.sqlite")
    copied_files(Workspace(folder / "reading"))
    fleet = page(folder / "reading", "fleet")
    lines = {line["Sweep"]: line["State"] for line in fleet.dataframe[0].value.to_dict("records")}
    assert lines == {"mine": "finished", "phones": UNKNOWN}
    assert page(folder / "reading", "decide", sweep="phones", device="phone-1").header
    assert "other workspaces publish under this name" not in text_of(fleet)
    recorder.record("phones", by_axes, devices=(BOARD,))
    decide = page(folder / "reading", "decide", sweep="phones")
    assert "phones: other workspaces publish under this name, too." in text_of(decide)
    assert "phone-1" not in text_of(decide), "a workspace shows its own results of its own sweep"


def test_an_own_journal_that_cannot_be_read_does_not_hide_the_sweeps_of_the_server(page: Page, folder: Path) -> None:
    root = Workspace.open(folder / "reading").root
    copied_files(Workspace(root))
    (root / "journal.sqlite").write_bytes(b"no database" * 1000)
    for name in PAGES:
        text = text_of(page(root, name))
        assert "This workspace's own results are left out: " in text, name
        assert "The results cannot be shown." not in text, name
    assert list(page(root, "fleet").dataframe[0].value["Sweep"]) == ["phones"]


def test_pages_name_the_sweeps_that_are_on_another_computers_disk(page: Page, folder: Path) -> None:
    recorder = Recorder(Workspace.open(folder / "other"))
    recorder.record("boards", by_axes, devices=(BOARD,))
    with Journal.open(recorder.workspace.journal) as journal:
        Store(recorder.workspace.tracking_uri, recorder.workspace.mlflow_artifacts).publish(journal, "boards")
    recorder.workspace.root.rename(folder / "another computer")
    fleet = page(folder / "reading", "fleet")
    assert list(fleet.dataframe[0].value["Sweep"]) == ["phones"]
    text = text_of(fleet).replace("\\", "")
    assert "boards: results of other workspaces, which are on other computers' disks" in text
    assert "mlflow server --artifacts-destination artifacts" in text


def test_a_workspace_that_only_reads_says_what_a_copy_does_not_have(page: Page, folder: Path) -> None:
    root, (job, other) = folder / "reading", keys(folder / "measuring")
    fleet = page(root, "fleet")
    [line] = fleet.dataframe[0].value.to_dict("records")
    assert line["State"] == UNKNOWN
    assert line["Progress"] is None or line["Progress"] != line["Progress"]
    assert "may be provisional" in text_of(fleet)
    assert "in the journal of the workspace that measured it" in text_of(
        page(root, "result", device="phone-1", job=job)
    )
    assert "no facts of devices" in text_of(page(root, "devices"))
    compared = page(root, "compare", a=side_text("phones", job), b=side_text("phones", other))
    assert not compared.warning, "a link that was sent opens"
    assert "not in this workspace's journal" in text_of(compared)


def test_with_the_server_away_every_page_of_results_has_the_last_copy_and_its_age(page: Page, folder: Path) -> None:
    root = folder / "reading"
    assert "phones" in str(page(root, "fleet").dataframe[0].value)
    (folder / "server" / "mlflow.sqlite").rename(folder / "away.sqlite")
    away = copied_files(Workspace(root))
    assert away.error
    for name in PAGES:
        text = text_of(page(root, name))
        assert "seconds ago" in text, name
        assert away.error.split(":")[0] in text, name
        assert "The results cannot be shown." not in text, name
    for name in ("launch", "live"):
        assert "seconds ago" not in text_of(page(root, name)), "they show no results"


def test_without_a_copy_and_server_the_pages_of_results_say_so_and_the_others_work(page: Page, folder: Path) -> None:
    (folder / "server" / "mlflow.sqlite").unlink()
    first, *rest = (text_of(page(folder / "reading", name)) for name in PAGES)
    assert "The results cannot be shown." in first
    for text in rest:
        assert "The results of MLflow are not here yet" in text
        assert "No sweep has been recorded" not in text
    for name in ("launch", "live"):
        assert "The results cannot be shown." not in text_of(page(folder / "reading", name)), name


def test_the_first_copy_says_how_far_it_is(page: Page, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    messages: list[str] = []
    drawn = DeltaGenerator.info
    monkeypatch.setattr(
        DeltaGenerator, "info", lambda box, text, **how: (messages.append(text), drawn(box, text, **how))[1]
    )
    assert not page(folder / "reading", "decide").exception
    assert messages[0] == "The results of MLflow are copied, once: 0 so far."
    assert messages[-1] not in (messages[0], "")
    messages.clear()
    assert not page(folder / "reading", "decide").exception
    assert messages == []
