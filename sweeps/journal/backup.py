"""Backup and restore of a whole workspace: one tar file, with the sha256 of each file in it."""

import hashlib
import json
import os
import shutil
import tarfile
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path, PurePosixPath
from typing import IO, Any

from sweeps.errors import StoreError, WorkspaceError
from sweeps.journal import schema as journal_schema
from sweeps.journal.journal_check import file_damage
from sweeps.sqlite_file import connect
from sweeps.whole_file import whole_file
from sweeps.workspace import Workspace

LIST = "edgesweep-backup.json"
"""Name of the last file in a backup, which holds the backup's version, and size and sha256 of every other file."""
VERSION = 1
_LARGEST_LIST_BYTES = 1 << 28
_CHUNK = 1 << 20
_OTHER_ARCHIVE = "give a file that `edgesweep journal backup` has written"


@dataclass(frozen=True, slots=True, kw_only=True)
class Backup:
    """Summary of a backup's content. `root`: the folder of the workspace that was backed up."""

    files: int
    bytes: int
    root: str
    left_out: tuple[str, ...] = ()
    """The links and special files that the backup lacks."""


def back_up(workspace: Workspace, target: Path) -> Backup:
    """Write the workspace to the new tar file `target`. A sweep may run meanwhile.

    Each database is a consistent snapshot by sqlite, MLflow's before the journal's: so MLflow's copy holds no result
    that the journal's copy lacks. Other files are archived afterwards: a workspace adds such files, and never changes
    them. Raises `WorkspaceError` for a workspace without a journal, or for a target that exists or lies in the
    workspace; `StoreError` if a file cannot be read or written, or if the journal has another version.
    """
    _check_target(workspace, target)
    with closing(connect(workspace.journal, read_only=True)) as db:
        journal_schema.is_made(db, workspace.journal)  # it raises for another version, which no restore would take
    listed: dict[str, dict[str, object]] = {}
    left_out: list[str] = []
    try:
        with (
            whole_file(target, durable=True) as part,
            tempfile.TemporaryDirectory(dir=target.parent) as folder,
            tarfile.open(part, "x:") as archive,
        ):
            databases = [path for path in sorted(workspace.root.glob("*.sqlite")) if path != workspace.published]
            for path in sorted(databases, key=lambda path: path == workspace.journal):
                copy = Path(folder) / path.name
                _copy_database(path, copy)
                listed[path.name] = _add(archive, copy, path.name)
            for path in _files(workspace, left_out):
                name = path.relative_to(workspace.root).as_posix()
                try:
                    listed[name] = _add(archive, path, name)
                except FileNotFoundError:
                    continue  # a temporary file of the sweep that runs
            _add_list(archive, workspace, listed, Path(folder))
    except (OSError, tarfile.TarError) as error:
        raise StoreError(f"the backup {target} cannot be written: {error}", "check the disk, and try again") from error
    return _summary({"root": str(workspace.root), "files": listed}, tuple(left_out))


def restore(archive: Path, root: Path) -> Backup:
    """Unpack a backup to the workspace `root`, which must not exist yet, or be an empty folder.

    The whole archive is checked before any file is written: all names stay inside the folder, all members are plain
    files, they are exactly those of the backup's list, and their sha256 match. Raises `StoreError` if `archive` is no
    backup, is damaged or of another version; `WorkspaceError` if `root` is neither missing nor an empty folder.
    """
    root = root.expanduser().resolve()
    if root.exists() and (not root.is_dir() or any(root.iterdir())):
        raise WorkspaceError(f"there is something at {root} already", "name a new folder with --workspace")
    with _opened(archive) as packed:
        members, document = _checked(packed, archive)
        summary = _summary(document)
        root.parent.mkdir(parents=True, exist_ok=True)
        free = shutil.disk_usage(root.parent).free
        if free < summary.bytes:
            raise StoreError(
                f"the backup needs {summary.bytes / 1e6:.0f} MB at {root.parent}, which has {free / 1e6:.0f} MB",
                "free space on its disk, or name another folder with --workspace",
            )
        folder = Path(tempfile.mkdtemp(prefix=f".{root.name}-", dir=root.parent))
        try:
            for name, member in members.items():
                path = folder / name
                path.parent.mkdir(parents=True, exist_ok=True)
                with path.open("xb") as file:
                    shutil.copyfileobj(_content(packed, member), file, _CHUNK)
            if damage := file_damage(Workspace(folder).journal):
                raise StoreError(f"the journal in {archive} is damaged: {damage[0].message}", "take another backup")
            folder.chmod(0o755)
            if root.exists():
                root.rmdir()
            folder.rename(root)
        finally:
            shutil.rmtree(folder, ignore_errors=True)
    return summary


def _check_target(workspace: Workspace, target: Path) -> None:
    if not workspace.journal.exists():
        raise WorkspaceError(f"there is no workspace at {workspace.root}", "name its folder with --workspace")
    if target.exists():
        raise WorkspaceError(f"there is something at {target} already", "name a new file")
    if target.resolve().is_relative_to(workspace.root):
        raise WorkspaceError(f"the backup {target} would lie in the workspace", "name a file outside of it")
    if not target.parent.is_dir():
        raise WorkspaceError(f"there is no folder {target.parent}", "create it, or name another file")


def _copy_database(path: Path, copy: Path) -> None:
    with (
        journal_schema.translated(path),
        closing(connect(path, read_only=True)) as source,
        closing(connect(copy)) as target,
    ):
        source.backup(target)  # all pages in one step: as of one moment


