"""Results wait on a host's disk until the driver has them."""

import errno
import os
import sqlite3
import stat
import subprocess
import sys
from pathlib import Path
from unittest.mock import Mock

import pytest

from sweeps.errors import StoreError
from workers.hosts.result_buffer import KEPT_DAYS, Outbox


def test_a_result_stays_until_it_is_acknowledged_also_over_a_restart(tmp_path: Path) -> None:
    file = tmp_path / "state" / "outbox.sqlite"
    outbox = Outbox(file, "1")
    outbox.keep("block", "phone", 3, b"samples")
    outbox.close()
    reopened = Outbox(file, "1")
    assert reopened.find("block") == b"samples"
    assert reopened.count() == 1
    for _ in range(2):
        reopened.acknowledge(["block", "never heard of"])
        assert reopened.find("block") is None
        assert reopened.count() == 0


def test_the_first_result_of_one_id_counts(tmp_path: Path) -> None:
    outbox = Outbox(tmp_path / "o", "1")
    outbox.keep("block", "phone", 1, b"first")
    outbox.keep("block", "phone", 2, b"second")
    assert outbox.find("block") == b"first"
    assert outbox.count() == 1


def test_with_too_many_bytes_the_oldest_results_go_and_the_newest_stays_at_any_size(tmp_path: Path) -> None:
    outbox = Outbox(tmp_path / "o", "1", cap_bytes=100)
    for number in range(4):
        outbox.keep(str(number), "phone", 1, b"x" * 40)
    assert [outbox.find(str(number)) is not None for number in range(4)] == [False, False, True, True]
    outbox.keep("large", "phone", 1, b"x" * 1000)
    assert outbox.find("large") is not None
    assert outbox.count() == 1


def test_unfetched_results_are_dropped_after_days_and_an_older_hosts_ones_begin_anew(tmp_path: Path) -> None:
    now_s = 1e9
    file = tmp_path / "o"
    db = sqlite3.connect(file)
    db.executescript(
        "CREATE TABLE results (number INTEGER PRIMARY KEY AUTOINCREMENT, id TEXT NOT NULL UNIQUE, device_id TEXT, "
        "epoch INTEGER, version TEXT, answer BLOB); INSERT INTO results VALUES (1, 'older', 'phone', 1, '1', x'00')"
    )
    db.close()
    outbox = Outbox(file, "1", now=lambda: now_s, passed=lambda: now_s)
    now_s += 86400
    outbox.keep("newer", "phone", 1, b"1")
    for days, left in ((KEPT_DAYS - 1.5, 2), (1, 1), (0, 1), (1, 0)):
        now_s += days * 86400
        outbox.expire()
        assert outbox.count() == left, days


@pytest.mark.parametrize("days", [60 * 365, KEPT_DAYS + 1, -KEPT_DAYS - 1])
def test_a_clock_that_is_set_makes_no_result_older_or_newer(tmp_path: Path, days: float) -> None:
    now_s, passed_s = 1e9, 0.0

    def opened() -> Outbox:
        return Outbox(tmp_path / "o", "1", now=lambda: now_s, passed=lambda: passed_s)

    def wait(days: float) -> int:
        nonlocal now_s, passed_s
        now_s, passed_s = now_s + days * 86400, passed_s + days * 86400
        outbox.expire()
        return outbox.count()

    outbox = opened()
    outbox.keep("first", "phone", 1, b"1")
    now_s += days * 86400
    outbox.keep("second", "phone", 1, b"2")
    assert wait(KEPT_DAYS - 1) == 2
    now_s -= days * 86400
    assert wait(0.5) == 2
    assert wait(1) == 0
    # An agent that was started while its clock was ahead.
    now_s += abs(days) * 86400
    outbox.keep("third", "phone", 1, b"3")
    outbox.close()
    now_s -= abs(days) * 86400
    outbox = opened()
    assert wait(KEPT_DAYS - 0.5) == 1
    assert wait(1) == 0


def test_a_result_is_kept_and_others_are_forgotten_together_or_neither(tmp_path: Path) -> None:
    outbox = Outbox(tmp_path / "o", "1")
    outbox.keep("first", "phone", 1, b"1")
    with pytest.raises(StoreError):
        outbox.keep("second", "phone", 1, object(), ["first"])  # type: ignore[arg-type]  # sqlite refuses it
    assert outbox.find("first") == b"1"
    outbox.keep("second", "phone", 1, b"2", ["first", "never heard of"])
    assert outbox.find("first") is None
    assert outbox.find("second") == b"2"


def test_epochs_grow_over_restarts(tmp_path: Path) -> None:
    first = Outbox(tmp_path / "o", "1")
    epochs = [first.next_epoch(), first.next_epoch()]
    first.close()
    reopened = Outbox(tmp_path / "o", "1")
    epochs.append(reopened.next_epoch())
    assert epochs == [1, 2, 3]


def test_a_result_outlives_a_kill_at_once(tmp_path: Path) -> None:
    killed = (
        "import os, sys; from pathlib import Path; from workers.hosts.result_buffer import Outbox\n"
        'Outbox(Path(sys.argv[1]), "1").keep("block", "phone", 1, b"samples"); os.kill(os.getpid(), 9)'
    )
    ended = subprocess.run([sys.executable, "-c", killed, tmp_path / "o"], check=False)
    assert ended.returncode == -9
    assert Outbox(tmp_path / "o", "1").find("block") == b"samples"


def test_the_disk_is_waited_for_apart_from_a_result_and_before_an_epoch(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    synced: list[Path] = []
    monkeypatch.setattr(os, "fsync", lambda file: synced.append(Path(f"/proc/self/fd/{file}").readlink()))
    outbox = Outbox(tmp_path / "o", "1")
    outbox.keep("block", "phone", 1, b"samples")
    assert synced == []
    outbox.sync()
    outbox.sync()  # nothing is new
    assert synced == [tmp_path / "o-wal"]
    outbox.next_epoch()
    assert len(synced) == 2
    outbox.close()
    outbox.sync()


def test_a_disk_that_cannot_be_waited_for_is_told_and_asked_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    outbox = Outbox(tmp_path / "o", "1")
    outbox.keep("block", "phone", 1, b"samples")
    with monkeypatch.context() as patched:
        patched.setattr(os, "fsync", Mock(side_effect=OSError(errno.EIO, "Input/output error")))
        for _ in range(2):
            with pytest.raises(StoreError, match="Input/output error"):
                outbox.sync()
    assert outbox.trouble is not None
    outbox.sync()


def test_results_of_another_version_are_not_read(tmp_path: Path) -> None:
    old = Outbox(tmp_path / "o", "1")
    old.keep("block", "phone", 1, b"pickled by another version")
    epoch = old.next_epoch()
    old.close()
    new = Outbox(tmp_path / "o", "2")
    assert new.find("block") is None
    assert new.dropped == "results that cannot be read by 2 were dropped: 1 of EdgeSweep 1"
    assert new.next_epoch() == epoch + 1
    new.close()
    assert Outbox(tmp_path / "o", "2").dropped == "", "it is told once"


def test_only_its_owner_may_read_the_file(tmp_path: Path) -> None:
    Outbox(tmp_path / "o", "1")
    assert stat.S_IMODE((tmp_path / "o").stat().st_mode) == 0o600


def test_a_file_that_is_no_outbox_is_an_error_that_names_it(tmp_path: Path) -> None:
    (tmp_path / "o").write_text("no sqlite at all" * 100)
    with pytest.raises(StoreError, match=str(tmp_path / "o")):
        Outbox(tmp_path / "o", "1")
