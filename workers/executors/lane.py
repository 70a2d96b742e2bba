"""One device that measures, attached when it is first needed, and again after it could not be."""

import time
from collections.abc import Callable
from dataclasses import fields
from pathlib import Path
from typing import TypeVar

from sweeps.errors import DeviceError, EdgeSweepError, in_one_line
from sweeps.protocol.presets import Gate, Protocol
from sweeps.records import Block, DeviceFacts, Failed, Job, Stage, canonical_key
from workers.artifacts import ArtifactStore, PackedArtifact
from workers.devices.local import from_os_error
from workers.measure.attach import attach
from workers.measure.bench import Bench, Evaluation, failed
from workers.measure.readiness import Readiness
from workers.models.package import Logits

Answer = TypeVar("Answer")


class Lane:
    """A `workers.executors.interface.DeviceLane` on this host. One call at a time."""

    def __init__(self, asked: DeviceFacts, folder: Path) -> None:
        self._asked = asked
        self._folder = folder
        self._store = ArtifactStore(folder / "artifacts")
        self._bench: Bench | None = None

    def has(self, build_key: str) -> bool:
        """Whether the artifact is on this host already."""
        return self._store.find(build_key) is not None

    def receive(self, packed: PackedArtifact) -> None:
        """Raises `StoreError`, and `DeviceError` where this host has no room for it."""
        try:
            self._store.unpack(packed)
        except OSError as error:
            raise from_os_error(error) from error

    def make_ready(self, job: Job, gate: Gate | None, seconds: float) -> Readiness | Failed:
        return self._with("run", lambda bench: bench.make_ready(job, gate, seconds))

    def block(self, job: Job, round_: int, protocol: Protocol, readiness: Readiness) -> Block | Failed:
        return self._with("run", lambda bench: bench.block(job, round_, protocol, readiness))

    def logits(self, job: Job, evaluation: Evaluation) -> Logits | Failed:
        return self._with("evaluate", lambda bench: bench.logits(job, evaluation))

    def rest(self, seconds: float) -> None:
        if self._bench is None:
            # Nobody waits for a device by attaching it, and one that can not be attached has no clock to rest on.
            time.sleep(seconds)
        else:
            self._bench.rest(seconds)

    def close(self) -> None:
        if self._bench is not None:
            self._bench.close()
            self._bench = None

    def _with(self, stage: Stage, call: Callable[[Bench], Answer | Failed]) -> Answer | Failed:
        try:
            bench = self._bench = self._bench or self._attached()
            answer = call(bench)
        except OSError as error:
            return failed(stage, from_os_error(error))
        except Exception as error:  # noqa: BLE001  # of any kind: others are in the middle of a block
            return failed_by(stage, error)
        if isinstance(answer, Failed) and answer.kind == "rebooted":
            # It may have been updated meanwhile, or be another phone under the same address.
            self.close()
        return answer

    def _attached(self) -> Bench:
        found = attach(self._asked.name, self._folder)
        asked = self._asked
        # The runner is in the keys of its jobs, not in the fingerprint.
        if any(getattr(found.facts, name) != getattr(asked, name) for name in ("device_id", "fingerprint", "runners")):
            found.device.release()
            raise DeviceError(
                "another_device",
                f"{asked.device_id} is another device here ({_difference(asked, found.facts)})",
                "run it again, to plan for what is there; on a cluster give the resource "
                f"device:{asked.device_id} only to the host of that device",
            )
        try:
            # Only here, where the phone is about to be measured: whoever lists or plans ends nothing.
            found.device.end_orphans()
            # Lanes of one host are side by side. The id is text from the device, so it names no folder itself.
            scratch = self._folder / "lanes" / canonical_key({"device": asked.device_id})[:16]
            scratch.mkdir(parents=True, exist_ok=True)
            return Bench(found.device, scratch, found.facts, found.programs, self._store)
        except BaseException:
            found.device.release()
            raise


def failed_by(stage: Stage, error: Exception) -> Failed:
    """Whatever was raised on the way to a device and back, as the end of that try of one job."""
    match error:
        case DeviceError():
            return failed(stage, error)
        case EdgeSweepError():
            return Failed(stage=stage, kind="worker_error", message=error.one_line)
        case _:
            return Failed(stage=stage, kind="worker_error", message=in_one_line(error))


def _difference(asked: DeviceFacts, found: DeviceFacts) -> str:
    if found.device_id != asked.device_id:
        return found.device_id
    names = [field.name for field in fields(found) if getattr(found, field.name) != getattr(asked, field.name)]
    return "; ".join(f"{name}: {getattr(found, name)}, not {getattr(asked, name)}" for name in names)[:300]
