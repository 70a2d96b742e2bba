"""Checks of a machine that is to come into a lab, made before Ray is started: Ray would wait, and not say for what."""

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
"""Ray's word for a token that is wrong or missing."""
_KNOCK = """
import sys
from sweeps.with_parent import end_with_parent
end_with_parent(int(sys.argv[2]))
from ray._raylet import GcsClient
GcsClient(address=sys.argv[1])
"""
_UNHEARD = "Failed to connect to"
"""Words of Ray about an address where no head answers, after 5 s. Ray goes on trying without an end."""
_TRIES = 2
_KNOCK_S = 60.0
_CONNECT_S = 5.0
IDLE_S = 1.0
"""gRPC's least time without calls after which it forgets a connection, and how often connecting was tried in vain."""
AGAIN_MS = 150_000
"""The time after which Ray repeats by itself a call that a lost connection has broken off; a second by default. Each
attempt in vain makes gRPC pause for longer before the next one, whoever calls: after a minute, up to half a minute."""
_PATIENCE = {
    "RAY_health_check_failure_threshold": "60",
    "RAY_health_check_timeout_ms": "3000",
    "RAY_grpc_client_keepalive_time_ms": "5000",
    "RAY_grpc_client_keepalive_timeout_ms": "5000",
    "RAY_grpc_client_idle_timeout_ms": str(int(1000 * IDLE_S)),
}
"""A cut of a minute must not make Ray end a node: EdgeSweep's own beats notice it. The same on nodes and drivers."""


def environment(token_file: Path, ip: str) -> dict[str, str]:
    """The environment that each process of a lab has before it imports Ray. `ip`: of the head or of this node."""
    return (
        _PATIENCE
        | ({REACHABLE: "0"} if ip == LOOPBACK else {})
        | {
            AUTH_MODE: "token",
            TOKEN_PATH: str(token_file),
            # Ray would prefer this variable to the file, and lists of processes show it.
            TOKEN: "",
            "RAY_USAGE_STATS_ENABLED": "0",
            # This monitor could only end the agent on a host, and with it the work on all devices.
            "RAY_memory_monitor_refresh_ms": "0",
            "RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO": "0",
            # The dashboard's event loop; with it a call to an agent takes a tenth longer.
            "RAY_USE_UVLOOP": "0",
        }
    )


def environment_of_driver(token_file: Path, ip: str) -> dict[str, str]:
    """The same for a driver, once its node is started."""
    return environment(token_file, ip) | {
        "RAY_grpc_client_check_connection_status_interval_milliseconds": str(AGAIN_MS)
    }


def check_private(file: Path, mode: int, kind: str, *, of_group: bool = False) -> None:
    """Refuse a file that others may use with this mode, with a `ClusterError`. `of_group`: its group may use it, as
    where a container mounts it."""
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
    """Connect to the head once. Raises `ClusterError` if nothing answers there: Ray would silently retry for
    minutes."""
    host, port = split_address(head)
    try:
        socket.create_connection((host, port), _CONNECT_S).close()
    except OSError as error:
        raise ClusterError(
            f"no lab answers at {head}: {error}", "start it there (edgesweep host up), and check address and firewall"
        ) from error


def check_free(head: str) -> None:
    """Check the address of a machine that is to lead a lab. Raises `ClusterError` if it is taken, or not this
    machine's: Ray would say it in its own words, or not at all."""
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
    """Try the token at the head. Raises `ClusterError` if the head does not accept it, or if what answers there is no
    head: Ray would go on trying, and not say why. `ip`: of this machine."""
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
    """Host and port of an address. Raises `ClusterError` if it is not `HOST:PORT`; the port may be left out."""
    host, _, port = head.rpartition(":") if ":" in head else (head, "", str(DEFAULT_PORT))
    if not host or not port.isdecimal() or not 0 < int(port) < 2**16:
        raise ClusterError(f"{head!r} is no address of a lab", f"write HOST:PORT, for example 10.0.0.5:{DEFAULT_PORT}")
    return host, int(port)


def resolved(head: str) -> str:
    """The address with the host as a number, as Ray's processes name it. Raises `ClusterError`."""
    host, port = split_address(head)
    try:
        return f"{socket.gethostbyname(host)}:{port}"
    except OSError as error:
        raise ClusterError(f"no machine is called {host}: {error}", "check the address of the lab") from error


def own_address(head: str) -> str:
    """The address of this machine towards the head. Raises `ClusterError`."""
    host, port = split_address(head)
    try:
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
            probe.connect((host, port))
            return str(probe.getsockname()[0])
    except OSError as error:
        raise ClusterError(f"this machine has no way to {head}: {error}", "check its network") from error
