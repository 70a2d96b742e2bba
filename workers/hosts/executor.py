"""Measures on the devices of a lab: an executor whose lanes follow their devices from host to host."""

import time
from collections.abc import Iterable
from pathlib import Path

from sweeps.device_facts import DeviceFacts
from sweeps.errors import DeviceError, EdgeSweepError
from sweeps.records import Failed
from sweeps.spec import places
from workers.artifacts import ArtifactStore
from workers.executors.inline import InlineExecutor
from workers.executors.interface import BuildRequest, Builds, DeviceLane, Stop
from workers.executors.lane import failed_by
from workers.executors.several import BUILDERS, build_with, close_all
from workers.hosts.interface import Host
from workers.hosts.known import different
from workers.hosts.lab import Lab
from workers.measure.device_runner import AnswerT, Request, failed
from workers.measure.recovery import RecoverRequest
from workers.measure.stored_answer import StoredAnswerRequest, not_stored

_NO_LEASE = 0
"""An epoch that no lease has: a host gives what it keeps, and starts nothing."""
_LEASES = 2
"""A lease that ended while the driver was cut off is taken anew once; after that the device is another driver's."""


class LabExecutor:
    """Builds in processes of this machine, measures on the hosts of a lab.

    Devices without a host in their name are this machine's own.
    """

    def __init__(self, lab: Lab, folder: Path, builders: int = BUILDERS) -> None:
        """`builders`: how many processes build at once."""
        self._lab = lab
        self._here = InlineExecutor(folder)
        self._builders = [InlineExecutor(folder) for _ in range(builders)]
        self._store = ArtifactStore(folder / "artifacts")
        self._lanes: list[LabLane] = []

    def build(self, requests: Iterable[BuildRequest], stop: Stop) -> Builds:
        yield from build_with(self._builders, requests, stop)

    def lane(self, facts: DeviceFacts) -> DeviceLane:
        if places.host_of(facts.name) is None:
            return self._here.lane(facts)
        lane = LabLane(facts, self._lab, self._store)
        self._lanes.append(lane)
        return lane

    def close(self) -> None:
        """The lab stays open: a command may measure again."""
        close_all((self._here, *self._builders))
        for lane in self._lanes:
            lane.close()


class LabLane:
    """The driver's end of one device of the lab, on whatever host it is now."""

    def __init__(self, facts: DeviceFacts, lab: Lab, store: ArtifactStore) -> None:
        self._facts = facts
        self._lab = lab
        self._store = store
        self._taken: tuple[str, ...] = ()
        """Results that the driver got and that their host still keeps."""
        self._taken_from: Host | None = None
        self._unheard: tuple[str, Host] | None = None
        """The result whose answer did not arrive, and the host that was asked for it."""
        self._there: set[str] = set()
        """Artifacts that this host has, by build key: it is not asked before every block."""
        self._there_on: Host | None = None

    def ask(self, request: Request[AnswerT]) -> AnswerT | Failed:
        if isinstance(request, StoredAnswerRequest):
            kept: AnswerT | Failed = self._kept(request.of)
            return kept
        # It is in the journal by now: the driver asks a device for one thing after the other.
        taken, self._taken = self._taken, ()
        try:
            host = self._lab.where(
                self._facts.device_id,
                places.host_of(self._facts.name),
                # The way back to a device that is gone begins at the host that had it.
                or_last=isinstance(request, RecoverRequest),
            )
            if host is not self._taken_from:
                self._acknowledge(taken)
                taken = ()
            if self._is_elsewhere(request, host):
                self._taken = taken
                kept = self._kept(request)
                if not isinstance(kept, Failed):
                    return kept
                taken, self._taken = self._taken, ()
            answer = self._ask(host, request, taken)
        except DeviceError as error:
            self._taken = taken
            return failed(request.stage, error)
        except (EdgeSweepError, OSError) as error:
            self._taken = taken
            return failed_by(request.stage, error)
        if request.result_id and not isinstance(answer, Failed):
            self._taken, self._taken_from = (request.result_id,), host
        return answer

    def _is_elsewhere(self, request: Request[AnswerT], host: Host) -> bool:
        """Whether this was asked of another host, which did not answer and may keep it: the device has moved."""
        if self._unheard is None or self._unheard[1] is host:
            return False
        return self._unheard[0] == request.result_id

    def _kept(self, request: Request[AnswerT]) -> AnswerT | Failed:
        """The answer that the host keeps: it is given without a lease, whoever has the device now."""
        device_id = self._facts.device_id
        try:
            if self._unheard is not None and self._unheard[0] == request.result_id:
                host = self._lab.present(self._unheard[1])
            else:
                host = self._lab.where(device_id, places.host_of(self._facts.name), or_last=True)
            answer = host.run(device_id, _NO_LEASE, request)
        except EdgeSweepError as error:
            return failed_by(request.stage, error)
        self._unheard = None
        if isinstance(answer, Failed):
            return failed(request.stage, not_stored(request.job))
        if host is not self._taken_from:
            self._acknowledge(self._taken)
            self._taken = ()
        self._taken, self._taken_from = (*self._taken, request.result_id), host
        return answer

    def rest(self, seconds: float) -> None:
        time.sleep(seconds)

    def close(self) -> None:
        taken, self._taken = self._taken, ()
        self._acknowledge(taken)
        self._lab.hand_back(self._facts.device_id)

    def _ask(self, host: Host, request: Request[AnswerT], taken: tuple[str, ...]) -> AnswerT | Failed:
        device_id = self._facts.device_id
        self._check_unit(host, request)
        if host is not self._there_on:
            self._there, self._there_on = set(), host
        for attempt in range(_LEASES):
            epoch = self._lab.lease(host, device_id)
            if unsure := {job.build_key for job in request.jobs} - self._there:
                for build_key in host.missing(unsure):
                    self._send(host, build_key)
                self._there |= unsure
            try:
                answer = host.run(device_id, epoch, request, taken if attempt == 0 else ())
            except DeviceError:
                if request.result_id:
                    self._unheard = request.result_id, host
                raise
            if isinstance(answer, Failed):
                # Perhaps because an artifact is gone, or damaged.
                self._there.clear()
            if not (isinstance(answer, Failed) and answer.kind == "lease_lost"):
                return answer
            self._lab.lose(host, device_id)
        return answer

    def _check_unit(self, host: Host, request: Request[AnswerT]) -> None:
        """Raises `DeviceError("another_device", ...)` if the host tells of another one than was planned for: the host
        itself would compare it with nothing but what it is now."""
        there = self._lab.facts(host, self._facts.device_id)
        if there is None:
            return
        used = sorted({job.variant.runtime for job in request.jobs})
        if found := different(self._facts, there, used):
            raise DeviceError(
                "another_device",
                f"{there.name} is another one than this sweep was planned for ({found})",
                "run it again, to plan for what is there now",
            )

    def _send(self, host: Host, build_key: str) -> None:
        manifest = self._store.find(build_key)
        if manifest is None:
            raise DeviceError("no_artifact", "what was built is not in the workspace")
        host.receive(self._store.pack(manifest))

    def _acknowledge(self, taken: tuple[str, ...]) -> None:
        """What cannot be acknowledged stays on the host until its cap is reached."""
        if not taken or self._taken_from is None:
            return
        try:
            self._taken_from.acknowledge(taken)
        except EdgeSweepError:
            return
