"""Checks a machine before it joins a lab and before Ray is started: Ray would wait, and not report the reason."""

import errno
import os
import socket
import stat
import subprocess
import sys
import threading
from pathlib import Path

from sweeps.errors import ClusterError
from workers.executors.loopback import AUTH_MODE, LOOPBACK, REACHABLE, TOKEN, TOKEN_PATH

DEFAULT_PORT = 6379
REFUSED = "Unauthenticated"
"""The word in Ray's messages about a token that is wrong or missing."""
_KNOCK = """
import sys
from sweeps.with_parent import end_with_parent
end_with_parent(int(sys.argv[2]))
from ray._raylet import GcsClient
GcsClient(address=sys.argv[1])
"""
_UNHEARD = "Failed to connect to"
"""The words in Ray's messages about an address at which no head answers, after 5 s. Ray then retries forever."""
_TRIES = 2
_KNOCK_S = 60.0
_CONNECT_S = 5.0
IDLE_S = 1.0
"""The least time (s) without calls after which gRPC drops a connection, and with it the count of failed attempts to
connect."""
AGAIN_MS = 150_000
"""The time (ms) after which Ray repeats by itself a call that a lost connection has broken off; Ray's default is a
second. After each failed attempt gRPC pauses longer before the next one, whoever calls: after a minute the pause is up
to half a minute."""
_PATIENCE = {
    "RAY_health_check_failure_threshold": "60",
    "RAY_health_check_timeout_ms": "3000",
    "RAY_grpc_client_keepalive_time_ms": "5000",
    "RAY_grpc_client_keepalive_timeout_ms": "5000",
    "RAY_grpc_client_idle_timeout_ms": str(int(1000 * IDLE_S)),
}
"""A network cut of a minute must not make Ray end a node: EdgeSweep's own beats notice the cut. Nodes and drivers have
the same settings."""


def environment(token_file: Path, ip: str) -> dict[str, str]:
    """Return the environment that each process of a lab has before it imports Ray. `ip`: the address of the head or of
    this node."""
    return (
        _PATIENCE
        | ({REACHABLE: "0"} if ip == LOOPBACK else {})
        | {
            AUTH_MODE: "token",
            TOKEN_PATH: str(token_file),
            # Ray would prefer this variable to the file, and lists of processes show variables.
            TOKEN: "",
            "RAY_USAGE_STATS_ENABLED": "0",
            # This monitor could only end the agent on a host, and with it the work on all devices.
            "RAY_memory_monitor_refresh_ms": "0",
            "RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO": "0",
            # The event loop of Ray's dashboard; with it a call to an agent takes a tenth longer.
            "RAY_USE_UVLOOP": "0",
        }
    )


def environment_of_driver(token_file: Path, ip: str) -> dict[str, str]:
    """Return the environment of a driver, which it has once its node is started."""
    return environment(token_file, ip) | {
        "RAY_grpc_client_check_connection_status_interval_milliseconds": str(AGAIN_MS)
    }


def check_private(file: Path, mode: int, kind: str, *, of_group: bool = False) -> None:
    """Refuse a file that other users may use with this mode, with a `ClusterError`. `of_group`: its group may use it,
    as when a container mounts it."""
    if mode & (0o007 if of_group else 0o077):
        mounted = "; where a container mounts it, give it the mode 0400 or 0440 there" if of_group else ""
        raise ClusterError(f"others may read the {kind} {file} (mode {mode:04o})", f"chmod 600 {file}{mounted}")


def check_token_file(file: Path) -> None:
    """Refuse a token file that is missing or empty, or that others may read, with a `ClusterError`."""
    try:
        mode, token = stat.S_IMODE(file.stat().st_mode), file.read_text(encoding="ascii", errors="replace").strip()
    except OSError as error:
        raise ClusterError(
            f"the token file {file} cannot be read: {error.strerror}",
            "copy it from the lab's head, where `edgesweep host up` has printed its name",
        ) from error
    check_private(file, mode, "token file")
    if not token:
        raise ClusterError(f"the token file {file} is empty", "copy it from the lab's head")


def check_head(head: str) -> None:
    """Connect to the head once. Raises `ClusterError` if nothing answers at its address: Ray would silently retry for
    minutes."""
    host, port = split_address(head)
    try:
        socket.create_connection((host, port), _CONNECT_S).close()
    except OSError as error:
        raise ClusterError(
            f"no lab answers at {head}: {error}", "start it there (edgesweep host up), and check address and firewall"
        ) from error


def check_free(head: str) -> None:
    """Check the address of a machine that is to lead a lab. Raises `ClusterError` if the address is in use, or does not
    belong to this machine: Ray would report that in its own words, or not at all."""
    host, port = split_address(head)
    try:
        with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)  # a head may just have ended at this port
            probe.bind((host, port))
    except OSError as error:
        if error.errno == errno.EADDRINUSE:
            raise ClusterError(
                f"this computer has a lab's head, or another program, at {head} already",
                f"edgesweep host join {head} makes it a further host; for a second lab give another --port",
            ) from error
        raise ClusterError(f"no lab can be led at {head}: {error.strerror}", "give --address and --port") from error


def check_token(head: str, token_file: Path, ip: str) -> None:
    """Try the token at the head. Raises `ClusterError` if the head does not accept it, or if the program that answers
    there is no head: Ray would go on trying, and not say why. `ip`: the address of this machine."""
    with subprocess.Popen(  # noqa: S603  # an argument list; no shell
        [sys.executable, "-P", "-c", _KNOCK, head, str(os.getpid())],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
        errors="replace",
        env=os.environ | environment(token_file, ip),
    ) as knock:
        guard = threading.Timer(_KNOCK_S, knock.kill)
        guard.start()
        try:
            assert knock.stderr is not None
            unheard = 0
            for line in knock.stderr:
                if REFUSED in line:
                    raise wrong_token(head, token_file)
                unheard += _UNHEARD in line
                if unheard == _TRIES:
                    break
            if unheard == _TRIES or knock.wait() != 0:
                raise ClusterError(
                    f"something answers at {head}, but not as a lab's head does",
                    "check host and port: they are what `edgesweep host up` has printed; if they are right, try again",
                )
        finally:
            guard.cancel()
            knock.kill()


def wrong_token(head: str, token_file: Path) -> ClusterError:
    return ClusterError(
        f"the lab at {head} does not let this machine in: it has another token",
        f"copy the token file of the head anew to {token_file}",
    )


def split_address(head: str) -> tuple[str, int]:
    """Return the host and the port of an address. Raises `ClusterError` if the address is not `HOST:PORT`; the port may
    be left out."""
    host, _, port = head.rpartition(":") if ":" in head else (head, "", str(DEFAULT_PORT))
    if not host or not port.isdecimal() or not 0 < int(port) < 2**16:
        raise ClusterError(f"{head!r} is no address of a lab", f"write HOST:PORT, for example 10.0.0.5:{DEFAULT_PORT}")
    return host, int(port)


def resolved(head: str) -> str:
    """Return the address with its host name resolved to a number, as Ray's processes write it. Raises
    `ClusterError`."""
    host, port = split_address(head)
    try:
        return f"{socket.gethostbyname(host)}:{port}"
    except OSError as error:
        raise ClusterError(f"no machine is called {host}: {error}", "check the address of the lab") from error


def own_address(head: str) -> str:
    """Return the address of this machine on its route to the head. Raises `ClusterError`."""
    host, port = split_address(head)
    try:
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
            probe.connect((host, port))
            return str(probe.getsockname()[0])
    except OSError as error:
        raise ClusterError(f"this machine has no way to {head}: {error}", "check its network") from error
