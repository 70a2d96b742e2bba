"""Who looks at a page, and what they may do: `role()` and `person()`, which pages ask.

This computer's user comes in by the link that `edgesweep dashboard` prints, and may do everything. Others may look;
where people log in, a file of roles gives rights to addresses.
"""

from collections.abc import Mapping
from enum import IntEnum
from functools import lru_cache
from pathlib import Path

import streamlit as st
from streamlit import config

from dashboard import gate
from dashboard.options import given
from sweeps.errors import EdgeSweepError, SpecError, did_you_mean
from sweeps.spec.yaml_source import read_yaml


class Role(IntEnum):
    """Each may do what those before it may."""

    LOOK = 0
    LAUNCH = 1
    """Start sweeps, pause and resume them."""
    OPERATE = 2
    """Stop at once what runs, also what others started, and let other browsers in."""


def role() -> Role:
    """Of whoever looks at this page now."""
    if _by_link():
        return Role.OPERATE
    address = _address()
    roles = given().roles
    if address is None or roles is None:
        return Role.LOOK
    try:
        return read_roles(roles).get(address, Role.LOOK)
    except EdgeSweepError:  # a file that became wrong gives nobody rights
        return Role.LOOK


def person() -> str:
    """In words, for others who look."""
    return "the user of this computer" if _by_link() else _address() or "somebody"


def admitted() -> bool:
    """Whether they may see the pages: everybody, if nobody has to log in."""
    return not given().login or _by_link() or bool(st.user.is_logged_in)


def ask_to_log_in() -> None:
    """Draw the page of those who are not admitted."""
    st.title("EdgeSweep", anchor=False)
    st.text("Log in to see the results of this workspace.")
    st.button("Log in", icon=":material/login:", type="primary", on_click=st.login)


def read_roles(file: Path) -> Mapping[str, Role]:
    """Who may do what, by address. Raises `SpecError` with the line of what is wrong."""
    try:
        stat = file.stat()
    except OSError as error:
        raise SpecError(f"{file}: cannot be read: {error.strerror}", "correct --roles") from error
    return _roles(file, stat.st_mtime_ns, stat.st_size)


@lru_cache(maxsize=4)
def _roles(file: Path, changed_ns: int, size: int) -> Mapping[str, Role]:
    document = read_yaml(file)
    names = [one.name.lower() for one in Role]
    wrong = [f"{file}:{one.line}: {one.message}" for one in document.problems]
    found = {}
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
            found[address.lower()] = Role[name.upper()]
    if wrong:
        raise SpecError("\n".join(wrong), "correct the file of roles")
    return found


def _by_link() -> bool:
    name = gate.cookie_name(int(config.get_option("server.port")))
    cookie = st.context.cookies.get(name)
    return isinstance(cookie, str) and gate.GATE.knows(cookie)


def _address() -> str | None:
    """Of whoever is logged in, if the issuer says that it checked it."""
    if not given().login or not st.user.is_logged_in or st.user.get("email_verified") is not True:
        return None
    address = st.user.get("email")
    return address.lower() if isinstance(address, str) else None
