"""One measuring device, attached at its first use; after a failure, attaching is tried again."""

import time
from dataclasses import fields
from pathlib import Path

from sweeps.device_facts import DeviceFacts, canonical_key
from sweeps.errors import DeviceError, EdgeSweepError, in_one_line
from sweeps.records import Failed, Stage
from workers.artifacts import ArtifactStore, PackedArtifact
from workers.devices.local import from_os_error
from workers.measure.attach import attach
from workers.measure.device_runner import AnswerT, DeviceRunner, Request, failed


class Lane:
    """A `workers.executors.interface.DeviceLane` on this host. One call at a time."""

    def __init__(self, asked: DeviceFacts, folder: Path) -> None:
        self._asked = asked
        self._folder = folder
        self._store = ArtifactStore(folder / "artifacts")
        self._device_runner: DeviceRunner | None = None

    def has(self, build_key: str) -> bool:
        """Whether the artifact is on this host already."""
        return self._store.find(build_key) is not None

    def receive(self, packed: PackedArtifact) -> None:
        """Raises `StoreError`, and `DeviceError` if this host's disk is full."""
        try:
            self._store.unpack(packed)
        except OSError as error:
            raise from_os_error(error) from error

    def ask(self, request: Request[AnswerT]) -> AnswerT | Failed:
        try:
            apart = request.answer_without_device(self._asked.name, self._let_go)
            if apart is not None:
                return apart
            device_runner = self._device_runner = self._device_runner or self._attached()
            answer = device_runner.ask(request)
        except OSError as error:
            return failed(request.stage, from_os_error(error))
        except Exception as error:  # noqa: BLE001  # any error: other devices are being measured
            return failed_by(request.stage, error)
        if isinstance(answer, Failed) and answer.kind == "rebooted":
            # The device may have been updated, or another phone may have the same address.
            self.close()
        return answer

    def rest(self, seconds: float) -> None:
        if self._device_runner is None:
            # A device that cannot be attached has no clock of its own.
            time.sleep(seconds)
        else:
            self._device_runner.rest(seconds)

    def close(self) -> None:
        if self._device_runner is not None:
            self._device_runner.close()
            self._device_runner = None

    def _let_go(self) -> None:
        """Without a word to the device, which does not answer, but for a program that still runs there."""
        if self._device_runner is not None:
            self._device_runner.device.release()
            self._device_runner = None

    def _attached(self) -> DeviceRunner:
        asked = self._asked
        found = attach(asked.name, self._folder, dict(asked.runners))
        # Compared too, because the runner is in the job keys, not in the fingerprint.
        if any(getattr(found.facts, name) != getattr(asked, name) for name in ("device_id", "fingerprint", "runners")):
            found.device.release()
            raise DeviceError(
                "another_device",
                f"{asked.device_id} is another device here ({_difference(asked, found.facts)})",
                "run it again, to plan for the present device; on a cluster give the resource "
                f"device:{asked.device_id} only to the host of that device",
            )
        try:
            # Only here, where the phone is about to be measured: listing and planning end nothing.
            found.device.end_orphans()
            # Lanes of one host run in parallel. The id is text from the device, so it is not used as a folder's name.
            scratch = self._folder / "lanes" / canonical_key({"device": asked.device_id})[:16]
            scratch.mkdir(parents=True, exist_ok=True)
            return DeviceRunner(found.device, scratch, found.facts, found.programs, self._store)
        except BaseException:
            found.device.release()
            raise


def failed_by(stage: Stage, error: Exception) -> Failed:
    """The failure of one attempt, from any error on the way to a device and back."""
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
