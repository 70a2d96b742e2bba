"""Measures the noise of a device, without a sweep file: with builds of the sentinel, in fresh processes.

`NoiseRun` times one build again and again: nothing differs, so all differences are noise. `BatchNoiseRun` times several
builds both in one process and each in a separate process, to see whether their ratios stay the same. Each result is
stored at once.
"""

import time
from collections.abc import Callable, Generator, Iterator, Sequence
from dataclasses import replace
from typing import TypeVar

from sweeps.batches import BatchItem
from sweeps.device_facts import DeviceFacts, canonical_key
from sweeps.errors import DeviceError
from sweeps.journal.noise_blocks import (
    append,
    batch_file_of,
    file_of,
    next_place,
    next_round,
    read_blocks,
    read_rounds,
)
from sweeps.journal.outcomes import MAX_ATTEMPTS
from sweeps.label_kinds import disqualified
from sweeps.planning.plan import Plan
from sweeps.protocol import sentinel_rules
from sweeps.protocol.batch_noise import BLOCKS, FEWEST_VARIANTS, PairedRound, batch_key
from sweeps.protocol.clock import figure_ns
from sweeps.protocol.presets import protocol_of
from sweeps.protocol.stopping import shuffled_order
from sweeps.records import Block, Failed, Job
from sweeps.spec import catalog
from sweeps.spec.grid import GridSpec
from sweeps.spec.model_inputs import DataSpec, ModelSpec, SyntheticData
from sweeps.spec.protocol import ProtocolSpec
from sweeps.spec.sweep import SweepSpec
from sweeps.workspace import Workspace
from workers.artifacts import TRANSIENT_KINDS, ArtifactStore
from workers.driver.driver_events import AttemptFailed, Building, Preparing, Waiting
from workers.executors.interface import BuildRequest, DeviceLane, Executor
from workers.measure.batch_request import BatchRequest
from workers.measure.readiness import Readiness
from workers.measure.timed_block import BlockRequest, ReadyRequest
from workers.measure.waiting import Wait, WaitLimits
from workers.models.prepared_model import PreparedModel
from workers.plan_inputs import plan_sweep

Returned = TypeVar("Returned")

_IMAGES = SyntheticData(source="synthetic", images=8)
_VARIANT = sentinel_rules.VARIANT
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
_SEVERAL = _GRID.model_copy(
    update={"precision": ("fp32", "int8"), "layout": ("nchw", "nhwc"), "fuse": (True, False), "optimize": (True, False)}
)
"""The grid of several builds of one runtime and format, so that they can share a process; their kernels and layouts
differ."""
_PROTOCOL = ProtocolSpec(preset="quick", iterations=10)

Noted = Waiting | AttemptFailed
Steps = Generator[Noted, None, Returned]


