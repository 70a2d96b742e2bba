"""Settings that restrict the Ray of one run of EdgeSweep to this machine and this user. Imports nothing of Ray."""

import os
import secrets
import sys

from sweeps.temporary import folder_of_process

LOOPBACK = "127.0.0.1"
REACHABLE = "RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER"
"""A variable of Ray that, set to 0, keeps the address 127.0.0.1 instead of replacing it by an address that other
machines can reach. Ray then also refuses a second node."""
AUTH_MODE = "RAY_AUTH_MODE"
TOKEN, TOKEN_PATH = "RAY_AUTH_TOKEN", "RAY_AUTH_TOKEN_PATH"


def keep_to_this_machine() -> None:
    """Set the environment that Ray reads when it is imported. Nothing is set if Ray is imported already, or if a
    cluster is joined instead of started. A token is always required, whatever `RAY_AUTH_MODE` says; it may be one that
    the user set.

    Other users of this machine do not have the token, which is in a file until this process ends.
    """
    if os.environ.get("RAY_ADDRESS") or "ray" in sys.modules:
        return
    os.environ.setdefault(REACHABLE, "0")
    os.environ[AUTH_MODE] = "token"
    if not {TOKEN, TOKEN_PATH} & os.environ.keys():
        token = folder_of_process() / "ray-token"
        token.touch(mode=0o600)
        token.write_text(secrets.token_hex(32), encoding="ascii")
        os.environ[TOKEN_PATH] = str(token)
