"""Computers on one network, made of namespaces of this machine, which must be root's: a lab without a second computer.

Each computer has its own network, processes, name, `/tmp` with its home in it, and shared memory; programs are this
machine's. Nothing has a name outside: no network namespace, bridge or mount is seen by others. A computer ends with the
one process that keeps it, and that one ends with whoever started it, also by SIGKILL; so nothing can stay.
"""

import json
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterable, Mapping
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import psutil

PROGRAMS = ("ip", "nsenter", "unshare", "setpriv", "mount", "hostname")
ROOT = Path(__file__).parents[1]
_START_S = 20.0
_KEEPER = """
import signal, sys
# Whoever has lost its parent is this process's child: it must not stay as a zombie.
signal.signal(signal.SIGCHLD, signal.SIG_IGN)
print("up", flush=True)
while True:
    signal.pause()
"""
_SET_UP = """
set -e
mount --bind "$1" /tmp
mount -t tmpfs -o size=1g tmpfs /dev/shm
hostname "$2"
ip link set lo up
shift 2
exec "$@"
"""
_BRIDGE = "lan"


def missing() -> str:
    """The reason why this machine can have no such computers, with the next step; empty if it can."""
    if not sys.platform.startswith("linux"):
        return "network namespaces are Linux's"
    if os.geteuid() != 0:
        return "network namespaces need root: run it as root, or in a privileged container"
    if lacking := [program for program in PROGRAMS if shutil.which(program) is None]:
        return f"{', '.join(lacking)} is missing: apt-get install -y iproute2 util-linux mount hostname"
    attempt = subprocess.run(["unshare", "--net", "--pid", "--mount", "--fork", "true"], capture_output=True, text=True)
    return f"no namespaces here: {attempt.stderr.strip()}; a container must be privileged" if attempt.returncode else ""


class Computer:
    """A computer of the network, until `kill`."""

    def __init__(self, folder: Path, name: str, environment: Mapping[str, str] | None = None) -> None:
        """`folder`: becomes its `/tmp`. `environment`: of its programs, beside `PATH`, `HOME` and `PYTHONPATH`."""
        self.name = name
        self.folder = folder
        (folder / "home").mkdir(parents=True, exist_ok=True)
        self._environment = {
            "PATH": os.environ.get("PATH", os.defpath),
            "HOME": "/tmp/home",  # the computer's own
            "PYTHONPATH": str(ROOT),
            "PYTHONUNBUFFERED": "1",
            **(environment or {}),
        }
        self._started: list[subprocess.Popen[str]] = []
        argv = ["setpriv", "--pdeathsig", "KILL", "--"]
        argv += [
            "unshare",
            "--net",
            "--pid",
            "--mount",
            "--uts",
            "--ipc",
            "--fork",
            "--kill-child",
            "--mount-proc",
            "--",
        ]
        argv += ["sh", "-c", _SET_UP, "sh", str(folder), name, sys.executable, "-c", _KEEPER]
        # A session of its own: Ctrl-C goes to whoever uses the computers, and that one ends them.
        self._unshared = subprocess.Popen(argv, stdout=subprocess.PIPE, text=True, start_new_session=True)
        assert self._unshared.stdout is not None
        if self._unshared.stdout.readline() != "up\n":
            self._unshared.kill()
            raise RuntimeError(f"the computer {name} does not start: see above")
        (self.keeper,) = (child.pid for child in psutil.Process(self._unshared.pid).children())
        """The first process of the computer, as this machine sees it."""

    def start(self, argv: Iterable[str | Path], log: Path | None = None, **environment: str) -> "subprocess.Popen[str]":
        """A program on it, with pipes for stdin and stdout; what it says goes into `log`, if that is given."""
        words = ["nsenter", f"--target={self.keeper}", "--net", "--pid", "--mount", "--uts", "--ipc", "--"]
        words += ["sh", "-c", 'cd "$HOME" && exec "$@"', "sh"]
        out: Any = subprocess.PIPE if log is None else log.open("a")
        try:
            started = subprocess.Popen(
                [*words, *map(str, argv)],
                stdin=subprocess.PIPE,
                stdout=out,
                stderr=None if log is None else subprocess.STDOUT,
                text=True,
                env=self._environment | environment,
                start_new_session=True,
            )
        finally:
            if log is not None:
                out.close()
        self._started.append(started)
        return started

    def run(self, argv: Iterable[str | Path], timeout_s: float = 120.0) -> "subprocess.CompletedProcess[str]":
        with self.start(argv) as process:
            out, _ = process.communicate(timeout=timeout_s)
        return subprocess.CompletedProcess(process.args, process.returncode, out, "")

    def stop(self) -> None:
        """Send SIGSTOP to everything on it."""
        self._signal("STOP")

    def go_on(self) -> None:
        self._signal("CONT")
        for started in self._started:
            # The process stops with the program that it has started in the namespaces.
            with suppress(ProcessLookupError):
                os.kill(started.pid, signal.SIGCONT)

    def kill(self) -> None:
        """End the computer as a power cut does. Its files stay; its network ends with it."""
        # `--kill-child`: the first process ends with it, and all others of the namespace with that one.
        for process in (self._unshared, *self._started):
            process.kill()
        for process in (self._unshared, *self._started):
            process.wait()
            for pipe in (process.stdin, process.stdout):
                if pipe is not None:
                    with suppress(OSError):  # bytes that were not sent yet
                        pipe.close()

    def _signal(self, name: str) -> None:
        # The signal reaches all that the shell sees, but for itself and the first process.
        subprocess.run(["nsenter", f"--target={self.keeper}", "--pid", "--mount", "sh", "-c", f"kill -{name} -1"])


