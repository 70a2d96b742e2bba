"""A lab of computers in namespaces of their own: real hosts with two virtual phones each, and one for drivers."""

import json
import shutil
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import psutil

from tests.computers import Computer, Network
from workers.native.compiler import cache_folder

HOSTS = ("lab-1", "lab-2", "lab-3")
"""The first is the lab's head."""
PHONES = 2
DRIVER = "driver"
PORT = 6379
PATIENCE_S = 240.0
_EDGESWEEP = str(Path(sys.executable).with_name("edgesweep"))
_PHONE = """
import sys
from pathlib import Path
from workers.devices.adb.adb_host import AdbHost
from tests.faulty_phone import FaultyPhone
host = AdbHost()
with FaultyPhone(Path(sys.argv[1]), sys.argv[2]) as phone:
    assert host.connect(phone.serial)
    phone.slow_down(bytes_per_s=float(sys.argv[3]) if sys.argv[3:] else None)
    print(phone.serial, flush=True)
    sys.stdin.read()
"""
_TOKEN = ".local/state/edgesweep/host/token"


def say(message: str) -> None:
    print(f"{time.strftime('%H:%M:%S')} {message}", file=sys.stderr, flush=True)


@dataclass(slots=True)
class Lab:
    """Started host by host; everything on its computers ends with the network."""

    network: Network
    _logs: dict[str, Path] = field(default_factory=dict)
    _hosts: dict[str, "subprocess.Popen[str]"] = field(default_factory=dict)
    _phones: dict[str, "subprocess.Popen[str]"] = field(default_factory=dict)
    _count: int = 0

    @property
    def head(self) -> str:
        return f"{self.network.address(HOSTS[0])}:{PORT}"

    def start(self) -> None:
        """All hosts with their phones, and the drivers' computer. Returns once the hosts have joined."""
        for name in (*HOSTS, DRIVER):
            self.network.add(name)
        for name in HOSTS:
            for phone in range(PHONES):
                self.plug(name, f"{name}-phone-{phone + 1}")
            self.join(name)
        self.give_token(self.network.computers[DRIVER])

    def plug(self, name: str, serialno: str, *bytes_per_s: float) -> None:
        """Start a phone on the cable of this host, which carries so much, or whatever it can."""
        self._count += 1
        argv = [sys.executable, "-c", _PHONE, f"/tmp/phone-{self._count}", serialno]  # the computer's own
        argv += map(str, bytes_per_s)
        phone = self.network.computers[name].start(argv)
        assert phone.stdout is not None
        if not phone.stdout.readline():
            raise RuntimeError(f"no virtual phone {serialno}: see above")
        self._phones[serialno] = phone

    def unplug(self, serialno: str) -> None:
        """End a phone in order: its host's cable has nothing on it then."""
        self._phones.pop(serialno).communicate()

    def data(self, serialno: str) -> Path:
        """The path of the phone's `/data` on this machine."""
        inside = psutil.Process(self._phones[serialno].pid).children(recursive=True)
        (first,) = (child for process in inside if process.name() == "unshare" for child in process.children())
        return Path(f"/proc/{first.pid}/root/data")

    def join(self, name: str, *more: str, **environment: str) -> None:
        """Returns once the host is in the lab."""
        computer = self.network.computers[name]
        log = self._logs[name] = computer.folder / "host.log"
        log.unlink(missing_ok=True)
        if name == HOSTS[0]:
            words = ["up", "--address", self.network.address(name), "--port", str(PORT)]
        else:
            words = ["join", self.head, "--token-file", self.give_token(computer)]
        self._hosts[name] = computer.start([_EDGESWEEP, "host", *words, "--name", name, *more], log, **environment)
        self.wait(lambda: "is a host of the lab" in self.output(name) or self._hosts[name].poll() is not None)
        if self._hosts[name].poll() is not None:
            raise RuntimeError(f"{name} does not join: {self.output(name)}")

    def output(self, name: str) -> str:
        return self._logs[name].read_text(errors="replace")

    def hosts(self) -> list[dict[str, Any]]:
        """List the hosts that `edgesweep hosts --json` tells."""
        hosts: list[dict[str, Any]] = self._hosts_document()["hosts"]
        return hosts

    def troubles(self) -> list[str]:
        """List the troubles that `edgesweep hosts --json` tells."""
        troubles: list[str] = self._hosts_document()["troubles"]
        return troubles

    def _hosts_document(self) -> dict[str, Any]:
        words = [_EDGESWEEP, "hosts", "--json", "--lab", self.head, "--token-file", "lab-token"]
        ended = self.network.computers[DRIVER].run(words)
        if ended.returncode != 0:
            raise RuntimeError("edgesweep hosts failed: see above")
        document: dict[str, Any] = json.loads(ended.stdout)
        return document

    def wait(self, until: Callable[[], bool], seconds: float = PATIENCE_S) -> None:
        deadline = time.monotonic() + seconds
        while not until():
            if time.monotonic() > deadline:
                raise TimeoutError("\n".join(f"{name}: {self.output(name)}" for name in self._logs))
            time.sleep(0.1)

    def give_token(self, computer: Computer) -> str:
        source = self.network.computers[HOSTS[0]].folder / "home" / _TOKEN
        file = computer.folder / "home" / "lab-token"
        shutil.copyfile(source, file)
        file.chmod(0o600)
        return file.name


def network(folder: Path) -> Network:
    """A network whose computers share EdgeSweep's cache of compiled and fetched programs, and nothing else."""
    return Network(folder, {"EDGESWEEP_CACHE": str(cache_folder())})
