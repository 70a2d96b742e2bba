"""The executor for the devices of a lab. Its lanes follow their devices from host to host."""

import time
from collections.abc import Iterable
from pathlib import Path

from sweeps.device_facts import DeviceFacts
from sweeps.errors import DeviceError, EdgeSweepError
from sweeps.records import Failed
from sweeps.spec import lab_names
from workers.artifacts import ArtifactStore
from workers.executors.inline import InlineExecutor
from workers.executors.interface import BuildRequest, Builds, DeviceLane, Stop
from workers.executors.lane import failed_by
from workers.executors.local_pool import BUILDERS, build_with, close_all
from workers.hosts.host_choice import different
from workers.hosts.interface import Host
from workers.hosts.lab import Lab
from workers.measure.device_runner import AnswerT, Request, failed
from workers.measure.recovery_request import RecoverRequest
from workers.measure.stored_answer import StoredAnswerRequest, not_stored

_NO_LEASE = 0
"""An epoch that no lease has: with it a host returns a stored answer, and starts nothing."""
_LEASES = 2
"""The number of leases that a request may use: if the lease ended while the driver was cut off, the driver asks for a
new one once; after that another driver has the device."""


class LabExecutor:
    """The executor that builds in processes of this machine, and measures on the hosts of a lab.

    Devices without a host in their name belong to this machine.
    """

    def __init__(self, lab: Lab, folder: Path, builders: int = BUILDERS) -> None:
        """Create an executor for the devices of `lab`. `builders`: the number of processes that build at once."""
        self._lab = lab
        self._local = InlineExecutor(folder)
        self._builders = [InlineExecutor(folder) for _ in range(builders)]
        self._store = ArtifactStore(folder / "artifacts")
        self._lanes: list[LabLane] = []

    def build(self, requests: Iterable[BuildRequest], stop: Stop) -> Builds:
        yield from build_with(self._builders, requests, stop)

    def lane(self, facts: DeviceFacts) -> DeviceLane:
        if lab_names.host_of(facts.name) is None:
            return self._local.lane(facts)
        lane = LabLane(facts, self._lab, self._store)
        self._lanes.append(lane)
        return lane

    def close(self) -> None:
        """Close the lanes and builders. The lab stays open: a command may measure again."""
        close_all((self._local, *self._builders))
        for lane in self._lanes:
            lane.close()


class LabLane:
    """The driver's side of one device of the lab, on whatever host the device is now."""

    def __init__(self, facts: DeviceFacts, lab: Lab, store: ArtifactStore) -> None:
        self._facts = facts
        self._lab = lab
        self._store = store
        self._received: tuple[str, ...] = ()
        """The ids of results that the driver has received and that their host still stores."""
        self._received_from: Host | None = None
        self._unheard: tuple[str, Host] | None = None
        """The id of the result whose answer did not arrive, and the host that was asked for it."""
        self._present: set[str] = set()
        """The artifacts that the present host has, by build key, so that the host is not asked before every block."""
        self._present_on: Host | None = None

    def ask(self, request: Request[AnswerT]) -> AnswerT | Failed:
        if isinstance(request, StoredAnswerRequest):
            stored: AnswerT | Failed = self._stored_answer(request.of)
            return stored
        # Results received before are in the journal by now: the driver sends a device one request at a time.
        received, self._received = self._received, ()
        try:
            host = self._lab.where(
                self._facts.device_id,
                lab_names.host_of(self._facts.name),
                # The recovery of a device that is gone begins at the host that had it.
                or_last=isinstance(request, RecoverRequest),
            )
            if host is not self._received_from:
                self._acknowledge(received)
                received = ()
            if self._is_elsewhere(request, host):
                self._received = received
                stored = self._stored_answer(request)
                if not isinstance(stored, Failed):
                    return stored
                received, self._received = self._received, ()
            answer = self._ask(host, request, received)
        except DeviceError as error:
            self._received = received
            return failed(request.stage, error)
        except (EdgeSweepError, OSError) as error:
            self._received = received
            return failed_by(request.stage, error)
        if request.result_id and not isinstance(answer, Failed):
            self._received, self._received_from = (request.result_id,), host
        return answer

    def _is_elsewhere(self, request: Request[AnswerT], host: Host) -> bool:
        """Tell whether this request was sent to another host, which did not answer and may have stored the answer: the
        device has moved."""
        if self._unheard is None or self._unheard[1] is host:
            return False
        return self._unheard[0] == request.result_id

    def _stored_answer(self, request: Request[AnswerT]) -> AnswerT | Failed:
        """Return the answer that a host has stored. The host returns it without a lease, whoever has the device now."""
        device_id = self._facts.device_id
        try:
            if self._unheard is not None and self._unheard[0] == request.result_id:
                host = self._lab.present(self._unheard[1])
            else:
                host = self._lab.where(device_id, lab_names.host_of(self._facts.name), or_last=True)
            answer = host.run(device_id, _NO_LEASE, request)
        except EdgeSweepError as error:
            return failed_by(request.stage, error)
        self._unheard = None
        if isinstance(answer, Failed):
            return failed(request.stage, not_stored(request.job))
        if host is not self._received_from:
            self._acknowledge(self._received)
            self._received = ()
        self._received, self._received_from = (*self._received, request.result_id), host
        return answer

    def rest(self, seconds: float) -> None:
        time.sleep(seconds)

    def close(self) -> None:
        received, self._received = self._received, ()
        self._acknowledge(received)
        self._lab.hand_back(self._facts.device_id)

    def _ask(self, host: Host, request: Request[AnswerT], received: tuple[str, ...]) -> AnswerT | Failed:
        device_id = self._facts.device_id
        self._check_unit(host, request)
        if host is not self._present_on:
            self._present, self._present_on = set(), host
        for attempt in range(_LEASES):
            epoch = self._lab.lease(host, device_id)
            if unsure := {job.build_key for job in request.jobs} - self._present:
                for build_key in host.missing(unsure):
                    self._send(host, build_key)
                self._present |= unsure
            try:
                answer = host.run(device_id, epoch, request, received if attempt == 0 else ())
            except DeviceError:
                if request.result_id:
                    self._unheard = request.result_id, host
                raise
            if isinstance(answer, Failed):
                # An artifact may be gone, or damaged.
                self._present.clear()
            if not (isinstance(answer, Failed) and answer.kind == "lease_lost"):
                return answer
            self._lab.lose(host, device_id)
        return answer

    def _check_unit(self, host: Host, request: Request[AnswerT]) -> None:
        """Raise `DeviceError("another_device", ...)` if the host's device differs from the one that was planned for:
        the host itself knows only the present device."""
        current = self._lab.facts(host, self._facts.device_id)
        if current is None:
            return
        used = sorted({job.variant.runtime for job in request.jobs})
        if differences := different(self._facts, current, used):
            raise DeviceError(
                "another_device",
                f"{current.name} is another one than this sweep was planned for ({differences})",
                "run it again, to plan for what is there now",
            )

    def _send(self, host: Host, build_key: str) -> None:
        manifest = self._store.find(build_key)
        if manifest is None:
            raise DeviceError("no_artifact", "what was built is not in the workspace")
        host.receive(self._store.pack(manifest))

    def _acknowledge(self, received: tuple[str, ...]) -> None:
        """Acknowledge the received results at their host. If that fails, they stay there until the host's limit is
        reached."""
        if not received or self._received_from is None:
            return
        try:
            self._received_from.acknowledge(received)
        except EdgeSweepError:
            return
