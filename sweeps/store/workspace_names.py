"""The names by which workspaces are told apart that publish to the same MLflow.

A copy of the folder, or a backup of it that was restored, is another workspace; a folder that was moved is the same
one: the file knows its inode. A copy remembers whose it is. Where the original is gone, its owner says so
(`take_over`), and the copy answers to the original's name too: its runs are then those of this workspace.
"""

from contextlib import suppress
from dataclasses import dataclass, replace
from uuid import uuid4

from sweeps.errors import StoreError
from sweeps.workspace import Workspace

_TAKEN_OVER, _ORIGINALS = "taken-over", "copy-of"


@dataclass(frozen=True, slots=True, kw_only=True)
class Names:
    """Of one workspace."""

    own: str = ""
    """Under which it publishes; empty: it has none yet."""
    taken_over: tuple[str, ...] = ()
    """Of workspaces that are gone, in whose place it is."""
    originals: tuple[str, ...] = ()
    """Of workspaces that it is a copy of, and that may still be there."""

    @property
    def answered(self) -> frozenset[str]:
        """What is claimed under one of these is this workspace's."""
        return frozenset((self.own, *self.taken_over)) - {""}


def read(workspace: Workspace) -> Names:
    """Changes nothing. A file that cannot be read, or is damaged, is none."""
    file = workspace.published_as
    with suppress(OSError, ValueError):
        first, *rest = file.read_text("utf-8").splitlines()
        own, inode = first.split()
        lists = {word: tuple(names) for word, *names in map(str.split, rest)}
        found = Names(own=own, taken_over=lists.get(_TAKEN_OVER, ()), originals=lists.get(_ORIGINALS, ()))
        if int(inode) == file.stat().st_ino:
            return found
        return Names(originals=(own, *found.taken_over, *found.originals))
    return Names()


def named(workspace: Workspace) -> Names:
    """With a name of its own, which is made if there is none. Raises `StoreError` if it cannot be written."""
    found = read(workspace)
    return found if found.own else _write(workspace, replace(found, own=uuid4().hex[:12]))


def take_over(workspace: Workspace) -> int:
    """Answer to the names of all workspaces that this one is a copy of. Returns their number. Raises `StoreError` if
    that cannot be written."""
    found = read(workspace)
    if found.originals:
        own = found.own or uuid4().hex[:12]
        _write(workspace, Names(own=own, taken_over=(*found.taken_over, *found.originals)))
    return len(found.originals)


def _write(workspace: Workspace, names: Names) -> Names:
    file = workspace.published_as
    part = file.with_name(f".{file.name}.part")
    try:
        part.write_bytes(b"")
        lines = [f"{names.own} {part.stat().st_ino}"]
        lists = ((_TAKEN_OVER, names.taken_over), (_ORIGINALS, names.originals))
        lines += [f"{word} {' '.join(them)}" for word, them in lists if them]
        part.write_text("".join(f"{line}\n" for line in lines), "utf-8")
        part.replace(file)
    except OSError as error:
        with suppress(OSError):
            part.unlink(missing_ok=True)
        raise StoreError(
            f"{file} cannot be written: {error.strerror}", "free space there, or make the workspace's folder writable"
        ) from error
    return names
