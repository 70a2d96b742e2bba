"""The agent of a device host: lists its devices, lends them, runs blocks on them, keeps the results.

Plain Python: Ray only carries the calls (`workers.hosts.actors`), and tests make them directly.
"""

import pickle
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from threading import Event, Lock
from typing import Any

from sweeps.device_facts import DeviceFacts
from sweeps.errors import DeviceError, StoreError
from sweeps.records import Block, Failed
from workers.artifacts import ArtifactStore, PackedArtifact
from workers.hosts.away import leaving
from workers.hosts.device_slot import DeviceSlot, Worker
from workers.hosts.disk import Disk
from workers.hosts.interface import Beat, Granted, Hello, Hint, HostDevice, Queued, Versions
from workers.hosts.inventory import Inventory
from workers.hosts.leases import Leases, lease_lost
from workers.hosts.result_buffer import Outbox
from workers.measure.device_runner import AnswerT, Request, failed

_LEAVE_POLL_S = 0.2
_DISK_KINDS = ("no_space", "os_error")


@dataclass(frozen=True, slots=True, kw_only=True)
class Identity:
    """The facts that distinguish this agent from others."""

    name: str
    machine: str
    boot: int
    versions: Versions
    tags: tuple[str, ...] = ()
    tools: tuple[tuple[str, str], ...] = ()