def _files(workspace: Workspace, left_out: list[str]) -> Iterator[Path]:
    """Yield every plain file except databases, the driver's lock and files that are still being written (their names
    begin with a dot). Links and special files are added to `left_out`."""
    for folder, folders, names in os.walk(workspace.root):
        parent = Path(folder)
        links = [parent / name for name in sorted(folders) if (parent / name).is_symlink()]
        left_out += [link.relative_to(workspace.root).as_posix() for link in links]
        folders[:] = sorted(name for name in folders if not name.startswith("."))
        for name in sorted(names):
            path = parent / name
            own = parent == workspace.root and (".sqlite" in name or name == "driver.lock")
            if own or name.startswith("."):
                continue
            if path.is_symlink() or not path.is_file():
                left_out.append(path.relative_to(workspace.root).as_posix())
            else:
                yield path


class _Hashed:
    """Reader of a file that hashes what it reads."""

    def __init__(self, file: IO[bytes]) -> None:
        self._file = file
        self.sha256 = hashlib.sha256()

    def read(self, size: int = -1) -> bytes:
        content = self._file.read(size)
        self.sha256.update(content)
        return content


def _add(archive: tarfile.TarFile, path: Path, name: str) -> dict[str, object]:
    with path.open("rb") as file:
        member = tarfile.TarInfo(name)
        status = os.fstat(file.fileno())
        member.size, member.mtime, member.mode = status.st_size, int(status.st_mtime), 0o644
        hashed = _Hashed(file)
        archive.addfile(member, hashed)
    return {"bytes": member.size, "sha256": hashed.sha256.hexdigest()}


def _add_list(archive: tarfile.TarFile, workspace: Workspace, listed: Mapping[str, object], folder: Path) -> None:
    document = {
        "edgesweep_backup": VERSION,
        "journal_version": journal_schema.VERSION,
        "made": datetime.now(UTC).isoformat(timespec="seconds"),
        "root": str(workspace.root),
        "files": listed,
    }
    path = folder / LIST
    path.write_text(json.dumps(document, indent=1), encoding="utf-8")
    _add(archive, path, LIST)


@contextmanager
def _opened(archive: Path) -> Iterator[tarfile.TarFile]:
    try:
        with tarfile.open(archive, "r:") as packed:
            yield packed
    except (tarfile.TarError, EOFError) as error:
        raise StoreError(f"{archive} is no backup of EdgeSweep, or was cut off: {error}", _OTHER_ARCHIVE) from error
    except OSError as error:
        raise StoreError(f"{archive} cannot be unpacked: {error}", "check the file and the disk") from error


def _checked(packed: tarfile.TarFile, archive: Path) -> tuple[dict[str, tarfile.TarInfo], dict[str, Any]]:
    """Return the members to unpack, by name, and the backup's list. It reads the archive once, and writes nothing."""
    members: dict[str, tarfile.TarInfo] = {}
    for member in packed.getmembers():
        if not member.isreg() or not _is_inside(member.name) or member.name in members:
            raise StoreError(f"{archive} has {member.name!r}, which no backup has: not unpacked", _OTHER_ARCHIVE)
        members[member.name] = member
    document = _read_list(packed, members.pop(LIST, None), archive)
    files = document["files"]
    if members.keys() != files.keys():
        name = min(members.keys() ^ files.keys())
        raise StoreError(f"{archive} and its own list differ in {name!r}: not unpacked", _OTHER_ARCHIVE)
    for name, member in members.items():
        entry = files[name]
        if not isinstance(entry, dict) or entry.get("bytes") != member.size:
            raise StoreError(f"{name!r} in {archive} has another size than listed: not unpacked", "take another backup")
        if hashlib.file_digest(_content(packed, member), "sha256").hexdigest() != entry.get("sha256"):  # type: ignore[arg-type]
            raise StoreError(f"{name!r} in {archive} is damaged: not unpacked", "take another backup")
    return members, document


def _read_list(packed: tarfile.TarFile, member: tarfile.TarInfo | None, archive: Path) -> dict[str, Any]:
    if member is None or member.size > _LARGEST_LIST_BYTES:
        raise StoreError(f"{archive} is no backup of EdgeSweep, or was cut off: it has no {LIST}", _OTHER_ARCHIVE)
    try:
        document = json.loads(_content(packed, member).read())
        backup, journal = int(document["edgesweep_backup"]), int(document["journal_version"])
        if not isinstance(document["files"], dict) or not isinstance(document["root"], str):
            raise TypeError("files and root")
    except (ValueError, KeyError, TypeError) as error:
        raise StoreError(f"{LIST} in {archive} cannot be read: {error!r}", _OTHER_ARCHIVE) from error
    for phrase, version, known in (
        ("is a backup of", backup, VERSION),
        ("holds a journal of", journal, journal_schema.VERSION),
    ):
        if version != known:
            raise StoreError(
                f"{archive} {phrase} version {version}; this EdgeSweep reads and writes version {known}",
                "update EdgeSweep" if version > known else "restore it with the EdgeSweep that wrote it",
            )
    return dict(document)


def _is_inside(name: str) -> bool:
    parts = PurePosixPath(name).parts
    return bool(parts) and "\0" not in name and "/".join(parts) == name and not {"..", "/", "."} & set(parts)


def _content(packed: tarfile.TarFile, member: tarfile.TarInfo) -> IO[bytes]:
    content = packed.extractfile(member)
    if content is None:  # a member that is no plain file
        raise StoreError(f"{member.name!r} cannot be unpacked", _OTHER_ARCHIVE)
    return content


def _summary(document: Mapping[str, Any], left_out: tuple[str, ...] = ()) -> Backup:
    files = document["files"]
    return Backup(
        files=len(files),
        bytes=sum(entry["bytes"] for entry in files.values()),
        root=document["root"],
        left_out=left_out,
    )
