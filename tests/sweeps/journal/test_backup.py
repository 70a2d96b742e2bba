"""Backup and restore of a workspace: what comes back, and which archives are refused before anything is written."""

import hashlib
import io
import json
import os
import sqlite3
import tarfile
import threading
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest

from sweeps.errors import StoreError, WorkspaceError
from sweeps.journal import backup as backups
from sweeps.journal import schema as journal_schema
from sweeps.journal.backup import LIST, back_up, restore
from sweeps.journal.journal import Journal
from sweeps.workspace import Workspace
from tests.sweeps.conftest import Records


@pytest.fixture
def workspace(tmp_path: Path, records: Records) -> Workspace:
    workspace = Workspace.open(tmp_path / "here")
    job = records.job(0)
    with Journal.open(workspace.journal) as journal:
        journal.save_plan(records.plan(job))
        journal.attempts.add_block(records.block(job, 0))
    (workspace.artifact("k" * 64)).mkdir(parents=True)
    (workspace.artifact("k" * 64) / "model.pt").write_bytes(os.urandom(3000))
    (workspace.artifacts / ".half-built").mkdir()
    (workspace.artifacts / ".half-built" / "model.pt").write_bytes(b"half")
    (workspace.root / "a name\nwith 'odd' \udcff letters").write_bytes(b"odd")
    (workspace.root / "driver.lock").write_text("1\n")
    (workspace.root / "link").symlink_to("/etc/passwd")
    with closing(sqlite3.connect(workspace.root / "mlflow.sqlite")) as db:
        db.execute("CREATE TABLE runs (id)")
    return workspace


def content(root: Path) -> dict[str, bytes]:
    """Every plain file that is no database."""
    paths = [path for path in root.rglob("*") if path.is_file() and not path.is_symlink()]
    return {path.relative_to(root).as_posix(): path.read_bytes() for path in paths if ".sqlite" not in path.name}


def dump(path: Path) -> list[str]:
    with closing(sqlite3.connect(path)) as db:
        return list(db.iterdump())


def test_a_workspace_comes_back_as_it_was(workspace: Workspace, tmp_path: Path) -> None:
    saved = back_up(workspace, tmp_path / "saved.tar")
    assert saved.left_out == ("link",)
    restored = restore(tmp_path / "saved.tar", tmp_path / "deep" / "there")

    assert (restored.files, restored.root) == (saved.files, str(workspace.root)) == (4, str(workspace.root))
    copy = Workspace(tmp_path / "deep" / "there")
    before = {name: text for name, text in content(workspace.root).items() if not name.startswith("artifacts/.")}
    del before["driver.lock"]
    assert content(copy.root) == before
    assert dump(copy.journal) == dump(workspace.journal)
    assert dump(copy.root / "mlflow.sqlite") == dump(workspace.root / "mlflow.sqlite")
    assert list(tmp_path.glob(".*")) == [], "nothing is left of either"


def test_a_backup_while_blocks_are_written_has_whole_jobs_of_one_moment(
    workspace: Workspace, tmp_path: Path, records: Records
) -> None:
    writing = threading.Event()
    stop = threading.Event()
    accepted: list[int] = []

    def write() -> None:
        with Journal.open(workspace.journal) as journal:
            while not stop.is_set() and len(accepted) < 2000:
                journal.attempts.add_block(records.block(records.job(1), len(accepted)))
                accepted.append(len(accepted))
                if len(accepted) == 10:
                    writing.set()

    writer = threading.Thread(target=write)
    writer.start()
    try:
        assert writing.wait(60)
        least = len(accepted)
        back_up(workspace, tmp_path / "saved.tar")
    finally:
        stop.set()
        writer.join()
    restore(tmp_path / "saved.tar", tmp_path / "there")
    with Journal.open(tmp_path / "there" / "journal.sqlite") as journal:
        rounds = [block.round for block in journal.attempts.blocks(records.job(1).key)]
    assert rounds == list(range(len(rounds)))
    assert least <= len(rounds) <= len(accepted)


def test_nothing_that_is_there_is_overwritten(workspace: Workspace, tmp_path: Path) -> None:
    back_up(workspace, tmp_path / "saved.tar")
    with pytest.raises(WorkspaceError, match=r"something at .*saved\.tar already"):
        back_up(workspace, tmp_path / "saved.tar")
    with pytest.raises(WorkspaceError, match="lie in the workspace"):
        back_up(workspace, workspace.root / "saved.tar")
    before = content(workspace.root)
    with pytest.raises(WorkspaceError, match=r"something at .* already"):
        restore(tmp_path / "saved.tar", workspace.root)
    assert content(workspace.root) == before
    (tmp_path / "empty").mkdir()
    restore(tmp_path / "saved.tar", tmp_path / "empty")
    assert (tmp_path / "empty" / "journal.sqlite").exists()


def test_a_folder_without_a_journal_is_no_workspace(tmp_path: Path) -> None:
    with pytest.raises(WorkspaceError, match="no workspace at"):
        back_up(Workspace.open(tmp_path / "empty"), tmp_path / "saved.tar")


Change = Callable[[list[tuple[tarfile.TarInfo, bytes]]], None]


