"""The file of roles, which says what each person may do."""

from collections.abc import Mapping
from enum import IntEnum
from functools import lru_cache
from pathlib import Path

from sweeps.errors import SpecError, did_you_mean
from sweeps.spec.yaml_source import read_yaml


class Role(IntEnum):
    """Role of a person. Each role includes the rights of the roles before it."""

    LOOK = 0
    LAUNCH = 1
    """Right to start sweeps, and to pause and resume them."""
    OPERATE = 2
    """Right to stop any sweep at once, also one that others started, and to let other browsers in."""


def read_roles(file: Path) -> Mapping[str, Role]:
    """Read the role of each person, by email address. Raises `SpecError` with the line numbers of problems."""
    try:
        stat = file.stat()
    except OSError as error:
        raise SpecError(f"{file}: cannot be read: {error.strerror}", "correct --roles") from error
    return _roles(file, stat.st_mtime_ns, stat.st_size)


@lru_cache(maxsize=4)
def _roles(file: Path, changed_ns: int, size: int) -> Mapping[str, Role]:
    document = read_yaml(file)
    names = [role.name.lower() for role in Role]
    wrong = [f"{file}:{problem.line}: {problem.message}" for problem in document.problems]
    roles = {}
    if not isinstance(document.data, dict | None):
        wrong.append(f"{file}:1: it must have an address and a role on each line, like ann@example.org: operate")
    for address, name in document.data.items() if isinstance(document.data, dict) else ():
        line = document.line((address,))
        if name not in names:
            close = did_you_mean(name, names)
            wrong.append(f"{file}:{line}: {name!r} is not a role (allowed: {', '.join(names)}){close}")
        elif address.count("@") != 1:
            wrong.append(f"{file}:{line}: {address!r} is not an address")
        else:
            roles[address.lower()] = Role[name.upper()]
    if wrong:
        raise SpecError("\n".join(wrong), "correct the file of roles")
    return roles