class Network:
    """Computers behind one switch, until the end of the `with` block. Addresses are `10.77.0.1` and so on."""

    def __init__(self, folder: Path, environment: Mapping[str, str] | None = None) -> None:
        """`folder`: for all of the computers' files."""
        self._folder = folder
        self._environment = environment
        self.computers: dict[str, Computer] = {}
        self._addresses: dict[str, str] = {}

    def __enter__(self) -> Self:
        self._switch = Computer(self._folder / "switch", "switch")
        try:
            self._ip("link", "add", "name", _BRIDGE, "type", "bridge", "forward_delay", "0", "stp_state", "0")
            self._ip("link", "set", "dev", _BRIDGE, "up")
        except BaseException:
            self._switch.kill()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for computer in (*self.computers.values(), self._switch):
            computer.kill()

    def add(self, name: str) -> Computer:
        """A computer on the network. One that was killed gets its address and its files again."""
        old = self.computers.pop(name, None)
        if old is not None:
            old.kill()
            # The system removes it by itself, but not at once.
            with suppress(subprocess.CalledProcessError):
                self._ip("link", "delete", "dev", name)
        computer = self.computers[name] = Computer(self._folder / name, name, self._environment)
        address = self._addresses.setdefault(name, f"10.77.0.{len(self._addresses) + 1}")
        self._ip("link", "add", "name", name, "type", "veth", "peer", "name", "eth0", "netns", str(computer.keeper))
        self._ip("link", "set", "dev", name, "master", _BRIDGE, "up")
        for words in (("addr", "add", f"{address}/24", "dev", "eth0"), ("link", "set", "eth0", "up")):
            subprocess.run(["nsenter", f"--target={computer.keeper}", "--net", "ip", *words], check=True)
        return computer

    def cable(self, name: str, peer_name: str) -> tuple[str, str]:
        """A second way between two computers, beside the switch. Returns the address of each on it."""
        keepers = [self.computers[name].keeper for name in (name, peer_name)]
        inside = ["nsenter", f"--target={keepers[0]}", "--net", "ip"]
        peer = ["peer", "name", "eth1", "netns", str(keepers[1])]
        subprocess.run([*inside, "link", "add", "name", "eth1", "type", "veth", *peer], check=True)
        addresses = "10.78.0.1", "10.78.0.2"
        for keeper, address in zip(keepers, addresses, strict=True):
            for words in (("addr", "add", f"{address}/24", "dev", "eth1"), ("link", "set", "eth1", "up")):
                subprocess.run(["nsenter", f"--target={keeper}", "--net", "ip", *words], check=True)
        return addresses

    def address(self, name: str) -> str:
        return self._addresses[name]

    def cut(self, name: str) -> None:
        """Nothing comes through any more, and nobody is told: its port leaves the switch."""
        self._ip("link", "set", "dev", name, "nomaster")

    def mend(self, name: str) -> None:
        self._ip("link", "set", "dev", name, "master", _BRIDGE)

    def sent_to(self, name: str) -> int:
        """Bytes that have crossed to the computer, with all headers, since it was added."""
        (link,) = json.loads(self._ip("-json", "-statistics", "link", "show", "dev", name))
        return int(link["stats64"]["tx"]["bytes"])

    def _ip(self, *words: str) -> str:
        argv = ["nsenter", f"--target={self._switch.keeper}", "--net", "ip", *words]
        return subprocess.run(argv, check=True, capture_output=True, text=True).stdout