class _SentinelRun:
    """A run on one device, and the sentinel's builds for that device."""

    def __init__(
        self, device: str, workspace: Workspace, tell: Callable[[str], object], grid: GridSpec, protocol: ProtocolSpec
    ) -> None:
        """Plan a run on the device that a sweep file names `device`. Raises `DeviceError` if there is no such device,
        or it cannot run the sentinel."""
        entry = catalog.device(device)
        if entry is None or (entry.discovery and device == f"{entry.name}:*"):
            raise DeviceError("unknown_device", f"{device!r} names no single device", "edgesweep devices lists them")
        spec = SweepSpec(
            name="noise",
            models=(sentinel_rules.MODEL,),
            data=DataSpec(calibration=_IMAGES, evaluation=_IMAGES.model_copy(update={"seed": 1})),
            grids=(grid,),
            devices=(device,),
            protocol=protocol,
        )
        self.plan: Plan = plan_sweep(spec, workspace.root, tell=tell)
        self.protocol = protocol_of(spec)
        if not self.plan.jobs:
            reasons = "; ".join(dict.fromkeys(skipped.reason for skipped in self.plan.skipped))
            raise DeviceError("not_possible", f"{device} cannot run the model that noise is measured with: {reasons}")
        self.store = ArtifactStore(workspace.artifacts)
        self._limits = WaitLimits(self.protocol)
        self._failed: dict[str, Failed] = {}
        """The failures of builds, by build key."""

    @property
    def facts(self) -> DeviceFacts:
        return self.plan.devices[0]

    def build(
        self, executor: Executor, prepare: Callable[[ModelSpec], PreparedModel], stop: Callable[[], bool]
    ) -> Iterator[Preparing | Building | AttemptFailed]:
        """Build the missing artifacts. A build that failed because of the machine's state at the time is tried again.
        Raises what `prepare` raises."""
        missing = {job.build_key: job for job in self.plan.jobs if self.store.find(job.build_key) is None}
        if not missing or stop():
            return
        yield Preparing(sentinel_rules.MODEL.name)
        inputs = prepare(sentinel_rules.MODEL).build_inputs
        for attempt in range(1, MAX_ATTEMPTS + 1):
            requests = [BuildRequest(key, job.variant, inputs) for key, job in missing.items()]
            retried: dict[str, Job] = {}
            done = 0
            for request, outcome in executor.build(requests, stop):
                job = missing[request.build_key]
                done += outcome is not None
                if isinstance(outcome, Failed):
                    final = outcome.kind not in TRANSIENT_KINDS or attempt == MAX_ATTEMPTS
                    retried |= {} if final else {request.build_key: job}
                    self._failed[request.build_key] = outcome
                    yield AttemptFailed(job.name, outcome, final=final)
                elif outcome is not None:
                    self.store.unpack(outcome)
                yield Building(done, len(requests), () if outcome is not None else (job.name,))
            missing = retried
            if not missing:
                return

    def ready(self, lane: DeviceLane, job: Job, stop: Callable[[], bool]) -> Steps[Readiness | Failed | None]:
        """Wait until the device is ready, as the protocol says; `None` if the run was stopped before."""
        wait = Wait(self._limits)
        while not stop():
            readiness = lane.ask(ReadyRequest(job, self.protocol.gate, wait.look_s))
            if isinstance(readiness, Failed):
                return readiness
            ended = wait.ended(readiness)
            if ended is not None:
                return ended
            yield Waiting(self.facts.name, readiness.words, wait.waited_s)
        return None

    def block(self, lane: DeviceLane, job: Job, round_: int, stop: Callable[[], bool]) -> Steps[Block | Failed | None]:
        """Time one block once the gate lets it begin; `None` if the run was stopped before."""
        ready = yield from self.ready(lane, job, stop)
        if not isinstance(ready, Readiness):
            return ready
        return lane.ask(BlockRequest(job, round_, self.protocol, ready))


class NoiseRun(_SentinelRun):
    """The run that times blocks of one build, in addition to the blocks that were measured before."""

    def __init__(self, device: str, workspace: Workspace, tell: Callable[[str], object]) -> None:
        """Plan a run on the device that a sweep file names `device`. Raises `DeviceError`."""
        super().__init__(device, workspace, tell, _GRID, _PROTOCOL)
        self._path = file_of(workspace, self.facts)

    def blocks(self) -> list[Block]:
        """Return all blocks of this device, build and protocol so far, in the order of measuring. Raises
        `StoreError`."""
        (job,) = self.plan.jobs
        return [block for block in read_blocks(self._path) if block.job_key == job.key]

    def measure(
        self, lane: DeviceLane, seconds: float, stop: Callable[[], bool], now: Callable[[], float] = time.time
    ) -> Iterator[Block | Noted]:
        """Yield blocks, each stored already, until they took `seconds` on the device's clock, waiting time included.

        Raises `DeviceError` if three blocks in a row failed, or if there is no build; the blocks before are stored.
        """
        (job,) = self.plan.jobs
        if self.store.find(job.build_key) is None and not stop():
            why = self._failed[job.build_key].message if job.build_key in self._failed else "its file is gone"
            raise DeviceError("not_built", f"{job.name} cannot be measured, it could not be built: {why}")
        session, round_ = next_place(self.blocks(), now())
        spent_s, failures = 0.0, 0
        while spent_s < seconds and not stop():
            block = yield from self.block(lane, job, round_, stop)
            if isinstance(block, Failed):
                failures += 1
                yield from _attempt_failed(failures, job.name, self.facts.name, block)
            elif block is not None:
                failures = 0
                block = replace(block, session=session)
                append(self._path, block)
                spent_s += block.device_seconds + block.conditions.waited_seconds
                round_ += 1
                yield block


