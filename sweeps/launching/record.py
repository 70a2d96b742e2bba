"""The records of the last start from the browser and of the last request to end, in the workspace's folder
`launches`."""

from collections.abc import Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Literal, TypeVar

from sweeps.errors import StoreError
from sweeps.json_records import from_json, to_json
from sweeps.locks import GLANCE_S, locked
from sweeps.whole_file import write_whole
from sweeps.workspace import Workspace


@dataclass(frozen=True, slots=True, kw_only=True)
class StartRequest:
    """Request of a person that a driver ends."""

    what: Literal["pause", "stop"]
    by: str
    """Email address of the person who asked, or the words "the user of this computer"."""
    at_s: float
    """Time of the request, in seconds since 1970."""
    pid: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Launch:
    """Record of one start of a sweep from the browser."""

    sweep: str
    file: str
    """Path of the sweep file, which is kept in the workspace."""
    options: tuple[str, ...] = ()
    """Arguments of `edgesweep run` besides the file and the workspace."""
    by: str
    started_s: float
    """Time of the start, in seconds since 1970."""
    pid: int
    log: str
    """Path of the file with the run's output."""


RecordT = TypeVar("RecordT", Launch, StartRequest)
_FILES: Mapping[type, str] = MappingProxyType({Launch: "started.json", StartRequest: "asked.json"})


def last(workspace: Workspace, kind: type[RecordT]) -> RecordT | None:
    """Return the last record of a class; `None` if there is none, or none that this EdgeSweep can read."""
    try:
        return from_json(kind, (workspace.launches / _FILES[kind]).read_text(encoding="utf-8"))
    except (OSError, ValueError, StoreError):
        return None


def keep(workspace: Workspace, record: Launch | StartRequest) -> None:
    """Write a record in place of the last one of its class. Raises `OSError`."""
    workspace.launches.mkdir(parents=True, exist_ok=True)
    write_whole(workspace.launches / _FILES[type(record)], to_json(record))


def kept_file(workspace: Workspace, sweep: str) -> Path:
    """Return the path where the workspace keeps the file of a sweep that was started from the browser."""
    return workspace.launches / f"{sweep}.yaml"


def lock_of(workspace: Workspace) -> Path:
    """Return the path of the lock that every run from the browser holds as long as its process exists, so also before
    and after it holds the workspace's lock."""
    return workspace.launches / "lock"


def alone(workspace: Workspace) -> AbstractContextManager[int]:
    """Take the lock `lock_of(workspace)` for a `with` block, and return its file descriptor. The lock is held until the
    block and every process that inherited the descriptor have ended.

    Raises `LockedError` if another process holds it, `OSError` if the folder cannot be written.
    """
    return locked(lock_of(workspace), wait_s=GLANCE_S, mode=0o600)