def packed_anew(archive: Path, change: Change) -> None:
    with tarfile.open(archive) as packed:
        members = [(member, packed.extractfile(member).read()) for member in packed.getmembers()]  # type: ignore[union-attr]
    change(members)
    with tarfile.open(archive, "w:") as packed:
        for member, text in members:
            member.size = len(text) if member.isreg() else 0
            packed.addfile(member, io.BytesIO(text))


def listed(members: list[tuple[tarfile.TarInfo, bytes]], change: Callable[[dict], object]) -> None:
    member, text = members.pop()
    document = json.loads(text)
    change(document)
    members.append((member, json.dumps(document).encode()))


def with_file(name: str, kind: bytes = tarfile.REGTYPE, link: str = "", known: bool = True) -> Change:
    """One more file, which is in the list as well."""

    def change(members: list[tuple[tarfile.TarInfo, bytes]]) -> None:
        member = tarfile.TarInfo(name)
        member.type, member.linkname = kind, link
        members.insert(0, (member, b"evil"))
        entry = {"bytes": 4, "sha256": hashlib.sha256(b"evil").hexdigest()}
        if known:
            listed(members, lambda document: document["files"].update({name: entry}))

    return change


def flipped(members: list[tuple[tarfile.TarInfo, bytes]]) -> None:
    at = next(number for number, (member, _) in enumerate(members) if member.name.endswith("model.pt"))
    member, text = members[at]
    members[at] = (member, bytes([text[0] ^ 1]) + text[1:])


def without_one(members: list[tuple[tarfile.TarInfo, bytes]]) -> None:
    members[:] = [member for member in members if not member[0].name.endswith("model.pt")]


def without_list(members: list[tuple[tarfile.TarInfo, bytes]]) -> None:
    members.pop()


NEWER = journal_schema.VERSION + 1
REFUSED: dict[str, tuple[Change, str]] = {
    "out of the folder": (with_file("../evil"), r"'\.\./evil', which no backup has"),
    "out of the folder on a way round": (with_file("a/../../evil"), "which no backup has"),
    "an absolute name": (with_file("/tmp/edgesweep-evil"), "which no backup has"),
    "a link": (with_file("evil", tarfile.SYMTYPE, "/etc/passwd"), "'evil', which no backup has"),
    "a hard link": (with_file("evil", tarfile.LNKTYPE, "journal.sqlite"), "'evil', which no backup has"),
    "a device": (with_file("evil", tarfile.CHRTYPE), "'evil', which no backup has"),
    "a file that is not listed": (with_file("evil", known=False), "differ in 'evil'"),
    "a file that is missing": (without_one, r"differ in 'artifacts/.*model\.pt'"),
    "one bit that differs": (flipped, r"model\.pt' in .* is damaged"),
    "no list": (without_list, f"has no {LIST}"),
    "a newer backup": (
        lambda members: listed(members, lambda document: document.update(edgesweep_backup=2)),
        "is a backup of version 2; this EdgeSweep reads and writes version 1",
    ),
    "a newer journal": (
        lambda members: listed(members, lambda document: document.update(journal_version=NEWER)),
        f"holds a journal of version {NEWER}; this EdgeSweep reads and writes version {NEWER - 1}",
    ),
    "an older journal": (
        lambda members: listed(members, lambda document: document.update(journal_version=NEWER - 2)),
        f"holds a journal of version {NEWER - 2}; this EdgeSweep reads and writes version {NEWER - 1}",
    ),
}


@pytest.mark.parametrize("case", REFUSED)
def test_an_archive_that_no_backup_wrote_is_refused_before_anything_is_written(
    case: str, workspace: Workspace, tmp_path: Path
) -> None:
    archive = tmp_path / "saved.tar"
    back_up(workspace, archive)
    change, message = REFUSED[case]
    packed_anew(archive, change)
    before = sorted(tmp_path.iterdir())
    with pytest.raises(StoreError, match=message):
        restore(archive, tmp_path / "there")
    assert sorted(tmp_path.iterdir()) == before
    assert not Path("/tmp/edgesweep-evil").exists()


def test_a_journal_that_no_restore_would_take_is_not_backed_up(workspace: Workspace, tmp_path: Path) -> None:
    with closing(sqlite3.connect(workspace.journal)) as db:
        db.execute("PRAGMA user_version = 15")
    before = sorted(tmp_path.iterdir())
    with pytest.raises(StoreError, match="has version 15"):
        back_up(workspace, tmp_path / "saved.tar")
    assert sorted(tmp_path.iterdir()) == before


@pytest.mark.parametrize("share", [0.0, 0.3, 0.9])
def test_an_archive_that_was_cut_off_is_refused(share: float, workspace: Workspace, tmp_path: Path) -> None:
    archive = tmp_path / "saved.tar"
    back_up(workspace, archive)
    whole = archive.read_bytes()
    archive.write_bytes(whole[: int(share * whole.index(LIST.encode()))])
    with pytest.raises(StoreError, match=r"no backup of EdgeSweep, or was cut off"):
        restore(archive, tmp_path / "there")
    assert not (tmp_path / "there").exists()


def test_a_backup_that_fails_leaves_no_file(
    workspace: Workspace, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(backups, "_add_list", full)
    before = sorted(tmp_path.iterdir())
    with pytest.raises(StoreError, match="No space left"):
        back_up(workspace, tmp_path / "saved.tar")
    assert sorted(tmp_path.iterdir()) == before
