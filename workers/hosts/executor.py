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
from workers.hosts.interface import Host
from workers.hosts.lab import Lab
from workers.measure.bench import AnswerT, Request, failed
from workers.measure.recovery import RecoverRequest

_LEASES = 2
"""A lease that ended while the driver was cut off is taken anew once; after that the device is another driver's."""


class LabExecutor:
    """Builds in a process of this machine, measures on the hosts of a lab.

    Devices without a host in their name are this machine's own.
    """

    def __init__(self, lab: Lab, folder: Path) -> None:
        self._lab = lab
        self._here = InlineExecutor(folder)
        self._store = ArtifactStore(folder / "artifacts")
        self._lanes: list[LabLane] = []

    def build(self, requests: Iterable[BuildRequest], stop: Stop) -> Builds:
        yield from self._here.build(requests, stop)

    def lane(self, facts: DeviceFacts) -> DeviceLane:
        if places.host_of(facts.name) is None:
            return self._here.lane(facts)
        lane = LabLane(facts, self._lab, self._store)
        self._lanes.append(lane)
        return lane

    def close(self) -> None:
        """The lab stays open: a command may measure again."""
        self._here.close()
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
        self._there: set[str] = set()
        """Artifacts that this host has, by build key: it is not asked before every block."""
        self._there_on: Host | None = None

    def ask(self, request: Request[AnswerT]) -> AnswerT | Failed:
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
            answer = self._ask(host, request, taken)
        except DeviceError as error:
            self._taken = taken
            return failed(request.stage, error)
        except (EdgeSweepError, OSError) as error:
            return failed_by(request.stage, error)
        if request.result_id and not isinstance(answer, Failed):
            self._taken, self._taken_from = (request.result_id,), host
        return answer

    def rest(self, seconds: float) -> None:
        time.sleep(seconds)

    def close(self) -> None:
        taken, self._taken = self._taken, ()
        self._acknowledge(taken)
        self._lab.hand_back(self._facts.device_id)

    def _ask(self, host: Host, request: Request[AnswerT], taken: tuple[str, ...]) -> AnswerT | Failed:
        device_id = self._facts.device_id
        if host is not self._there_on:
            self._there, self._there_on = set(), host
        for attempt in range(_LEASES):
            epoch = self._lab.lease(host, device_id)
            if unsure := {job.build_key for job in request.jobs} - self._there:
                for build_key in host.missing(unsure):
                    self._send(host, build_key)
                self._there |= unsure
            answer = host.run(device_id, epoch, request, taken if attempt == 0 else ())
            if isinstance(answer, Failed):
                # Perhaps because an artifact is gone, or damaged.
                self._there.clear()
            if not (isinstance(answer, Failed) and answer.kind == "lease_lost"):
                return answer
            self._lab.lose(host, device_id)
        return answer

    def _send(self, host: Host, build_key: str) -> None:
        manifest = self._store.find(build_key)
        if manifest is None:
            raise DeviceError("no_artifact", f"artifact {build_key[:12]} is not in the workspace")
        host.receive(self._store.pack(manifest))

    def _acknowledge(self, taken: tuple[str, ...]) -> None:
        """What cannot be acknowledged stays on the host until its cap is reached."""
        if not taken or self._taken_from is None:
            return
        try:
            self._taken_from.acknowledge(taken)
        except EdgeSweepError:
            return
