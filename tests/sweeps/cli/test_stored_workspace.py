"""A workspace that was made before the modules moved is measured no further: keys, journal, artifacts and runs hold.

tests/data/workspace-2026-11.tar.xz was made at commit 39fee35 by `edgesweep run sweep.yaml --executor inline`: fp32 and
int8 builds of a tiny network on a simulated phone, with the sentinel's looks. workspace-2026-11-race.tar.xz was made
there too: a race on a simulated phone and on the host's own CPU, for which NNAPI was checked by its reference. Where a
pinned library that stands in keys gets a new version, make them anew with the commit before that.
"""

import sqlite3
import tarfile
from collections import Counter
from contextlib import closing
from pathlib import Path

import pytest
from click.testing import CliRunner

from sweeps.cli.main import main
from sweeps.journal.journal import Journal
from tests.stored_workspace import lift

DATA = Path(__file__).parents[2] / "data"


def attempts(journal: Path) -> list[tuple[str, str, str]]:
    with closing(sqlite3.connect(journal)) as db:
        return db.execute("SELECT key, kind, record FROM attempts ORDER BY id").fetchall()


def runs(database: Path) -> list[tuple[str, str, str]]:
    """The runs of MLflow: id, status, whether it is deleted."""
    with closing(sqlite3.connect(database)) as db:
        return db.execute("SELECT run_uuid, status, lifecycle_stage FROM runs ORDER BY run_uuid").fetchall()


def unpack(archive: str, made_in: str, folder: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Unpack the workspace, with its sweep file in the current folder."""
    with tarfile.open(DATA / archive) as packed:
        packed.extractall(folder, filter="data")
    monkeypatch.chdir(folder)
    with sqlite3.connect(folder / "workspace" / "mlflow.sqlite") as db:
        # MLflow keeps absolute paths: it was made in another folder.
        for table, column in (("experiments", "artifact_location"), ("runs", "artifact_uri")):
            db.execute(f"UPDATE {table} SET {column} = replace({column}, ?, ?)", (made_in, f"{folder}/workspace/"))
    lift(folder / "workspace" / "journal.sqlite")
    return folder / "workspace"


@pytest.fixture
def stored(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    return unpack("workspace-2026-11.tar.xz", "/tmp/sw/ws/", tmp_path, monkeypatch)


@pytest.fixture
def raced(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The workspace of a race on the machine that it was made on, as far as its facts tell."""
    workspace = unpack("workspace-2026-11-race.tar.xz", "/tmp/sw8b/ws/", tmp_path, monkeypatch)
    with Journal.open(workspace / "journal.sqlite", read_only=True) as journal:
        [facts] = [device for device in journal.plans.devices("raced") if device.name == "local"]
    for module in ("workers.devices.local", "workers.devices.fake.device"):
        monkeypatch.setattr(f"{module}.local_facts", lambda: facts)
    return workspace


def test_a_workspace_of_before_the_move_is_measured_no_further(stored: Path) -> None:
    before, published = attempts(stored / "journal.sqlite"), runs(stored / "mlflow.sqlite")
    done = CliRunner().invoke(main, ["run", "sweep.yaml", "--workspace", str(stored), "--executor", "inline"])
    assert done.exit_code == 0, done.output
    assert "6 jobs, 6 done before, 0 skipped" in done.stderr
    assert attempts(stored / "journal.sqlite") == before
    assert len(published) == 7, "one run for each job and one for the sweep"
    assert runs(stored / "mlflow.sqlite") == published, "no run is written again"
    assert "8.351" in done.stdout, "the stored winner's p50 is read from the stored blocks"


@pytest.mark.compiler
def test_a_race_host_jobs_and_nnapi_checks_before_the_move_are_measured_no_further(raced: Path) -> None:
    before, published = attempts(raced / "journal.sqlite"), runs(raced / "mlflow.sqlite")
    done = CliRunner().invoke(main, ["run", "sweep.yaml", "--workspace", str(raced), "--executor", "inline"])
    assert done.exit_code == 0, done.output
    assert "10 jobs, 10 done before, 2 skipped" in done.stderr
    kinds = Counter(kind for _, kind, _ in before)
    assert kinds == {"block": 40, "accuracy": 10, "settled": 8}
    assert attempts(raced / "journal.sqlite") == before, "no contest is decided anew"
    assert len(published) == 13, "one run for each job and skipped combination, and one for the sweep"
    changed = set(runs(raced / "mlflow.sqlite")) ^ set(published)
    assert Counter(stage for _, _, stage in changed) == {"deleted": 2, "active": 4}, (
        "no run is written again but the two of skipped combinations, which have a kind today"
    )
    assert "left after 2 rounds" in " ".join(done.stdout.split())


def test_rounds_that_are_added_go_on_with_the_same_jobs_and_the_same_sentinel(stored: Path) -> None:
    spec = Path("sweep.yaml")
    spec.write_text(spec.read_text().replace("rounds: 3, max_rounds: 3", "rounds: 4, max_rounds: 4"))
    before = attempts(stored / "journal.sqlite")
    done = CliRunner().invoke(main, ["run", "sweep.yaml", "--workspace", str(stored), "--executor", "inline"])
    assert done.exit_code == 0, done.output
    after = attempts(stored / "journal.sqlite")
    assert after[: len(before)] == before
    keys = {key for key, kind, _ in before if kind == "block"}
    added = [key for key, kind, _ in after[len(before) :] if kind == "block"]
    assert added
    assert set(added) <= keys, "every job and the sentinel keep their keys"
    assert not [kind for _, kind, _ in after[len(before) :] if kind != "block"], "no accuracy is measured again"
