"""A port for a server that a test starts."""

import os
import random
import socket
from contextlib import suppress
from pathlib import Path


def free_port() -> int:
    """A port that neither the system nor a worker beside this one gives away: the server binds it later, and anew after
    each time that it was killed."""
    given_from = int(Path("/proc/sys/net/ipv4/ip_local_port_range").read_text().split()[0])
    workers = int(os.environ.get("PYTEST_XDIST_WORKER_COUNT", "1"))
    worker = int(os.environ.get("PYTEST_XDIST_WORKER", "gw0").removeprefix("gw"))
    while True:
        port = random.randrange(max(1024, given_from // 2) + worker, given_from, workers)
        with suppress(OSError), socket.create_server(("127.0.0.1", port)):
            return port
