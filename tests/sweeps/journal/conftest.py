"""A journal to write to, in a file of its own."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from sweeps.journal.journal import Journal


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "journal.sqlite"


@pytest.fixture
def journal(path: Path) -> Iterator[Journal]:
    with Journal.open(path) as journal:
        yield journal
