"""Measures the noise of a device: one build in fresh processes, again and again. Nothing differs, so all is noise.

The build is the sentinel's, so no sweep file is needed. Every block is stored at once.
"""

import time
from collections.abc import Callable, Generator, Iterator
from dataclasses import replace

from sweeps.device_facts import DeviceFacts
from sweeps.errors import DeviceError
from sweeps.journal.calibrations import append, file_of, next_place, read_blocks
from sweeps.journal.journal import MAX_ATTEMPTS
from sweeps.planning.plan import Plan
from sweeps.protocol import sentinel
from sweeps.protocol.presets import Protocol, protocol_of
from sweeps.records import Block, Failed, Job
from sweeps.spec import catalog
from sweeps.spec.grid import GridSpec
from sweeps.spec.inputs import DataSpec, ModelSpec, SyntheticData
from sweeps.spec.protocol import ProtocolSpec
from sweeps.spec.sweep import SweepSpec
from sweeps.workspace import Workspace
from workers.artifacts import ArtifactStore
from workers.driver.events import AttemptFailed, Building, Preparing, Waiting
from workers.executors.interface import BuildRequest, DeviceLane, Executor
from workers.measure.readiness import Readiness
from workers.measure.requests import BlockRequest, ReadyRequest
from workers.measure.waiting import Wait, WaitLimits
from workers.models.prepared import PreparedModel
from workers.plan import plan_sweep

_IMAGES = SyntheticData(source="synthetic", images=8)
_VARIANT = sentinel.VARIANT
_GRID = GridSpec(
    runtime=(_VARIANT.runtime,),
    backend=(_VARIANT.backend,),
    precision=(_VARIANT.precision,),
    layout=(_VARIANT.layout,),
    capture=(_VARIANT.capture,),
    format=(_VARIANT.format,),
    fuse=(_VARIANT.fuse,),
    optimize=(_VARIANT.optimize,),
)
_PROTOCOL = ProtocolSpec(preset="quick", iterations=10)


class NoiseRun:
    """One device, with what was measured on it before."""

    def __init__(self, device: str, workspace: Workspace, tell: Callable[[str], object]) -> None:
        """`device`: as a sweep file names it. Raises `DeviceError` if there is no such device, or it cannot run the
        sentinel."""
        entry = catalog.device(device)
        if entry is None or (entry.discovery and device == f"{entry.name}:*"):
            raise DeviceError("unknown_device", f"{device!r} names no single device", "edgesweep devices lists them")
        spec = SweepSpec(
            name="noise",
            models=(sentinel.MODEL,),
            data=DataSpec(calibration=_IMAGES, evaluation=_IMAGES.model_copy(update={"seed": 1})),
            grids=(_GRID,),
            devices=(device,),
            protocol=_PROTOCOL,
        )
        self.plan: Plan = plan_sweep(spec, workspace.root, tell=tell)
        if not self.plan.jobs:
            reasons = "; ".join(dict.fromkeys(skipped.reason for skipped in self.plan.skipped))
            raise DeviceError("not_possible", f"{device} cannot run the model that noise is measured with: {reasons}")
        self._store = ArtifactStore(workspace.artifacts)
        self._path = file_of(workspace, self.facts)

    @property
    def facts(self) -> DeviceFacts:
        return self.plan.devices[0]

    @property
    def job(self) -> Job:
        return self.plan.jobs[0]

    def blocks(self) -> list[Block]:
        """All blocks of this device, build and protocol so far, in the order of measuring. Raises `StoreError`."""
        return [block for block in read_blocks(self._path) if block.job_key == self.job.key]

    def build(
        self, executor: Executor, prepare: Callable[[ModelSpec], PreparedModel], stop: Callable[[], bool]
    ) -> Iterator[Preparing | Building]:
        """Build the model if it is missing. Raises `DeviceError` if that fails, and what `prepare` raises."""
        if self._store.find(self.job.build_key) is not None or stop():
            return
        yield Preparing(self.job.model)
        request = BuildRequest(self.job.build_key, self.job.variant, prepare(sentinel.MODEL).build_inputs)
        for _, outcome in executor.build([request], stop):
            if isinstance(outcome, Failed):
                raise DeviceError(outcome.kind, f"{self.job.name} cannot be built: {outcome.message}")
            if outcome is not None:
                self._store.unpack(outcome)
            yield Building(int(outcome is not None), 1, (self.job.name,))

    def measure(
        self, lane: DeviceLane, seconds: float, stop: Callable[[], bool], now: Callable[[], float] = time.time
    ) -> Iterator[Block | Waiting | AttemptFailed]:
        """Blocks, each stored already, until they took `seconds` on the device's clock, with waits.

        Raises `DeviceError` when a block failed three times in a row; those before are stored.
        """
        if self._store.find(self.job.build_key) is None:
            return  # it was stopped before its build
        protocol = protocol_of(self.plan.sweep)
        limits = WaitLimits(protocol)
        session, round_ = next_place(self.blocks(), now())
        spent_s, failures = 0.0, 0
        while spent_s < seconds and not stop():
            block = yield from self._block(lane, round_, protocol, limits, stop)
            if block is None:
                return
            if isinstance(block, Failed):
                failures += 1
                yield AttemptFailed(self.job.name, block, final=failures == MAX_ATTEMPTS)
                if failures == MAX_ATTEMPTS:
                    raise DeviceError(block.kind, f"{self.facts.name} could not be measured: {block.message}")
                continue
            failures = 0
            block = replace(block, session=session)
            append(self._path, block)
            spent_s += block.device_seconds + block.conditions.waited_seconds
            round_ += 1
            yield block

    def _block(
        self, lane: DeviceLane, round_: int, protocol: Protocol, limits: WaitLimits, stop: Callable[[], bool]
    ) -> Generator[Waiting, None, Block | Failed | None]:
        """One block behind the gate; `None` if it was stopped before."""
        wait = Wait(limits)
        while not stop():
            found = lane.ask(ReadyRequest(self.job, protocol.gate, wait.look_s))
            ready = found if isinstance(found, Failed) else wait.ended(found)
            if isinstance(ready, Failed):
                return ready
            if ready is not None:
                return lane.ask(BlockRequest(self.job, round_, protocol, ready))
            if isinstance(found, Readiness):
                yield Waiting(self.facts.name, found.lacking, wait.waited_s)
        return None
