"""The last start from the browser, in the workspace's folder `launches`: what was started, by whom, what was asked."""

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
class Ask:
    """Somebody asked a driver to end."""

    what: Literal["pause", "stop"]
    by: str
    """The person's address, or words for this computer's user."""
    at_s: float
    """The time in seconds since 1970."""
    pid: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Launch:
    """One start of a sweep from the browser."""

    sweep: str
    file: str
    """Path of the sweep file, which is kept in the workspace."""
    options: tuple[str, ...] = ()
    """Arguments of `edgesweep run` besides the file and the workspace."""
    by: str
    started_s: float
    """The time in seconds since 1970."""
    pid: int
    log: str
    """The path of the run's output."""


RecordT = TypeVar("RecordT", Launch, Ask)
_FILES: Mapping[type, str] = MappingProxyType({Launch: "started.json", Ask: "asked.json"})


def last(workspace: Workspace, kind: type[RecordT]) -> RecordT | None:
    """The last record of a kind; `None` if there is none, or none that this EdgeSweep can read."""
    try:
        return from_json(kind, (workspace.launches / _FILES[kind]).read_text(encoding="utf-8"))
    except (OSError, ValueError, StoreError):
        return None


def keep(workspace: Workspace, record: Launch | Ask) -> None:
    """Write a record in place of the last one of its kind. Raises `OSError`."""
    workspace.launches.mkdir(parents=True, exist_ok=True)
    write_whole(workspace.launches / _FILES[type(record)], to_json(record))


def kept_file(workspace: Workspace, sweep: str) -> Path:
    """The sweep file that was started from the browser."""
    return workspace.launches / f"{sweep}.yaml"


def lock_of(workspace: Workspace) -> Path:
    """The lock of every process that was started from the browser: held also before it has the workspace's lock, and
    after."""
    return workspace.launches / "lock"


def alone(workspace: Workspace) -> AbstractContextManager[int]:
    """The open `lock_of` the workspace: held until the block and every process that it was handed to have ended.

    Raises `LockedError` if another one has it, `OSError` if the folder cannot be written.
    """
    return locked(lock_of(workspace), wait_s=GLANCE_S, mode=0o600)
