"""The identity and rights of the person who looks at a page (`person()`, `role()`).

This computer's user opens the link that `edgesweep dashboard` prints, and may do everything. Others may only look; with
logins, a file of roles gives rights to email addresses.
"""

import streamlit as st
from streamlit import config

from dashboard import login
from dashboard.arguments import server_options
from dashboard.markdown_escape import words
from dashboard.roles import Role, read_roles
from sweeps.errors import EdgeSweepError

_MAY = {Role.LOOK: "look", Role.LAUNCH: "launch sweeps", Role.OPERATE: "operate this computer"}


def role() -> Role:
    """Return the role of the person who looks at this page now."""
    if _by_link():
        return Role.OPERATE
    address = _address()
    roles = server_options().roles
    if address is None or roles is None:
        return Role.LOOK
    try:
        return read_roles(roles).get(address, Role.LOOK)
    except EdgeSweepError:  # a file of roles that became invalid gives nobody rights
        return Role.LOOK


def person() -> str:
    """Return the email address of the person who looks at this page, or a description in words; other users see it."""
    return "the user of this computer" if _by_link() else _address() or "somebody"


def admitted() -> bool:
    """Tell whether this person may see the pages; without logins everybody may."""
    return not server_options().login or _by_link() or bool(st.user.is_logged_in)


def ask_to_log_in() -> None:
    """Draw the page for people who are not admitted."""
    st.title("EdgeSweep", anchor=False)
    st.text("Log in to see the results of this workspace.")
    st.button("Log in", icon=":material/login:", type="primary", on_click=st.login)


def show_person() -> None:
    """Draw who is logged in and a button to log out; nothing if nobody is logged in."""
    if not server_options().login or not st.user.is_logged_in:
        return
    who = words(_address() or "somebody whose address the issuer did not check")
    with st.container(horizontal=True, vertical_alignment="center", key="person"):
        st.caption(f"Logged in as {who}, who may {_MAY[role()]}.")
        st.button("Log out", icon=":material/logout:", on_click=st.logout)


def _by_link() -> bool:
    name = login.cookie_name(int(config.get_option("server.port")))
    cookie = st.context.cookies.get(name)
    return isinstance(cookie, str) and login.GATE.knows(cookie)


def _address() -> str | None:
    """Return the email address of the person who is logged in, if the issuer says that it verified the address;
    otherwise `None`."""
    if not server_options().login or not st.user.is_logged_in or st.user.get("email_verified") is not True:
        return None
    address = st.user.get("email")
    return address.lower() if isinstance(address, str) else None
