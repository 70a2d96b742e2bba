"""Device hosts within the test's own process, with workers that the test controls."""

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar

from sweeps.device_facts import DeviceFacts
from sweeps.errors import DeviceError
from sweeps.records import Failed, Stage
from sweeps.variant import Variant
from tests import gallery
from tests.builders import job_of, phone_facts
from tests.workers.tiny_model import tiny_inputs
from workers.artifacts import PackedArtifact
from workers.hosts.agent import HostAgent, Identity
from workers.hosts.device_slot import Worker
from workers.hosts.interface import Host, Versions
from workers.hosts.inventory import Inventory
from workers.hosts.lab import Lab
from workers.hosts.lab_executor import LabExecutor
from workers.hosts.leases import Leases
from workers.hosts.result_buffer import Outbox
from workers.measure.device_runner import AnswerT, DeviceRunner, Request
from workers.measure.recovery_request import RecoverRequest, Taken

PATIENCE_S = 300.0
"""On a busy computer what is waited for may take long; what does not come ends its test here."""
VERSIONS = Versions(edgesweep="1", protocol=1, python="3", ray="2")
JOB = job_of("job", "a" * 64, name="tiny int8")


@dataclass(frozen=True, slots=True)
class Ask(Request[str]):
    """A request whose answer tells how many came before."""

    number: int
    stored: bool = True
    stage: ClassVar[Stage] = "run"

    @property
    def result_id(self) -> str:
        return f"result {self.number}" if self.stored else ""

    def answer(self, bench: DeviceRunner) -> str:
        raise NotImplementedError


@dataclass(slots=True)
class ControlledWorker:
    """Answers at once, or when it is let go."""

    device: DeviceFacts
    answers: list[str] = field(default_factory=list)
    ended: str = ""
    go: threading.Event = field(default_factory=threading.Event)
    request_event: threading.Event = field(default_factory=threading.Event)
    fails: bool = False
    take: Callable[[RecoverRequest], Any] = lambda request: Taken(request.rung)

    def ask(self, request: Request[AnswerT]) -> AnswerT | Failed:
        self.request_event.set()
        assert self.go.wait(60)
        if self.ended or self.fails:
            return Failed(stage="run", kind="worker_lost", message=f"it was {self.ended or 'lost'}")
        if isinstance(request, RecoverRequest):
            return self.take(request)
        assert isinstance(request, Ask)
        self.answers.append(f"answer {len(self.answers)} to {request.number}")
        return self.answers[-1]  # type: ignore[return-value]

    def close(self) -> None:
        self.ended = "closed"

    def kill(self) -> None:
        self.ended = "killed"
        self.go.set()


class TestHost:
    """An agent with a clock, devices and workers that the test holds."""

    __test__ = False

    def __init__(self, folder: Path, name: str = "lab-1", *devices: str, **identity: object) -> None:
        self.folder = folder
        self.now_s = 1000.0
        self.names = [f"adb:{device}" for device in devices or ("one",)]
        self.workers: list[ControlledWorker] = []
        self.kept_out: dict[str, DeviceError] = {}
        self.held = False
        """Workers wait to be let go."""
        self.make_worker: Callable[[DeviceFacts], Worker] = self._worker
        self.make: Callable[[str], DeviceFacts] = lambda name: phone_facts(name.removeprefix("adb:"))
        self.apart: Callable[[Callable[[], None]], object] = lambda call: call()
        self.identity: dict[str, object] = {"name": name, "machine": name, "boot": 1, "versions": VERSIONS} | identity
        self.start()

    def start(self) -> None:
        """Start the agent, also again, as after a crash: the files on disk stay."""
        self.outbox = Outbox(self.folder / "outbox.sqlite", "1")
        self.leases = Leases(lambda: self.now_s, self.outbox.next_epoch)
        inventory = Inventory(
            lambda: (self.names, {}),
            lambda name: self.make(name),
            lambda: self.now_s,
            kept_out=lambda device: self.kept_out.get(device.device_id),
        )
        self.agent = HostAgent(
            Identity(**self.identity),  # type: ignore[arg-type]
            self.folder,
            inventory,
            self.leases,
            self.outbox,
            lambda device: self.make_worker(device),
            lambda: self.now_s,
            lambda call: self.apart(call),
        )
        self.agent.tend()

    def _worker(self, device: DeviceFacts) -> ControlledWorker:
        worker = ControlledWorker(device)
        if not self.held:
            worker.go.set()
        self.workers.append(worker)
        return worker


class Wire:
    """The way to a host, which a test may cut: before a call arrives, or before its answer is back."""

    def __init__(self, host: TestHost) -> None:
        self._host = host
        self.cut = False
        self.late = False
        """The answer is here, and its caller has not read it."""
        self.received: list[str] = []
        self._refused = threading.Event()
        self.faulty: Callable[[str, tuple[Any, ...]], bool] = lambda _method, _values: False
        """Tells whether the answer to this call is lost."""

    def __getattr__(self, method: str) -> Callable[..., Any]:
        def call(*values: Any) -> Any:
            if self.cut:
                self._refused.set()
                raise DeviceError("host_away", "the link is cut")
            if method == "beat":
                values = (*values[:-1], 0.01)
            answer = getattr(self._host.agent, method)(*values)
            if method == "receive":
                packed: PackedArtifact = values[0]
                self.received.append(packed.build_key)
            if self.faulty(method, values):
                raise DeviceError("host_away", "the answer is lost")
            return answer

        return call

    def has_answered(self) -> bool:
        return self.late

    @property
    def host(self) -> Host:
        return self  # type: ignore[return-value]

    def cut_off(self) -> None:
        """Returns once the driver's follower knows: what was under way before has ended then."""
        self._refused.clear()
        self.cut = True
        assert self._refused.wait(60)


class World:
    """A lab with hosts that come and go, and a clock."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.now_s = 0.0
        self.hosts: dict[str, TestHost] = {}
        self.wires: dict[tuple[str, str], Wire] = {}
        """By driver and host."""
        self.messages: list[str] = []
        self._open: list[Lab] = []

    def add(self, name: str, *devices: str, **identity: object) -> tuple[TestHost, Wire]:
        """The wire is ann's."""
        key = f"{name} {len(self.hosts)}"
        self.hosts[key] = host = TestHost(self.folder / key, name, *devices, **identity)
        return host, self._wire("ann", key)

    def _wire(self, who: str, key: str) -> Wire:
        return self.wires.setdefault((who, key), Wire(self.hosts[key]))

    def lab(self, who: str = "ann") -> Lab:
        lab = Lab(
            lambda: [(key, self._wire(who, key).host) for key in self.hosts],
            who,
            VERSIONS,
            lambda: self.now_s,
            self.messages.append,
            lambda: 1000.0,
        )
        self._open.append(lab)
        return lab

    def executor(self, lab: Lab) -> LabExecutor:
        return LabExecutor(lab, self.folder / "driver")

    def build(self, build_key: str) -> None:
        gallery.build(self.folder / "driver" / "artifacts", build_key, Variant(), tiny_inputs())

    def close(self) -> None:
        for lab in self._open:
            lab.close()


def wait_for(until: Callable[[], bool]) -> None:
    give_up_s = time.monotonic() + PATIENCE_S
    while not until():
        assert time.monotonic() < give_up_s, "what the test waits for does not come"
        time.sleep(0.02)
