"""Locks are seen, and not taken."""

import fcntl
import os
import time
from pathlib import Path

from sweeps.holds import held_path, holder


def test_a_lock_is_seen_with_its_process_and_stays_free_for_others(tmp_path: Path) -> None:
    path = tmp_path / "held"
    with path.open("w") as file:
        assert holder(path) is None
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        deadline = time.monotonic() + 60
        while (seen := holder(path)) is None:  # Linux may leave a lock out of its list while others come and go
            assert time.monotonic() < deadline
        assert seen == os.getpid()
    assert holder(path) is None


def test_where_nothing_is_locked_or_linux_does_not_say_nobody_holds_it(tmp_path: Path) -> None:
    path = tmp_path / "held"
    assert holder(path) is None
    path.touch()
    found = path.stat()
    where = f"{os.major(found.st_dev):02x}:{os.minor(found.st_dev):02x}:{found.st_ino}"
    locks = tmp_path / "locks"
    locks.write_text(f"1: FLOCK  ADVISORY  WRITE 77 {where} 0 EOF\n")
    assert holder(path, locks) == 77
    locks.write_text(
        f"1: -> FLOCK ADVISORY  WRITE 77 {where} 0 EOF\n2: FLOCK\n3: POSIX ADVISORY WRITE 9 {where} 0 EOF\n"
    )
    assert holder(path, locks) is None
    assert holder(path, tmp_path / "absent") is None


def test_names_do_not_become_paths() -> None:
    assert held_path("phone ../../etc/passwd").parent == held_path("phone a").parent
    assert held_path("phone a") != held_path("phone b")
