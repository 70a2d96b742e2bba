"""A board: Debian's own `sshd` on loopback, with a home, a host key and an account of its own."""

import os
import shlex
import shutil
import signal
import socket
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import psutil

from tests.free_port import free_port

SSHD = "/usr/sbin/sshd"
_START_S = 60.0
_CONFIG = """
Port {port}
ListenAddress 127.0.0.1
HostKey {root}/host_key
PidFile {root}/pid
AuthorizedKeysFile {root}/authorized_keys
PasswordAuthentication no
KbdInteractiveAuthentication no
PermitRootLogin prohibit-password
UsePAM no
StrictModes no
MaxStartups 100
LogLevel VERBOSE
ForceCommand exec {root}/account
"""
# The board's account stands in place of one of its own, which only root could make.
_ACCOUNT = """#!/bin/sh
cd {home} || exit
export HOME={home} PATH={bin}:"$PATH"
{noise}
exec {shell} -c "$SSH_ORIGINAL_COMMAND"
"""


class Board:
    """One `sshd`. Programs on it have `home` as their home, and first find those that a test puts into `bin`."""

    def __init__(self, root: Path) -> None:
        """`root` has a plain name: sshd takes no quotes in its settings."""
        self.root = root
        self.home = root / "it's a $HOME"
        self.bin = root / "bin"
        self.client = root / "client"
        """The home of the user of this computer, with key and known hosts."""
        self.port = free_port()
        for folder in (self.home, self.bin, self.client / ".ssh"):
            folder.mkdir(parents=True)
        for key in (root / "host_key", self.client / ".ssh" / "id_ed25519"):
            self.make_key(key)
        shutil.copy(self.client / ".ssh" / "id_ed25519.pub", root / "authorized_keys")
        self.trust()
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def unit(self) -> str:
        return f"127.0.0.1:{self.port}"

    @property
    def name(self) -> str:
        return f"ssh:{self.unit}"

    @property
    def folder(self) -> Path:
        return self.home / ".edgesweep"

    @property
    def known_hosts(self) -> Path:
        return self.client / ".ssh" / "known_hosts"

    def make_key(self, file: Path) -> None:
        file.unlink(missing_ok=True)
        argv = ["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", "edgesweep-tests", "-f", str(file)]
        subprocess.run(argv, check=True, stdin=subprocess.DEVNULL, timeout=60)

    def trust(self, key: str | None = None) -> None:
        """Have this computer know the board's host key, or another one as the board's."""
        words = (key or (self.root / "host_key.pub").read_text()).split()[:2]
        self.known_hosts.write_text(f"[127.0.0.1]:{self.port} {' '.join(words)}\n")

    def start(self, *, shell: str = "/bin/sh", noise: str = "") -> None:
        config = self.root / "config"
        config.write_text(_CONFIG.format(port=self.port, root=self.root))
        home, own = shlex.quote(str(self.home)), shlex.quote(str(self.bin))
        account = self.root / "account"
        account.write_text(_ACCOUNT.format(home=home, bin=own, shell=shell, noise=noise))
        account.chmod(0o755)
        if os.getuid() == 0:
            # Debian's service makes it when it starts.
            Path("/run/sshd").mkdir(mode=0o755, exist_ok=True)
        argv = [SSHD, "-D", "-f", str(config), "-E", str(self.root / "log")]
        self._process = subprocess.Popen(argv, stdin=subprocess.DEVNULL)
        deadline = time.monotonic() + _START_S
        while True:
            with suppress(OSError):
                socket.create_connection(("127.0.0.1", self.port), 1).close()
                return
            assert self._process.poll() is None, (self.root / "log").read_text()
            assert time.monotonic() < deadline, "sshd does not answer"
            time.sleep(0.02)

    def is_on(self) -> bool:
        return self._process is not None

    def connections(self) -> list[psutil.Process]:
        """The processes that serve one connection each; its programs are children of the last one of them."""
        return [] if self._process is None else psutil.Process(self._process.pid).children(recursive=True)

    def cut(self) -> None:
        """Break every connection. Programs go on."""
        for server in self._servers():
            with suppress(psutil.Error):
                server.kill()

    def stop(self) -> None:
        """Refuse new connections and break the present ones."""
        if self._process is not None:
            # The server must serve no more while its connections are looked for: a late one would write its log into a
            # folder that goes.
            self._process.send_signal(signal.SIGSTOP)
            servers = self._servers()
            for server in servers:
                with suppress(psutil.Error):
                    server.kill()
            self._process.kill()
            self._process.wait(60)
            deadline = time.monotonic() + _START_S
            while any(map(_runs, servers)):
                assert time.monotonic() < deadline, "a connection's server does not end"
                time.sleep(0.01)
            self._process = None

    def _servers(self) -> list[psutil.Process]:
        """The processes that serve connections, without the programs of these. Whoever ends while it is asked is not
        among them."""
        servers = []
        for process in self.connections():
            with suppress(psutil.Error):
                if process.name() == "sshd":
                    servers.append(process)
        return servers

    def programs(self, word: str) -> list[psutil.Process]:
        """The processes of the machine with this word in their command line."""
        processes = []
        for process in psutil.process_iter():
            with suppress(psutil.Error):
                if any(word in part for part in process.cmdline()):
                    processes.append(process)
        return processes

    def log(self) -> str:
        return (self.root / "log").read_text()


def _runs(process: psutil.Process) -> bool:
    with suppress(psutil.Error):
        return process.is_running() and process.status() != psutil.STATUS_ZOMBIE
    return False


@contextmanager
def running(root: Path) -> Iterator[Board]:
    """A board that is on. Two of this machine at once cannot be measured on: they share the machine's lease."""
    board = Board(root)
    board.start()
    try:
        yield board
    finally:
        board.stop()
        # Whatever a test left running there.
        for process in board.programs(str(board.root)):
            with suppress(psutil.Error):
                process.kill()
