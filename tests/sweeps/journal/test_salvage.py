"""A journal that is damaged in the middle: what can be read of it is saved, and the rest is measured again."""

import re
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest
from click.testing import CliRunner

from sweeps.cli.main import main
from sweeps.errors import StoreError
from sweeps.journal.journal import Journal
from sweeps.journal.journal_check import verify
from sweeps.journal.salvage import check_whole, salvage
from tests.sweeps.conftest import Records

JOBS = 40


@pytest.fixture
def path(tmp_path: Path, records: Records) -> Path:
    """Forty jobs, each with two blocks and an accuracy."""
    journal_path = tmp_path / "journal.sqlite"
    jobs = [records.job(number) for number in range(JOBS)]
    with Journal.open(journal_path) as journal:
        journal.save_plan(records.plan(*jobs))
        for job in jobs:
            with journal.transaction():
                journal.artifacts.add(records.manifest(job).model_copy(update={"file_sha256": "a" * 64}))
                journal.attempts.add_block(records.block(job, 0))
                journal.attempts.add_block(records.block(job, 1))
                journal.attempts.add_accuracy(records.accuracy(job))
    with closing(sqlite3.connect(journal_path)) as db:
        db.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    return journal_path


def pages_of(path: Path, table: str) -> list[int]:
    """Numbers of its pages that hold rows, in order."""
    with closing(sqlite3.connect(path)) as db:
        query = "SELECT pageno FROM dbstat WHERE name = ? AND pagetype = 'leaf' ORDER BY path"
        try:
            return [page for (page,) in db.execute(query, (table,))]
        except sqlite3.OperationalError:
            pytest.skip("this sqlite has no dbstat")


def damage(path: Path, *pages: int) -> None:
    with closing(sqlite3.connect(path)) as db:
        [[size]] = db.execute("PRAGMA page_size").fetchall()
    with path.open("r+b") as file:
        for page in pages:
            file.seek((page - 1) * size)
            file.write(b"\xff" * size)


def blocks(path: Path) -> int:
    with closing(sqlite3.connect(path)) as db:
        return int(db.execute("SELECT count(*) FROM attempts WHERE kind = 'block'").fetchone()[0])


def test_a_whole_journal_is_left_alone(path: Path) -> None:
    check_whole(path)
    with pytest.raises(StoreError, match="is not damaged"):
        salvage(path)


def test_a_damaged_journal_of_another_version_is_left_to_the_edgesweep_that_wrote_it(path: Path) -> None:
    with closing(sqlite3.connect(path)) as db:
        db.execute("PRAGMA user_version = 15")
    damage(path, pages_of(path, "attempts")[0])
    before = path.read_bytes()
    with pytest.raises(StoreError, match="has version 15"):
        salvage(path)
    assert path.read_bytes() == before


@pytest.mark.parametrize("which", [0, 1, -1], ids=["first page", "second page", "last page"])
def test_a_damaged_page_of_attempts_costs_only_what_was_on_it(path: Path, which: int) -> None:
    pages = pages_of(path, "attempts")
    assert len(pages) > 3
    damage(path, pages[which])
    with pytest.raises(StoreError, match="is damaged") as caught:
        check_whole(path)
    assert "journal salvage" in caught.value.next_step
    report = salvage(path)
    assert report.damaged.exists()
    assert 0 < report.lost["attempts"] < 3 * JOBS
    assert report.saved["attempts"] + report.lost["attempts"] >= 3 * JOBS
    assert report.saved["jobs"] == JOBS
    checked = verify(path)
    assert checked.findings == ()
    assert 0 < blocks(path) < 2 * JOBS
    check_whole(path)
    with Journal.open(path) as journal:
        assert journal.times.last_session() >= 0


def test_a_person_is_told_what_can_be_saved_before_it_is(path: Path) -> None:
    damage(path, pages_of(path, "attempts")[1])
    before = path.read_bytes()
    words = ["journal", "salvage", "--workspace", str(path.parent)]
    preview = CliRunner().invoke(main, [*words, "--dry-run"])
    assert preview.exit_code == 0, preview.output
    assert f"jobs: {JOBS} can be saved\n" in preview.stdout
    counts = r"attempts: (\d+) (?:can be )?saved, up to (\d+) lost"
    assert (would := re.search(counts, preview.stdout)) is not None
    assert path.read_bytes() == before
    assert [file.name for file in path.parent.glob("journal.*sqlite")] == [path.name]
    done = CliRunner().invoke(main, words)
    assert (did := re.search(counts, done.stdout)) is not None
    assert did.groups() == would.groups()
    assert f"the damaged journal is {path.parent / 'journal.damaged-1.sqlite'}" in done.stdout
    assert CliRunner().invoke(main, ["journal", "verify", *words[2:]]).exit_code == 0
    refused = CliRunner().invoke(main, words)
    assert (refused.exit_code, "is not damaged" in refused.stderr) == (1, True)


def test_a_damaged_index_costs_nothing(path: Path) -> None:
    damage(path, *pages_of(path, "attempts_by_key"))
    report = salvage(path)
    assert report.lost == {}
    assert blocks(path) == 2 * JOBS


def test_a_file_of_which_nothing_can_be_read_is_kept_and_said_so(path: Path) -> None:
    damage(path, 1)
    before = path.read_bytes()
    with pytest.raises(StoreError):
        salvage(path)
    assert path.read_bytes() == before
    assert sorted(file.name for file in path.parent.glob("journal*")) == ["journal.sqlite"]


def test_what_a_salvage_that_was_cut_off_has_left_is_no_empty_journal(tmp_path: Path) -> None:
    path = tmp_path / "journal.sqlite"
    check_whole(path)  # nothing at all: a new workspace
    for name in ("journal.salvaged.sqlite", "journal.damaged-1.sqlite"):
        (tmp_path / name).touch()
    with pytest.raises(StoreError, match="a salvage was cut off"):
        check_whole(path)