class HostAgent:
    """A `workers.hosts.interface.Host` on this machine. It is one class, since each of its calls needs the lease, the
    desk and the outbox of the same device."""

    def __init__(
        self,
        identity: Identity,
        folder: Path,
        inventory: Inventory,
        leases: Leases,
        outbox: Outbox,
        start: Callable[[DeviceFacts], Worker],
        now: Callable[[], float],
        spawn: Callable[[Callable[[], None]], object] = lambda call: call(),
    ) -> None:
        """Create an agent without leases. `folder`: for artifacts and device files of this host. `now` returns seconds
        since 1970, which are only displayed. `spawn` makes a call that may hang, such as to end a worker, and does not
        wait for it."""
        self._identity = identity
        self._folder = folder
        self._store = ArtifactStore(folder / "artifacts")
        self._inventory = inventory
        self._leases = leases
        self._outbox = outbox
        self._disk = Disk(identity.name, folder, outbox)
        self._start = start
        self._now = now
        self._spawn = spawn
        self._leaving = Event()
        self._hints: dict[tuple[str, str], Hint] = {}
        """The hints, by device id and user."""
        self._desks: dict[str, DeviceSlot] = {}
        """The desks, by device id."""
        self._lock = Lock()
        self._receiving = Lock()

    def hello(self) -> Hello:
        identity, stored = self._identity, self._disk.stored()
        return Hello(
            name=identity.name,
            machine=identity.machine,
            boot=identity.boot,
            versions=identity.versions,
            tags=identity.tags,
            tools=identity.tools,
            change=self._inventory.change,
            devices=tuple(HostDevice(facts=facts, use=self._leases.use(facts.device_id)) for facts in self._devices()),
            refused=(*self._disk.troubles(), *self._inventory.refused()),
            hints=tuple(self._hints.copy().values()),
            stored=stored,
            free_bytes=self._disk.free_bytes,
            clock_s=self._now(),
        )

    def acquire(self, device_id: str, who: str) -> Granted | Queued:
        if self._leaving.is_set():
            raise leaving(self._identity.name)
        self._check_not_kept_out(device_id)
        if all(facts.device_id != device_id for facts in self._devices()):
            raise DeviceError("offline", f"{device_id} is not attached to the host {self._identity.name}")
        self._disk.check()
        try:
            return self._leases.acquire(device_id, who)
        except StoreError as error:
            raise self._disk.refused(error) from error

    def beat(self, who: str, epochs: Mapping[str, int], change: int, timeout_s: float) -> Beat:
        lost = self._leases.beat(who, epochs)
        changed = self._inventory.watch(change, 0.0 if lost else timeout_s)
        return Beat(lost, self.hello() if changed else None)

    def release(self, device_id: str, epoch: int) -> None:
        if self._leases.release(device_id, epoch):
            self._desk(device_id).vacate()

    def free(self, device_id: str) -> str:
        who = self._leases.free(device_id)
        if who:
            self._desk(device_id).kill()
        return who

    def missing(self, build_keys: Collection[str]) -> frozenset[str]:
        return frozenset(key for key in build_keys if self._store.find(key) is None)

    def receive(self, packed: PackedArtifact) -> None:
        try:
            with self._receiving:
                self._store.unpack(packed)
        except OSError as error:
            raise self._disk.refused(error) from error

    def run(
        self, device_id: str, epoch: int, request: Request[AnswerT], acknowledged: Sequence[str] = ()
    ) -> AnswerT | Failed:
        desk, result_id = self._desk(device_id), request.result_id
        if (not result_id or desk.last_result_id != result_id) and not self._leases.is_live(device_id, epoch):
            # A stored answer is returned to any caller, and no caller waits for another driver's block.
            stored = self._stored(result_id)
            with suppress(StoreError):
                self._outbox.acknowledge(acknowledged)
            return stored if stored is not None else failed(request.stage, lease_lost(device_id, epoch))
        # A caller that comes while a block runs waits for it, and may be its own driver, back from an outage.
        with desk.busy:
            desk.last_result_id = result_id
            stored = self._stored(result_id)
            answer: AnswerT | Failed = stored if stored is not None else self._answer(desk, device_id, epoch, request)
            # A driver gets the answer even if the disk fails: only an outage of the connection would then lose it. An
            # acknowledged result is not requested again, and the oldest results are dropped when there are too many
            # bytes.
            with suppress(StoreError):
                if result_id and stored is None and not isinstance(answer, Failed):
                    self._outbox.keep(result_id, device_id, epoch, pickle.dumps(answer), acknowledged)
                else:
                    self._outbox.acknowledge(acknowledged)
            return answer

    def acknowledge(self, results: Sequence[str]) -> None:
        self._outbox.acknowledge(results)

    def hint(self, hint: Hint) -> None:
        if hint.text:
            self._hints[hint.device_id, hint.user] = hint
        else:
            self._hints.pop((hint.device_id, hint.user), None)

    def tend(self) -> None:
        """Look for devices, release those whose driver is gone, end blocks that keep another driver waiting, and sync
        results to the disk.

        To be called every second or so.
        """
        with suppress(StoreError):  # `hello` reports the error
            self._outbox.sync()
            self._outbox.expire()
        self._inventory.refresh()
        self._disk.retry()
        for device_id in self._leases.overdue():
            # The worker is removed from its desk now: later the desk may have the next driver's worker.
            if worker := self._desk(device_id).dismissed():
                self._spawn(worker.kill)
        with self._lock:
            desks = dict(self._desks)
        for device_id, desk in desks.items():
            # The lease itself stays: a driver that comes back after an outage finds it, if no other driver has asked
            # for the device.
            if desk.is_taken and not self._leases.is_live(device_id, desk.epoch):
                self._spawn(partial(desk.vacate, desk.epoch))

    def leave(self, timeout_s: float) -> None:
        """Leave the lab: grant and start nothing more, wait for the blocks that run, release all devices."""
        self._leaving.set()
        with self._lock:
            desks = list(self._desks.values())
        waited_s = 0.0
        while any(desk.busy.locked() for desk in desks) and waited_s < timeout_s:
            time.sleep(_LEAVE_POLL_S)
            waited_s += _LEAVE_POLL_S
        with ThreadPoolExecutor(max(1, len(desks))) as pool:
            list(pool.map(DeviceSlot.end, desks))
        with suppress(StoreError):
            self._outbox.sync()

    def _answer(self, desk: DeviceSlot, device_id: str, epoch: int, request: Request[AnswerT]) -> AnswerT | Failed:
        try:
            if self._leaving.is_set():
                raise leaving(self._identity.name)
            self._check_not_kept_out(device_id)
            self._disk.check()
            name, at_least = request.job.name, request.left_at_least
            self._leases.begin(device_id, epoch, name, request.left_s, at_least=at_least)
            try:
                answer = desk.worker(epoch, lambda: self._start(self._facts(device_id))).ask(request)
            finally:
                self._leases.end(device_id)
            if isinstance(answer, Failed) and answer.kind in _DISK_KINDS:
                self._disk.check()  # the disk filled up meanwhile: no fault of the job
            return replace(answer, host=self._identity.name) if isinstance(answer, Block) else answer
        except DeviceError as error:
            return failed(request.stage, error)

    def _check_not_kept_out(self, device_id: str) -> None:
        """Refuse a device that a person quarantined, with `DeviceError("quarantined", ...)`: it is attached, and not
        offline."""
        if (why := self._inventory.kept_out(device_id)) is not None:
            raise why

    def _devices(self) -> tuple[DeviceFacts, ...]:
        return self._inventory.devices()

    def _facts(self, device_id: str) -> DeviceFacts:
        """Return the facts of a device that is attached, or was measured on. Raises `DeviceError("offline", ...)`."""
        attached = next((facts for facts in self._devices() if facts.device_id == device_id), None)
        desk = self._desk(device_id)
        facts = attached or desk.facts
        if facts is None:
            raise DeviceError("offline", f"{device_id} is not attached to the host {self._identity.name}")
        desk.facts = facts
        return facts

    def _desk(self, device_id: str) -> DeviceSlot:
        with self._lock:
            return self._desks.setdefault(device_id, DeviceSlot())

    def _stored(self, result_id: str) -> Any:
        """Return the stored answer; `None` if there is no such result, or the disk cannot be read."""
        if not result_id:
            return None
        try:
            packed = self._outbox.find(result_id)
        except StoreError:
            return None
        if packed is None:
            return None
        return pickle.loads(packed)  # noqa: S301  # this agent's own file, mode 0600, of this version
