"""The owner of a parent run is a workspace, whose name marks the run, so that several workspaces can publish to one
MLflow.

A copy of a workspace, or a backup of it that was restored, is another workspace, and must not write over the original's
results. A restored one is told so (`separate`). Of a copied folder the snapshots tell: each writer remembers the last
ones that it has written, and one that finds another one in its place takes a new name. A copy remembers whose it is.
Where the original is gone, a person says so (`take_over`): then the copy may delete the original's runs.
"""

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from uuid import uuid4

from sweeps.errors import StoreError
from sweeps.json_records import from_json, to_json
from sweeps.store.uri import dialect, redact, sqlite_path
from sweeps.whole_file import write_whole
from sweeps.workspace import Workspace


@dataclass(frozen=True, slots=True, kw_only=True)
class Owner:
    """The names of one workspace, and the snapshots that it has written."""

    name: str = ""
    """Under which it publishes; empty: it has none yet."""
    taken_over: tuple[str, ...] = ()
    """The names of workspaces that are gone, in whose place this one is."""
    originals: tuple[str, ...] = ()
    """The names of workspaces that this one is a copy of, and that may still be there."""
    snapshots: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """By the id of the parent run: the sha256 of the snapshot that it wrote last, and of one that it was about to."""


def is_own(workspace: Workspace, uri: str = "") -> bool:
    """Tell whether a tracking server (by default the workspace's) is the workspace's own database. In that it marks
    nothing: it may be lost, moved and restored with the workspace."""
    uri = uri or workspace.tracking_uri
    return dialect(uri) == "sqlite" and sqlite_path(uri).parent == workspace.root


def server_name(workspace: Workspace, uri: str = "") -> str:
    """The tracking server's name, without secrets. The workspace's own database keeps its name where it is moved."""
    uri = uri or workspace.tracking_uri
    return "workspace" if is_own(workspace, uri) else redact(uri, uri)


def own_marks(workspace: Workspace, uri: str = "") -> frozenset[str]:
    """The mark of this workspace's parent runs on a server: its name, or an empty one in its own database; none before
    it has published."""
    return frozenset({""}) if is_own(workspace, uri) else frozenset({read_owner(workspace).name}) - {""}


def answered_marks(workspace: Workspace) -> frozenset[str]:
    """Return the marks of `own_marks`, with those of the workspaces in whose place this one is."""
    return own_marks(workspace) | frozenset(() if is_own(workspace) else read_owner(workspace).taken_over)


def read_owner(workspace: Workspace) -> Owner:
    """Changes nothing. A file that cannot be read, or is damaged, is none."""
    with suppress(OSError, UnicodeDecodeError, StoreError):
        return from_json(Owner, workspace.published_as.read_text("utf-8"))
    return Owner()


def named(workspace: Workspace) -> Owner:
    """With a name of its own, which is made if there is none. Raises `StoreError` if it cannot be written."""
    owner = read_owner(workspace)
    return owner if owner.name else _write(workspace, replace(owner, name=_new_name()))


def separate(workspace: Workspace) -> Owner:
    """Make it another workspace than the one that it is a copy of. Raises `StoreError` if that cannot be written."""
    owner = read_owner(workspace)
    originals = filter(None, (owner.name, *owner.taken_over, *owner.originals))
    return _write(workspace, Owner(name=_new_name(), originals=tuple(dict.fromkeys(originals))))


def take_over(workspace: Workspace) -> int:
    """Answer to the names of all workspaces that this one is a copy of. Returns their number. Raises `StoreError` if
    that cannot be written."""
    owner = named(workspace)
    if owner.originals:
        _write(workspace, replace(owner, taken_over=(*owner.taken_over, *owner.originals), originals=()))
    return len(owner.originals)


def remember_snapshots(workspace: Workspace, run_id: str, hashes: tuple[str, ...]) -> None:
    """To be called before the last one of them is written. Raises `StoreError` if that cannot be written."""
    owner = read_owner(workspace)
    _write(workspace, replace(owner, snapshots={**owner.snapshots, run_id: hashes}))


def _new_name() -> str:
    return uuid4().hex[:12]


def _write(workspace: Workspace, owner: Owner) -> Owner:
    path = workspace.published_as
    try:
        write_whole(path, f"{to_json(owner)}\n", durable=True)
    except OSError as error:
        raise StoreError(
            f"{path} cannot be written: {error.strerror}", "free space there, or make the workspace's folder writable"
        ) from error
    return owner