class BatchNoiseRun(_SentinelRun):
    """The run that times rounds of several builds, in one process and in separate ones, in addition to the rounds that
    were measured before."""

    def __init__(self, device: str, workspace: Workspace, tell: Callable[[str], object]) -> None:
        """Plan a run on the device that a sweep file names `device`. Raises `DeviceError`."""
        super().__init__(device, workspace, tell, _SEVERAL, BLOCKS)
        self._path = batch_file_of(workspace, self.facts)

    def rounds(self) -> list[PairedRound]:
        """Return all rounds on this device so far. Raises `StoreError`."""
        return read_rounds(self._path)

    def measure(
        self, lane: DeviceLane, seconds: float, stop: Callable[[], bool], now: Callable[[], float] = time.time
    ) -> Iterator[PairedRound | Noted]:
        """Yield complete rounds, each stored already, until they took `seconds` on the device's clock, waiting time
        included.

        Raises `DeviceError` if three rounds in a row failed, if there are fewer than 8 builds, or if the device's
        program has no batches; the rounds before are stored.
        """
        jobs = [job for job in self.plan.jobs if self.store.find(job.build_key) is not None]
        if len(jobs) < FEWEST_VARIANTS:
            if stop():
                return
            raise DeviceError(
                "not_possible",
                f"{self.facts.name} runs {len(jobs)} builds of the model that noise is measured with; batches are "
                f"compared over {FEWEST_VARIANTS} or more",
            )
        builds = canonical_key({"jobs": [job.key for job in jobs]})
        session, round_ = next_round(self.rounds(), now())
        spent_s, failures = 0.0, 0
        while spent_s < seconds and not stop():
            outcome = yield from self._round(lane, jobs, round_, stop)
            if isinstance(outcome, Failed):
                failures += 1
                yield from _attempt_failed(
                    failures if outcome.kind not in _NEVER else MAX_ATTEMPTS, "a batch", self.facts.name, outcome
                )
            elif outcome is not None:
                failures = 0
                together, alone, took_s = outcome
                paired = PairedRound(
                    builds=builds,
                    batch=batch_key(),
                    session=session,
                    round=round_,
                    together_ns=tuple(together[job.key] for job in jobs),
                    alone_ns=tuple(alone[job.key] for job in jobs),
                    device_seconds=took_s,
                )
                append(self._path, paired)
                spent_s += took_s
                round_ += 1
                yield paired

    def _round(
        self, lane: DeviceLane, jobs: Sequence[Job], round_: int, stop: Callable[[], bool]
    ) -> Steps[tuple[dict[str, float], dict[str, float], float] | Failed | None]:
        """Return the times (ns) in the batch and in separate processes, by job key, and the device's seconds; `None` if
        the round was stopped."""
        ready = yield from self.ready(lane, jobs[0], stop)
        if not isinstance(ready, Readiness):
            return ready
        keys = {job.key: job for job in jobs}
        order = [keys[key] for key in shuffled_order(list(keys), round_, self.protocol.seed)]
        batch = lane.ask(BatchRequest.of(order, self.protocol, ready))
        if isinstance(batch, Failed):
            return batch
        took_s = ready.waited_seconds + batch.device_seconds
        together: dict[str, float] = {}
        for job, item in zip(order, batch.outcomes, strict=True):
            if not isinstance(item, BatchItem):
                return item if isinstance(item, Failed) else _CUT_OFF
            if bad := disqualified(item.labels):
                return Failed(stage="run", kind="disqualified", message=f"{job.name}: {', '.join(bad)}")
            together[job.key] = figure_ns(item.samples_ns)
        alone: dict[str, float] = {}
        for key in shuffled_order(list(keys), round_, self.protocol.seed + 1):
            block = yield from self.block(lane, keys[key], round_, stop)
            if not isinstance(block, Block):
                return block
            if bad := disqualified(block.labels):
                return Failed(stage="run", kind="disqualified", message=f"{keys[key].name}: {', '.join(bad)}")
            took_s += block.device_seconds + block.conditions.waited_seconds
            alone[key] = figure_ns(block.samples_ns)
        return together, alone, took_s


_CUT_OFF = Failed(stage="run", kind="truncated", message="the process of a batch ended before its last build")
_NEVER = frozenset({"no_batches", "not_possible"})


def _attempt_failed(failures: int, name: str, device: str, failed: Failed) -> Iterator[AttemptFailed]:
    """Report a failed attempt. Raises `DeviceError` at the third failure in a row."""
    yield AttemptFailed(name, failed, final=failures == MAX_ATTEMPTS)
    if failures == MAX_ATTEMPTS:
        raise DeviceError(failed.kind, f"{device} could not be measured: {failed.message}")
