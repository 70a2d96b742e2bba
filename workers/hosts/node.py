"""A Ray node of this machine, as a child process: the node of a lab's head, of a device host, or of a driver.

Starts Ray by its command line, and imports nothing of Ray.
"""

import os
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import psutil

from sweeps.errors import ClusterError
from sweeps.retry import tries
from sweeps.with_parent import ended_with_thread
from workers.executors.loopback import LOOPBACK, REACHABLE
from workers.hosts.access import REFUSED, environment, split_address, wrong_token
from workers.hosts.ports import Ports, any_ports

NODE_LABEL = "edgesweep-node"
_START = """
from ray._private import services
from ray.scripts.scripts import main
services.start_api_server = lambda *args, **options: ("", None)
main()
"""
"""The program that starts a node without Ray's API server. The only module of that server here queries the addresses of
three clouds to find out where it runs, and reports that usage statistics are off, even if they are."""
_START_BESIDE = f"""
import os
from ray._private import services
from ray.scripts.scripts import main
os.environ[{REACHABLE!r}] = "0"
services.get_node_ip_address = lambda address=None: {LOOPBACK!r}
main()
"""
"""The program that starts a further node on the loopback address."""
_START_S = 90.0
_END_S = 20.0
_POLL_S = 0.2
_STARTED = "Ray runtime started"
_OBJECTS_BYTES = 512 * 2**20


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeOptions:
    """The options for starting a node."""

    head: str
    """The address of the lab's head, `HOST:PORT`."""
    is_head: bool = False
    ip: str
    """The address of this node, which the node binds its sockets to if Ray lets it."""
    token_file: Path
    label: str
    """The identifier of the node among all nodes of the lab."""
    ports: Ports | None = None
    """The ports that the node listens on; `None`: Ray chooses the ports."""


class Node:
    """A running node, until `end`."""

    def __init__(self, options: NodeOptions) -> None:
        """Start a node, and wait until it has started. Raises `ClusterError`."""
        # The folder's name is short, because sockets are in it; a user's folder may have a long name.
        self.folder = Path(tempfile.mkdtemp(prefix="edgesweep-ray-"))
        """The folder by which Ray distinguishes several nodes of one machine."""
        self._log = self.folder / "start.log"
        try:
            with self._log.open("wb") as log:
                self._process = subprocess.Popen(  # noqa: S603  # an argument list; no shell
                    _command(options, self.folder),
                    stdin=subprocess.DEVNULL,
                    stdout=log,
                    stderr=log,
                    env=os.environ | environment(options.token_file, options.ip) | _start_environment(options),
                    # This process handles Ctrl-C: devices are released first.
                    start_new_session=True,
                )
        except OSError as error:
            self._remove()
            raise ClusterError(f"Ray cannot be started: {error}", "edgesweep doctor shows what is missing") from error
        try:
            self._await_start(options)
        except BaseException:
            self.end()
            raise

    def alive(self) -> bool:
        return self._process.poll() is None

    def end(self) -> None:
        with suppress(psutil.NoSuchProcess):
            children = psutil.Process(self._process.pid).children(recursive=True)
            self._process.terminate()
            with suppress(subprocess.TimeoutExpired):
                self._process.wait(_END_S)
            for child in children:
                with suppress(psutil.NoSuchProcess):
                    child.kill()
        self._process.kill()
        self._process.wait()
        self._remove()

    def listening(self, *beside: int) -> tuple[tuple[int, str], ...]:
        """Return the TCP ports on which the node's processes, and the processes with the ids `beside`, listen, each
        with `ADDRESS:PORT (process)`."""
        ports = set()
        with suppress(psutil.Error):
            for process in [
                *psutil.Process(self._process.pid).children(recursive=True),
                *map(psutil.Process, beside),
            ]:
                with suppress(psutil.Error):
                    for row in process.net_connections(kind="tcp"):
                        if row.status == psutil.CONN_LISTEN:
                            ports.add((row.laddr.port, f"{row.laddr.ip}:{row.laddr.port} ({process.name()[:20]})"))
        return tuple(sorted(ports))

    def _await_start(self, options: NodeOptions) -> None:
        for is_last in tries(_START_S, _POLL_S):
            words = self._log.read_text(encoding="utf-8", errors="replace")
            if _STARTED in words:
                return
            if is_last or not self.alive():
                raise _why_not(words, options)

    def _remove(self) -> None:
        shutil.rmtree(self.folder, ignore_errors=True)


def listening_on(node: Node, *beside: int) -> str:
    """Return a line for people: the addresses at which other computers reach a node and the processes beside it, if no
    firewall blocks them."""
    return f"listening: {', '.join(text for _, text in node.listening(*beside))}"


def node_of_head(head: str) -> Path | None:
    """Return the folder of the head's own node, if it runs on this machine for this user: a driver may use that node.

    Ray ends a driver whose node ends. Without the head the lab is gone anyway. But the end of another host's node must
    not end a sweep, so a driver on that host's computer has a separate node, as everywhere else.
    """
    for process in psutil.process_iter():
        with suppress(psutil.Error):
            if process.name() != "raylet" or process.uids().real != os.getuid():
                continue
            words = process.cmdline()
            folder = next((word.partition("=")[2] for word in words if word.startswith("--temp_dir=")), "")
            if folder and "--head" in words and f"--gcs-address={head}" in words:
                return Path(folder)
    return None


def _command(options: NodeOptions, folder: Path) -> Sequence[str]:
    host, port = split_address(options.head)
    place = (
        ["--head", f"--port={port}", "--include-dashboard=false"] if options.is_head else [f"--address={host}:{port}"]
    )
    words = [
        sys.executable,
        "-c",
        _START_BESIDE if _is_beside(options) else _START,
        "start",
        *place,
        f"--node-ip-address={options.ip}",
        "--num-cpus=0",
        "--num-gpus=0",
        f"--object-store-memory={_OBJECTS_BYTES}",
        f"--labels={NODE_LABEL}={options.label}",
        f"--temp-dir={folder}",
        *_ports(options, int(port)),
        "--disable-usage-stats",
        "--block",
    ]
    return ended_with_thread(words, signal.SIGTERM)


def _ports(options: NodeOptions, lab_port: int) -> list[str]:
    if options.ports is None:
        return any_ports(lab_port, head=options.is_head)
    return options.ports.words(head=options.is_head)


def _is_beside(options: NodeOptions) -> bool:
    return options.ip == LOOPBACK and not options.is_head


def _start_environment(options: NodeOptions) -> dict[str, str]:
    return {REACHABLE: "1"} if _is_beside(options) else {}


def _why_not(words: str, options: NodeOptions) -> ClusterError:
    """Return the error that Ray's last output means."""
    lines = [line.strip() for line in words.splitlines() if line.strip()]
    if "Version mismatch" in words:
        mismatch = " ".join(lines[next(i for i, line in enumerate(lines) if "Version mismatch" in line) :])[:300]
        return ClusterError(
            f"this machine and the lab at {options.head} differ: {mismatch}", "install the same versions"
        )
    if REFUSED in words:
        return wrong_token(options.head, options.token_file)
    lines = [line for line in lines if "Error" in line] or lines[-4:]
    return ClusterError(f"Ray does not start: {' '.join(lines)[-400:]}", "check free memory, disk and ports")
