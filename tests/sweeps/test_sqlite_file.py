"""Databases are opened under any path, and a log is switched on beside other connections."""

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from sweeps.sqlite_file import connect, switch_to_wal


@pytest.mark.parametrize("name", ["plain", "a?mode=memory", "100%41", "#1", "two words'\"", "ä\n"])
def test_a_path_with_any_characters_is_that_file(tmp_path: Path, name: str) -> None:
    path = tmp_path / name
    with closing(connect(path)) as db:
        db.execute("CREATE TABLE words (word)")
        db.execute("INSERT INTO words VALUES ('kept')")
    assert [file.name for file in tmp_path.iterdir()] == [name]
    with closing(connect(path, read_only=True)) as db:
        assert db.execute("SELECT word FROM words").fetchall() == [("kept",)]
        with pytest.raises(sqlite3.OperationalError, match="readonly"):
            db.execute("DELETE FROM words")


def test_a_reader_makes_no_file(tmp_path: Path) -> None:
    with pytest.raises(sqlite3.OperationalError):
        connect(tmp_path / "absent", read_only=True)
    assert not list(tmp_path.iterdir())


def test_the_log_is_switched_on_unless_another_writes_for_longer(tmp_path: Path) -> None:
    path = tmp_path / "file"
    with closing(connect(path)) as other, closing(connect(path, busy_s=0.0)) as db:
        other.execute("CREATE TABLE words (word)")
        other.execute("BEGIN IMMEDIATE")
        with pytest.raises(sqlite3.OperationalError, match="locked"):
            switch_to_wal(db, 0.05)
        other.execute("COMMIT")
        switch_to_wal(db, 0.05)
        assert db.execute("PRAGMA journal_mode").fetchone() == ("wal",)
