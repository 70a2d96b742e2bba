"""`journal verify` finds what is wrong, and an export has everything."""

import json
import sqlite3
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest

from sweeps.errors import StoreError
from sweeps.journal.journal import Journal
from sweeps.journal.journal_check import verify
from sweeps.journal.lines import json_lines
from sweeps.journal.outcomes import MAX_ATTEMPTS
from tests.sweeps.conftest import Records


@pytest.fixture
def path(tmp_path: Path, records: Records) -> Path:
    """One job measured, one failed, one pending."""
    journal_path = tmp_path / "journal.sqlite"
    measured, failed, pending = (records.job(number) for number in range(3))
    with Journal.open(journal_path) as journal:
        journal.save_plan(records.plan(measured, failed, pending, skipped=(records.skipped(),)))
        journal.artifacts.add(replace_sha(records.manifest(measured)))
        for round_ in range(2):
            journal.attempts.add_block(records.block(measured, round_))
        journal.attempts.add_accuracy(records.accuracy(measured))
        for _ in range(MAX_ATTEMPTS):
            journal.attempts.add_failure(failed.key, records.failed())
    return journal_path


def replace_sha(manifest):
    """The manifest of the file that `Records.block` timed."""
    return manifest.model_copy(update={"file_sha256": "a" * 64})


def change(path: Path, *statements: str) -> None:
    with closing(sqlite3.connect(path)) as db, db:
        for statement in statements:
            db.execute(statement)


def messages(path: Path) -> list[str]:
    return [f"{finding.where}: {finding.message}" for finding in verify(path).findings]


def test_a_whole_journal_has_no_findings(path: Path) -> None:
    checked = verify(path)
    assert checked.findings == ()
    assert checked.counts == ("2 blocks", "sweep phones: 1 measured, 1 failed, 1 pending")


A_BLOCK = "UPDATE attempts SET record = json_set(record, {}) WHERE id = 1"


@pytest.mark.parametrize(
    ("statement", "message"),
    [
        (A_BLOCK.format("'$.exit_code', 139"), "a block was accepted with its process ended with 139"),
        (A_BLOCK.format("'$.samples_ns', json('[]')"), "a block was accepted with no samples"),
        (A_BLOCK.format("'$.samples_ns', json('[5, -1]')"), "a block was accepted with a time of -1 ns"),
        (A_BLOCK.format("'$.backend_ran', ''"), "a block was accepted with no backend_ran"),
        (A_BLOCK.format("'$.engine_ran', ''"), "a block was accepted with no engine_ran"),
        (A_BLOCK.format("'$.round', 7"), "round 7, is stored as another's"),
        (
            A_BLOCK.format("'$.artifact_sha256', 'b'"),
            "it timed a file that is not known as a build of phones: net job 0",
        ),
        ("UPDATE attempts SET record = substr(record, 1, 40) WHERE id = 2", "attempts 2: a stored Block cannot be"),
        ("UPDATE artifacts SET manifest = '{}'", "artifacts 1: a manifest that cannot be read"),
        ("DELETE FROM devices", "sweep phones: net job 0: its plan lacks its device"),
    ],
)
def test_what_must_not_be_accepted_is_found(path: Path, statement: str, message: str) -> None:
    change(path, statement)
    findings = messages(path)
    assert any(message.removeprefix("sweep ") in finding for finding in findings), findings


def test_two_blocks_of_one_round_are_found(path: Path) -> None:
    change(
        path,
        "DROP INDEX one_block_per_round",
        "INSERT INTO attempts (key, kind, round, record, created)"
        " SELECT key, kind, round, record, created FROM attempts WHERE id = 1",
    )
    [finding] = messages(path)
    assert finding.endswith("2 blocks of round 0 were accepted")


def test_a_file_that_is_damaged_is_found_by_sqlite(path: Path, records: Records) -> None:
    with Journal.open(path) as journal:
        for round_ in range(40):
            journal.attempts.add_block(records.block(records.job(5), round_))
    with closing(sqlite3.connect(path)) as db:
        db.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    whole = path.read_bytes()
    middle = len(whole) // 2
    path.write_bytes(whole[:middle] + b"\xff" * 8192 + whole[middle + 8192 :])
    checked = verify(path)
    assert checked.findings, "sqlite's own check"
    path.write_bytes(b"not a database" * 100)
    assert [finding.message for finding in verify(path).findings] == ["file is not a database"]


def test_no_journal_is_an_error_and_none_is_made(tmp_path: Path) -> None:
    for look in (verify, lambda path: list(json_lines(path))):
        with pytest.raises(StoreError, match="there is no journal"):
            look(tmp_path / "journal.sqlite")
    assert list(tmp_path.iterdir()) == []


def test_an_export_has_every_row_of_every_table_and_records_as_objects(path: Path, records: Records) -> None:
    first, *rows, last = map(json.loads, json_lines(path))
    with closing(sqlite3.connect(path)) as db:
        tables = [name for (name,) in db.execute("SELECT name FROM sqlite_master WHERE type = 'table'")]
        counts = {
            name: db.execute(f"SELECT count(*) FROM {name}").fetchone()[0] for name in tables if "seq" not in name
        }
    assert first["tables"] == counts
    assert last == {"rows": sum(counts.values())} == {"rows": len(rows)}
    blocks = [line["row"] for line in rows if line["table"] == "attempts" and line["row"]["kind"] == "block"]
    block = replace(records.block(records.job(0), 0))
    assert [block["round"] for block in blocks] == [0, 1]
    assert blocks[0]["key"] == block.job_key
    assert blocks[0]["record"]["samples_ns"] == list(block.samples_ns)
    [spec] = [line["row"]["spec"] for line in rows if line["table"] == "plans"]
    assert spec["name"] == "phones"
